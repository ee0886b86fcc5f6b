"""Embedding models of Amazon Bedrock: Titan and Cohere, through InvokeModel."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.models._encoding import decode, encode
from orchestrator.models.embeddings.base import check_texts, unit_rows
from orchestrator.support.aws import (
    Settings,
    Target,
    body_of,
    get_shared_client,
    region_of,
    translate_errors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# One answer has the vectors of 96 texts at most.
_MOST_BYTES = 40_000_000


class _Family(NamedTuple):
    """How one family of models is asked (AWS: "Amazon Titan Embeddings", "Cohere Embed")."""

    mark: str  # what its ids hold
    dimensions: int  # the length of a vector when none is asked for
    choices: tuple[int, ...]  # the lengths that may be asked for
    member: str  # the member that asks for one
    batch: int  # texts of one request

    @property
    def is_titan(self) -> bool:
        return self.batch == 1


_FAMILIES = (
    _Family("amazon.titan-embed-text-v2", 1024, (256, 512, 1024), "dimensions", 1),
    _Family("amazon.titan-embed-text-v1", 1536, (), "", 1),
    _Family("amazon.titan-embed-g1-text", 1536, (), "", 1),
    _Family("cohere.embed-v4", 1536, (256, 512, 1024, 1536), "output_dimension", 96),
    _Family("cohere.embed-", 1024, (), "", 96),
)


class BedrockEmbedder:
    """A Titan or Cohere embedding model of Amazon Bedrock.

    A text that the model cannot read to its end is refused by Bedrock, never cut: Titan reads
    8,192 tokens, Cohere's v3 2,048 characters, its v4 128,000 tokens.

    Attributes:
        id: The model id, with the number of dimensions when one was asked for.
        dimensions: The length of a vector.
    """

    def __init__(
        self,
        model_id: str,
        *,
        dimensions: int = 0,
        input_type: str = "search_document",
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        client: Any = None,
        concurrency: int = 8,
        max_attempts: int = 5,
    ) -> None:
        """Makes the embedder; nothing is imported or sent yet.

        Args:
            model_id: A model id, an inference profile id, or an ARN.
            dimensions: A shorter vector to ask for; 0 takes the model's own length.
            input_type: Cohere's `input_type`: `search_document` for passages, `search_query` for
                questions, `classification`, `clustering`. Vectors of the first two are made to be
                compared.
            region: AWS region; by default the ARN's, else the environment's or profile's.
            profile: Profile of AWS's configuration files.
            endpoint_url: Another address than the region's, for gateways and tests.
            client: A `bedrock-runtime` client to use instead of one that is made of these options.
            concurrency: Requests at once: Titan takes one text a request.
            max_attempts: Tries of one request, with botocore's standard retries and backoff.

        Raises:
            ValidationError: The model is none of these, or has no vectors of that length.
        """
        family = _find_family(model_id)
        if family is None:
            known = ", ".join(f"{one.mark}…" for one in _FAMILIES)
            raise ValidationError(
                f"{model_id!r} is no text embedding model of Bedrock that is known here: {known}"
            )
        if dimensions and dimensions not in family.choices:
            raise ValidationError(
                f"{model_id!r} has no vectors of {dimensions} dimensions: "
                f"{', '.join(map(str, family.choices or (family.dimensions,)))}"
            )
        self.id = f"{model_id}:{dimensions}" if dimensions else model_id
        self.dimensions = dimensions or family.dimensions
        self._model_id = model_id
        self._family = family
        self._asked = {family.member: dimensions} if dimensions else {}
        self._input_type = input_type
        self._client = client
        self._concurrency = concurrency
        self._settings = Settings(
            "bedrock-runtime",
            region or region_of(model_id),
            profile,
            endpoint_url,
            concurrency,
            max_attempts=max_attempts,
            deadline=300.0,
        )
        self._target = Target(
            f"the embedding model {model_id!r}",
            model_id,
            "ask for access to the model in the Bedrock console of this region, and allow "
            "bedrock:InvokeModel",
            "`aws bedrock list-foundation-models` names what Bedrock has in this region",
            "a local embedder",
            region=self._settings.region,
            profile=profile,
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`; see `Embedder.embed`."""
        # Bedrock refuses an empty text; a blank means as little.
        inputs, size = [text or " " for text in check_texts(texts)], self._family.batch
        if self._client is None and inputs:
            self._client = get_shared_client(self._settings, self._target)
        batches = [inputs[start : start + size] for start in range(0, len(inputs), size)]
        if len(batches) < 2:
            answers = list(map(self._ask, batches))
        else:
            workers = min(self._concurrency, len(batches))
            with ThreadPoolExecutor(workers, "orchestrator-embedding") as pool:
                answers = list(pool.map(self._ask, batches))
        rows = [row for answer in answers for row in answer]
        return unit_rows(rows, len(inputs), self)

    def _ask(self, texts: list[str]) -> list[Any]:
        with translate_errors(self._target):
            response = self._client.invoke_model(
                modelId=self._model_id,
                body=encode(self._request(texts)).encode("utf-8"),
                accept="application/json",
                contentType="application/json",
            )
            data = body_of(response["body"], _MOST_BYTES)
        try:
            return self._vectors(decode(data))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DependencyFailed(
                f"the embedding model {self._model_id!r} answered with something that holds no "
                "embeddings",
                resource=self._model_id,
            ) from None

    def _request(self, texts: list[str]) -> dict[str, Any]:
        if self._family.is_titan:
            return {"inputText": texts[0], **self._asked}
        # `truncate: NONE` makes Cohere refuse a text that is too long, as Titan does, instead of
        # cutting it.
        return {"texts": texts, "input_type": self._input_type, "truncate": "NONE", **self._asked}

    def _vectors(self, answer: Any) -> list[Any]:
        if self._family.is_titan:
            return [answer["embedding"]]
        found = answer["embeddings"]
        # Cohere's v4 answers by type when it is asked for several, some gateways always.
        return list(found["float"] if isinstance(found, dict) else found)


def _find_family(model_id: str) -> _Family | None:
    return next((family for family in _FAMILIES if family.mark in model_id), None)


def build_embedder(model_id: str, folder: Path) -> BedrockEmbedder | None:
    """The embedder of a model id, inference profile id or ARN; `None` for other models."""
    return BedrockEmbedder(model_id) if _find_family(model_id) else None
