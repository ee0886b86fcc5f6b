"""Asks the example agents the questions of `questions.jsonl` and judges what they do.

    python evals/run.py --model local:0.5b
    python evals/run.py --model local --only two_calls --json result.json --min 24

Every question gets a session, a database and a reminders file of its own, so that no question sees
what another one did. Where the agent asks before an expected call, the user says "Yes." once.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.asking import EXAMPLES, Agents, exchange, open_scratch
from evals.checks import judge_answer, judge_calls, show_call
from orchestrator import Agent
from orchestrator.models import Model

HERE = Path(__file__).resolve().parent


@dataclass
class Outcome:
    """What an agent did with one question."""

    id: str
    kind: str
    question: str
    answer: str = ""
    stop_reason: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    asked: bool = False
    rationales: list[str] = field(default_factory=list)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether every expectation was met."""
        return not self.problems


def load_questions(path: Path = HERE / "questions.jsonl") -> list[dict[str, Any]]:
    """The questions, one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


# -- asking --------------------------------------------------------------------------------------


def ask(agent: Agent, question: dict[str, Any]) -> Outcome:
    """Asks one question in a fresh session and judges the reply."""
    expect = question["expect"]
    attributes = {"session_attributes": question.get("session_attributes", {})}
    session_id = f"eval-{question['id']}"
    exchanges = exchange(
        agent, question["question"], expect.get("calls", []), session_id, **attributes
    )
    last = exchanges[-1]
    outcome = Outcome(question["id"], question["kind"], question["question"])
    outcome.answer, outcome.asked = last.answer, any(one.asked for one in exchanges)
    outcome.calls = [call for one in exchanges for call in one.calls]
    outcome.rationales = [thought for one in exchanges for thought in one.rationales]
    outcome.seconds = sum(one.seconds for one in exchanges)
    outcome.problems += [one.error for one in exchanges if one.error]
    if last.reply is not None:
        outcome.stop_reason = last.reply.stop_reason
        outcome.problems += map(str, judge_calls(expect, outcome.calls))
    if not outcome.problems or outcome.answer:
        outcome.problems += map(str, judge_answer(expect, outcome.answer, outcome.asked))
    return outcome


def run(questions: list[dict[str, Any]], model: str | Model, console: Console) -> list[Outcome]:
    """Asks all questions, saying after each how it went."""
    outcomes = []
    with Agents(model) as agents:
        for number, question in enumerate(questions, 1):
            with open_scratch():
                outcome = ask(agents.load(EXAMPLES / question["agent"]), question)
            mark = "[green]right[/]" if outcome.right else "[red]wrong[/]"
            console.print(f"{number:2}/{len(questions)} {mark} {question['id']}", highlight=False)
            outcomes.append(outcome)
    return outcomes


# -- showing -------------------------------------------------------------------------------------


def table(outcomes: list[Outcome], model: str) -> Table:
    """One row a question; a wrong one with what went wrong, what was thought and answered."""
    shown = Table(title=f"{len(outcomes)} questions to {model}", show_lines=True)
    for heading in ("question", "calls", "answer and what was wrong", "s"):
        shown.add_column(heading, overflow="fold")
    for outcome in outcomes:
        told = Text(outcome.answer.strip())
        for problem in outcome.problems:
            told.append(f"\n✗ {problem}", "red")
        if outcome.problems:
            for thought in outcome.rationales:
                told.append(f"\nthought: {thought}", "dim")
        shown.add_row(
            Text.assemble((outcome.id, "bold"), "\n", outcome.question),
            Text("\n".join(map(show_call, outcome.calls)) or "none"),
            told,
            f"{outcome.seconds:.1f}",
        )
    return shown


def totals(outcomes: list[Outcome]) -> Table:
    """Right answers and seconds of each kind, and of all."""
    shown = Table("kind", "right", "of", "seconds each")
    for kind in [*dict.fromkeys(outcome.kind for outcome in outcomes), "all"]:
        some = [outcome for outcome in outcomes if kind in ("all", outcome.kind)]
        seconds = sum(outcome.seconds for outcome in some) / len(some)
        shown.add_row(kind, str(count_right(some)), str(len(some)), f"{seconds:.1f}")
    return shown


def count_right(outcomes: list[Outcome]) -> int:
    """How many were right."""
    return sum(outcome.right for outcome in outcomes)


def main(arguments: list[str] | None = None) -> int:
    """Runs the evaluation; 1 when fewer than `--min` are right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="local", help="model spec, for example local:0.5b")
    parser.add_argument("--only", default="", help="questions whose kind, agent or id is this")
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    parser.add_argument("--min", type=int, default=0, help="fail when fewer are right")
    given = parser.parse_args(arguments)
    questions = [
        one for one in load_questions() if given.only in ("", one["kind"], one["agent"], one["id"])
    ]
    if not questions:
        parser.error(f"no question has the kind, agent or id {given.only!r}")
    console = Console()
    outcomes = run(questions, given.model, console)
    console.print(table(outcomes, given.model), totals(outcomes))
    right = count_right(outcomes)
    if given.json:
        report = {
            "model": given.model,
            "right": right,
            "of": len(outcomes),
            "questions": [{**asdict(outcome), "right": outcome.right} for outcome in outcomes],
        }
        given.json.write_text(json.dumps(report, indent=2, ensure_ascii=False), encoding="utf-8")
    return 1 if right < given.min else 0


if __name__ == "__main__":
    sys.exit(main())
