"""A rendered template as the orchestration of a turn: its model is asked, its tools are called."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestrator.actions import ActionGroup
from orchestrator.actions.python import Action
from orchestrator.engine.effects import Effect
from orchestrator.engine.results import Answer, Result
from orchestrator.flows.custom.converse_request import ConverseRequest, plain_content
from orchestrator.flows.custom.operations import ToolResult, Work
from orchestrator.message import Block, Message, text_of

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn

# The action group of a template's tools, which has no other name for the model.
_GROUP = "templatetools"

TOOL_USE = "tool_use"
"""The stop reason of a run whose model calls a tool that its caller carries out."""


@dataclass(frozen=True, slots=True)
class TemplateRequest:
    """What a template asks its model.

    Attributes:
        request: The first request, whose tools are those that the template defines.
        bound: Arguments of tools that the template gives, and no model sees: by tool and name
            (Prompty: `bindings`).
    """

    request: ConverseRequest
    bound: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class TemplateOutcome:
    """What a run has besides its answer.

    Attributes:
        messages: The conversation, in Converse's shape, with the answer.
        tool_calls: Calls that the caller carries out: `toolUseId`, `name` and `input` of each.
    """

    messages: Sequence[Message] = ()
    tool_calls: Sequence[Mapping[str, Any]] = ()


class TemplateOrchestration:
    """Asks what a template says, until the model calls no tool any more. Serves many turns at once.

    Attributes:
        name: The template, for errors.
        groups: The action group of its tools, which no model sees.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[Turn], TemplateRequest],
        functions: Mapping[str, Callable[..., Any]],
        outcome: TemplateOutcome | None = None,
    ) -> None:
        """Takes what makes a turn's request, and the functions behind its tools.

        Tools of the template that have no function are the caller's to carry out; functions that
        the template does not define are tools, too. The `outcome` is that of a single run.
        """
        self.name = name
        self._build = build
        self._outcome = outcome
        self.groups: list[ActionGroup] = []
        self._specs: dict[str, Mapping[str, Any]] = {}
        if functions:
            actions = [_to_action(name, function) for name, function in functions.items()]
            group = ActionGroup(_GROUP, actions)
            self.groups = [group]
            self._specs = {
                it.name: _build_spec(it.name, it.description, it.schema) for it in group.operations
            }

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn; see `Orchestration.run`.

        Raises:
            LimitExceeded: A budget of the turn is used up.
            DependencyFailed: The model or a function failed.
        """
        built, work = self._build(turn), Work(turn, self.name)
        defined = {it["toolSpec"]["name"]: it for it in built.request.tools}
        tools = list({**self._specs, **defined}.values())
        messages = list(built.request.messages)
        while True:
            request = replace(built.request, messages=messages, tools=tools)
            record = yield from work.model(request, live=turn.streams)
            content = plain_content(record["content"])
            messages = [*messages, Message("assistant", content)]
            calls = [block["toolUse"] for block in content if "toolUse" in block]
            returned = [
                it for it in calls if it["name"] in defined and it["name"] not in self._specs
            ]
            if not calls or returned:
                self._keep(messages, returned)
                stop = TOOL_USE if returned else record["stop"]
                return Answer(text_of(content), stop if stop != "stop_sequence" else "end_turn")
            results = yield from self._call(work, calls, built.bound)
            if isinstance(results, Result):
                return results
            messages.append(Message("user", results))

    def _keep(self, messages: Sequence[Message], calls: Sequence[Mapping[str, Any]]) -> None:
        if self._outcome is not None:
            self._outcome.messages, self._outcome.tool_calls = messages, calls

    def _call(
        self,
        work: Work,
        calls: Sequence[Mapping[str, Any]],
        bound: Mapping[str, Mapping[str, Any]],
    ) -> Generator[Effect, Any, list[Block] | Result]:
        known = [it for it in calls if it["name"] in self._specs]
        uses = [
            {
                **it,
                "name": f"{_GROUP}::{it['name']}",
                "input": {**it["input"], **bound.get(it["name"], {})},
            }
            for it in known
        ]
        done = (yield from work.call(uses)) if uses else []
        if not isinstance(done, list):
            return done
        found = {one.id: one for one in done}
        return [(found.get(it["toolUseId"]) or self._refuse(it)).block for it in calls]

    def _refuse(self, call: Mapping[str, Any]) -> ToolResult:
        there = ", ".join(self._specs) or "none"
        text = f"There is no tool {call['name']!r}; there is {there}."
        return ToolResult(call["toolUseId"], call["name"], text, True)


def _to_action(name: str, function: Callable[..., Any]) -> Action[..., Any]:
    return function if isinstance(function, Action) else Action(function, name)


def _build_spec(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"name": name, "description": description or name, "inputSchema": {"json": schema}}
    return {"toolSpec": spec}
