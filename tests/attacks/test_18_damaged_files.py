"""Attack 18: files whose bytes a disk has changed: what was written is read, or a typed error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from whole_agents import NATIVE, agent, answer

from orchestrator import Agent, DependencyFailed, SessionConflict, Sessions, SQLiteStore

SESSIONS = ("s-1", "s-2", "s-3")
TURNS = 4
COPIES = 360
SEED = 18
# An account that is long enough for a session to have several pages of the file.
LONG = "The claim was paid, and the letter was sent. " * 30

Turns = list[tuple[str, str]]


def open_agent(file: Path, *script: object) -> Agent:
    store = SQLiteStore(file)
    return agent(NATIVE.model(list(script)), sessions=Sessions(store))


def turns_of(asked: Agent, session: str) -> Turns:
    return [(turn.question, turn.text) for turn in asked.turns(session)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Turns]]:
    """A file of sessions, and what was said in them."""
    file = tmp_path_factory.mktemp("whole") / "sessions.db"
    said: dict[str, Turns] = {session: [] for session in SESSIONS}
    asked = open_agent(file, *(answer(f"{LONG}{number}") for number in range(12)))
    for number in range(TURNS):
        for session in SESSIONS:
            question = f"{LONG}What of {session}, {number}?"
            said[session].append((question, asked.invoke(question, session).text))
    asked.sessions.store.close()
    return file.read_bytes(), said


def damaged(data: bytes) -> Iterator[bytes]:
    """Copies with a few other bytes in one page each, every page several times."""
    chance = random.Random(SEED)
    size = int.from_bytes(data[16:18], "big")
    for number in range(COPIES):
        page = number % (len(data) // size)
        copy = bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 8])):
            # The first page's head decides what the file is; it is short, and hit more often.
            within = chance.randrange(100) if not page and chance.random() < 0.5 else None
            place = page * size + (chance.randrange(size) if within is None else within)
            copy[place] ^= chance.choice([1 << chance.randrange(8), chance.randrange(1, 256)])
        yield bytes(copy)


@pytest.mark.exhaustive
def test_a_changed_byte_is_never_read_as_what_was_said(
    whole: tuple[bytes, dict[str, Turns]], tmp_path: Path
) -> None:
    data, said = whole
    wrong: dict[str, int] = {}
    detected = 0
    for number, copy in enumerate(damaged(data)):
        file = tmp_path / f"{number}.db"
        file.write_bytes(copy)
        for outcome in read_and_go_on(file, said):
            detected += outcome == "typed"
            if outcome not in ("typed", "exact"):
                wrong[outcome] = wrong.get(outcome, 0) + 1
        file.unlink()
    assert wrong == {}
    assert detected > COPIES // 4


def read_and_go_on(file: Path, said: dict[str, Turns]) -> Iterator[str]:
    """What came of reading each session, and of one more turn in it: `exact`, `typed` or worse."""
    try:
        asked = open_agent(file, *[answer("Yes.")] * len(said))
    except DependencyFailed as error:
        yield "typed" if str(file) in str(error) else "nameless"
        return
    for session, before in said.items():
        yield outcome_of(asked, file, session, before)
    for session, before in said.items():
        try:
            asked.invoke("And now?", session)
        except SessionConflict:
            yield "a conflict"
        except DependencyFailed:
            yield "typed"
        except Exception as error:
            yield f"foreign: {type(error).__name__}"
        else:
            yield outcome_of(asked, file, session, [*before, ("And now?", "Yes.")])
    asked.sessions.store.close()


def outcome_of(asked: Agent, file: Path, session: str, said: Turns) -> str:
    try:
        return "exact" if turns_of(asked, session) == said else "a silent change"
    except DependencyFailed as error:
        return "typed" if str(file) in str(error) else "nameless"
    except Exception as error:
        return f"foreign: {type(error).__name__}"
