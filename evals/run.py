"""Asks the example agents the questions of `questions.jsonl` and judges what they do.

    python evals/run.py --model local:0.5b
    python evals/run.py --model local --only two_calls --json result.json --min 24

Only the library's public API is used. Every question gets a session, a database and a reminders
file of its own, so that no question sees what another one did.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator import Agent, OrchestratorError

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
ACTING = {"POST /reminders", "request_vacation", "cancel_vacation"}
"""Calls that change something: an unexpected one is a mistake, while reading too much is not."""

_ASKS = re.compile(
    r"\?|\bplease (?:tell|give|provide|name|specify|enter|share|send)\b|\blet me know\b",
    re.IGNORECASE,
)
"""A question that an answer puts to the user, with a question mark or as a request."""


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


# -- reading the trace ---------------------------------------------------------------------------


def _steps(trace: Iterable[dict[str, Any]], part: str) -> Iterator[dict[str, Any]]:
    for event in trace:
        found = event.get("trace", event).get("orchestrationTrace", {}).get(part)
        if found:
            yield found


def calls_of(trace: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The action calls that were really made: a function's name or `VERB /path`, and arguments."""
    made = []
    for given in _steps(trace, "invocationInput"):
        action = given.get("actionGroupInvocationInput")
        if action:
            body = action.get("requestBody", {}).get("content", {})
            listed = [*action.get("parameters", []), *(p for b in body.values() for p in b)]
            name = action.get("function") or f"{action['verb'].upper()} {action['apiPath']}"
            made.append({"name": name, "arguments": {p["name"]: p["value"] for p in listed}})
    return made


def asked(trace: Iterable[dict[str, Any]]) -> bool:
    """Whether the turn ended with a question to the user."""
    return any(seen.get("type") == "ASK_USER" for seen in _steps(trace, "observation"))


def rationales(trace: Iterable[dict[str, Any]]) -> list[str]:
    """What the model said before it acted."""
    return [step["text"] for step in _steps(trace, "rationale") if step.get("text")]


# -- judging -------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Lower case, and numbers without separators: `23,800` and `5550 1214` are one number each."""
    return re.sub(r"(?<=\d)[ ,.'](?=\d)", "", text.lower().replace("\u2019", "'"))


def says(text: str, fact: str) -> bool:
    """Whether a text holds a fact; a number must be whole: `13` is not in `2013`."""
    left = r"(?<!\d)" if fact[0].isdigit() else ""
    right = r"(?!\d)" if fact[-1].isdigit() else ""
    return any(
        re.search(left + re.escape(form(fact)) + right, form(text)) for form in (str.lower, _plain)
    )


def _same_call(expected: dict[str, Any], made: dict[str, Any]) -> bool:
    def value(text: object) -> str:
        return str(text).strip().lower().removeprefix("claim").strip(" -#")

    return expected["name"] == made["name"] and all(
        value(made["arguments"].get(name, "")) == value(wanted)
        for name, wanted in expected.get("arguments", {}).items()
    )


def judge_calls(expect: dict[str, Any], calls: list[dict[str, Any]]) -> Iterator[str]:
    """What is wrong with the calls: one is missing, or one was made that must not be."""
    wanted = expect.get("calls", [])
    for call in wanted:
        if not any(_same_call(call, made) for made in calls):
            yield f"no call {show_call(call)}"
    for made in calls:
        if expect.get("no_calls") or made["name"] in ACTING:
            if not any(_same_call(call, made) for call in wanted):
                yield f"unwanted call {show_call(made)}"


def judge_answer(expect: dict[str, Any], answer: str, was_asked: bool) -> Iterator[str]:
    """What is wrong with the answer: a fact is missing or wrong, or nothing was asked."""
    if not answer.strip():
        yield "no answer"
    for group in expect.get("answer_contains", []):
        if not any(says(answer, fact) for fact in group):
            yield f"the answer lacks {' / '.join(group[:3])}"
    for fact in expect.get("answer_lacks", []):
        if says(answer, fact):
            yield f"the answer must not hold {fact}"
    if expect.get("asks_user") and not (was_asked or _ASKS.search(answer)):
        yield "the user was not asked"


def show_call(call: dict[str, Any]) -> str:
    """A call in one line."""
    given = ", ".join(f"{name}={value!r}" for name, value in call.get("arguments", {}).items())
    return f"{call['name']}({given})"


# -- asking --------------------------------------------------------------------------------------


def ask(agent: Agent, question: dict[str, Any]) -> Outcome:
    """Asks one question in a fresh session and judges the reply."""
    outcome = Outcome(question["id"], question["kind"], question["question"])
    start = time.monotonic()
    try:
        reply = agent.invoke(
            question["question"],
            session_id=f"eval-{question['id']}",
            session_attributes=question.get("session_attributes", {}),
        )
    except OrchestratorError as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
        reply = getattr(error, "reply", None)
    expect = question["expect"]
    if reply is not None:
        outcome.answer, outcome.stop_reason = reply.text, reply.stop_reason
        outcome.calls, outcome.rationales = calls_of(reply.trace), rationales(reply.trace)
        outcome.asked = asked(reply.trace)
        outcome.problems += judge_calls(expect, outcome.calls)
    if not outcome.problems or outcome.answer:
        outcome.problems += judge_answer(expect, outcome.answer, outcome.asked)
    outcome.seconds = time.monotonic() - start
    return outcome


def run(questions: list[dict[str, Any]], model: str, console: Console) -> list[Outcome]:
    """Asks all questions, saying after each how it went."""
    agents: dict[str, Agent] = {}
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, question in enumerate(questions, 1):
            name = question["agent"]
            os.environ["HR_DATABASE"] = os.path.join(scratch, f"{number}.sqlite")
            os.environ["REMINDERS_FILE"] = os.path.join(scratch, f"{number}.jsonl")
            if name not in agents:
                agents[name] = Agent.load(EXAMPLES / name, model=model)
            outcome = ask(agents[name], question)
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
