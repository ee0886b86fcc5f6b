"""Calls that an agent handed over: what they are, and their results, given or asked for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import format_call
from orchestrator.cli.terminal import Terminal, clean, shorten, style_text
from orchestrator.errors import ValidationError
from orchestrator.support.safe_json import json_or
from orchestrator.support.spelling import find_close

if TYPE_CHECKING:
    from orchestrator.engine.plan import Plan
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
    names: tuple[str, ...]  # all that `--result` may call it, the most exact name first
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
                _list_names(
                    call.get("actionGroup", ""),
                    call.get("function") or call.get("apiPath", ""),
                    call.get("httpMethod", ""),
                ),
                "CONFIRMATION" in kind,
                kind.endswith("RESULT"),
                _WANTS.get(kind, kind),
                dict(item),
            )
        )
    return calls


def _list_names(group: str, name: str, verb: str) -> tuple[str, ...]:
    if not verb:
        return (f"{group}::{name}", f"{group}::{name}()", name)
    return (f"{group}::{verb.upper()} {name}", f"{verb.upper()} {name}", name)


NOT_GIVEN = object()
"""Stands for the result of a call that the options say nothing about."""


@dataclass(frozen=True, slots=True)
class GivenResults:
    """What `--yes` and `--result` say about calls that are handed over."""

    confirms: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)

    def find(self, call: WaitingCall) -> Any:
        """The result of a call, `True` or `False` where it is only confirmed, or `NOT_GIVEN`."""
        named = next((name for name in call.names if name in self.values), None)
        if named is not None:
            return self.values[named]
        return True if self.confirms and call.confirm and not call.result else NOT_GIVEN

    def answer(self, control: ControlReturn, terminal: Terminal) -> dict[str, Any] | None:
        """The results of all calls, noted on stderr, or `None` if one is not given.

        Raises:
            ValidationError: The result of a call that is only to be confirmed is neither `true` nor
                `false`.
        """
        calls = list_waiting_calls(control.invocation_inputs)
        found = [(call, self.find(call)) for call in calls]
        if any(value is NOT_GIVEN for _, value in found):
            return None
        results = [_build_result(control, call, value) for call, value in found]
        for call, value in found:
            _note_given(terminal, call, value)
        return _build_results(control, results)


def read_given_results(yes: bool, items: Sequence[str] | None, plan: Plan) -> GivenResults:
    """What `--yes` and the `NAME=JSON`s of `--result` mean for an agent.

    Raises:
        ValidationError: One has no JSON, or the agent has no function or path of the name.
    """
    values = read_named_values("--result", items)
    known = _list_known_names(plan) if values else None
    if known is not None:
        _check_names(values, known)
    return GivenResults(yes, values)


def read_named_values(flag: str, items: Sequence[str] | None) -> dict[str, Any]:
    """The values of a repeated option whose items are `NAME=JSON`.

    Raises:
        ValidationError: One has no JSON, or a name comes twice.
    """
    values: dict[str, Any] = {}
    for item in items or ():
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise ValidationError(f"{flag} {item!r} is not NAME=JSON")
        if name in values:
            raise ValidationError(f"{flag} {name!r} is given twice")
        values[name] = _read_value(flag, name, text)
    return values


def _check_names(values: Mapping[str, Any], known: Mapping[str, str]) -> None:
    for name in values:
        if name not in known:
            close = find_close(name, known)
            meant = f"; did you mean {close!r}?" if close else "."
            names = ", ".join(dict.fromkeys(known.values())) or "none"
            raise ValidationError(
                f"--result {name!r}: the agent has no function or API path of this name{meant} "
                f"It has {names}"
            )


def _read_value(flag: str, name: str, text: str) -> Any:
    value = json_or(text, NOT_GIVEN)
    if value is NOT_GIVEN:
        raise ValidationError(
            f"{flag} {name!r}: {shorten(text, 60)!r} is not JSON; a text is written in double "
            f"quotes, as in {flag} '{name}=\"done\"'"
        )
    return value


def _list_known_names(plan: Plan) -> dict[str, str] | None:
    # By every name of an operation the one to show; `None` where not all are known before a turn.
    if plan.features.orchestration is not None:
        return None
    known: dict[str, str] = {}
    for one in plan.catalog.operations:
        name = one.path if one.verb else one.name
        known |= dict.fromkeys(_list_names(one.group, name, one.verb), name)
    for member in plan.collaborators.values():
        inner = None if member.agent is None else _list_known_names(member.agent)
        if inner is None:
            return None
        known |= inner
    return known


def show_waiting_calls(terminal: Terminal, control: ControlReturn) -> None:
    """Notes each call that the caller is to carry out, or to confirm."""
    for call in list_waiting_calls(control.invocation_inputs):
        terminal.note(f"waits for you: {call.text} ({call.wants})")


def suggest_options(inputs: Iterable[Mapping[str, Any]]) -> str:
    """How the options of `invoke` answer `invocationInputs`: `--yes`, `--result NAME=JSON`."""
    flags: dict[str, None] = {}
    for call in list_waiting_calls(inputs):
        only_confirms = call.confirm and not call.result
        flags["--yes" if only_confirms else f"--result {shlex.quote(f'{call.name}=JSON')}"] = None
    return " and ".join(flags)


def ask_results(
    control: ControlReturn,
    terminal: Terminal,
    ask: Callable[[str], str],
    given: GivenResults | None = None,
) -> dict[str, Any]:
    """Asks the user for the result of each call, or whether it may be carried out.

    Calls whose results are given are not asked for.

    Returns:
        The results, as `Agent.invoke(results=...)` takes them.
    """
    given = given or GivenResults()
    results = []
    for call in list_waiting_calls(control.invocation_inputs):
        value = given.find(call)
        if value is NOT_GIVEN:
            terminal.block(f"The agent asks you for {clean(call.text)}", stderr=True)
            value = _ask_value(call, ask, confirmed=given.confirms)
        else:
            _note_given(terminal, call, value)
        results.append(_build_result(control, call, value))
    return _build_results(control, results)


def name_results(control: ControlReturn, values: Mapping[str, Any]) -> dict[str, Any]:
    """The results of calls, as `Agent.invoke(results=...)` takes them.

    Args:
        control: The calls.
        values: Their results, by one of the names of each call, or by the line that shows it.
            Several calls of one name take a list of as many results, in the calls' order.

    Raises:
        ValidationError: A call has no result, or several, or a result has no call.
    """
    calls = list_waiting_calls(control.invocation_inputs)
    found: dict[int, Any] = {}
    unknown = []
    for name, value in values.items():
        named = [number for number, call in enumerate(calls) if _is_named(call, name)]
        if not named:
            unknown.append(name)
        if any(number in found for number in named):
            raise ValidationError(f"a call has several results, one as {name!r}")
        found |= zip(named, _split_value(name, value, len(named)), strict=True)
    missing = [clean(call.text) for number, call in enumerate(calls) if number not in found]
    if unknown or missing:
        waiting = ", ".join(repr(clean(call.text)) for call in calls)
        raise ValidationError(
            f"the results do not fit the calls that wait ({waiting}); unknown: {unknown}, "
            f"missing: {missing}"
        )
    results = [_build_result(control, call, found[number]) for number, call in enumerate(calls)]
    return _build_results(control, results)


def _is_named(call: WaitingCall, name: str) -> bool:
    return name in call.names or name == clean(call.text)


def _split_value(name: str, value: Any, count: int) -> Sequence[Any]:
    if count < 2:
        return [value] * count
    if not isinstance(value, list) or len(value) != count:
        raise ValidationError(
            f"{count} calls of {name!r} wait for results: give a list of {count}, in their order, "
            "or name each as it is shown"
        )
    return value


def _note_given(terminal: Terminal, call: WaitingCall, value: Any) -> None:
    if call.confirm and isinstance(value, bool):
        text = f"{'confirmed' if value else 'denied'}: {call.text}"
    else:
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = f"given: {call.text} → {shorten(shown, 200)}"
    terminal.block(style_text(clean(text), "quiet"), stderr=True)


def ask_yes_no(ask: Callable[[str], str], question: str) -> bool:
    """Asks a question until it is answered with yes or no; no answer is a no."""
    prompt = f"{question} [y/N] "
    while (answer := ask(prompt).strip().lower()) not in _YES_OR_NO:
        prompt = f"Please answer yes or no. {question} [y/N] "
    return _YES_OR_NO[answer]


def _ask_value(call: WaitingCall, ask: Callable[[str], str], *, confirmed: bool) -> Any:
    if call.confirm and not confirmed and not ask_yes_no(ask, "May it?"):
        return False
    return ask("Its result: ") if call.result else True


def _build_result(control: ControlReturn, call: WaitingCall, value: Any) -> dict[str, Any]:
    # One hand-over a call: two calls of one function may have different results.
    alone = type(control)(control.invocation_id, [call.item])
    (built,) = alone.answer({call.name: value})["returnControlInvocationResults"]
    result: dict[str, Any] = built
    return result


def _build_results(control: ControlReturn, results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"invocationId": control.invocation_id, "returnControlInvocationResults": results}
