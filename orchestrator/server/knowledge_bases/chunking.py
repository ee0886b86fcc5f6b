"""`vectorIngestionConfiguration`: how a data source's documents become passages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.knowledge.blocks import Block, Unreadable
from orchestrator.knowledge.chunks import Chunking, Passage, passages_of
from orchestrator.knowledge.indexing import READING

_LEAST, _MOST = 20, 8192
_MOST_OVERLAP = 50
_WHOLE = "FIXED_SIZE, HIERARCHICAL or SEMANTIC"
_UNKNOWN = {
    "customTransformationConfiguration": "no Lambda function changes passages here",
    "contextEnrichmentConfiguration": "no model adds to passages here",
}


@dataclass(frozen=True, slots=True)
class Chunker:
    """How documents are cut."""

    # The size of passages; `None` keeps a document whole (Bedrock: `NONE`)
    chunking: Chunking | None

    @property
    def id(self) -> str:
        """What tells passages that are made in this way from all others."""
        return f"{READING}:{self.chunking}"

    def passages(self, blocks: Sequence[Block]) -> list[Passage]:
        """A document's passages.

        Raises:
            Unreadable: It is to be one passage, and is too long for that.
        """
        if self.chunking is not None:
            return passages_of(blocks, self.chunking)
        parts = passages_of(blocks, Chunking(_MOST, 0))
        text, heading = "", ""
        for part in parts:
            text += f"\n\n{part.whole if part.heading != heading else part.text}"
            heading = part.heading
        if len(passages_of([Block(text.strip())], Chunking(_MOST, 0))) > 1:
            raise Unreadable(
                f"it has more than {_MOST:,} tokens and is not to be cut: split it, or make a "
                f"data source whose chunkingStrategy is {_WHOLE}"
            )
        return [Passage(text.strip())] if parts else []


def build_chunker(configuration: Mapping[str, Any] | None) -> Chunker:
    """How documents are cut (Bedrock: VectorIngestionConfiguration).

    `HIERARCHICAL` cuts to the size of the inner level, which is what is searched; `SEMANTIC` to its
    `maxTokens`: passages end where sections and paragraphs do in any case. Without a configuration
    passages have the size that the embedded model reads.

    Raises:
        ValidationError: Something is asked for that is not done here.
    """
    config = configuration or {}
    for name, why in _UNKNOWN.items():
        if name in config:
            raise ValidationError(f"vectorIngestionConfiguration.{name}: {why}; leave it out")
    chunking = config.get("chunkingConfiguration") or {}
    strategy = chunking.get("chunkingStrategy")
    if strategy is None:
        return Chunker(Chunking())
    return _STRATEGIES[strategy](chunking)


def list_ignored_settings(configuration: Mapping[str, Any] | None) -> list[str]:
    """What of a configuration is stored but has no effect here, one sentence each."""
    if "parsingConfiguration" not in (configuration or {}):
        return []
    return [
        "parsingConfiguration has no effect here: only the documents' text is read, by no model"
    ]


def _build_fixed(chunking: Mapping[str, Any]) -> Chunker:
    config = _require_member(chunking, "fixedSizeChunkingConfiguration")
    return _make_chunker(
        config["maxTokens"], config["overlapPercentage"], "fixedSizeChunkingConfiguration"
    )


def _build_hierarchical(chunking: Mapping[str, Any]) -> Chunker:
    config = _require_member(chunking, "hierarchicalChunkingConfiguration")
    outer, inner = (level["maxTokens"] for level in config["levelConfigurations"])
    if inner > outer:
        raise ValidationError(
            "hierarchicalChunkingConfiguration.levelConfigurations: the second level's passages "
            f"({inner:,} tokens) are larger than the first's ({outer:,})"
        )
    share = min(100 * config["overlapTokens"] // inner, _MOST_OVERLAP)
    return _make_chunker(inner, share, "hierarchicalChunkingConfiguration.levelConfigurations")


def _build_semantic(chunking: Mapping[str, Any]) -> Chunker:
    config = _require_member(chunking, "semanticChunkingConfiguration")
    return _make_chunker(config["maxTokens"], 0, "semanticChunkingConfiguration")


def _require_member(chunking: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    config: Mapping[str, Any] | None = chunking.get(name)
    if config is None:
        strategy = chunking["chunkingStrategy"]
        raise ValidationError(f"chunkingConfiguration: the strategy {strategy} needs {name}")
    return config


def _make_chunker(tokens: int, overlap: int, at: str) -> Chunker:
    if not _LEAST <= tokens <= _MOST:
        raise ValidationError(
            f"{at}.maxTokens is {tokens}; here passages have from {_LEAST} to {_MOST:,} tokens"
        )
    if overlap > _MOST_OVERLAP:
        raise ValidationError(
            f"{at}.overlapPercentage is {overlap}; here passages overlap by at most "
            f"{_MOST_OVERLAP} per cent"
        )
    return Chunker(Chunking(tokens, overlap))


_STRATEGIES: dict[str, Callable[[Mapping[str, Any]], Chunker]] = {
    "FIXED_SIZE": _build_fixed,
    "HIERARCHICAL": _build_hierarchical,
    "SEMANTIC": _build_semantic,
    "NONE": lambda _: Chunker(None),
}
