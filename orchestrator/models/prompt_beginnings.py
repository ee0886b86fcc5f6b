"""The beginning of a prompt that an agent's definition decides alone: read once, kept on disk.

What is kept has no word of a user, a session or a result in it: it ends before the first message,
or the first piece of the system text, that anything but the template's author and the agent's
definition wrote (`orchestrator.message.Span`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from threading import Lock
from typing import Any, Protocol

from orchestrator.message import AUTHOR, Message, Span, Text
from orchestrator.models.base import ModelRequest
from orchestrator.models.gguf import Piece
from orchestrator.models.prompt_states import PromptStates, State
from orchestrator.prompts.values import OF_AN_AGENT
from orchestrator.support.logs import get_logger

_log = get_logger(__name__)

# Characters from which a beginning is worth a file: about 250 tokens.
_SHORTEST = 1_000

# Beginnings that are remembered as known; the runtime's own memory has room for fewer.
_MOST_KNOWN = 1_000

# Called with the tokens of a prompt that were read, and with those that are to be read.
Reading = Callable[[int, int], None]


class Slot(Protocol):
    """The place in the runtime that holds the prompt which was read last."""

    def read(
        self, prompt: Sequence[Piece], reading: Reading | None, then: Callable[[], None]
    ) -> int:
        """Reads a prompt; how many tokens had to be read. `then` runs before any other request."""
        ...

    def save(self, name: str) -> int:
        """Writes what it holds into a file of the states' folder; the tokens in it."""
        ...

    def restore(self, name: str) -> int:
        """Holds what a file has, and keeps in memory what it held before; the tokens in it."""
        ...


class Beginnings:
    """What one loaded model has of prompts' beginnings, in memory and on disk."""

    def __init__(self, slot: Slot, states: PromptStates, identity: Sequence[Any]) -> None:
        """`identity` is all that makes the states of one runtime useless for another."""
        self._slot = slot
        self._states = states
        self._identity = list(identity)
        # Those are in the runtime's own memory, or fell out of it.
        self._known: set[str] = set()
        self._preparing = Lock()

    def prepare(self, pieces: Sequence[Piece], reading: Reading | None = None) -> int:
        """Has a beginning ready in the runtime, so that a prompt only pays for what follows it.

        Returns:
            The tokens that had to be read for it: 0 when it was in memory or on disk.

        Raises:
            DependencyFailed: The runtime failed while it read.
        """
        if sum(len(piece) for piece in pieces if isinstance(piece, str)) < _SHORTEST:
            return 0
        key = self._build_key(pieces)
        if key in self._known:
            return 0
        with self._preparing:  # one that another request is reading need not be read twice
            return 0 if key in self._known else self._prepare(key, pieces, reading)

    def _prepare(self, key: str, pieces: Sequence[Piece], reading: Reading | None) -> int:
        state = self._states.find(key)
        read = 0
        if state is None or not self._restore(state):
            read = self._slot.read(pieces, reading, lambda: self._keep(key))
        if len(self._known) == _MOST_KNOWN:
            self._known.clear()
        self._known.add(key)
        return read

    def _build_key(self, pieces: Sequence[Piece]) -> str:
        text = json.dumps([*self._identity, *pieces])
        return hashlib.sha256(text.encode()).hexdigest()

    def _restore(self, state: State) -> bool:
        try:
            if self._slot.restore(state.file.name) == state.tokens:
                return True
            _log.warning("the file %r has another prompt; it is deleted", str(state.file))
            self._states.remove(state)
        except (OSError, ValueError) as error:
            _log.info("the state of a prompt could not be loaded (%s); it is read", error)
        return False

    def _keep(self, key: str) -> None:
        try:
            self._states.keep(key, self._slot.save)
        except (OSError, ValueError) as error:
            _log.info("the state of a prompt could not be kept (%s)", error)


def static_part(request: ModelRequest) -> ModelRequest | None:
    """`request` with nothing but the messages before the first that a turn decides.

    `None` when that begins in the system text, or when nothing is known of who wrote it.
    """
    system = request.system
    if not isinstance(system, Text) or not _is_fixed(system, system.spans):
        return None
    return replace(request, messages=[*takewhile(_is_fixed_message, request.messages)])


def common_beginning(first: Sequence[Piece], second: Sequence[Piece]) -> list[Piece]:
    """The pieces in which both prompts begin."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return [piece for piece, _ in pairs]


def _is_fixed_message(message: Message) -> bool:
    spans = getattr(message, "spans", ())
    return all(
        isinstance(text := block.get("text"), str)
        and _is_fixed(text, [span for span in spans if span.block == index])
        for index, block in enumerate(message["content"])
    )


def _is_fixed(text: str, spans: Iterable[Span]) -> bool:
    # Every character has to be in a span: what nobody answers for is not the author's.
    at = 0
    for span in spans:
        if span.start > at or (span.origin != AUTHOR and span.origin not in OF_AN_AGENT):
            return False
        at = max(at, span.end)
    return at == len(text) > 0
