"""Putting what was found in a better order: the hook, and Bedrock's `Rerank`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.support.aws import (
    Settings,
    Target,
    get_shared_client,
    region_of,
    translate_errors,
)

# Takes a question and retrieved references, best first; returns those to keep, best first.
Reranker = Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]

_TYPE = "BEDROCK_RERANKING_MODEL"
_LONGEST = 32_000  # Bedrock: RerankTextDocument


class BedrockReranker:
    """A reranking model of Amazon Bedrock, asked with `Rerank`; a `Reranker`."""

    def __init__(
        self,
        model_arn: str,
        *,
        results: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        client: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        """Names the model; nothing is asked before the first search.

        Args:
            model_arn: The model's ARN, such as
                `arn:aws:bedrock:us-west-2::foundation-model/amazon.rerank-v1:0`.
            results: How many passages to keep; by default all.
            metadata: Bedrock's `metadataConfiguration`: which attributes the model reads besides
                the text. By default none.
            fields: Bedrock's `additionalModelRequestFields`.
            client: A boto3 client of `bedrock-agent-runtime`; by default one is made and shared.
            region: The AWS region; by default the one of the ARN.
            endpoint_url: Where the service is, when it is not Amazon's.
        """
        self._arn = model_arn
        self._results = results
        self._metadata = dict(metadata or {})
        self._fields = dict(fields or {})
        self._client = client
        self._settings = Settings(
            "bedrock-agent-runtime", region or region_of(model_arn), endpoint_url=endpoint_url
        )
        self._target = Target(
            f"the reranking model {model_arn!r}",
            model_arn,
            "allow bedrock:Rerank and bedrock:InvokeModel",
            "`aws bedrock list-foundation-models` names what Bedrock has in this region",
            "a reranker of your own",
            region=self._settings.region,
        )

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> BedrockReranker:
        """The one that a `rerankingConfiguration` asks for (Bedrock).

        Raises:
            ValidationError: The configuration names no model.
        """
        settings = _object(configuration, "bedrockRerankingConfiguration")
        model = _object(settings, "modelConfiguration")
        arn = model.get("modelArn")
        if configuration.get("type") != _TYPE or not isinstance(arn, str) or not arn:
            raise ValidationError(
                f"rerankingConfiguration must have the type {_TYPE} and "
                "bedrockRerankingConfiguration.modelConfiguration.modelArn"
            )
        return cls(
            arn,
            results=settings.get("numberOfRerankedResults"),
            metadata=settings.get("metadataConfiguration"),
            fields=model.get("additionalModelRequestFields"),
        )

    def __call__(self, query: str, references: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The references to keep, best first, with the model's scores.

        Raises:
            DependencyFailed: The model failed, or named passages that were not sent.
        """
        wanted = len(references) if self._results is None else self._results
        model: dict[str, Any] = {"modelArn": self._arn}
        if self._fields:
            model["additionalModelRequestFields"] = self._fields
        reranking = {"modelConfiguration": model, "numberOfResults": min(wanted, len(references))}
        request = {
            "queries": [{"type": "TEXT", "textQuery": {"text": query[:_LONGEST]}}],
            "sources": [self._source(it) for it in references],
            "rerankingConfiguration": {"type": _TYPE, "bedrockRerankingConfiguration": reranking},
        }
        client = self._client or get_shared_client(self._settings, self._target)
        with translate_errors(self._target):
            answer = client.rerank(**request)
        return [self._apply_score(it, references) for it in answer.get("results") or ()]

    def _source(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        text = str(reference["content"].get("text") or " ")[:_LONGEST]
        attributes = self._read(reference.get("metadata") or {})
        document: dict[str, Any] = {"type": "TEXT", "textDocument": {"text": text}}
        if attributes:
            document = {"type": "JSON", "jsonDocument": {"text": text, **attributes}}
        return {"type": "INLINE", "inlineDocumentSource": document}

    def _read(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        mode = self._metadata.get("selectionMode")
        if mode == "ALL":
            return dict(metadata)
        chosen = self._metadata.get("selectiveModeConfiguration") or {}
        if mode != "SELECTIVE":
            return {}
        names = {name: [it["fieldName"] for it in fields] for name, fields in chosen.items()}
        if "fieldsToInclude" in names:
            return {key: metadata[key] for key in names["fieldsToInclude"] if key in metadata}
        out = names.get("fieldsToExclude", ())
        return {key: value for key, value in metadata.items() if key not in out}

    def _apply_score(
        self, result: Mapping[str, Any], references: list[dict[str, Any]]
    ) -> dict[str, Any]:
        index = result.get("index", -1)
        if not 0 <= index < len(references):
            raise DependencyFailed(
                f"the reranking model {self._arn!r} named a passage that it was not given",
                resource=self._arn,
            )
        return {**references[index], "score": result["relevanceScore"]}


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}
