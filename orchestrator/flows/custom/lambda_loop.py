"""Custom orchestration by Bedrock's Lambda contract: a function decides each next step of a turn.

The function is asked after every step, with all that has happened, and says what to do (AWS:
"Customize your agent's behavior with custom orchestration"). One that was written for Bedrock
plugs in unchanged, as a handler file or by its ARN.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.actions.parser_lambda import call_function, parser_function
from orchestrator.engine.effects import Effect, SessionView
from orchestrator.engine.results import Answer, Result
from orchestrator.errors import DependencyFailed
from orchestrator.flows.custom.converse_request import ContractError, read_request
from orchestrator.flows.custom.lambda_contract import (
    APPLY_GUARDRAIL,
    APPLY_GUARDRAIL_INVOKED,
    FINISH,
    INVOKE_MODEL,
    MODEL_INVOKED,
    START,
    TOOL_INVOKED,
    TurnSteps,
    build_session_turns,
    guardrail_text,
    model_text,
    read_check,
    read_reply,
    read_tool_use,
    step_of,
    turn_of,
)
from orchestrator.flows.custom.operations import Ended, Work
from orchestrator.message import to_json
from orchestrator.sessions.journal import Record
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn


class LambdaOrchestration:
    """An orchestration by Bedrock's Lambda contract. Serves many turns at once.

    Attributes:
        name: The function's name, for errors.
        arn: Its ARN, if it was named by that; else empty.
    """

    def __init__(self, spec: str | Callable[..., Any], folder: str | Path | None = None) -> None:
        """Finds the function; a file runs when it is called first.

        Args:
            spec: A handler file, `orchestration.py` or `orchestration.py:function` (else
                `lambda_handler`); the ARN of a Lambda function; or a function of the event, or of
                the event and a Lambda context.
            folder: The folder that a file must be in; without one a file may be anywhere, relative
                to the current folder.

        Raises:
            DefinitionError: There is no such file or function, or the text is none of these.
        """
        self._function = parser_function(spec, folder, what="orchestration")
        self.name: str = getattr(self._function, "name", "") or "orchestration"
        self.arn = spec if isinstance(spec, str) and spec.startswith("arn:") else ""

    def __repr__(self) -> str:
        return f"LambdaOrchestration({self.name!r})"

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn; see `Orchestration.run`.

        Raises:
            DependencyFailed: The function failed, or returned something else than the contract's
                object.
            LimitExceeded: A budget of the turn is used up.
        """
        work, steps = Work(turn, self.name), list[dict[str, Any]]()
        state, text = START, to_json({"text": turn.question})
        while True:
            reply = yield from self._ask(work, state, text, steps)
            shown = turn.question if state == START else text
            steps.append(step_of(state, shown, reply["event"], reply["text"]))
            if reply["event"] == FINISH:
                self._store_steps(turn, steps)
                return Answer(reply["text"])
            try:
                done = yield from self._carry_out(work, reply, steps)
            except (ContractError, RecursionError) as error:
                raise self._build_shape_failure(
                    state, f"{reply['event']} with output.text: {error}"
                ) from None
            if not isinstance(done, tuple):
                return done
            state, text = done

    def _ask(
        self, work: Work, state: str, text: str, steps: list[dict[str, Any]]
    ) -> Generator[Effect, Any, Record]:
        turn = work.turn
        ask = partial(self._call_function, work=work, state=state, text=text, steps=steps[:])
        reply = yield from turn.orchestrate(state, ask)
        turn.prompt_attributes = reply.get("prompt_attributes", turn.prompt_attributes)
        return reply

    def _carry_out(
        self, work: Work, reply: Record, steps: list[dict[str, Any]]
    ) -> Generator[Effect, Any, tuple[str, str] | Ended]:
        turn, event = work.turn, reply["event"]
        if event == INVOKE_MODEL:
            record = yield from work.model(read_request(json_or(reply["text"], None)))
            return MODEL_INVOKED, model_text(record)
        if event == APPLY_GUARDRAIL:
            guardrail = turn.plan.guardrail
            text, source = read_check(reply["text"], guardrail.id if guardrail else "")
            record = yield from work.check(text, source)
            return APPLY_GUARDRAIL_INVOKED, guardrail_text(record)
        use = read_tool_use(reply["text"])
        self._store_steps(turn, steps)
        done = yield from work.call([use])
        return (TOOL_INVOKED, to_json(done[0].block)) if isinstance(done, list) else done

    def _store_steps(self, turn: Turn, steps: list[dict[str, Any]]) -> None:
        # The same list grows with the turn; a turn that did nothing and failed leaves none.
        if not any(isinstance(message, TurnSteps) for message in turn.scratchpad):
            turn.scratchpad.append(TurnSteps(steps))

    def _call_function(
        self, view: SessionView, *, work: Work, state: str, text: str, steps: list[dict[str, Any]]
    ) -> dict[str, Any]:
        turn = work.turn
        turns = build_session_turns(view.history)
        if steps:
            turns.append(turn_of(turn.question, "", steps))
        plan = turn.plan
        agent: dict[str, Any] = {
            "instruction": plan.instruction,
            "defaultModelId": plan.orchestration.model.model_id,
            "tools": list(work.tools),
        }
        if plan.guardrail is not None:
            version = getattr(plan.guardrail, "version", "DRAFT")
            agent["guardrails"] = {"identifier": plan.guardrail.id, "version": version}
        event = {
            "version": "1.0",
            "state": state,
            "input": {"text": text},
            "context": {
                "requestId": turn.start.request_id,
                "sessionId": view.session_id,
                "agentConfiguration": agent,
                "session": turns,
                "sessionAttributes": dict(view.attributes),
                "promptSessionAttributes": dict(turn.prompt_attributes),
            },
        }
        # As on the wire: what a handler changes in its event changes nothing here.
        fail = partial(self._build_failure, state)
        returned = call_function(self._function, json.loads(to_json(event)), fail)
        try:
            return read_reply(returned)
        except (ContractError, RecursionError) as error:
            raise self._build_shape_failure(state, str(error)) from None

    def _build_shape_failure(self, state: str, what: str) -> DependencyFailed:
        return self._build_failure(state, f"did not return the contract's object: {what}")

    def _build_failure(self, state: str, what: str) -> DependencyFailed:
        return DependencyFailed(
            f"the orchestration {self.name!r}, asked in state {state}, {what}", resource=self.name
        )
