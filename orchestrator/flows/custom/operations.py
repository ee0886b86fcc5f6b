"""What a custom orchestration can do in a turn: model calls, tools and checks.

All of it goes the ways of the built-in loop: the same budgets, validation, confirmation, journal
and trace.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from orchestrator.engine.decisions import Act
from orchestrator.engine.effects import Converse, Effect, Guard
from orchestrator.engine.plan import StagePlan
from orchestrator.engine.results import Answer, ControlReturn, Failure, Refusal
from orchestrator.engine.steps import act
from orchestrator.engine.toolbox import Toolbox
from orchestrator.errors import DependencyFailed, LimitExceeded
from orchestrator.flows.custom.converse_request import ConverseRequest
from orchestrator.message import Block
from orchestrator.models.base import CallFormat, Model, OperationFormat
from orchestrator.models.grammar import ASK_USER
from orchestrator.models.tool_calls import ANSWER, CALL_CLOSE, CALL_OPEN
from orchestrator.parsers.base import Parsed
from orchestrator.parsers.calls import Calls
from orchestrator.parsers.stages import Verbatim
from orchestrator.sessions.journal import Record

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn

_HOW_TO_CALL = (
    "To call one, write its name and its arguments as JSON between <tool_call> and </tool_call>:\n"
    f'{CALL_OPEN}{{"name": "function name", "arguments": {{"parameter": "value"}}}}{CALL_CLOSE}'
)
_ALONE = "Send the user a message alone, when the other calls have answered."

Ended = Answer | Refusal | ControlReturn | Failure


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        id: The tool-use id that it answers.
        name: The tool, as it was called.
        text: The result, as the model reads it.
        error: Whether it is a mistake that the model can correct.
    """

    id: str
    name: str
    text: str
    error: bool = False

    @property
    def block(self) -> Block:
        """The result as Converse's `toolResult` block."""
        result: Block = {"toolUseId": self.id, "content": [{"text": self.text}]}
        if self.error:
            result["status"] = "error"
        return {"toolResult": result}


class Unparsed(Verbatim):
    """The parser of replies that only their orchestration reads."""

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._held: str | None = ""

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece of the reply; it is a piece of the answer."""
        if self._held is not None:  # the embedded model's replies begin with a tag of ours
            self._held += text
            if ANSWER.startswith(self._held):
                return ()
            text, self._held = self._held.removeprefix(ANSWER), None
        return super().feed(text)

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; nothing is made of it."""
        return Parsed({})


def _toolbox(turn: Turn) -> Toolbox:
    plan = turn.plan
    bases = list(plan.knowledge_bases.values())
    return Toolbox(plan.catalog, bases, list(plan.collaborators))


class Work:
    """Does what an orchestration asks for, in one turn."""

    def __init__(self, turn: Turn, name: str, above: Work | None = None) -> None:
        # `above` does the same in the turn that this one is an iteration of.
        self.turn = turn
        # A custom loop may repeat a call on purpose.
        turn.done = None
        # Converse's specifications of all that the agent can call, whatever its dialect writes.
        self.tools: Sequence[Mapping[str, Any]] = (
            above.tools if above else turn.plan.orchestration.tools or _toolbox(turn).tool_specs()
        )
        self.name = name
        self._asked = self._called = -1
        self._asks = self._uses = self._checks = 0
        self._forms: dict[tuple[str, ...], CallFormat] = {} if above is None else above._forms

    @property
    def spending(self) -> tuple[int, int]:
        """How many model calls and tool calls were asked for."""
        return self._asks, self._uses

    def add(self, asks: int, uses: int) -> None:
        """Takes what an iteration of the turn has asked for."""
        self._asks += asks
        self._uses += uses

    def model(
        self, request: ConverseRequest, *, past: bool = False, live: bool = False
    ) -> Generator[Effect, Any, Record]:
        """Asks a model; its `model` record.

        With `past`, the session's earlier turns go ahead of the messages. With `live`, the user
        may read the reply while it streams.

        Raises:
            LimitExceeded: The turn may not call a model any more.
            DependencyFailed: The agent has no such model.
        """
        turn = self.turn
        # Bedrock's trace numbers an iteration of the loop: one model call and its tool calls.
        if turn.number in (self._asked, self._called):
            turn.number += 1
        self._asked = turn.number
        self._asks += 1
        if self._asks > turn.limits.iterations:
            raise self._limit("iterations", turn.limits.iterations, "model calls")
        stage = self._stage(request)
        effect = Converse(stage, turn.number, {}, [], 0, turn.prompt_attributes, live)
        effect.system, effect.messages, effect.past = request.system, request.messages, past
        if request.tools and (tools := self._render_tools(stage)):
            effect.system = f"{request.system}\n\n{tools}".lstrip()
        return (yield from turn.converse(effect))

    def _stage(self, request: ConverseRequest) -> StagePlan:
        stage = self.turn.plan.orchestration
        tools = self.tools if list(request.tools) == list(self.tools) else request.tools
        return replace(
            stage,
            model=self._model(request.model_id),
            inference=request.inference,
            additional=request.additional,
            tools=tools,
            call_format=self._call_format(request, stage),
            creation_mode="OVERRIDDEN",
            new_parser=Unparsed,
            loop_parser="",
            parser_name="",
            tool_choice=request.tool_choice,
        )

    def _call_format(self, request: ConverseRequest, stage: StagePlan) -> CallFormat | None:
        if request.choices:
            return CallFormat(
                stage.dialect.protocol,
                (),
                choices=request.choices,
                picks=request.picks,
                separator=request.separator,
            )
        whole = stage.call_format
        if whole is None or not request.tools or stage.dialect.protocol != "tool_use":
            return None
        names = tuple(tool["toolSpec"]["name"] for tool in request.tools if "toolSpec" in tool)
        # Backends cache the tools of a request by identity.
        if names not in self._forms:
            self._forms[names] = _form_of(whole, request.tools)
        return self._forms[names]

    def _render_tools(self, stage: StagePlan) -> str:
        # The embedded model reads its tools in the prompt, though its calls are native.
        dialect = stage.dialect
        if dialect.protocol != "tool_use" or not stage.tools_in_prompt:
            return ""
        known = {it["name"]: it for it in _toolbox(self.turn).descriptions(dialect.protocol)}
        specs = [tool["toolSpec"] for tool in stage.tools if "toolSpec" in tool]
        described = [known.get(spec["name"]) or _description(spec) for spec in specs]
        text = dialect.partial("tools", tools=described)
        return f"<tools>\n{text}\n</tools>\n\n{_HOW_TO_CALL}"

    def _model(self, model_id: str) -> Model:
        stages = self.turn.plan.stages.values()
        own = self.turn.plan.orchestration.model
        known = {own.model_id: own, **{one.model.model_id: one.model for one in stages}}
        if not model_id:
            return own
        if model_id not in known:
            raise DependencyFailed(
                f"the orchestration {self.name!r} asks for the model {model_id!r}, which the "
                f"agent does not have: there is {', '.join(map(repr, known))}. Leave 'modelId' "
                "out, or take it from 'agentConfiguration.defaultModelId'",
                resource=self.name,
            )
        return known[model_id]

    def call(
        self, uses: Sequence[Mapping[str, Any]]
    ) -> Generator[Effect, Any, list[ToolResult] | Ended]:
        """Runs tool calls, as contents of `toolUse` blocks, several at the same time.

        Returns their results in order, or the turn's result if it waits for the caller or asks
        the user.

        Raises:
            LimitExceeded: The turn may not call so many.
            DependencyFailed: An action failed.
        """
        turn = self.turn
        if turn.number == self._called:
            turn.number += 1
        self._called = turn.number
        # Wrong calls count, too: nothing else would end a loop of them.
        self._uses += len(uses)
        if self._uses > turn.limits.actions:
            raise self._limit("actions", turn.limits.actions, "tool calls")
        names = {use["toolUseId"]: use["name"] for use in uses}
        read: dict[str, Calls] = {}
        for use in uses:
            calls = read[use["toolUseId"]] = Calls()
            calls.add_native(dict(use))
        if len(uses) == 1 and (messages := read[uses[0]["toolUseId"]].user_messages):
            return Answer("\n".join(messages))
        found: dict[str, ToolResult] = {}
        for id, calls in read.items():
            if mistake := calls.reprompt or (_ALONE if calls.user_messages else ""):
                turn.add_reprompt(turn.number, mistake)
                found[id] = ToolResult(id, names[id], mistake, True)
        decided = _to_act([read[id] for id in read if id not in found])
        if decided.actions or decided.searches or decided.messages or decided.question:
            turn.take_reply([{"toolUse": dict(use)} for use in uses])
            ended = yield from act(turn, decided, turn.number)
            if ended is not None:
                return ended
            turn.forget_reply()
            for it in turn.results:
                found[it["id"]] = ToolResult(
                    it["id"], names[it["id"]], it["text"], bool(it["error"])
                )
        return [
            found.get(use["toolUseId"]) or ToolResult(use["toolUseId"], use["name"], "")
            for use in uses
        ]

    def check(self, text: str, source: str) -> Generator[Effect, Any, Record]:
        """Has the agent's guardrail check a text; the `guarded` record.

        Raises:
            LimitExceeded: The turn checks too often.
            DependencyFailed: The agent has no guardrail.
        """
        turn = self.turn
        if turn.plan.guardrail is None:
            raise DependencyFailed(
                f"the orchestration {self.name!r} has a text checked, and agent "
                f"{turn.plan.name!r} has no guardrail; give it a guardrailConfiguration",
                resource=self.name,
            )
        self._checks += 1
        if self._checks > turn.limits.actions:
            raise self._limit("actions", turn.limits.actions, "checks by the guardrail")
        side = "OUTPUT" if source == "OUTPUT" else "INPUT"
        id = f"guardrail-{turn.number}-{self._checks}"
        outcome: Record = yield Guard(text, side, turn.number, id)  # type: ignore[arg-type]
        return outcome

    def _limit(self, limit: str, most: int, what: str) -> LimitExceeded:
        return LimitExceeded(
            f"the orchestration {self.name!r} reached the turn's limit of {most} {what}; raise "
            f"the limit {limit!r}, or find out from the trace why it needs so many",
            limit=limit,
        )


def _form_of(whole: CallFormat, tools: Sequence[Mapping[str, Any]]) -> CallFormat:
    # Models also call tools that the agent does not have.
    specs = {one["toolSpec"]["name"]: one["toolSpec"] for one in tools if "toolSpec" in one}
    known = {one.name: one for one in whole.operations}
    asks = specs.pop(ASK_USER, None) is not None
    if specs.keys() == known.keys() and asks == whole.ask_user:
        return whole
    forms = [
        known.get(name) or OperationFormat(name, spec["inputSchema"]["json"])
        for name, spec in specs.items()
    ]
    return replace(whole, operations=tuple(forms), ask_user=asks)


def _description(spec: Mapping[str, Any]) -> dict[str, Any]:
    schema = spec["inputSchema"]["json"]
    required = schema.get("required", ())
    parameters = [
        {
            "name": name,
            "type": one.get("type", ""),
            "description": one.get("description", ""),
            "required": name in required,
        }
        for name, one in schema.get("properties", {}).items()
    ]
    described = {"name": spec["name"], "description": spec.get("description", "")}
    return {**described, "parameters": parameters}


def _to_act(read: Sequence[Calls]) -> Act:
    details = [calls.details() for calls in read]
    asked = [one["agentAskUser"]["responseText"] for one in details if "agentAskUser" in one]
    return Act(
        [it for one in details for it in one.get("actionGroupInvocations", ())],
        [it for one in details for it in one.get("agentKnowledgeBases", ())],
        "\n".join(asked),
        [it for one in details for it in one.get("agentCollaboratorInvocations", ())],
    )
