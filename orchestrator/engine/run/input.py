"""What the caller of an invocation gave, and the checks of it that need no session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.limits import Limits
from orchestrator.sessions.sizes import are_small

_ID = re.compile(r"[0-9a-zA-Z._:-]{2,100}")


@dataclass(slots=True, eq=False, repr=False)
class Input:
    """What the caller of one invocation gave."""

    question: str  # the user's input; empty to go on with a turn that was interrupted
    session_id: str  # the session (botocore: 2 to 100 of `0-9a-zA-Z._:-`)
    # Added to the session's attributes; they never reach a prompt
    session_attributes: Mapping[str, str] | None = None
    # Attributes of this turn; they do reach prompts
    prompt_session_attributes: Mapping[str, str] | None = None
    # The caller's results of a return of control, from `ControlReturn.answer` or in the shape of
    # Bedrock's `sessionState`
    results: Mapping[str, Any] | None = None
    conversation_history: Sequence[Mapping[str, Any]] = ()
    # Whether the session ends with the turn; said once, it holds for the turn's later invocations
    # too
    end_session: bool = False
    memory_id: str = ""
    # Retrieval configurations of this invocation, by knowledge base id
    retrieval: Mapping[str, Mapping[str, Any]] | None = None
    # Files of this invocation, as `orchestrator.engine.input_files.read_files` gives them
    files: Sequence[Mapping[str, str]] = ()
    # How many earlier turns the prompts have; all of them when `None`
    previous_turns: int | None = None
    # Whether the prompts leave out what the model thought in earlier turns
    exclude_thinking: bool = False
    # After how many characters the guardrail checks an answer that streams, if not the agent's own
    guard_interval: int | None = None
    # A UUID that names the turn; one that nobody has seen when it is empty
    request_id: str = ""
    # The durable workflow that runs the turn; empty when none does
    workflow: str = ""
    closing: bool = False
    more: bool = False  # whether anything is given but the question and the session

    def check(self, limits: Limits) -> None:
        """Checks the question and the session's id.

        Raises:
            ValidationError: Something is wrong, and how to mend it.
        """
        check_id("session_id", self.session_id)
        if not isinstance(self.question, str):
            raise ValidationError(
                f"the question must be a text, not {type(self.question).__name__!r}"
            )
        if len(self.question) > limits.input_chars:
            raise ValidationError(
                f"the question has {len(self.question):,} characters; the limit is "
                f"{limits.input_chars:,} ('input_chars')"
            )

    @property
    def is_small(self) -> bool:
        """Whether it opens a turn with a small record."""
        if not self.more:
            return are_small(self.question)
        given = self.session_attributes, self.prompt_session_attributes, self.results
        return are_small(
            self.question, given, self.conversation_history, self.retrieval, self.files
        )

    def check_options(self) -> None:
        """Checks the rest, as far as that can be done without the session.

        Raises:
            ValidationError: Something is wrong, and how to mend it.
        """
        if self.session_attributes:
            _check_attributes("session_attributes", self.session_attributes)
        if self.prompt_session_attributes:
            _check_attributes("prompt_session_attributes", self.prompt_session_attributes)
        if not isinstance(self.conversation_history, list | tuple):
            raise ValidationError("conversation_history must be a list of messages")
        for message in self.conversation_history:
            _check_message(message)
        if self.memory_id:
            check_id("memory_id", self.memory_id)
        if self.retrieval:
            _check_retrieval(self.retrieval)
        self._check_rare_options()

    def _check_rare_options(self) -> None:
        if self.files and self.results is not None:
            raise ValidationError("files come with a question, and not with results; ask anew")
        if self.previous_turns is not None:
            _check_count("previous_turns", self.previous_turns, 0)
        if self.request_id:
            self.request_id = _check_request_id(self.request_id)
        if self.guard_interval is not None:
            _check_count("apply_guardrail_interval", self.guard_interval, 1)


def _check_request_id(id: object) -> str:
    from uuid import UUID

    try:
        return str(UUID(str(id)))
    except ValueError:
        raise ValidationError(
            f"request_id {str(id)[:60]!r} is no UUID; make one with `uuid.uuid4()`"
        ) from None


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValidationError(f"{name} must be a whole number from {least}, not {value!r:.40}")


def _check_retrieval(given: object) -> None:
    if not isinstance(given, Mapping) or not all(
        isinstance(id, str) and isinstance(one, Mapping) for id, one in given.items()
    ):
        raise ValidationError(
            "knowledge_bases must map ids of knowledge bases to retrieval configurations, such as "
            "{'KB12345678': {'vectorSearchConfiguration': {'numberOfResults': 3}}}"
        )


def check_id(name: str, id: object) -> None:
    """Checks the id of a session or a memory; `name` is the argument's.

    Raises:
        ValidationError: It is not one.
    """
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise ValidationError(
            f"{name} {str(id)[:120]!r} is not valid: 2 to 100 characters of letters, digits, '.', "
            "'_', ':' and '-'"
        )


def _check_attributes(name: str, attributes: Any) -> None:
    if not isinstance(attributes, Mapping):
        raise ValidationError(f"{name} must be a mapping, not {type(attributes).__name__!r}")
    for key, value in attributes.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValidationError(
                f"{name} must map texts to texts; the value of {key!r} is {type(value).__name__!r}"
            )


def _check_message(message: Mapping[str, Any]) -> None:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list) or message.get("role") not in ("user", "assistant"):
        raise ValidationError(
            "a message of conversation_history needs a 'role' ('user' or 'assistant') and a "
            "'content' list"
        )
    if not all(
        isinstance(block, Mapping) and isinstance(block.get("text"), str) for block in content
    ):
        raise ValidationError("conversation_history holds text blocks only: {'text': '...'}")
