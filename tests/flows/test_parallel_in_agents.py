"""Loops of agents' scripts, side by side: sessions, teams, guardrails, hand-overs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import Echo, handed_over, program, statements

from orchestrator import ActionGroup, Agent, Collaborator, Flow, action
from orchestrator.errors import DependencyFailed, ThrottlingError
from orchestrator.testing import FakeGuardrail

LOOP = program("FOR $x in [1, 2, 3] PARALLEL:", "    Say $x about $question >> said", "END")


def made(flow: Flow, model: Any = None, **more: Any) -> Agent:
    return Agent("a", "You help people.", model or Echo(), orchestration=flow, **more)


def worker(name: str, model: Echo, **more: Any) -> Collaborator:
    helper = Agent(name, "You help people who ask.", model, **more)
    return Collaborator(helper, "Knows all.", "desk")


def test_later_turns_and_readers_find_the_session_as_it_was(tmp_path: Path) -> None:
    store = tmp_path / "sessions.sqlite"
    first = made(LOOP, sessions=store).invoke("tea", "s-1")
    asked = made(LOOP, sessions=store)
    assert asked.invoke("milk", "s-1").text == "<Say 3 about milk>"
    one, two = asked.turns("s-1")
    assert (one.text, two.text) == ("<Say 3 about tea>", "<Say 3 about milk>")
    assert statements(one.trace) == statements(first.trace)
    assert len(statements(one.trace)) == 4


def test_a_turn_that_failed_in_an_item_can_be_read_and_gone_on_from(tmp_path: Path) -> None:
    def answer(text: str) -> str | Exception:
        return ThrottlingError("slow down") if text == "Say 2 about tea" else text

    store = tmp_path / "sessions.sqlite"
    with pytest.raises(ThrottlingError, match="slow down"):
        made(LOOP, Echo(answer), sessions=store).invoke("tea", "s-1")
    asked = made(LOOP, Echo(answer), sessions=store)
    (failed,) = asked.turns("s-1")
    parts = [kind for part in failed.trace for kind in part["trace"]]
    assert parts.count("failureTrace") == 1
    assert "item 2, line 2: Say $x about $question >> said" in statements(failed.trace)
    assert asked.invoke("milk", "s-1").text == "Say 3 about milk"


def test_a_guardrail_checks_the_turn_and_not_each_item() -> None:
    guardrail = FakeGuardrail()
    asked = made(LOOP, guardrail=guardrail)
    assert asked.invoke("tea", "s-1").text == "<Say 3 about tea>"
    assert len(guardrail.checked) == 2


def test_what_the_guardrail_masked_stays_masked_in_items() -> None:
    model = Echo()
    asked = made(LOOP, model, guardrail=FakeGuardrail(masked={"secret": "WORD"}))
    asked.invoke("tea and secret", "s-1")
    assert len(model.asked) == 3
    assert not any("secret" in it for it in model.asked)


def test_collaborators_work_for_several_items_and_remember_them(tmp_path: Path) -> None:
    store = tmp_path / "sessions.sqlite"
    flow = program("FOR $x in [1, 2] PARALLEL:", "    @desk('$question $x') >> said", "END")

    def team(model: Echo) -> Agent:
        return made(flow, collaborators=[worker("helper", model)], sessions=store)

    first, second = Echo("<answer>{}</answer>".format), Echo("<answer>{}</answer>".format)
    one = team(first).invoke("tea", "s-1")
    asked = team(second)
    asked.invoke("milk", "s-1")
    assert len(first.asked) == 2
    assert all("tea 1" in it and "tea 2" in it for it in second.asked)
    chains = {len(part["callerChain"]) for part in one.trace}
    assert chains == {1, 2}
    names = {part.get("collaboratorName") for part in one.trace}
    assert names == {None, "desk"}


def test_a_collaborator_in_an_item_returns_control() -> None:
    def answer(text: str) -> str:
        if "paid" in text:
            return "done"
        return "?"

    flow = program(
        "FOR $x in [1, 2] PARALLEL:",
        "    @pay('$x') >> paid",
        "    Say $x -> b",
        "END",
        "$paid -> c",
    )
    asked = made(flow, Echo(answer), action_groups=[handed_over()])
    waits = asked.invoke("?", "s-1").return_control
    waits = asked.invoke(session_id="s-1", results=waits.answer("paid 1")).return_control
    again = asked.invoke(session_id="s-1", results=waits.answer("paid 2"))
    assert again.text == "done"
    (turn,) = asked.turns("s-1")
    told = str(turn.trace)
    assert "paid 1" in told
    assert "paid 2" in told


def test_results_of_another_hand_over_are_refused(tmp_path: Path) -> None:
    flow = program("FOR $x in [1, 2] PARALLEL:", "    @pay('$x') >> paid", "END")
    given: dict[str, Any] = {"action_groups": [handed_over()], "sessions": tmp_path / "s.sqlite"}
    waits = made(flow, **given).invoke("?", "s-1").return_control
    first = waits.answer("one")
    second = made(flow, **given).invoke(session_id="s-1", results=first).return_control
    assert second.invocation_id != waits.invocation_id
    again = made(flow, **given).invoke(session_id="s-1", results=first)  # the same once more
    assert again.return_control.invocation_id == second.invocation_id
    last = made(flow, **given).invoke(session_id="s-1", results=second.answer("two"))
    assert last.text == "two"


def test_items_stream_nothing_as_the_answer() -> None:
    events = list(made(LOOP).stream("tea", "s-1"))
    texts = [it.text for it in events if hasattr(it, "text") and not hasattr(it, "reply")]
    assert "".join(texts) == "<Say 3 about tea>"


def test_a_confirmed_action_waits_for_each_item() -> None:
    paid: list[str] = []

    @action(require_confirmation=True)
    def pay(to: str) -> str:
        """Pays."""
        paid.append(to)
        return f"paid {to}"

    functions = ActionGroup("bank", [pay])
    flow = program(
        "FOR $x in ['a', 'b'] PARALLEL:", "    @pay($x) >> done", "END", "@pay('c') -> d"
    )
    asked = made(flow, action_groups=[functions])
    waits = asked.invoke("?", "s-1").return_control
    waits = asked.invoke(session_id="s-1", results=waits.answer(True)).return_control
    assert paid == ["a"]
    waits = asked.invoke(session_id="s-1", results=waits.answer(True)).return_control
    assert paid == ["a", "b"]
    assert asked.invoke(session_id="s-1", results=waits.answer(True)).text == "paid c"


class Down:
    """A knowledge base that cannot be reached."""

    id = "DOWN123456"
    description = "Nothing."

    def retrieve(self, query: str, configuration: Any = None) -> list[dict[str, Any]]:
        raise DependencyFailed("the base is down", resource=self.id)


@pytest.mark.parametrize("header", ["", "FOR $x in [1, 2] PARALLEL:"])
def test_an_agent_of_the_program_does_not_go_on_after_a_search_failed(header: str) -> None:
    model = Echo(lambda _: '=>$GET__x_amz_knowledgebase_DOWN123456__Search: {"query": "x"}')
    line = "@agent(type='bambo', task='Find it', tools=['search']) -> team"
    flow = program(header, f"    {line}", "END") if header else program(line)
    asked = made(flow, model, knowledge_bases=[Down()])
    with pytest.raises(DependencyFailed, match="the base is down"):
        asked.invoke("?", "s-1")
    assert len(model.asked) <= 2
