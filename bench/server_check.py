"""Whether every answer was that of its own question, and whether the journals say the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench.server_clients import Asked
from bench.server_model import TOKEN
from orchestrator import Agent


class Kept(NamedTuple):
    """What the journals say.

    Attributes:
        turns: How many there are.
        answered: How many a client was told the answer of.
        unheard: Those that ended whole, and whose client was cut off before it heard.
        unfinished: Those that have no answer, because their worker was killed.
        wrong: What is wrong; empty when nothing is.
    """

    turns: int = 0
    answered: int = 0
    unheard: int = 0
    unfinished: int = 0
    wrong: tuple[str, ...] = ()

    def told(self) -> str:
        return (
            f"{self.turns} turns in the journals, {self.answered} answered, {self.unheard} whole "
            f"but unheard, {self.unfinished} unfinished; wrong: {list(self.wrong[:5]) or 'none'}"
        )


def by_session(asked: Iterable[Asked]) -> dict[str, list[Asked]]:
    found: dict[str, list[Asked]] = defaultdict(list)
    for it in asked:
        found[it.session].append(it)
    return found


def check_answers(asked: list[Asked], action: bool, *, strict: bool) -> None:
    """Fails unless each answer tells the questions of its own session, in order, its own last.

    Args:
        asked: The questions, each client's in order.
        action: Whether each looked something up.
        strict: Whether no question may have failed; else answers may tell of those that did.
    """
    for session, those in by_session(asked).items():
        before: list[str] = []
        failed: set[str] = set()
        for it in those:
            if it.error:
                assert not strict, f"{it.token}: {it.error}"
                failed.add(it.token)
                before.append(it.token)
                continue
            seen, _, found = it.answer.removeprefix("seen ").partition("; found ")
            tokens = seen.split()
            told = [token for token in (*before, it.token) if token in tokens]
            missing = {*before, it.token} - set(tokens) - failed
            assert tokens == told and not missing, f"{session}, {it.token}: {it.answer!r}"
            assert not action or found == f"entry {it.token}", f"{it.token}: {it.answer!r}"
            before.append(it.token)


def check_journal(
    folder: Path, model: str, state: Path, asked: list[Asked], *, strict: bool
) -> Kept:
    """Compares the journals with what clients were told.

    Args:
        folder: The agent's.
        model: Its model.
        state: The sessions' file.
        asked: The questions, each client's in order.
        strict: Whether no question may have failed.
    """
    agent = Agent.load(folder, model=model, sessions=state)
    wrong: list[str] = []
    count: Counter[str] = Counter()
    for session, those in by_session(asked).items():
        turns = agent.turns(session)
        places = [TOKEN.findall(turn.question)[0] for turn in turns]
        known = [it.token for it in those if it.token in places]
        if places != known:
            wrong.append(f"{session}: asked {known}, kept {places}")
        kept = dict(zip(places, turns, strict=True))
        for it in those:
            turn = kept.get(it.token)
            if not it.error and (turn is None or turn.text != it.answer):
                wrong.append(f"{it.token}: told {it.answer!r}, kept {turn}")
            if it.error and strict:
                wrong.append(f"{it.token}: {it.error}")
            if turn is not None:
                whole = turn.stop_reason == "end_turn"
                kind = "answered" if not it.error else "unheard" if whole else "unfinished"
                count[kind] += 1
                count["turns"] += 1
    return Kept(**count, wrong=tuple(wrong))
