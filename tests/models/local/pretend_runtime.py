"""A runtime that has no weights: it says the first of its replies that the grammar lets pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from gbnf import Grammar

from orchestrator.models import local
from orchestrator.models.local import LocalModel


class PretendRuntime:
    """What the model would like to say, most of all the first, in each of its decodings.

    Attributes:
        wishes: The replies that are left, one list a decoding.
        said: What was decoded.
        prompts: The prompts, as (role, text).
    """

    def __init__(self, *wishes: str | Sequence[str]) -> None:
        self.wishes = [[one] if isinstance(one, str) else list(one) for one in wishes]
        self.said: list[str] = []
        self.prompts: list[list[tuple[str, str]]] = []

    @property
    def chat(self) -> PretendRuntime:
        return self

    @property
    def beginnings(self) -> PretendRuntime:
        return self

    def prepare(self, pieces: Sequence[Any], reading: object) -> int:
        return 0  # as if it were all in memory

    def prompt(self, turns: Sequence[tuple[str, str]]) -> list[Any]:
        self.prompts.append([*turns])
        return [*turns]

    def generate(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        assert self.wishes, "there is one decoding more than the test knows of"
        grammar = Grammar(body["grammar"])
        text = next((one for one in self.wishes[0] if grammar.accepts(one)), None)
        assert text is not None, f"the grammar lets none of these pass: {self.wishes[0]}"
        del self.wishes[0]
        self.said.append(text)
        pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
        for piece in pieces:
            yield {"choices": [{"text": piece, "finish_reason": None}]}
        timings = {"cache_n": 0, "prompt_n": 9, "predicted_n": len(pieces)}
        yield {"choices": [{"text": "", "finish_reason": "stop"}], "timings": timings}


def pretend(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *wishes: str | Sequence[str]
) -> tuple[LocalModel, PretendRuntime]:
    """An embedded model that says this."""
    runtime = PretendRuntime(*wishes)
    (folder / "pretended.gguf").touch()
    monkeypatch.setattr(local, "runtime", lambda *_: runtime)
    return LocalModel(folder / "pretended.gguf"), runtime
