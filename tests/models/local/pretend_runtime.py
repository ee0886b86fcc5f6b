"""A runtime that has no weights: it says the first of its replies that the grammar lets pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        self._so_far = ""
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

    def generate(
        self,
        body: dict[str, Any],
        then: object = None,
        is_enough: Callable[[dict[str, Any]], bool] = lambda chunk: False,
    ) -> Iterator[dict[str, Any]]:
        role, begun = self.prompts[-1][-1]
        begun = begun if role == "assistant" else ""
        goes_on = self._so_far and begun.startswith(self._so_far)
        text = self.said[-1] if goes_on else self.choose(begun, body["grammar"])
        self._so_far = begun
        for at in range(len(begun), len(text), 5):
            self._so_far += text[at : at + 5]
            read = {"cache_n": 0, "prompt_n": 9, "predicted_n": at // 5 + 1}
            choice = {"text": text[at : at + 5], "finish_reason": None}
            chunk = {"choices": [choice], "timings": read}
            yield chunk
            if is_enough(chunk):
                return
        timings = {"cache_n": 0, "prompt_n": 9, "predicted_n": len(text) // 5}
        self._so_far = ""
        yield {"choices": [{"text": "", "finish_reason": "stop"}], "timings": timings}

    def choose(self, begun: str, grammar: str) -> str:
        assert self.wishes, "there is one decoding more than the test knows of"
        rest = Grammar(grammar)
        for wish in self.wishes[0]:
            if wish.startswith(begun) and rest.accepts(wish[len(begun) :]):
                del self.wishes[0]
                self.said.append(wish)
                return wish
        raise AssertionError(f"the grammar lets none of these pass: {self.wishes[0]}")


def pretend(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *wishes: str | Sequence[str]
) -> tuple[LocalModel, PretendRuntime]:
    """An embedded model that says this."""
    runtime = PretendRuntime(*wishes)
    (folder / "pretended.gguf").touch()
    monkeypatch.setattr(local, "runtime", lambda *_: runtime)
    return LocalModel(folder / "pretended.gguf"), runtime
