"""Holds the conversations of `conversations.jsonl`, or of a file, and judges every turn.

    python evals/conversations.py --model local:0.5b
    python evals/conversations.py my.jsonl --only insurance --json result.json --min 20

Every conversation gets a session, a database and a reminders file of its own. Where the agent asks
before it makes a call that the turn expects, the user says "Yes." once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.asking import Agents, Exchange, exchange, open_scratch
from evals.checks import (
    Call,
    Failure,
    judge_answer,
    judge_calls,
    judge_inventions,
    judge_refusal,
    show_call,
)
from evals.conversation_file import Conversation, read_conversations
from orchestrator import Agent, ValidationError
from orchestrator.models import Model

HERE = Path(__file__).resolve().parent
_REFUSED = ("refused", "guardrail_intervened")


@dataclass
class Turn:
    """What became of one turn.

    Attributes:
        said: What the user said: the turn's text, and a yes or no to each call that waits for it.
        asked: Whether the agent asked the user, with `AMAZON.UserInput`.
        failures: The checks that failed.
    """

    said: list[str]
    calls: list[Call] = field(default_factory=list)
    answer: str = ""
    asked: bool = False
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether every check held."""
        return not self.failures

    def count(self, check: str) -> int:
        """How often a check failed."""
        return sum(failure.check == check for failure in self.failures)


@dataclass
class Held:
    """A conversation that was held."""

    conversation: Conversation
    turns: list[Turn] = field(default_factory=list)


# -- holding -------------------------------------------------------------------------------------


def hold(agent: Agent, conversation: Conversation, session_id: str) -> Iterator[Turn]:
    """Says every turn of a conversation in one new session, and judges what comes back."""
    given: list[str] = []  # all that the user and the results have said so far
    for expect in conversation.turns:
        options = {"session_attributes": conversation.attributes}
        exchanges = exchange(agent, expect["say"], expect.get("calls", []), session_id, **options)
        turn = Turn([one.said for one in exchanges])
        turn.calls = [call for one in exchanges for call in one.calls]
        turn.answer, turn.asked = exchanges[-1].answer, any(one.asked for one in exchanges)
        turn.seconds = sum(one.seconds for one in exchanges)
        given += [*turn.said, *(text for one in exchanges for text in one.results)]
        # What is expected of a call is no invention, though the user may have described it only.
        given += [str(v) for call in expect.get("calls", []) for v in _values(call)]
        turn.failures = list(_judge(expect, turn, exchanges, given))
        yield turn


def _values(call: Call) -> list[Any]:
    return list(call.get("arguments", {}).values())


# -- judging -------------------------------------------------------------------------------------


def _judge(
    expect: dict[str, Any], turn: Turn, exchanges: Sequence[Exchange], given: list[str]
) -> Iterator[Failure]:
    for one in exchanges:
        if one.error:
            yield Failure("error", one.error)
    yield from judge_calls(expect, turn.calls)
    last = exchanges[-1]
    if last.answer or not last.error:
        yield from judge_answer(expect, turn.answer, turn.asked)
    reply = last.reply
    yield from judge_refusal(
        expect,
        turn.answer,
        was_asked=turn.asked,
        was_refused=reply is not None and reply.stop_reason in _REFUSED,
    )
    # What is asked through AMAZON.UserInput is a question, however it is written.
    stated = "\n".join(one.answer for one in exchanges if not one.asked)
    yield from judge_inventions(stated, given)


# -- running and showing -------------------------------------------------------------------------


def run(conversations: Sequence[Conversation], model: str | Model, console: Console) -> list[Held]:
    """Holds all conversations, saying after each turn how it went, and showing each at its end."""
    done = []
    with Agents(model) as agents:
        for number, conversation in enumerate(conversations, 1):
            held = Held(conversation)
            with open_scratch():
                agent = agents.load(conversation.folder)
                for turn in hold(agent, conversation, f"conversation-{number}"):
                    held.turns.append(turn)
                    console.print(_progress(held))
            console.print(table(held))
            done.append(held)
    return done


def _progress(held: Held) -> Text:
    turn, of = held.turns[-1], len(held.conversation.turns)
    mark = ("right", "green") if turn.right else ("wrong", "red")
    place = f" {held.conversation.id} {len(held.turns)}/{of} {turn.seconds:.1f} s"
    return Text.assemble(mark, place)


@dataclass(frozen=True)
class Totals:
    """The figures of some turns."""

    of: int
    right: int
    side_effects: int  # calls
    invented: int  # turns
    median_seconds: float
    first_turn_seconds: float

    @classmethod
    def sum(cls, turns: Sequence[Turn]) -> Totals:
        """The figures; there must be a turn."""
        seconds = [turn.seconds for turn in turns]
        return cls(
            len(turns),
            sum(turn.right for turn in turns),
            sum(turn.count("side_effect") for turn in turns),
            sum(turn.count("invented") for turn in turns),
            round(statistics.median(seconds), 3),
            round(seconds[0], 3),
        )


def table(held: Held) -> Table:
    """One row a turn: what was said, what was called and answered, and which checks failed."""
    right, of = sum(turn.right for turn in held.turns), len(held.turns)
    one = held.conversation
    title = Text(f"{one.id} ({one.agent}): {right} of {of} turns right")
    shown = Table(title=title, show_lines=True)
    for heading in ("the user", "calls", "answer and what was wrong", "s"):
        shown.add_column(heading, overflow="fold")
    for turn in held.turns:
        told = Text(turn.answer.strip())
        for failure in turn.failures:
            told.append(f"\n✗ {failure.check}: {failure.detail}", "red")
        shown.add_row(
            Text("\n".join(turn.said)),
            Text("\n".join(map(show_call, turn.calls)) or "none"),
            told,
            f"{turn.seconds:.1f}",
        )
    return shown


def totals(done: Sequence[Held]) -> Table:
    """The figures of each agent, and of all."""
    shown = Table(
        *("agent", "right", "of", "side effects", "invented", "median s a turn", "first turn s")
    )
    for agent in [*dict.fromkeys(held.conversation.agent for held in done), "all"]:
        some = [held for held in done if agent in ("all", held.conversation.agent)]
        sums = Totals.sum(turns_of(some))
        shown.add_row(
            *(
                Text(agent),
                str(sums.right),
                str(sums.of),
                str(sums.side_effects),
                str(sums.invented),
            ),
            *(f"{sums.median_seconds:.1f}", f"{sums.first_turn_seconds:.1f}"),
        )
    return shown


def turns_of(done: Sequence[Held]) -> list[Turn]:
    """All turns, in order."""
    return [turn for held in done for turn in held.turns]


def report(done: Sequence[Held], model: str) -> dict[str, Any]:
    """All that was said, done and found wrong, as JSON data."""
    return {
        "model": model,
        **asdict(Totals.sum(turns_of(done))),
        "conversations": [
            {
                "id": held.conversation.id,
                "agent": held.conversation.agent,
                "kinds": held.conversation.kinds,
                "turns": [_turn_report(turn) for turn in held.turns],
            }
            for held in done
        ],
    }


def _turn_report(turn: Turn) -> dict[str, Any]:
    failures = [failure._asdict() for failure in turn.failures]
    return {**asdict(turn), "failures": failures, "right": turn.right}


def main(arguments: list[str] | None = None) -> int:
    """Runs the evaluation; 1 when fewer turns than `--min` are right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=HERE / "conversations.jsonl",
        help="conversations, one JSON object a line; ours by default",
    )
    parser.add_argument("--model", default="local", help="model spec, for example local:0.5b")
    parser.add_argument("--only", default="", help="conversations whose kind, agent or id is this")
    parser.add_argument("--json", type=Path, help="write every turn to this file")
    parser.add_argument("--min", type=int, default=0, help="fail when fewer turns are right")
    given = parser.parse_args(arguments)
    try:
        listed = read_conversations(given.file)
    except ValidationError as error:
        parser.error(str(error))
    chosen = [one for one in listed if given.only in ("", one.id, one.agent, *one.kinds)]
    if not chosen:
        parser.error(f"no conversation of {given.file} has the kind, agent or id {given.only!r}")
    console = Console()
    done = run(chosen, given.model, console)
    console.print(totals(done))
    result = report(done, given.model)
    if given.json:
        given.json.write_text(json.dumps(result, indent=2, ensure_ascii=False), encoding="utf-8")
    return 1 if result["right"] < given.min else 0


if __name__ == "__main__":
    sys.exit(main())
