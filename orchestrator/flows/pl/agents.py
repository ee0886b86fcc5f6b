"""`@agent` of the workflow language: four ways in which a model works on a task by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FlowError
from orchestrator.flows.pl.calls import AGENT_TYPES
from orchestrator.flows.pl.values import as_text
from orchestrator.flows.state import build_record_error
from orchestrator.flows.steps import Ask, AskUser, Event, Place, Step
from orchestrator.flows.tree import ScriptError
from orchestrator.support.safe_json import read_json_at

if TYPE_CHECKING:
    from orchestrator.flows.pl.interpreter import Interpreter


_MOST_ROUNDS = 20
_LEADER = "Bambo"
_LAST_WORDS = ("exit", "quit", "q", "e")
NEUTRAL: Mapping[str, Any] = {"temperature": 0}
"""The inference configuration of all that the language asks models for."""

Text = Generator[Step, Any, str]


def build_user_message(text: str) -> dict[str, Any]:
    """A text that the user says, in Converse's shape."""
    return {"role": "user", "content": [{"text": text}]}


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that a program has made."""

    name: str  # its name, which is also that of the tool that it is afterwards
    type: str  # one of `AGENT_TYPES`
    task: str  # what it works on
    roles: Mapping[str, str] = field(default_factory=dict)  # what each role does, of `bambo`
    # Specifications of what it may call, by name
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """The specification that models get of it."""
        schema = {
            "type": "object",
            "properties": {"task": {"type": "string"}},
            "required": ["task"],
        }
        description = f"An agent. Its first task was: {self.task}"
        tool = {"name": self.name, "description": description, "inputSchema": {"json": schema}}
        return {"toolSpec": tool}

    def run(self, run: Interpreter, place: Place) -> Text:
        """Works on the task; the text that it ends with."""
        ways = {
            "auto-decision": _run_decide,
            "bambo": _run_play,
            "explore": _run_explore,
            "prompt-based": _run_talk,
        }
        return (yield from ways[self.type](self, run, place))


def build_agent(
    name: str,
    arguments: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    others: Mapping[str, str],
) -> Agent:
    """The agent that a program asks for."""
    type, roles = arguments.get("type", AGENT_TYPES[0]), arguments.get("roles") or {}
    tools = arguments.get("tools")
    if type not in AGENT_TYPES:
        raise ScriptError(f"there is no agent type {type!r}", f"未知的Agent类型: {type}")
    if not isinstance(roles, dict):
        raise ScriptError("roles is a map from roles to what they do", "roles 必须是字典")
    if tools is not None and not isinstance(tools, list):
        raise ScriptError("tools is a list of names", "tools 必须是列表")
    names = list(known) if tools is None else [others.get(it, it) for it in map(as_text, tools)]
    for one in names:
        if one not in known:
            there = ", ".join(known) or "none"
            raise ScriptError(f"there is no tool {one!r}; there is {there}", f"未找到工具: {one}")
    role_texts = {as_text(role): as_text(text) for role, text in roles.items()}
    return Agent(
        name, type, as_text(arguments["task"]), role_texts, {one: known[one] for one in names}
    )


def read_agent(recorded: Mapping[str, Any]) -> Agent:
    """The agent that a record tells of; members that this version does not know are ignored.

    Raises:
        DependencyFailed: There is no such type; the journal was changed.
    """
    if recorded["type"] not in AGENT_TYPES:
        raise build_record_error()
    return Agent(**{it.name: recorded[it.name] for it in fields(Agent)})


def _run_decide(agent: Agent, run: Interpreter, place: Place) -> Text:
    """The model calls tools until it answers."""
    return (yield from _work(agent, run, place, [build_user_message(agent.task)]))


_PLAN = """Write a short numbered plan for the user's task: which steps to take, in which order, \
and what each must find out. Do not carry it out yet.{tools}"""

_PLANNED_TOOLS = """
These tools can be used then:
{tools}"""

_FOLLOW = """Carry out this plan for the user's task, one step after the other, and leave out what \
turns out to be needless. Then give the answer to the task alone.

{plan}"""


def _run_explore(agent: Agent, run: Interpreter, place: Place) -> Text:
    """The model plans first, and then calls tools along its plan until it answers."""
    tools = _PLANNED_TOOLS.format(tools=_describe_tools(agent)) if agent.tools else ""
    messages = [build_user_message(agent.task)]
    plan = yield Ask(place, messages, system=_PLAN.format(tools=tools), inference=NEUTRAL)
    return (yield from _work(agent, run, place, messages, _FOLLOW.format(plan=plan.text)))


def _work(
    agent: Agent,
    run: Interpreter,
    place: Place,
    messages: list[dict[str, Any]],
    system: str = "",
) -> Text:
    """Asks, and carries out the calls of tools, until there is an answer."""
    tools = list(agent.tools.values())
    for _ in range(_MOST_ROUNDS):
        reply = yield Ask(place, messages, system=system, inference=NEUTRAL, tools=tools)
        if not reply.calls:
            text: str = reply.text
            return text
        results = []
        for call in reply.calls:
            results.append((yield from _call_tool(agent, run, place, call)))
        messages = [*messages, reply.message, {"role": "user", "content": results}]
    return _too_many(agent, run, place)


def _too_many(agent: Agent, run: Interpreter, place: Place) -> str:
    run.fail(
        place,
        f"the agent {agent.name!r} did not answer within {_MOST_ROUNDS} model calls",
        f"agent {agent.name} 在 {_MOST_ROUNDS} 轮内没有给出答案",
    )


def _call_tool(
    agent: Agent, run: Interpreter, place: Place, call: Mapping[str, Any]
) -> Generator[Step, Any, dict[str, Any]]:
    """A tool's result for the model; the model's mistake is a result, too."""
    name, status = _find_tool(agent, run, call["name"]), {}
    if name in agent.tools:
        text = as_text((yield from run.call(place, name, (), call["input"])))
    else:
        status = {"status": "error"}
        text = f"There is no tool {name!r}; there is {', '.join(agent.tools) or 'none'}."
    result = {"toolUseId": call["toolUseId"], "content": [{"text": text}], **status}
    return {"toolResult": result}


def _find_tool(agent: Agent, run: Interpreter, name: str) -> str:
    """The tool that a model means; it may write the name that scripts use."""
    return name if name in agent.tools else run.known.name_of(name) or name


def _run_talk(agent: Agent, run: Interpreter, place: Place) -> Text:
    """The model talks with the user, until the user ends it."""
    messages: list[Mapping[str, Any]] = []
    parts: list[str] = []
    text = agent.task
    for _ in range(_MOST_ROUNDS * 5):
        messages.append(build_user_message(text))
        reply = yield Ask(place, messages, system=agent.task, inference=NEUTRAL)
        messages.append(reply.message)
        parts.append(reply.text)
        answer = yield AskUser(place, reply.text, run.output, dict(run.pool.values))
        if str(answer).strip().lower() in _LAST_WORDS:
            return "\n".join(parts)
        parts.append(str(answer))
        text = str(answer)
    return _too_many(agent, run, place)


_PLAY = """You alone play a whole team that works on the user's task. The members are:
{roles}
- {leader}: leads the team, and gives the final answer.

To speak as a member, begin a line with `=>@member: `, and go on with what the member says.{tools}
End with `=>@{leader}: ` and the final answer. Do not say that you play the team."""

_PLAY_TOOLS = """
To use a tool, write `=>$tool: {{"parameter": value}}` on a line of its own, and stop there; its \
result will be told to you. The tools are:
{tools}"""

_OPEN_MARK = re.compile(r"=(?:>(?:@[^:：\n]{0,60}|\$[^:：\s]{0,100})?)?")
_MARK = re.compile(r"=>(?:@(?P<role>[^:：\n]{1,60})|\$(?P<tool>[^:：\s]{1,100}))[:：][ \t]*")


def _run_play(agent: Agent, run: Interpreter, place: Place) -> Text:
    """One model speaks for several roles, in marks that are read as events."""
    system = _PLAY.format(
        roles="\n".join(f"- {role}: {text}" for role, text in agent.roles.items()),
        leader=_LEADER,
        tools=_PLAY_TOOLS.format(tools=_describe_tools(agent)) if agent.tools else "",
    )
    messages = [build_user_message(agent.task)]
    whole: list[str] = []
    for _ in range(_MOST_ROUNDS):
        reply = yield Ask(
            place,
            messages,
            system=system,
            inference=NEUTRAL,
            pieces=partial(_ReplyParser, agent),
        )
        played = _parse_reply(reply.text)
        yield from _report_speech(played, place, agent)
        whole.append(played.text)
        if played.tool is None:
            return "".join(whole)
        result = yield from _use_tool(agent, run, place, played)
        messages = [
            *messages,
            {"role": "assistant", "content": [{"text": played.text}]},
            build_user_message(f"{result}\nGo on with the task."),
        ]
    return _too_many(agent, run, place)


def _describe_tools(agent: Agent) -> str:
    lines = []
    for name, spec in agent.tools.items():
        known = spec["toolSpec"]
        schema = json.dumps(known["inputSchema"]["json"], ensure_ascii=False)
        lines.append(f"- {name}: {known.get('description', '')} {schema}")
    return "\n".join(lines)


def _use_tool(agent: Agent, run: Interpreter, place: Place, played: _ParsedReply) -> Text:
    name, arguments = _find_tool(agent, run, played.tool or ""), played.input
    if name not in agent.tools:
        return f"There is no tool {name!r}; there is {', '.join(agent.tools) or 'none'}."
    if arguments is None:
        return f"The input of {name!r} was no JSON object; write it again."
    try:
        value = yield from run.call(place, name, (), arguments)
    except FlowError as error:
        return f"The tool {name!r} failed: {error.reason}"
    return f"The result of {name!r}: {as_text(value)}"


@dataclass(slots=True)
class _ParsedReply:
    """A reply, read."""

    text: str  # the reply, up to the end of its first tool call
    parts: list[tuple[str, str]]  # speaker and text, in order
    tool: str | None = None  # the tool that it calls, if any
    input: dict[str, Any] | None = None  # the tool's input; `None` when it could not be read


def _report_speech(played: _ParsedReply, place: Place, agent: Agent) -> Iterator[Event]:
    for role, text in played.parts:
        if role not in agent.roles and role != _LEADER:
            warning = f"{role!r} is no role of {agent.name!r}; {_LEADER} speaks"
            yield Event("warning", place, {"text": warning})
            role = _LEADER
        yield Event("role_switch", place, {"role": role, "text": text})


class _ReplyParser:
    """Splits a streamed reply by speaker, as `_parse_reply` does with the whole."""

    def __init__(self, agent: Agent) -> None:
        self._roles = agent.roles
        self._role = _LEADER
        self._held = ""
        self._over = False

    def feed(self, text: str) -> Sequence[Mapping[str, Any]]:
        """Reads the next piece; returns the members of its events."""
        self._held += text
        pieces: list[Mapping[str, Any]] = []
        while self._held and not self._over:
            at = self._held.find("=>")
            if at < 0:
                at = len(self._held) - self._held.endswith("=")
            pieces += self._to_members(self._held[:at])
            self._held = self._held[at:]
            if not self._take_mark(pieces):
                break
        return pieces

    def _take_mark(self, pieces: list[Mapping[str, Any]]) -> bool:
        """Takes the mark that the rest begins with; whether to go on."""
        mark = _MARK.match(self._held)
        if mark is not None and mark.end() < len(self._held):  # spaces belong to it, too
            self._over = mark["tool"] is not None
            self._role = (mark["role"] or "").strip()
            self._held = self._held[mark.end() :]
            return True
        if mark is not None or _OPEN_MARK.fullmatch(self._held):
            return False
        pieces += self._to_members(self._held[:2])
        self._held = self._held[2:]
        return True

    def finish(self) -> Sequence[Mapping[str, Any]]:
        """Returns the members of the events of the rest."""
        rest = "" if self._over or _MARK.fullmatch(self._held) else self._held
        return self._to_members(rest)

    def _to_members(self, text: str) -> list[Mapping[str, Any]]:
        role = self._role if self._role in self._roles else _LEADER
        return [{"text": text, "role": role}] if text else []


def _parse_reply(text: str) -> _ParsedReply:
    played = _ParsedReply(text, [])
    speaker, at = _LEADER, 0
    for mark in _MARK.finditer(text):
        _add_part(played, speaker, text[at : mark.start()])
        if mark["tool"] is not None:
            played.tool = mark["tool"]
            played.input, end = _parse_object(text, mark.end())
            played.text = text[:end]
            return played
        speaker, at = mark["role"].strip(), mark.end()
    _add_part(played, speaker, text[at:])
    return played


def _add_part(played: _ParsedReply, speaker: str, text: str) -> None:
    if text.strip():
        played.parts.append((speaker, text.strip()))


def _parse_object(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The JSON object that begins at a place, and where it ends."""
    try:
        found, end = read_json_at(text, at)
    except (ValueError, RecursionError):
        return None, len(text)
    return (found, end) if isinstance(found, dict) else (None, end)
