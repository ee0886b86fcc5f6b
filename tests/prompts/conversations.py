"""The same conversation with a model of each dialect: every kind of step once, in its grammar.

    python -m tests.prompts.conversations

writes the last prompts of both turns to `snapshots/<dialect>/conversation.txt`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from orchestrator import ActionGroup, Agent, Reply, action
from orchestrator.actions import USER_INPUT
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

from .whole_prompts import FOLDER, shown

Call = tuple[str, dict[str, str]]
SEARCH = ("GET::x_amz_knowledgebase_KB12345678::Search", {"searchQuery": "rest days"})
ASK = ("user::askuser", {"question": "For which year?"})
DAYS = ("vacations::get_days", {"employee": "E-1"})
BOOK = ("vacations::book", {"employee": "E-1", "days": "2"})
UNKNOWN = ("vacations::get_weather", {"day": "Monday"})
CUT = '{"employee": "E-'


def xml(call: Call) -> str:
    name, values = call
    told = "".join(f"<{key}>{value}</{key}>" for key, value in values.items())
    invoke = f"<invoke><tool_name>{name}</tool_name><parameters>{told}</parameters>"
    return f"<thinking>I call.</thinking>\n<function_calls>\n{invoke}"


def scratched(call: Call) -> str:
    return xml(call).replace("thinking>", "scratchpad>")


def function(call: Call) -> str:
    name, values = call
    told = ", ".join(f'{key}="{value}"' for key, value in values.items())
    told = told.replace("question=", "askuser=")
    return f"<scratchpad>I call.</scratchpad>\n<function_call>{name}({told})"


def fncall(call: Call) -> str:
    return xml(call).replace("<function_calls>", "<fnCall>")


def native(call: Call) -> list[dict[str, Any]]:
    name, values = call
    name = name.replace("::", "__")
    use = {"toolUseId": f"id-of-{name}", "name": name, "input": values}
    return [{"text": "<thinking>\nI call.\n</thinking>"}, {"toolUse": use}]


def prefilled(call: Call) -> list[dict[str, Any]]:
    return [{"text": " I call.\n(2) At once.\n</thinking>\n\n"}, native(call)[1]]


def nameless(said: str) -> str:
    """An XML call without the tool's name."""
    return said.replace("<tool_name>vacations::get_days</tool_name>", "")


def unclosed(said: str) -> str:
    """A call of Claude 2.0's grammar without its brackets."""
    return said.replace("(", " ").replace(")", "")


def cut(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A native call whose input is no whole JSON."""
    text, call = said
    return [text, {"toolUse": {**call["toolUse"], "toolUseId": "id-of-cut", "input": CUT}}]


class Speaker(NamedTuple):
    """A model, how it writes a call, and how it gets one wrong."""

    model_id: str
    call: Callable[[Call], Any]
    mistake: Callable[[Any], Any]


SPEAKERS = {
    "claude-2": Speaker("anthropic.claude-v2", function, unclosed),
    "claude-2.1": Speaker("anthropic.claude-v2:1", scratched, nameless),
    "claude-3": Speaker("anthropic.claude-3-sonnet-20240229-v1:0", xml, nameless),
    "tool-use": Speaker("anthropic.claude-3-5-sonnet-20240620-v1:0", native, cut),
    "titan": Speaker("amazon.titan-text-premier-v1:0", xml, nameless),
    "llama-3": Speaker("meta.llama3-1-70b-instruct-v1:0", native, cut),
    "mistral": Speaker("mistral.mistral-large-2402-v1:0", native, cut),
    "nova": Speaker("amazon.nova-pro-v1:0", prefilled, cut),
    "general": Speaker("openai.gpt-oss-20b-1:0", native, cut),
    "deepseek": Speaker("deepseek.r1-v1:0", fncall, nameless),
    "local": Speaker("local", native, cut),
}


class Held(NamedTuple):
    """The conversation, as it was held."""

    model: ScriptedModel
    made: list[tuple[Any, ...]]
    replies: list[Reply]


def hold(name: str) -> Held:
    """Two turns: a call of nothing, a malformed call, two actions, a search and a question; then
    its answer.
    """
    speaker, made = SPEAKERS[name], []

    def get_days(employee: str) -> str:
        """The vacation days that an employee has left."""
        made.append(("get_days", employee))
        return "12 < 20"

    @action(require_confirmation=False)
    def book(employee: str, days: int) -> str:
        """Books vacation days."""
        made.append(("book", employee, days))
        return "booked"

    script = [speaker.call(call) for call in (UNKNOWN, DAYS, BOOK, SEARCH, ASK)]
    script.insert(1, speaker.mistake(speaker.call(DAYS)))
    model = ScriptedModel([*script, "<answer>Booked for 2026."], speaker.model_id)
    agent = Agent(
        "hr",
        "You help employees with their vacations.",
        model,
        action_groups=[
            ActionGroup("vacations", [get_days, book]),
            ActionGroup("UserInput", signature=USER_INPUT),
        ],
        knowledge_bases=[
            FakeKnowledgeBase("KB12345678", ["Rest days are not vacation days."], "Rules.")
        ],
    )
    replies = [agent.invoke("Book 2 days for E-1.", "s-1"), agent.invoke("2026", "s-1")]
    return Held(model, made, replies)


def prompts(held: Held) -> str:
    """The last prompt of each turn."""
    return "\n".join(_prompt(held.model.requests[index]) for index in (-2, -1))


def _prompt(request: Any) -> str:
    parts = [f"===== system\n{request.system}"] if request.system else []
    parts += [f"===== tools\n{json.dumps(request.tools, indent=1)}"] if request.tools else []
    for message in request.messages:
        role = "raw text" if request.raw_text else message["role"]
        parts += [f"===== {role}\n{shown(block)}" for block in message["content"]]
    return "\n".join(parts) + "\n"


def main() -> None:
    for name in SPEAKERS:
        (FOLDER / name / "conversation.txt").write_text(prompts(hold(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
