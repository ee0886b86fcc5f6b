"""Events of a running script, and who listens: `$on`, `$once`, `$off`, `$emit`.

A listener is a registered function, a script beside this one, an instruction or an expression. What
it does are steps of the run, so a run that goes on after a crash does not call it twice. What a
listener gives back replaces the event's value. While one works, no other event is sent.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import evaluate_or_none
from orchestrator.flows.expressions import parse_expression
from orchestrator.flows.ppe.built_in import BUILT_IN
from orchestrator.flows.ppe.data import plain
from orchestrator.flows.ppe.nodes import Link
from orchestrator.flows.ppe.scope import find_read_names
from orchestrator.flows.steps import Place, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


EVENTS = (
    *("beforeCall", "afterCall", "llmParams", "llmBefore", "llmRequest", "llmStream", "llm"),
    *("ready", "load-chats", "save-chats"),
)
"""The events that scripts have by themselves."""

_MOST = 100

Steps = Generator[Step, Any, Any]


@dataclass(frozen=True, slots=True)
class _Listener:
    callback: str
    once: bool


class Listeners:
    """The listeners of one run of one script."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run
        self._all: dict[str, list[_Listener]] = {}
        self._busy = False

    def has(self, *events: str) -> bool:
        """Whether anybody listens to one of these."""
        return any(self._all.get(one) for one in events)

    def add(self, place: Place, event: str, callback: str, *, once: bool) -> None:
        """Adds a listener to an event."""
        listening = self._all.setdefault(event, [])
        if len(listening) >= _MOST:
            self._run.fail(
                place,
                f"more than {_MOST} listen to {event!r}",
                f"{event!r} 的监听者超过 {_MOST} 个",
            )
        listening.append(_Listener(callback, once))

    def remove(self, event: str, callback: str) -> None:
        """Removes a listener; all of an event's without a callback."""
        remaining = [it for it in self._all.get(event, ()) if callback and it.callback != callback]
        self._all[event] = remaining

    def emit(self, place: Place, event: str, args: Sequence[Any], at: int | None = None) -> Steps:
        """Sends an event; what the last listener that gave something back gave, or `None`.

        What a listener gives back takes the place of the argument `at`, for the next listener.
        """
        listening = self._all.get(event)
        if not listening or self._busy:
            return None
        self._run.work.measure(args)
        values, answer = list(plain(list(args))), None
        for one in tuple(listening):
            if one.once:
                listening.remove(one)
            self._busy = True
            try:
                back = yield from self._notify(one, place, event, values)
            finally:
                self._busy = False
            if back is not None:
                answer = back
                if at is not None and at < len(values):
                    values[at] = back
        return answer

    def _notify(self, one: _Listener, place: Place, event: str, args: Sequence[Any]) -> Steps:
        run = self._run
        about = {"type": event, "target": run.script.id}
        first, rest = (args[0] if args else None), list(args[1:])
        if one.callback.startswith("?="):
            node = parse_expression(one.callback[2:])
            yield from run.rendering.force(find_read_names(node))
            outer = run.data.scope
            run.data.scope = {**outer, "event": about, "arg1": first, "args": rest}
            try:
                return evaluate_or_none(node, run.data)
            finally:
                run.data.scope = outer
        name = one.callback.removeprefix("$")
        if run.script_of(name):
            spread = first if isinstance(first, Mapping) else {"content": first}
            named = {**spread, "event": about, "arg1": first, "args": rest}
            return (yield from run.calls.script(Link(place, name, False), (), named))
        if run.known.name_of(name):
            return (yield from run.calls.function(place, name, [about, *args], {}))
        if name not in BUILT_IN:
            run.fail(
                place,
                f"nobody can listen as {name!r}: it is no function, script or instruction",
                f"没有名为 {name!r} 的函数、脚本或指令可供监听",
            )
        return (yield from run.calls.instruction(Link(place, name, True), first, args, {}))
