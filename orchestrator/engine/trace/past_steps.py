"""The steps of a turn from its journal: one small row each, and the prompt of a model call.

Trace parts repeat the prompt at every call: those of a long turn grow with its square. A row has
no prompt, so that a list of thousands is read at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator import parsers
from orchestrator.engine.effects import (
    AwaitResults,
    Branches,
    CallModel,
    Converse,
    Dispatch,
    Retrieve,
)
from orchestrator.engine.rendered_prompt import Prompt
from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.message import Block, text_of
from orchestrator.models.base import Usage
from orchestrator.sessions import Record, TurnLog

if TYPE_CHECKING:
    from orchestrator.engine.run.replay import Replay
    from orchestrator.prompts import Template

_KINDS = {
    "model": "model",
    "action": "action",
    "retrieved": "search",
    "guarded": "guardrail",
    "orchestrated": "orchestration",
    "branch": "agent",
    "returned": "results",
    "suspend": "return_control",
    "decided": "decision",
}
_PREVIEW = 200  # characters of a row's text


class PastStep:
    """One step of a turn.

    Attributes:
        index: Its place in the turn, from 1.
        kind: `model`, `action`, `search`, `guardrail`, `orchestration`, `agent` (a collaborator's
            work, or an iteration, which ended), `return_control`, `results`, or
            `decision` (about calls whose outcome nobody knew).
        call: Which model call of the turn it is, from 1; 0 for other steps.
        stage: The prompt type of a model call, else empty.
        name: The model, the action, the knowledge base or the collaborator; empty if not known.
        branch: Whose step it is: the collaborator's path in the journal; empty for the agent.
        began: When it began, in nanoseconds since 1970.
        ended: When it ended.
        usage: The tokens of a model call, else `None`.
        state: Why it did not go well: a reason code, `REPROMPT` or `FAILURE`; else empty.
        arguments: What an action was called with, as far as it is known.
        text: What came of it, as text: a reply, a result, an answer.
        record: The journal's own record.
    """

    __slots__ = (
        *("_effect", "_replay", "arguments", "began", "branch", "call", "ended", "index"),
        *("kind", "name", "record", "stage", "state", "text", "usage"),
    )

    def __init__(self, index: int, record: Record, call: int) -> None:
        kind = record["kind"]
        at: int = record.get("at", 0)
        self.index = index
        self.kind = _KINDS[kind]
        self.call = call
        self.stage: str = record.get("stage", "")
        self.branch: str = record.get("branch", "")
        self.name: str = str(record.get("model") or record.get("name") or "")
        self.began: int = record["began"] if "began" in record else at
        self.ended: int = record["ended"] if "ended" in record else at
        self.usage = Usage._make((*record["usage"][:4], 1)) if kind == "model" else None
        self.state = _find_state(record)
        self.arguments: Mapping[str, Any] = {}
        self.text = _find_text(record)
        self.record = record
        self._effect: Any = None
        self._replay: Replay | None = None

    def as_dict(self) -> dict[str, Any]:
        """The step as a small JSON row: the beginning of its text, and no prompt."""
        usage = self.usage
        return {
            "index": self.index,
            "kind": self.kind,
            "call": self.call,
            "stage": self.stage,
            "name": self.name,
            "branch": self.branch,
            "began": self.began,
            "ended": self.ended,
            "usage": None if usage is None else usage._asdict(),
            "state": self.state,
            "text": self.text[:_PREVIEW],
        }

    @property
    def agent(self) -> str:
        """The name of the agent whose step it is; empty when the turn cannot be followed."""
        return self._replay.turn.plan.identity["name"] if self._replay is not None else ""

    @property
    def team(self) -> str:
        """The collaborator whose step it is, by its place in the team; empty for the agent."""
        return self._replay.turn.start.team if self._replay is not None else ""

    @property
    def has_prompt(self) -> bool:
        """Whether `prompt` gives one."""
        return self._replay is not None and isinstance(self._effect, CallModel)

    @property
    def template(self) -> Template | None:
        """The template that a model call's prompt was made from, as it was then, if it is known."""
        effect = self._effect
        if not isinstance(effect, CallModel) or isinstance(effect, Converse):
            return None
        return effect.stage.template

    def prompt(self) -> Prompt:
        """The exact prompt of a model call, with the origin of every character.

        Raises:
            ValidationError: The step is no model call, or its prompt cannot be made any more.
        """
        effect, replay = self._effect, self._replay
        if replay is None or not isinstance(effect, CallModel):
            raise ValidationError(
                f"step {self.index} has no prompt: "
                + (
                    "the agent was changed since, and what its prompts were made of is not kept"
                    if self.kind == "model"
                    else f"it is no model call, but {self.kind!r}"
                )
            )
        bound, messages = replay.prompt(effect)
        stage = effect.stage
        tools = () if stage.tools_in_prompt else stage.tools
        model = self.name or stage.model.model_id
        return Prompt(stage.stage, model, bound.system, messages, tools, stage.inference)

    @property
    def reply(self) -> list[Block]:
        """The content blocks that a model answered."""
        content: list[Block] = self.record.get("content", [])
        return content

    def parse(self) -> dict[str, Any]:
        """How the reply was understood, as `orchestrator parse` shows it.

        Raises:
            ValidationError: The step is no model call.
            DependencyFailed: The agent's own parser failed.
        """
        if self.kind != "model":
            raise ValidationError(f"step {self.index} is no model call, but {self.kind!r}")
        stage = self._effect.stage if isinstance(self._effect, CallModel) else None
        name = stage.loop_parser if stage is not None else ""
        explained = parsers.explain(
            self.reply,
            self.stage,
            name or "auto",
            new_parser=stage.new_parser if stage is not None else None,
        )
        # What the turn went on with, whatever this version's parser makes of it.
        return {**explained, "code": self.record.get("code") or "", "notes": self._notes()}

    def _notes(self) -> list[str]:
        return list(self.record.get("notes", ()))

    def __repr__(self) -> str:
        return f"PastStep({self.index}, {self.kind!r}, {self.stage or self.name!r})"


def _find_state(record: Record) -> str:
    if record["kind"] == "model":
        return str(record.get("code") or "")
    if record["kind"] == "guarded":
        return "INTERVENED" if record.get("action") == "INTERVENED" else ""
    if record["kind"] == "branch":
        return "FAILURE" if record.get("result") == "failure" else ""
    return str(record.get("state") or "") if record["kind"] == "action" else ""


def _find_text(record: Record) -> str:
    if record["kind"] == "model":
        thought = [
            it["reasoningContent"].get("reasoningText", {}).get("text", "")
            for it in record["content"]
            if "reasoningContent" in it
        ]
        return text_of(record["content"]) or "".join(thought)
    if record["kind"] == "retrieved":
        count = len(record.get("references", ()))
        return f"{count} result" if count == 1 else f"{count} results"
    return str(record.get("text") or record.get("message") or "")


def list_steps(log: TurnLog, replay: Replay | None) -> list[PastStep]:
    """The steps of a turn; with the turn run again, also what they were about."""
    steps: list[PastStep] = []
    calls = 0
    names = {
        call["id"]: call["name"]
        for record in log.records
        if record["kind"] == "intent"
        for call in record["calls"]
    }
    for record in log.records:
        if record["kind"] not in _KINDS:
            continue
        calls += record["kind"] == "model"
        step = PastStep(len(steps) + 1, record, calls if record["kind"] == "model" else 0)
        if record["kind"] == "action":
            step.name = names.get(record["id"], "")
        steps.append(step)
    if replay is not None:
        known = {id(step.record): step for step in steps}
        for of, effect, part, record in _iterate_effects(replay, log):
            if (found := known.get(id(record))) is not None:
                _describe(found, of, effect, part)
    return steps


def _describe(step: PastStep, replay: Replay, effect: Any, part: Any) -> None:
    step._effect, step._replay = effect, replay
    if isinstance(effect, CallModel):
        step.name = step.name or effect.stage.model.model_id
    elif isinstance(effect, Dispatch):
        step.name, step.arguments = part.operation.xml_name, part.arguments
    elif isinstance(effect, Retrieve):
        step.name, step.arguments = effect.knowledge_base_id, {"query": effect.query}
    elif isinstance(effect, Branches):
        step.name = step.name or part.collaborator.name
        step.arguments = {"message": part.message}


def _iterate_effects(replay: Replay, log: TurnLog) -> Iterator[tuple[Replay, Any, Any, Any]]:
    """Each effect with its outcome's record; of several parts, each with its own."""
    for effect, outcome in replay.steps:
        if isinstance(effect, (Dispatch, Branches)):
            parts: Sequence[Any] = effect.calls if isinstance(effect, Dispatch) else effect.branches
            for part, record in zip(parts, outcome or [None] * len(parts), strict=True):
                yield replay, effect, part, record
        elif not isinstance(effect, AwaitResults):
            yield replay, effect, None, outcome
        if isinstance(effect, Branches):
            for branch in effect.branches:
                if branch.collaborator.agent is not None:
                    yield from _iterate_effects(_run_branch(replay, branch, log), log)


def _run_branch(replay: Replay, branch: Any, log: TurnLog) -> Replay:
    below = replay.below(branch)
    if not below.steps and below.result is None:
        try:
            below.run_to_end(log.find_branch_end(branch.id))
        except SessionConflict:  # its steps have no prompts, then
            below.steps.clear()
    return below
