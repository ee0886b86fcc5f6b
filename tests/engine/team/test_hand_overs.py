"""What callers may answer to a collaborator's hand-over, and what they may not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from crew import function
from teams import agent, model_of
from test_traces import WAYS, Way
from trace_lines import find_problems, trace_lines

from orchestrator import (
    ActionGroup,
    Agent,
    ReturnControl,
    SessionConflict,
    SQLiteStore,
    ValidationError,
    action,
)


def team(**options: Any) -> Agent:
    visits = agent(
        "visits",
        {"Book": [{"calendar__book": {"day": "Monday"}}, "Booked."]},
        action_groups=[
            ActionGroup(
                "calendar", functions=[function("book", day="string")], executor=ReturnControl()
            )
        ],
    )
    plan = {"Go": [[("visits", "Book it.")], "It is booked."], "Never mind": ["As you like."]}
    return agent("boss", plan, visits, **options)


def test_forged_results_change_nothing(tmp_path: Path) -> None:
    boss = team(sessions=SQLiteStore(tmp_path / "s.db"))
    control = boss.invoke("Go!", "s-1").return_control
    assert control is not None
    good = control.answer("Monday")
    other_id = {**good, "invocationId": "00000000-0000-4000-8000-000000000000"}
    other_action = copy.deepcopy(good)
    other_action["returnControlInvocationResults"][0]["functionResult"]["function"] = "cancel"
    too_many = {
        **good,
        "returnControlInvocationResults": [*good["returnControlInvocationResults"]] * 2,
    }
    for forged in (
        other_id,
        other_action,
        too_many,
        {**good, "returnControlInvocationResults": []},
    ):
        with pytest.raises(ValidationError):
            boss.invoke(session_id="s-1", results=forged)
        with pytest.raises(ValidationError):
            boss.invoke(session_id="s-2", results=good)
    again = team(sessions=SQLiteStore(tmp_path / "s.db"))
    assert again.invoke(session_id="s-1", results=good).text == "It is booked."
    # Other results for the same hand-over are a conflict, the same ones give the same reply.
    with pytest.raises(SessionConflict):
        again.invoke(session_id="s-1", results=control.answer("Tuesday"))
    assert again.invoke(session_id="s-1", results=good).text == "It is booked."
    assert len(model_of(again).requests) == 1


def test_another_question_gives_the_hand_over_up() -> None:
    boss = team()
    control = boss.invoke("Go!", "s-1").return_control
    assert control is not None
    assert boss.invoke("Never mind.", "s-1").text == "As you like."
    with pytest.raises(ValidationError, match="no call waits for results"):
        boss.invoke(session_id="s-1", results=control.answer("Monday"))
    assert [turn.stop_reason for turn in boss.turns("s-1")] == ["cancelled", "end_turn"]
    assert find_problems(boss.turns("s-1")[0].trace) == []


@pytest.mark.parametrize("confirmed", [True, False])
def test_the_user_confirms_what_a_collaborator_is_about_to_do(confirmed: bool) -> None:
    paid: list[str] = []

    @action(require_confirmation=True)
    def pay(to: str) -> str:
        """Pays somebody."""
        paid.append(to)
        return f"paid {to}"

    bank = agent(
        "bank",
        {"Pay": [{"till__pay": {"to": "ann"}}, "That was that."]},
        action_groups=[ActionGroup("till", [pay])],
    )
    boss = agent("boss", {"Go": [[("bank", "Pay Ann.")], "Done."]}, bank)
    control = boss.invoke("Go!", "s-1").return_control
    assert control is not None and paid == []
    call = control.invocation_inputs[0]["functionInvocationInput"]
    assert (call["collaboratorName"], call["actionInvocationType"]) == (
        "bank",
        "USER_CONFIRMATION",
    )
    reply = boss.invoke(session_id="s-1", results=control.answer(confirmed))
    assert reply.text == "Done."
    assert paid == (["ann"] if confirmed else [])
    assert find_problems(reply.trace) == []
    assert any("LAMBDA:pay" in line for line in trace_lines(reply.trace)) is confirmed


def test_a_failed_result_is_the_collaborators_to_mend() -> None:
    boss = team()
    control = boss.invoke("Go!", "s-1").return_control
    assert control is not None
    results = control.answer("there is no Monday")
    results["returnControlInvocationResults"][0]["functionResult"]["responseState"] = "REPROMPT"
    assert boss.invoke(session_id="s-1", results=results).text == "It is booked."
    visits = boss.plan.collaborators["visits"].agent
    assert visits is not None
    assert "there is no Monday" in str(visits.orchestration.model.requests[-1].messages)  # type: ignore[attr-defined]


def waiting(name: str, *calls: str) -> Agent:
    """An agent that hands over one call after the other."""
    group = ActionGroup("g", functions=[function(call) for call in calls], executor=ReturnControl())
    plan = {"Go": [*({f"g__{call}": {}} for call in calls), f"{name} is done."]}
    return agent(name, plan, action_groups=[group])


@WAYS
def test_two_that_wait_are_told_once_while_they_go_on(way: Way) -> None:
    plan = {"Go": [[("one", "Go."), ("two", "Go.")], "All done."]}
    boss = agent("boss", plan, waiting("one", "a", "b"), waiting("two", "c"))
    parts, reply = way(boss, question="Go!", session_id="s-1")
    shown = [len(parts)]
    while (control := reply.return_control) is not None:
        assert sorted(trace_lines(parts)) == sorted(trace_lines(reply.trace))
        parts, reply = way(boss, session_id="s-1", results=control.answer("Yes."))
        shown.append(len(parts))
    assert (
        sorted(trace_lines(parts)) == sorted(trace_lines(reply.trace))
        and find_problems(parts) == []
    )
    assert (reply.text, shown) == ("All done.", [14, 7, 7, 9])
