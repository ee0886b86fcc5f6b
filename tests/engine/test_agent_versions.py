"""A turn was begun with another version of its agent: that version can still finish it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_turns import HOUSE, results_of
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import ActionGroup, Agent, ReturnControl, SessionConflict, SQLiteStore
from orchestrator.actions import ActionResult
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.testing import InMemoryStore, ScriptedModel

LIGHT = ("house::light", {"on": True})


def version(model: ScriptedModel, function: str, executor: Any, store: Any) -> Agent:
    functions = [{**one, "name": function} for one in HOUSE if one["name"] == "light"]
    group = ActionGroup("house", functions=functions, executor=executor)
    return Agent("house", INSTRUCTION, model, action_groups=[group], sessions=store)


class Never:
    """An executor of calls that the caller was asked to carry out."""

    def call(self, call: Any, context: Any) -> ActionResult:
        raise AssertionError("the caller was asked to do it")


def kinds(store: Any) -> list[str]:
    (info,) = store.list()
    return [record["kind"] for record in store.load(info.key)]


@pytest.mark.parametrize(
    ("function", "executor"),
    [("lamp", ReturnControl()), ("light", Never())],
    ids=["another name", "another executor"],
)
@pytest.mark.parametrize("make_store", [InMemoryStore, None], ids=["memory", "file"])
def test_results_of_another_version_leave_the_turn_waiting_for_it(
    function: str, executor: Any, make_store: Any, tmp_path: Path
) -> None:
    store = make_store() if make_store else SQLiteStore(tmp_path / "s.db")
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("On.")])
    first = version(model, "light", ReturnControl(), store)
    control = first.invoke("Light, please.", "s-1").return_control
    assert control is not None
    results = control.answer("it is on")
    changed = NATIVE.model([answer("Never.")])
    second = version(changed, function, executor, store)
    for _ in range(2):
        with pytest.raises(SessionConflict, match="another version of this agent"):
            second.invoke(session_id="s-1", results=results)
    assert changed.requests == []
    assert kinds(store) == ["turn", "model", "suspend"]
    assert first.invoke(session_id="s-1", results=results).text == "On."
    assert results_of(model.requests[1]) == ["it is on"]


class Kept(InMemoryStore):
    """Journals in memory that are taken for another process's."""

    durable = True


class Lamp:
    def call(self, call: Any, context: Any) -> ActionResult:
        return ActionResult("it is on")


def stopped(records: int) -> Kept:
    """A store with the first records of a turn whose process is gone."""
    whole, store = Kept(), Kept()
    model = NATIVE.model([NATIVE.calls(LIGHT), answer("On.")])
    version(model, "light", Lamp(), whole).invoke("Light, please.", "s-1")
    (info,) = whole.list()
    journal = [dict(record) for record in whole.load(info.key)[:records]]
    journal[0] |= {"owner": "other.example:1:1", "until": 1}
    store.append(info.key, 0, journal, label=info.label, at=journal[0]["at"])
    return store


@pytest.mark.parametrize("question", ["", "Light, please."])
@pytest.mark.parametrize("records", [3, 4], ids=["in its action", "after its action"])
def test_another_version_leaves_a_stopped_turn_as_it_is(records: int, question: str) -> None:
    store = stopped(records)
    changed = NATIVE.model([answer("Never.")])
    second = version(changed, "lamp", Lamp(), store)
    for _ in range(2):
        with pytest.raises(SessionConflict, match="another version of this agent"):
            second.invoke(question, "s-1")
    assert changed.requests == []
    assert kinds(store) == ["turn", "model", "intent", "action"][:records]
    first = version(NATIVE.model([answer("On.")]), "light", Lamp(), store)
    if records == 3:
        with pytest.raises(ActionOutcomeUnknown):
            first.invoke(question, "s-1")
    else:
        assert first.invoke(question, "s-1").text == "On."


def test_another_question_gives_the_turn_of_another_version_up() -> None:
    store = stopped(4)
    second = version(NATIVE.model([answer("Hello.")]), "lamp", Lamp(), store)
    assert second.invoke("Hello?", "s-1").text == "Hello."
    assert kinds(store)[4:] == ["end", "turn", "model", "end"]
