"""Calls that an agent handed over: what they are, and asking the user for their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import format_call
from orchestrator.cli.terminal import Terminal, clean

if TYPE_CHECKING:
    from orchestrator.engine.results import ControlReturn

_WANTS = {
    "RESULT": "its result",
    "USER_CONFIRMATION": "yes or no",
    "USER_CONFIRMATION_AND_RESULT": "yes or no, and its result",
}


_YES_OR_NO = {"y": True, "yes": True, "n": False, "no": False, "": False}


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits."""

    text: str  # the call on one line
    name: str  # its function or API path
    confirm: bool  # whether it has to be confirmed
    result: bool  # whether the caller carries it out
    wants: str  # what it waits for, in words
    item: dict[str, Any]  # the call as it was handed over


def list_waiting_calls(inputs: Iterable[Mapping[str, Any]]) -> list[WaitingCall]:
    """The calls in a return of control's `invocationInputs`."""
    # AWS: each of `invocationInputs` has one member, `apiInvocationInput` or
    # `functionInvocationInput`.
    calls = []
    for item in inputs:
        call = next(iter(item.values()))
        kind = call.get("actionInvocationType", "RESULT")
        calls.append(
            WaitingCall(
                format_call(call),
                str(call.get("function") or call.get("apiPath", "")),
                "CONFIRMATION" in kind,
                kind.endswith("RESULT"),
                _WANTS.get(kind, kind),
                dict(item),
            )
        )
    return calls


def show_waiting_calls(terminal: Terminal, control: ControlReturn) -> None:
    """Notes each call that the caller is to carry out, or to confirm."""
    for call in list_waiting_calls(control.invocation_inputs):
        terminal.note(f"waits for you: {call.text} ({call.wants})")


def ask_results(
    control: ControlReturn, terminal: Terminal, ask: Callable[[str], str]
) -> dict[str, Any]:
    """Asks the user for the result of each call, or whether it may be carried out.

    Returns:
        The results, as `Agent.invoke(results=...)` takes them.
    """
    results = []
    for call in list_waiting_calls(control.invocation_inputs):
        terminal.block(f"The agent asks you for {clean(call.text)}", stderr=True)
        results += _ask_result(control, call, ask)
    return {
        "invocationId": control.invocation_id,
        "returnControlInvocationResults": results,
    }


def ask_yes_no(ask: Callable[[str], str], question: str) -> bool:
    """Asks a question until it is answered with yes or no; no answer is a no."""
    prompt = f"{question} [y/N] "
    while (answer := ask(prompt).strip().lower()) not in _YES_OR_NO:
        prompt = f"Please answer yes or no. {question} [y/N] "
    return _YES_OR_NO[answer]


def _ask_result(
    control: ControlReturn, call: WaitingCall, ask: Callable[[str], str]
) -> list[dict[str, Any]]:
    # One hand-over a call: two calls of one function may have different results.
    value: Any = True
    if call.confirm:
        value = ask_yes_no(ask, "May it?")
    if value and call.result:
        value = ask("Its result: ")
    alone = type(control)(control.invocation_id, [call.item])
    answered: list[dict[str, Any]] = alone.answer({call.name: value})[
        "returnControlInvocationResults"
    ]
    return answered
