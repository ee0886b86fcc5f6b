"""The matrix: every case with every variant, so many times, side by side as far as models allow."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.evaluation.cases import Case, Cases
from orchestrator.agent.evaluation.checks import Judge
from orchestrator.agent.evaluation.checks.base import shorten
from orchestrator.agent.evaluation.conduct import hold_case
from orchestrator.agent.evaluation.results import CaseResult, TurnResult, judge_turn
from orchestrator.agent.evaluation.variants import Models, Variant, load_variant, runs_one_by_one
from orchestrator.definition.files import FILE_NAMES
from orchestrator.errors import OrchestratorError, ResourceNotFound, ValidationError
from orchestrator.models.base import Model, Usage
from orchestrator.models.prices import Price, find_price
from orchestrator.sessions import Sessions
from orchestrator.support.user_code import is_own_failure

MOST_RESULTS = 100_000
MOST_WORKERS = 64
Key = tuple[str, str, int]  # variant, case, repetition


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated.

    Attributes:
        agent: The agent's folder; or that of several, where cases name an `agent`.
        cases: The cases.
        variants: The columns of the matrix.
        repeat: How often each case is held.
        concurrency: How many cases a model answers at the same time; embedded and scripted models
            answer one by one.
        judge: Makes the checks `judge`.
        prices: By a model's spec or id.
        around: Makes a context in which a case is held; then all cases are held one by one, since
            it may change what belongs to the whole process.
        sessions: A SQLite file that keeps the sessions, or sessions that are open and stay so;
            `None` for memory.
        session_prefix: What the ids of sessions begin with.
    """

    agent: Path
    cases: Cases
    variants: tuple[Variant, ...] = (Variant(),)
    repeat: int = 1
    concurrency: int = 1
    judge: Judge | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    around: Callable[[], AbstractContextManager[Any]] | None = None
    sessions: Sessions | Path | None = None
    session_prefix: str = ""

    def __post_init__(self) -> None:
        """Checks the size.

        Raises:
            ValidationError: It is too large, or a variant is given twice.
        """
        names = [variant.name for variant in self.variants]
        if len(set(names)) < len(names):
            raise ValidationError(f"a variant is given twice: {', '.join(sorted(names))}")
        if self.repeat < 1 or not 1 <= self.concurrency <= MOST_WORKERS:
            raise ValidationError(
                f"repeat is a number from 1, and concurrency one from 1 to {MOST_WORKERS}"
            )
        # Before they are listed: a repeat too many must not fill the memory.
        if len(self.variants) * len(self.cases.cases) * self.repeat > MOST_RESULTS:
            raise ValidationError(
                f"cases × variants × repeats are more than {MOST_RESULTS:,}; make several runs"
            )

    def keys(self) -> list[Key]:
        """What names every result, in the order in which one worker makes them."""
        return [
            (variant.name, case.id, number)
            for variant in self.variants
            for case in self.cases.cases
            for number in range(1, self.repeat + 1)
        ]


class Matrix:
    """An evaluation whose agents are loaded. A context that closes them."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Loads every agent as each variant has it: mistakes are found before a model runs.

        Raises:
            OrchestratorError: An agent, a model or a template is wrong.
        """
        self.evaluation = evaluation
        self._cases = {case.id: case for case in evaluation.cases.cases}
        self._variants = {variant.name: variant for variant in evaluation.variants}
        self._agents: dict[tuple[str, str], Agent] = {}
        self._stopped = threading.Event()
        models = Models()
        try:
            for variant in evaluation.variants:
                for name in dict.fromkeys(case.agent for case in evaluation.cases.cases):
                    folder = _find_agent(evaluation.agent, name)
                    agent = load_variant(folder, variant, models, _store(evaluation.sessions))
                    self._agents[variant.name, name] = agent
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Matrix:
        """The matrix itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Closes the agents."""
        for agent in self._agents.values():
            agent.close()

    @property
    def agents(self) -> list[Agent]:
        """The agents, variant by variant."""
        return list(self._agents.values())

    def head(self) -> dict[str, Any]:
        """What the run is of; equal for two that measure the same."""
        evaluation = self.evaluation
        return {
            "agent": evaluation.agent.absolute().name,
            "cases": {
                "file": evaluation.cases.file.name,
                "sha256": evaluation.cases.digest,
                "count": len(self._cases),
            },
            "variants": [self._describe(variant) for variant in evaluation.variants],
            "repeat": evaluation.repeat,
            "judge": getattr(getattr(evaluation.judge, "model", None), "model_id", ""),
        }

    def _describe(self, variant: Variant) -> dict[str, Any]:
        agents = {name: agent for (of, name), agent in self._agents.items() if of == variant.name}
        stages = [stage for agent in agents.values() for stage in agent.plan.stages.values()]
        models = dict.fromkeys(stage.model.model_id for stage in stages if stage.enabled)
        plans = {name: agent.plan.digest for name, agent in agents.items()}
        return {
            "name": variant.name,
            "models": list(models),
            "prompts": "" if variant.prompts is None else variant.prompts.as_posix(),
            # Changes with any prompt, model or tool of an agent.
            "digest": hashlib.sha256(json.dumps(plans, sort_keys=True).encode()).hexdigest()[:16],
        }

    # -- running ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Has `run` end, from another thread: turns that run end first, and nothing else begins."""
        self._stopped.set()

    def run(self, known: Collection[Key] = ()) -> Generator[CaseResult, None, None]:
        """Holds all cases but those that are known, and gives each result as soon as it is there.

        Closing the iterator stops it: turns that run end, and nothing else begins.
        """
        left = [key for key in self.evaluation.keys() if key not in known]
        pools: list[ThreadPoolExecutor] = []
        futures: list[Future[CaseResult]] = []
        try:
            for keys, workers in self._split(left):
                pool = ThreadPoolExecutor(workers, thread_name_prefix="evaluation")
                pools.append(pool)
                futures += [pool.submit(self._hold, *key) for key in keys]
            for future in as_completed(futures):
                if self._stopped.is_set():
                    break
                yield future.result()
        finally:
            self._stopped.set()
            for pool in pools:
                pool.shutdown(wait=True, cancel_futures=True)

    def _split(self, keys: list[Key]) -> Iterator[tuple[list[Key], int]]:
        """Cases by the model that answers them, and how many it may answer at the same time."""
        if self.evaluation.around is not None:
            if keys:
                yield keys, 1
            return
        lanes: dict[int | None, list[Key]] = {}
        for key in keys:
            model = self._find_model(key)
            lanes.setdefault(None if runs_one_by_one(model) else id(model), []).append(key)
        for lane, some in lanes.items():
            yield some, 1 if lane is None else self.evaluation.concurrency

    def _find_agent(self, key: Key) -> Agent:
        return self._agents[key[0], self._cases[key[1]].agent]

    def _find_model(self, key: Key) -> Model:
        return self._find_agent(key).plan.stages["ORCHESTRATION"].model

    def _hold(self, variant: str, case_id: str, repetition: int) -> CaseResult:
        case = self._cases[case_id]
        session = _build_session_id(self.evaluation.session_prefix, case_id)
        turns: list[TurnResult] = []
        error = ""
        try:
            self._refuse_stopped()
            with (self.evaluation.around or nullcontext)():
                self._hold_turns((variant, case_id, repetition), session, turns)
        except OrchestratorError as raised:
            error = f"{type(raised).__name__}: {raised}"
        except BaseException as raised:  # what is around a case, or a fault: the others are held
            if not is_own_failure(raised):
                raise
            error = f"{type(raised).__name__}: {shorten(str(raised))}"
        return CaseResult(
            case_id, variant, repetition, session, list(case.tags), turns, error, case.digest
        )

    def _hold_turns(self, key: Key, session: str, turns: list[TurnResult]) -> None:
        agent, case = self._find_agent(key), self._cases[key[1]]
        if self.evaluation.sessions is None:
            agent = copy(agent)  # with sessions that end with the case
            agent.sessions = Sessions()
        for held in hold_case(agent, case, session, self._find_price(key)):
            self._refuse_stopped()
            turns.append(judge_turn(held, self.evaluation.judge))

    def _refuse_stopped(self) -> None:
        if self._stopped.is_set():
            raise OrchestratorError("the evaluation was stopped")

    def _find_price(self, key: Key) -> Callable[[Usage], float | None]:
        spec = self._variants[key[0]].model
        names = (spec if isinstance(spec, str) else "", self._find_model(key).model_id)
        price = find_price(self.evaluation.prices, *names)
        return lambda usage: None if price is None else price.of(usage)


def check_judge(cases: Cases, judge: Judge | None) -> None:
    """Checks that there is a judge where a case needs one.

    Raises:
        ValidationError: There is none.
    """
    needing = [case.id for case in cases.cases if _needs_judge(case)]
    if needing and judge is None:
        raise ValidationError(
            f"the case {needing[0]!r} has a check 'judge', and no model judges: give --judge SPEC"
        )


def _needs_judge(case: Case) -> bool:
    return any("judge" in turn.expect for turn in case.turns)


def _find_agent(root: Path, name: str) -> Path:
    folder = root / name if name else root
    if not (folder.is_file() or any((folder / it).is_file() for it in FILE_NAMES)):
        what = f"the agent {name!r} of a case is not in" if name else "there is no agent in"
        raise ResourceNotFound(f"{what} {str(root)!r}")
    return folder


def _store(given: Sessions | Path | None) -> Sessions | str | None:
    return str(given) if isinstance(given, Path) else given


def _build_session_id(prefix: str, case: str) -> str:
    plain = re.sub(r"[^0-9A-Za-z._:-]+", "-", case)[:60]
    return f"{prefix}{plain}-{uuid.uuid4().hex[:12]}"
