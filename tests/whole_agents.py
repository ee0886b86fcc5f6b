"""What tests of whole agents share: dialects, and replies as models of each would write them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import pytest

from orchestrator import ActionGroup, Agent, OrchestratorError, TracePart
from orchestrator.actions import USER_INPUT
from orchestrator.support.content_root import content_root
from orchestrator.testing import ScriptedModel

CLAUDE_3 = "anthropic.claude-3-sonnet-20240229-v1:0"
CLAUDE_35 = "anthropic.claude-3-5-sonnet-20240620-v1:0"
INSTRUCTION = "You help employees with their vacations."
_ids = itertools.count(1)

Script = list[Any]


@dataclass(frozen=True)
class Family:
    """A dialect, and how its models write."""

    name: str
    model_id: str
    native: bool

    def calls(self, *calls: tuple[str, dict[str, Any]], thinking: str = "I call.") -> Any:
        """A reply that calls `group::function` or `VERB::group::/path`."""
        said = f"<thinking>{thinking}</thinking>"
        if not self.native:
            return said + _written(calls)
        blocks: list[Any] = [{"text": said}]
        for name, arguments in calls:
            use = {"toolUseId": f"t-{next(_ids)}", "name": name.replace("::", "__")}
            blocks.append({"toolUse": {**use, "input": arguments}})
        return blocks

    def asks(self, question: str) -> Any:
        """A reply that asks the user."""
        return self.calls(("user::askuser", {"question": question}))

    def model(self, script: Script, **options: Any) -> ScriptedModel:
        return ScriptedModel(script, self.model_id, **options)


def _written(calls: tuple[tuple[str, dict[str, Any]], ...]) -> str:
    invokes = ""
    for name, arguments in calls:
        values = "".join(f"<{key}>{escape(str(one))}</{key}>" for key, one in arguments.items())
        invokes += (
            f"<invoke><tool_name>{name}</tool_name><parameters>{values}</parameters></invoke>"
        )
    return f"<function_calls>{invokes}</function_calls>"


def answer(text: str, thinking: str = "I answer.") -> str:
    return f"<thinking>{thinking}</thinking><answer>{text}</answer>"


XML = Family("claude-3", CLAUDE_3, native=False)
NATIVE = Family("tool-use", CLAUDE_35, native=True)
LOCAL = Family("local", "local", native=True)
BOTH = pytest.mark.parametrize("family", [XML, NATIVE], ids=lambda family: family.name)
ALL_FAMILIES = [
    family
    for family in (XML, NATIVE, LOCAL)
    if (content_root() / "templates" / family.name / "dialect.yaml").is_file()
]
EACH = pytest.mark.parametrize("family", ALL_FAMILIES, ids=lambda family: family.name)


class Calls:
    """Two functions, and what they were called with."""

    def __init__(self, result: str = "12") -> None:
        self.result = result
        self.made: list[tuple[str, dict[str, Any]]] = []

    def groups(self, *, ask_user: bool = False) -> list[ActionGroup]:
        def get_days(employee: str, year: int = 2026) -> str:
            """The vacation days that an employee has left.

            Args:
                employee: The employee's id.
                year: The year.
            """
            self.made.append(("get_days", {"employee": employee, "year": year}))
            return self.result

        def book(employee: str, days: int) -> str:
            """Books vacation days."""
            self.made.append(("book", {"employee": employee, "days": days}))
            return self.result

        groups = [ActionGroup("vacations", [get_days, book])]
        return groups + [ActionGroup("UserInput", signature=USER_INPUT)] * ask_user


def agent(model: ScriptedModel, groups: list[ActionGroup] | None = None, **options: Any) -> Agent:
    return Agent("hr", INSTRUCTION, model, action_groups=groups or (), **options)


def outcome(agent: Agent, *args: Any, **options: Any) -> Any:
    """The reply, also of a turn that failed: then with the error as `.error`."""
    try:
        reply = agent.invoke(*args, **options)
    except OrchestratorError as error:
        assert error.reply is not None, error
        return error.reply
    return reply


def streamed(agent: Agent, *args: Any, **options: Any) -> tuple[list[Any], Any]:
    """The events of a streamed turn, and its error if it failed."""
    events: list[Any] = []
    try:
        events.extend(agent.stream(*args, **options))
    except OrchestratorError as error:
        return events, error
    return events, None


def live_parts(events: list[Any]) -> list[dict[str, Any]]:
    return [event.part for event in events if isinstance(event, TracePart)]


def members(parts: list[dict[str, Any]]) -> list[str]:
    """The members of a trace, `preProcessingTrace.modelInvocationInput` and so on, in order."""
    found = []
    for part in parts:
        ((kind, trace),) = part["trace"].items()
        if kind == "failureTrace":
            found.append(kind)
            continue
        ((member, value),) = trace.items()
        place = "" if kind == "orchestrationTrace" else kind.removesuffix("Trace") + "."
        tail = f" {value['type']}" if member == "observation" else ""
        found.append(f"{place}{member}{tail}")
    return found


def texts_of(request: Any) -> list[str]:
    """Every text that a model was shown, system first."""
    found = [str(request.system)]
    for message in request.messages:
        for block in message["content"]:
            found.append(block.get("text", ""))
            for inner in block.get("toolResult", {}).get("content", ()):
                found.append(inner.get("text", ""))
    return found


def roles(request: Any) -> list[str]:
    return [message["role"] for message in request.messages]
