"""Holding a case with an agent: its turns in one session, and what becomes of each."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.evaluation.cases import Case, CaseTurn
from orchestrator.agent.evaluation.checks import Outcome
from orchestrator.agent.evaluation.checks.answers import says
from orchestrator.agent.evaluation.checks.calls import ExpectedCall, changes_something, pair_calls
from orchestrator.agent.evaluation.grounding import find_questions
from orchestrator.agent.evaluation.trace_reading import (
    Call,
    asks_user,
    list_calls,
    list_results,
    list_steps,
    list_waiting_calls,
)
from orchestrator.engine.results import ControlReturn
from orchestrator.engine.trace.reply import Reply
from orchestrator.errors import OrchestratorError
from orchestrator.models.base import Usage

# How often one turn's calls that are handed over are answered.
_MOST_RETURNS = 10

Pricing = Callable[[Usage], float | None]


@dataclass(frozen=True)
class HeldTurn:
    """A turn of a case, and what the agent did."""

    turn: CaseTurn
    outcome: Outcome
    error: OrchestratorError | None


def hold_case(agent: Agent, case: Case, session_id: str, price: Pricing) -> Iterator[HeldTurn]:
    """Says each turn of a case in one new session.

    After a turn that failed the others are held all the same: each is judged for itself.
    """
    known: list[str] = []
    for turn in case.turns:
        conduct = _Conduct(agent, case, turn, session_id)
        start = time.monotonic()
        conduct.hold()
        outcome = conduct.outcome
        outcome.seconds = time.monotonic() - start
        outcome.cost = price(outcome.usage)
        # What a case expects of a call is known, though the user may have described it only.
        expected = [value for call in turn.expect.get("calls", ()) for value in call.values()]
        known += [*outcome.said, *outcome.results, *expected]
        outcome.known = list(known)
        yield HeldTurn(turn, outcome, conduct.error)


class _Conduct:
    """The user of one turn."""

    def __init__(self, agent: Agent, case: Case, turn: CaseTurn, session_id: str) -> None:
        self._agent, self._turn, self._session_id = agent, turn, session_id
        self._options: dict[str, Any] = {
            "prompt_session_attributes": case.prompt_session_attributes
        }
        if turn is case.turns[0]:  # later the session has them, and actions may have changed them
            self._options["session_attributes"] = case.session_attributes
        self._expected: Sequence[ExpectedCall] = turn.expect.get("calls", ())
        self.outcome = Outcome()
        self.error: OrchestratorError | None = None

    def hold(self) -> None:
        """Asks the question, and answers what the agent asks back."""
        reply = self._send(self._turn.question)
        for _ in range(_MOST_RETURNS):
            if reply is None or reply.return_control is None:
                break
            results = self._answer(reply.return_control)
            if results is None:
                self.outcome.waiting = list_waiting_calls(reply.return_control.invocation_inputs)
                break
            reply = self._send("", results=results)
        if reply is not None and reply.return_control is None and self._is_asked_to_confirm():
            self._send(self._turn.confirms)

    def _send(self, text: str, **more: Any) -> Reply | None:
        outcome = self.outcome
        if text:
            outcome.said.append(text)
        reply: Reply | None
        try:
            reply = self._agent.invoke(text, self._session_id, **{**self._options, **more})
        except OrchestratorError as error:
            self.error = error
            outcome.error = f"{type(error).__name__}: {error}"
            reply = error.reply if isinstance(error.reply, Reply) else None
        if reply is not None:
            self._note(reply)
        return reply if self.error is None else None

    def _note(self, reply: Reply) -> None:
        outcome, trace = self.outcome, reply.trace
        asks = asks_user(trace)
        outcome.answer = reply.text
        outcome.stop_reason = reply.stop_reason
        outcome.calls += list_calls(trace)
        outcome.results += list_results(trace)
        outcome.asked = outcome.asked or asks
        outcome.citations = reply.citations
        outcome.usage = outcome.usage.plus(reply.usage)
        outcome.steps += list_steps(trace)
        if not asks:
            outcome.stated = f"{outcome.stated}\n{reply.text}".strip()

    # -- returns of control ----------------------------------------------------------------------

    def _answer(self, control: ControlReturn) -> dict[str, Any] | None:
        """The results of calls that wait; `None` when the case leaves them waiting."""
        results: dict[str, Any] = {}
        confirmed: dict[str, list[bool]] = {}
        waiting = list_waiting_calls(control.invocation_inputs)
        for call, item in zip(waiting, control.invocation_inputs, strict=True):
            name = call["name"].rpartition(" ")[2]
            if name in self._turn.results:
                results[name] = self._turn.results[name]
            elif self._turn.confirms and _asks_confirmation(item):
                confirmed.setdefault(name, []).append(self._is_expected(call))
            else:
                return None
        for name, some in confirmed.items():
            results[name] = some if len(some) > 1 else some[0]
        self._note_answers(waiting, results)
        try:
            return control.answer(results)
        except OrchestratorError as error:
            self.error, self.outcome.error = error, f"{type(error).__name__}: {error}"
            return None

    def _is_expected(self, call: Call) -> bool:
        return any(expected.fits(call) for expected in self._expected)

    def _note_answers(self, waiting: Sequence[Call], results: Mapping[str, Any]) -> None:
        for call in waiting:
            value = results[call["name"].rpartition(" ")[2]]
            answers = value if isinstance(value, list) else [value]
            if all(isinstance(one, bool) for one in answers):
                self.outcome.said.append(self._turn.confirms if any(answers) else "No.")
            else:  # the caller carried it out
                self.outcome.calls.append(call)
                self.outcome.results += [
                    one if isinstance(one, str) else str(one) for one in answers
                ]

    # -- questions in words ----------------------------------------------------------------------

    def _is_asked_to_confirm(self) -> bool:
        """Whether the agent asks before an expected call that it has not made."""
        if not self._turn.confirms or self.error is not None:
            return False
        met = set(pair_calls(self._expected, self.outcome.calls).values())
        return any(
            asks_to_go_ahead(self.outcome.answer, call)
            for number, call in enumerate(self._expected)
            if number not in met and changes_something(call.name)
        )


def _asks_confirmation(item: Mapping[str, Any]) -> bool:
    return any(
        call.get("actionInvocationType") == "USER_CONFIRMATION"
        for call in item.values()
        if isinstance(call, Mapping)
    )


_OPEN_QUESTION = re.compile(
    r"\b(?:which|what|when|who|whom|whose|where|how)\b"
    r"|\b(?:tell|give|provide|specify|name) me\b"
    r"|^was\b|\b(?:welche\w*|wann|wer|wie|nennen|nenne)\b|哪|什么|几|多少",
    re.IGNORECASE,
)
_SOMETHING_ELSE = re.compile(r"\b(?:else|noch etwas|sonst)\b|其他|还有", re.IGNORECASE)
_GOING_AHEAD = re.compile(
    r"\b(?:shall|should|may) i\b|\b(?:want|like) (?:me )?to\b|\bare you sure\b"
    r"|\b(?:confirm(?! wh)|proceed|go ahead)\b|\bis (?:this|that|it) (?:ok|okay|right|correct)\b"
    r"|\bsoll ich\b|\bsind sie sicher\b|\bbestätig|\bwirklich\b|确认|确定|是否|要我|可以吗|好吗",
    re.IGNORECASE,
)


def asks_to_go_ahead(text: str, call: ExpectedCall) -> bool:
    """Whether a text asks the user, to be answered with yes or no, whether to make a call."""
    values = [value for value in call.values() if value]
    return any(_is_about(question, values) for question in find_questions(text))


def _is_about(question: str, values: Sequence[str]) -> bool:
    if _SOMETHING_ELSE.search(question):
        return False
    asks, wants = _GOING_AHEAD.search(question), _OPEN_QUESTION.search(question)
    if asks is None:
        return wants is None and any(says(question, value) for value in values)
    # "Shall I cancel the one which ...?", but not "Which one do you want to cancel?"
    return wants is None or asks.start() < wants.start()
