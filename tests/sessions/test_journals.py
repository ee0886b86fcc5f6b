"""Journals of every version: each is read, shown and gone on with; a newer one is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from journal_cases import CASES, HOST, SESSION, Script, journal_of

from orchestrator import (
    DependencyFailed,
    FlowError,
    OrchestratorError,
    SessionConflict,
    Sessions,
)
from orchestrator.actions.catalog import Catalog
from orchestrator.engine.trace.past_turns import load_past_turns
from orchestrator.flows import state
from orchestrator.sessions import Record, journal, records
from orchestrator.sessions.journal import VERSION
from orchestrator.testing import FakeClock, InMemoryStore

FOLDER = Path(__file__).with_name("journals")
VERSIONS = [f"v{number}" for number in range(VERSION + 1)]
FREE = FakeClock().now + 3600 * 10**9
"""A time at which nobody holds the turns any more."""


def read(version: str) -> dict[str, Any]:
    journals: dict[str, Any] = json.loads((FOLDER / f"{version}.json").read_text())
    return journals


JOURNALS = {version: read(version) for version in VERSIONS}
EACH = [(version, case) for version in VERSIONS for case in CASES]


class Durable(InMemoryStore):
    """Journals in memory that are taken for another process's."""

    durable = True


def sessions_with(version: str, case: str, count: int | None = None, now: int = FREE) -> Sessions:
    """Sessions whose store has the first `count` records of a case."""
    sessions = Sessions(Durable(), clock=FakeClock(now))
    kept = JOURNALS[version][case]
    sessions.store.append(
        sessions.key(kept["label"]), 0, kept["records"][:count], label=kept["label"], at=1
    )
    return sessions


def unfinished() -> Iterator[Any]:
    """Every place of every journal where a process may have stopped."""
    for version, case in EACH:
        kinds = [one["kind"] for one in JOURNALS[version][case]["records"]]
        ends = kinds.index("end") if "end" in kinds else kinds.index("suspend")
        for count in range(1, ends + 1):
            yield pytest.param(version, case, count, id=f"{version}-{case}-{count}")


@pytest.mark.parametrize(("version", "case"), EACH)
def test_a_journal_is_shown(version: str, case: str) -> None:
    sessions = sessions_with(version, case)
    asked, _ = CASES[case](sessions)
    kept = JOURNALS[version][case]
    plan = asked.plan if asked is not None else None
    (turn,) = load_past_turns(sessions, kept["label"], plan)
    (end,) = [one for one in kept["records"] if one["kind"] in ("end", "suspend")]
    assert (turn.text, turn.question) == (end.get("text", ""), kept["records"][0]["question"])
    assert turn.stop_reason == end.get("stop_reason", "return_control")
    if asked is None:
        return
    replies = [one for one in kept["records"] if one.get("stage") == "ORCHESTRATION"]
    shown = json.dumps(turn.trace).count('"modelInvocationOutput"')
    assert shown == len(replies)
    assert not turn.has_changed or version != f"v{VERSION}"


@pytest.mark.parametrize(("version", "case", "count"), list(unfinished()))
def test_a_turn_goes_on_from_any_place(version: str, case: str, count: int) -> None:
    records = JOURNALS[version][case]["records"]
    _, begin = CASES[case](sessions_with(version, case, count))
    (*_, last) = [one for one in records if one["kind"] in ("end", "suspend")]
    begun = {it["key"] for one in records[:count] if one["kind"] == "intent" for it in one["calls"]}
    ended = [one for one in records[:count] if one["kind"] == "action"]
    if len(begun) > len(ended):  # nobody knows whether the call took effect
        with pytest.raises(OrchestratorError, match="nobody knows whether"):
            begin()
        return
    reply = begin()
    if last["kind"] == "suspend":
        assert reply.return_control.invocation_id == last["invocation_id"]
    else:
        assert getattr(reply, "reply", reply).text == last["text"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_turn_that_waits_takes_its_results(version: str) -> None:
    sessions = sessions_with(version, "return_control")
    asked, _ = CASES["return_control"](sessions)
    suspended = JOURNALS[version]["return_control"]["records"][-1]
    result = {"actionGroup": "house", "function": "open_door"}
    body = {"responseBody": {"TEXT": {"body": "open"}}}
    results = {
        "invocationId": suspended["invocation_id"],
        "returnControlInvocationResults": [{"functionResult": {**result, **body}}],
    }
    assert asked.invoke(session_id=SESSION, results=results).text == "Done."
    assert asked.invoke(session_id=SESSION, results=results).text == "Done."


@pytest.mark.parametrize("version", VERSIONS)
def test_a_conversation_goes_on(version: str) -> None:
    model = Script()
    asked, _ = CASES["ask_tool"](sessions_with(version, "ask_tool"), model)
    assert asked.invoke("And Bob?", SESSION).text == "Done."
    (request,) = model.asked
    assert "How many days?" in str(request.messages) and "12 for E-1" in str(request.messages)


@pytest.mark.parametrize("version", VERSIONS)
def test_another_process_holds_its_turn_until_its_time_is_over(version: str) -> None:
    _, begin = CASES["ask_tool"](sessions_with(version, "ask_tool", 2, FakeClock().now))
    if JOURNALS[version]["ask_tool"]["records"][0]["owner"] == HOST:
        with pytest.raises(SessionConflict, match=r"^session 's-1' is busy in another process"):
            begin()


def test_a_journal_of_a_newer_program_is_refused_by_its_version() -> None:
    sessions = sessions_with("v1", "ask_tool", 0)
    first, *others = JOURNALS["v1"]["ask_tool"]["records"]
    label = JOURNALS["v1"]["ask_tool"]["label"]
    sessions.store.append(sessions.key(label), 0, [{**first, "v": VERSION + 1}, *others])
    asked, begin = CASES["ask_tool"](sessions)
    attempts = (begin, lambda: sessions.peek(label), lambda: asked.turns(SESSION))
    for attempt in attempts:
        with pytest.raises(DependencyFailed) as refused:
            attempt()
        assert f"version {VERSION + 1} of the journal" in refused.value.message
        assert "update this program, or use another session id" in refused.value.message
        assert "delete the session" not in refused.value.message


@pytest.mark.parametrize("version", [-1, "2", None, {}, 1.5])
def test_what_is_no_version_is_a_broken_record(version: Any) -> None:
    first = JOURNALS["v1"]["ask_tool"]["records"][0]
    with pytest.raises(records.RecordError, match="has no proper version"):
        records.upgrade_record({**first, "v": version})


@pytest.mark.parametrize("member", ["model", "code", "raw", "stop_sequence"])
def test_what_names_a_model_or_its_reply_is_a_text(member: str) -> None:
    label, kept = JOURNALS["v1"]["ask_tool"]["label"], JOURNALS["v1"]["ask_tool"]["records"]
    broken = [{**it, member: ["a", "list"]} if it["kind"] == "model" else it for it in kept]
    sessions = sessions_with("v1", "ask_tool", 0)
    sessions.store.append(sessions.key(label), 0, broken)
    asked, _ = CASES["ask_tool"](sessions)
    with pytest.raises(DependencyFailed, match=f"'model' record without a proper '{member}'"):
        asked.turns(SESSION)


def test_a_claim_of_a_newer_program_is_refused() -> None:
    claim = {"kind": "claim", "v": VERSION + 1, "owner": "", "until": 0}
    with pytest.raises(records.RecordError, match=f"version {VERSION + 1} of the journal"):
        records.upgrade_record(claim)


def test_a_paused_flow_of_a_newer_program_is_refused() -> None:
    journal = JOURNALS["v1"]["parallel_loop"]["records"]
    newer = [{**journal[0], "v": VERSION + 1}]
    signed = state.state_of("digest", newer, {})
    with pytest.raises(FlowError, match=f"version {VERSION + 1} of the journal"):
        state.read_state(signed, "digest")
    old = [{key: value for key, value in journal[0].items() if key != "v"}]
    (upgraded,) = state.read_state(state.state_of("digest", old, {}), "digest")["journal"]
    assert upgraded["v"] == VERSION


# The types say what is written, and the table at the head of the module what it means.

TYPES = {get_type_hints(it)["kind"].__args__[0]: set(get_type_hints(it)) for it in records._RECORDS}


def members(kept: list[Record]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for record in kept:
        found.setdefault(record["kind"], set()).update(record)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_newest_file_is_what_the_program_writes(case: str, tmp_path: Path) -> None:
    # Who changes what is written raises the version, and adds a file and a step of the upgrade.
    written = journal_of(case, tmp_path)
    expected = JOURNALS[f"v{VERSION}"][case]
    assert members(written["records"]) == members(expected["records"])
    assert written["label"] == expected["label"]


@pytest.mark.parametrize(("version", "case"), EACH)
def test_every_member_has_a_type(version: str, case: str) -> None:
    for kind, names in members(JOURNALS[version][case]["records"]).items():
        assert names <= TYPES[kind]


def test_every_member_is_in_the_table() -> None:
    table = (journal.__doc__ or "").replace("\n  ", " ")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    assert rows.keys() == TYPES.keys()
    for kind, names in TYPES.items():
        told = set(re.findall(r"`(\w+)`", rows[kind]))
        if "the members of `end`" in rows[kind]:
            told |= set(re.findall(r"`(\w+)`", rows["end"]))
        assert names - {"kind", "branch", "notes"} <= told, kind


# What is wrong with a record, and what is wrong with the program.


def test_a_defect_is_not_taken_for_a_broken_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("a defect")

    _, begin = CASES["ask_tool"](sessions_with("v1", "ask_tool", 2))
    monkeypatch.setattr(Catalog, "find", fail)
    with pytest.raises(KeyError, match="a defect"):
        begin()


@pytest.mark.parametrize("junk", [None, {}, {"orchestrationParsedResponse": 7}, {"x": 1}])
def test_a_reply_that_fits_no_stage_is_a_broken_journal(junk: Any) -> None:
    sessions = sessions_with("v1", "ask_tool", 1)
    label = JOURNALS["v1"]["ask_tool"]["label"]
    reply = JOURNALS["v1"]["ask_tool"]["records"][1]
    sessions.store.append(sessions.key(label), 1, [{**reply, "response": junk}])
    _, begin = CASES["ask_tool"](sessions)
    with pytest.raises(OrchestratorError, match="delete the session"):
        begin()
