"""Decodes replies of the embedded model; what a grammar forces of them is read instead."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

from orchestrator.errors import DependencyFailed
from orchestrator.models.base import Usage
from orchestrator.models.forced_text import ForcedText
from orchestrator.models.llama import Runtime, report_reading
from orchestrator.models.prompt_beginnings import Reading
from orchestrator.models.tool_calls import ReplyReader

_FULL = "model_context_window_exceeded"
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}
# Forced characters for which decoding is broken off, to read them. Breaking off costs a token or
# two; a token of a call has three characters, and reading it takes a third of the time (measured).
_LEAST = 10


class Decoding:
    """One reply that is decoded under a grammar, or without one.

    Attributes:
        usage: What it used. What was read after the first decoded token counts as the reply's.
        reason: Why it ended; empty before.
    """

    def __init__(self, model: Runtime, body: dict[str, Any], grammar: str, context: int) -> None:
        """Prepares the reply; nothing is decoded yet.

        Args:
            model: The loaded model.
            body: The completion request without a prompt and a grammar.
            grammar: What the reply may be; empty for any text.
            context: Tokens of prompt and reply together.
        """
        self.usage = Usage()
        self.reason = ""
        self._model = model
        self._body = body
        self._grammar = grammar
        self._context = context
        self._text = ""
        # A reply that some text ends has to come from the runtime, which looks for that text.
        self._ahead = ForcedText(grammar) if grammar and not body["stop"] else None
        self._forced = ""

    def decode(
        self,
        write_prompt: Callable[[str], list[Any]],
        reader: ReplyReader,
        reading: Reading | None = None,
    ) -> Generator[str, None, None]:
        """Decodes the reply into a reader; yields what is to be shown at once.

        Args:
            write_prompt: Writes the prompt, with what is there of the reply.
            reader: Takes the reply.
            reading: Called while the prompt is read.

        Raises:
            DependencyFailed: The runtime refused the request, or the reply broke off.
        """
        if self._ahead is not None:
            self._forced = self._ahead.force()
        while not self.reason:
            if self._forced:
                self._text += self._forced
                shown = reader.feed(self._forced)
                if shown:
                    yield shown
            if self._ahead is not None and self._ahead.is_whole:
                self.reason = "end_turn"
            elif self._text and self.usage.output_tokens >= self._body["max_tokens"]:
                self.reason = "max_tokens"
            else:
                yield from self._go_on(write_prompt(self._text), reader, reading)
                reading = None  # what is read from here on is the reply's

    def _go_on(
        self, prompt: list[Any], reader: ReplyReader, reading: Reading | None
    ) -> Generator[str, None, None]:
        """Decodes until the reply ends, or something is forced."""
        self._forced = ""
        last: dict[str, Any] = {}
        with closing(self._model.generate(self._write_body(prompt), None, self._is_enough)) as run:
            for chunk in run:
                if "error" in chunk:
                    self._refuse(chunk["error"])
                    return
                report_reading(chunk, reading)
                last = chunk
                text = chunk["choices"][0]["text"]
                self._text += text
                shown = reader.feed(text) if text else ""
                if shown:
                    yield shown
        self._count(last)

    def _write_body(self, prompt: list[Any]) -> dict[str, Any]:
        left = self._body["max_tokens"] - self.usage.output_tokens
        body = {**self._body, "prompt": prompt, "max_tokens": left, "timings_per_token": True}
        if self._ahead is not None and self._text:
            body["grammar"] = self._ahead.write_rest()
        elif self._grammar:
            body["grammar"] = self._grammar
        return body

    def _is_enough(self, chunk: dict[str, Any]) -> bool:
        if self._ahead is None or "choices" not in chunk:
            return False
        choice = chunk["choices"][0]
        self._ahead.accept(choice["text"])
        if choice["text"] and choice["finish_reason"] is None:
            self._forced = self._ahead.force(_LEAST)
        return bool(self._forced)

    def _count(self, last: dict[str, Any]) -> None:
        timings = last.get("timings")
        reason = last["choices"][0]["finish_reason"] if last else None
        if timings is None or (reason not in _STOP_REASONS and not self._forced):
            raise DependencyFailed("the embedded model's reply broke off")
        cached, read, decoded = timings["cache_n"], timings["prompt_n"], timings["predicted_n"]
        if self.usage == Usage():
            self.usage = Usage(read, decoded, cached)
        else:
            self.usage = self.usage.plus(Usage(0, read + decoded))
        if reason is None:
            return
        full = reason == "length" and cached + read + decoded >= self._context
        self.reason = _FULL if full else _STOP_REASONS[reason]

    def _refuse(self, error: dict[str, Any]) -> None:
        if error.get("type") != "exceed_context_size_error":
            raise DependencyFailed(
                f"the embedded model refused the request: {error.get('message')}"
            )
        if self.usage == Usage():
            self.usage = Usage(int(error.get("n_prompt_tokens", 0)))
        self.reason = _FULL
