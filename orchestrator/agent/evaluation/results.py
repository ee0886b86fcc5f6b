"""What came of a case: its turns, and the checks of each; plain data, as a run's file has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from orchestrator.agent.evaluation.checks import CHECKS, Judge, Judging, Outcome
from orchestrator.agent.evaluation.checks.base import shorten
from orchestrator.agent.evaluation.conduct import HeldTurn
from orchestrator.errors import FlowError, LimitExceeded, ModelOutputError, OrchestratorError
from orchestrator.support.user_code import is_own_failure

Status = Literal["passed", "failed", "error"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "error")

# Errors that are the agent's doing, and no outage: they fail a case as a wrong answer does.
_AGENTS_OWN = (FlowError, LimitExceeded, ModelOutputError)


@dataclass(frozen=True)
class CheckResult:
    """One check: what was expected, and what was there. `error` says why it could not be made."""

    check: str
    passed: bool
    expected: str
    actual: str
    error: str = ""


@dataclass(frozen=True)
class TurnResult:
    """One turn: what was said and done, and its checks."""

    said: list[str]
    answer: str = ""
    stop_reason: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    steps: list[dict[str, str]] = field(default_factory=list)
    asked: bool = False
    seconds: float = 0.0
    tokens: int = 0
    model_calls: int = 0
    cost: float | None = None
    error: str = ""  # an outage; what the agent did wrong is a check that failed

    @property
    def status(self) -> Status:
        """Whether all checks passed; an error is no failure, and hides none."""
        if any(not check.passed and not check.error for check in self.checks):
            return "failed"
        return "error" if self.error or any(check.error for check in self.checks) else "passed"


@dataclass(frozen=True)
class CaseResult:
    """One case, held once by one variant.

    Attributes:
        case: The case's id.
        variant: The variant's name.
        repetition: From 1.
        session: The session's id.
        tags: The case's tags.
        turns: Its turns, as far as they were held.
        error: What went wrong around the turns.
        digest: Of the case (`Case.digest`): two results of one digest are of the same case.
    """

    case: str
    variant: str
    repetition: int
    session: str = ""
    tags: list[str] = field(default_factory=list)
    turns: list[TurnResult] = field(default_factory=list)
    error: str = ""
    digest: str = ""

    @property
    def status(self) -> Status:
        """Failed where a turn failed, else an error where there was one."""
        statuses = {turn.status for turn in self.turns}
        if "failed" in statuses:
            return "failed"
        return "error" if self.error or "error" in statuses else "passed"

    @property
    def seconds(self) -> float:
        """How long all turns took."""
        return sum(turn.seconds for turn in self.turns)

    @property
    def tokens(self) -> int:
        """The tokens of all turns."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def cost(self) -> float | None:
        """What all turns cost in dollars, where that is known of each."""
        costs = [turn.cost for turn in self.turns if turn.cost is not None]
        return sum(costs) if costs and len(costs) == len(self.turns) else None

    @property
    def key(self) -> tuple[str, str, int]:
        """What names it in its run."""
        return self.variant, self.case, self.repetition

    def failures(self) -> Iterable[tuple[int, CheckResult]]:
        """The checks that did not pass, with the numbers of their turns."""
        for number, turn in enumerate(self.turns, 1):
            yield from ((number, check) for check in turn.checks if not check.passed)

    def as_dict(self) -> dict[str, Any]:
        """It as JSON members, with its status."""
        return {"kind": "result", "status": self.status, **asdict(self)}


def judge_turn(held: HeldTurn, judge: Judge | None) -> TurnResult:
    """Makes the checks of a turn, each for itself."""
    outcome, error = held.outcome, held.error
    outage = error is not None and not isinstance(error, _AGENTS_OWN)
    checks = []
    if error is not None and not outage and not _expects_end(held):
        checks.append(CheckResult("turn", False, "a turn that ends", shorten(outcome.error)))
    if not outage:  # what was not done for that reason says nothing
        checks += _make_checks(Judging(outcome, held.turn.expect, judge))
    return _build_result(outcome, checks, outcome.error if outage else "")


def _expects_end(held: HeldTurn) -> bool:
    return held.outcome.stop_reason in held.turn.expect.get("stop_reason", ())


def _make_checks(judging: Judging) -> Iterable[CheckResult]:
    for name, value in judging.expect.items():
        try:
            for verdict in CHECKS[name].judge(value, judging):
                yield CheckResult(name, *verdict)
        except OrchestratorError as error:
            yield CheckResult(name, False, "", "", str(error))
        except BaseException as error:  # a function of the cases' author, which may call `sys.exit`
            if not is_own_failure(error):
                raise
            yield CheckResult(name, False, "", "", f"{type(error).__name__}: {shorten(str(error))}")


def _build_result(outcome: Outcome, checks: list[CheckResult], error: str) -> TurnResult:
    return TurnResult(
        said=outcome.said,
        answer=outcome.answer,
        stop_reason=outcome.stop_reason,
        calls=outcome.calls,
        checks=checks,
        steps=outcome.steps,
        asked=outcome.asked,
        seconds=round(outcome.seconds, 4),
        tokens=outcome.usage.total_tokens,
        model_calls=outcome.usage.calls,
        cost=outcome.cost,
        error=error,
    )


# -- from a file ---------------------------------------------------------------------------------


def parse_result(data: Mapping[str, Any]) -> CaseResult:
    """The result that a line of a run's file holds.

    Raises:
        ValueError: It holds none.
    """
    turns = [_parse_turn(one) for one in _member(data, "turns", list)]
    return CaseResult(
        case=_member(data, "case", str),
        variant=_member(data, "variant", str),
        repetition=_member(data, "repetition", int),
        session=_member(data, "session", str),
        tags=[_as(one, str, "tags") for one in _member(data, "tags", list)],
        turns=turns,
        error=_member(data, "error", str),
        digest=_member(data, "digest", str),
    )


def _parse_turn(data: Any) -> TurnResult:
    turn = _as(data, dict, "turns")
    calls = [_as(one, dict, "calls") for one in _member(turn, "calls", list)]
    if any(not isinstance(call.get("name"), str) for call in calls):
        raise ValueError("a call has no 'name'")
    cost = turn.get("cost")
    return TurnResult(
        said=[_as(one, str, "said") for one in _member(turn, "said", list)],
        answer=_member(turn, "answer", str),
        stop_reason=_member(turn, "stop_reason", str),
        calls=[{**call, "arguments": _member(call, "arguments", dict)} for call in calls],
        checks=[_parse_check(one) for one in _member(turn, "checks", list)],
        steps=[_parse_step(one) for one in _member(turn, "steps", list)],
        asked=_member(turn, "asked", bool),
        seconds=_number(turn, "seconds"),
        tokens=_member(turn, "tokens", int),
        model_calls=_member(turn, "model_calls", int),
        cost=None if cost is None else _number(turn, "cost"),
        error=_member(turn, "error", str),
    )


def _parse_check(data: Any) -> CheckResult:
    check = _as(data, dict, "checks")
    texts = [_member(check, name, str) for name in ("expected", "actual", "error")]
    return CheckResult(_member(check, "check", str), _member(check, "passed", bool), *texts)


def _parse_step(data: Any) -> dict[str, str]:
    step = _as(data, dict, "steps")
    return {name: _member(step, name, str) for name in ("kind", "text")}


def _number(data: Mapping[str, Any], name: str) -> float:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError(f"{name!r} is no number")
    return value


def _member(data: Mapping[str, Any], name: str, kind: Callable[..., Any]) -> Any:
    return _as(data.get(name), kind, name)


def _as(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name!r} is no {kind.__name__}")
    return value
