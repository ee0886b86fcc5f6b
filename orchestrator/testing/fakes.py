"""Fakes of a clock, an embedder, a guardrail and a knowledge base."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.guardrails.base import Source, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FakeClock:
    """A clock that only tests move, for `Sessions(clock=...)`; `now` is in ns since 1970."""

    def __init__(self, now: int = 1_700_000_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        """The time in nanoseconds since 1970."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves the clock on."""
        self.now += int(seconds * 1e9)


class FakeEmbedder:
    """An embedder without a model: texts are near each other as far as they share words.

    Every word adds one to a place that its hash chooses, the same on all machines; then the
    vector is made of length 1. Needs numpy.

    Attributes:
        id: `fake:` and the number of dimensions.
        dimensions: The length of a vector; more make words share fewer places.
        texts: What was embedded, in order.
    """

    def __init__(self, dimensions: int = 64) -> None:
        self.id = f"fake:{dimensions}"
        self.dimensions = dimensions
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`: shape (len(texts), dimensions), rows of length 1."""
        import numpy as np

        self.texts.extend(texts)
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            # A text without words needs a vector of length 1 too.
            for word in re.findall(r"\w+", text.lower()) or [""]:
                # Python's own `hash` of a text differs in every process.
                digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
                row[int.from_bytes(digest[:4], "little") % self.dimensions] += 1
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


class FakeGuardrail:
    """A guardrail that blocks some words and masks others, in whatever they stand.

    Attributes:
        id: Its id.
        reach: Letters and digits of its longest word, which streaming holds back.
        checked: What was checked, in order: source and text.
    """

    bounded = True

    def __init__(
        self,
        blocked: Sequence[str] = (),
        masked: Mapping[str, str] | None = None,
        *,
        message: str = "I cannot talk about that.",
        id: str = "FAKEGUARD1",
    ) -> None:
        """Makes the guardrail.

        Args:
            blocked: Words that block a text.
            masked: Words that are masked, and the kind that stands instead: `{"Ana": "NAME"}`
                makes `{NAME}` of `Ana`.
            message: The answer in place of a blocked text.
            id: Its id.
        """
        self.id = id
        self.checked: list[tuple[Source, str]] = []
        self._blocked = tuple(blocked)
        self._masked = dict(masked or {})
        self._message = message
        self.reach = max(map(len, (*self._blocked, *self._masked)), default=0)

    def check(self, text: str, source: Source) -> Verdict:
        """Assesses a text."""
        self.checked.append((source, text))
        if words := [word for word in self._blocked if word in text]:
            found = [{"match": word, "action": "BLOCKED"} for word in words]
            return Verdict(
                "INTERVENED", self._message, True, [{"wordPolicy": {"customWords": found}}]
            )
        entities = [
            {"type": kind, "match": word, "action": "ANONYMIZED"}
            for word, kind in self._masked.items()
            if word in text
        ]
        for entity in entities:
            text = text.replace(entity["match"], f"{{{entity['type']}}}")
        policies = [{"sensitiveInformationPolicy": {"piiEntities": entities}}] if entities else []
        return Verdict("INTERVENED" if policies else "NONE", text, False, policies)


class FakeKnowledgeBase:
    """A knowledge base that finds the same `passages` for every query.

    Attributes:
        queries: What was searched for, in order.
        configurations: With what `retrievalConfiguration` each time; `None` without one.
    """

    def __init__(self, id: str, passages: Sequence[str], description: str = "") -> None:
        self.id = id
        self.description = description
        self.queries: list[str] = []
        self.configurations: list[Mapping[str, Any] | None] = []
        self._passages = tuple(passages)

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """All passages, with locations `passage:0`, `passage:1`, ..."""
        self.queries.append(query)
        self.configurations.append(configuration)
        return [
            {
                "content": {"text": text, "type": "TEXT"},
                "location": {
                    "type": "CUSTOM",
                    "customDocumentLocation": {"id": f"passage:{index}"},
                },
            }
            for index, text in enumerate(self._passages)
        ]
