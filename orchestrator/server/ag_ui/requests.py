"""From AG-UI's `RunAgentInput` to one turn of an agent.

The thread is the session: the server remembers, so only what the user said last is read of the
messages, and what answers the interrupts of the run before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.engine.run.options import Options
from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.message import to_json
from orchestrator.support.lazy_imports import describe_missing_extra

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

# What a call gave whose caller gave it up.
CANCELLED = "The user cancelled this call."
_DENY = "DENY"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a request asks for."""

    run: RunAgentInput
    question: str  # the user's input; empty with results
    options: Options = field(default_factory=Options)
    results: Mapping[str, str | None] | None = None  # by interrupt; `None`: it was cancelled


def import_protocol() -> Any:
    """The protocol's types.

    Raises:
        DependencyFailed: The extra is not installed.
    """
    try:
        import ag_ui.core
    except ImportError as error:
        raise DependencyFailed(describe_missing_extra("AG-UI needs", "ag-ui")) from error
    return ag_ui.core


def parse_request(body: Mapping[str, Any]) -> RunRequest:
    """What a request's body asks for.

    Raises:
        DependencyFailed: The extra is not installed.
        ValidationError: The body is no `RunAgentInput`, or asks for what cannot be done.
    """
    run = _validate(body)
    if run.tools:
        raise ValidationError(
            "'tools' of the page are not supported: give the agent an action group that returns "
            "control, whose calls come as interrupts"
        )
    options: Options = {}
    if attributes := _read_state(run.state):
        options["session_attributes"] = attributes
    if run.resume:
        results = {entry.interrupt_id: _read_answer(entry) for entry in run.resume}
        return RunRequest(run, "", options, results)
    if run.messages and run.messages[-1].role == "tool":
        return RunRequest(run, "", options, dict(_read_tool_messages(run.messages)))
    if not run.messages or run.messages[-1].role != "user":
        raise ValidationError("the last message must be of the role 'user', or answer a call")
    if run.context:
        options["prompt_session_attributes"] = {one.description: one.value for one in run.context}
    return RunRequest(run, _read_text(run.messages[-1]), options)


def _validate(body: Mapping[str, Any]) -> RunAgentInput:
    import pydantic

    protocol = import_protocol()
    try:
        run: RunAgentInput = protocol.RunAgentInput.model_validate(body)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"][:6])
        raise ValidationError(f"the body is no RunAgentInput: {place}: {first['msg']}") from None
    return run


def _read_state(state: Any) -> dict[str, str]:
    if state is None:
        return {}
    if not isinstance(state, dict) or not all(isinstance(one, str) for one in state.values()):
        raise ValidationError("'state' holds the session's attributes: names and texts")
    return state


def _read_answer(entry: Any) -> str | None:
    if entry.status == "cancelled":
        return None
    payload = entry.payload
    if isinstance(payload, bool):
        return "CONFIRM" if payload else _DENY
    return payload if isinstance(payload, str) else to_json(payload)


def _read_tool_messages(messages: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for message in reversed(messages):
        if message.role != "tool":
            return
        yield message.tool_call_id, _read_text(message)


def _read_text(message: Any) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    parts = list(content or ())
    if any(part.type != "text" for part in parts):
        raise ValidationError("a message may have parts of text only; send files to another API")
    return "\n".join(part.text for part in parts)
