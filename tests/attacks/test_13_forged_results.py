"""Attack 13: results of a return of control that are forged, replayed or late."""

from __future__ import annotations

import copy
import threading
import uuid
from typing import Any

import pytest
from whole_agents import XML, agent, answer

from orchestrator import ActionGroup, Agent, ReturnControl, SessionConflict, ValidationError
from orchestrator.sessions import Sessions
from orchestrator.testing import FakeClock

FUNCTIONS = [
    {"name": name, "description": "d", "parameters": {"account": {"type": "string"}}}
    for name in ("transfer", "close")
]
CALL = ("bank::transfer", {"account": "A-1"})


def bank(clock: FakeClock | None = None, replies: int = 4) -> Agent:
    script = [XML.calls(CALL), XML.calls(CALL), *[answer("Done.")] * replies]
    group = ActionGroup("bank", functions=FUNCTIONS, executor=ReturnControl())
    return agent(XML.model(script), [group], sessions=Sessions(clock=clock or FakeClock()))


def model(asked: Agent) -> Any:
    return asked.plan.orchestration.model


def handed_over(asked: Agent, session_id: str = "s-1") -> dict[str, Any]:
    """The right results of the session's hand-over."""
    control = asked.invoke("Transfer", session_id).return_control
    assert control is not None
    return control.answer({"transfer": "done"})


def first(results: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = results["returnControlInvocationResults"][0]["functionResult"]
    return found


def other_id(results: dict[str, Any]) -> None:
    results["invocationId"] = str(uuid.uuid4())


def other_function(results: dict[str, Any]) -> None:
    first(results)["function"] = "close"


def other_group(results: dict[str, Any]) -> None:
    first(results)["actionGroup"] = "post"


def as_an_api(results: dict[str, Any]) -> None:
    forged = {"actionGroup": "bank", "apiPath": "/transfer", "httpMethod": "POST"}
    results["returnControlInvocationResults"] = [{"apiResult": forged}]


def one_more(results: dict[str, Any]) -> None:
    results["returnControlInvocationResults"] *= 2


def none_at_all(results: dict[str, Any]) -> None:
    results["returnControlInvocationResults"] = []


def no_id(results: dict[str, Any]) -> None:
    del results["invocationId"]


@pytest.mark.parametrize(
    "forge", [other_id, other_function, other_group, as_an_api, one_more, none_at_all, no_id]
)
def test_forged_results_are_refused_and_the_hand_over_still_waits(forge: Any) -> None:
    asked = bank()
    results = handed_over(asked)
    forged = copy.deepcopy(results)
    forge(forged)
    with pytest.raises(ValidationError):
        asked.invoke(session_id="s-1", results=forged)
    assert len(model(asked).requests) == 1
    model(asked)._replies[1] = answer("Done.")
    assert asked.invoke(session_id="s-1", results=results).text == "Done."


def test_another_session_s_results_are_refused() -> None:
    asked = bank()
    mine, others = handed_over(asked, "s-1"), handed_over(asked, "s-2")
    assert mine["invocationId"] != others["invocationId"]
    for session_id, results in (("s-1", others), ("s-2", mine), ("s-3", mine)):
        with pytest.raises(ValidationError, match="no call waits"):
            asked.invoke(session_id=session_id, results=results)
    assert asked.invoke(session_id="s-1", results=mine).text == "Done."


def test_ids_cannot_be_guessed_from_each_other() -> None:
    ids = {handed_over(bank())["invocationId"] for _ in range(20)}
    assert len(ids) == 20
    assert all(str(uuid.UUID(one)) == one for one in ids)


def test_the_same_results_again_are_the_same_reply_and_others_a_conflict() -> None:
    asked = bank()
    model(asked)._replies[1] = answer("Done.")
    results = handed_over(asked)
    reply = asked.invoke(session_id="s-1", results=results)
    again = asked.invoke(session_id="s-1", results=copy.deepcopy(results))
    assert (again.text, again.stop_reason) == (reply.text, reply.stop_reason)
    assert len(model(asked).requests) == 2
    first(results)["responseBody"]["TEXT"]["body"] = "refused"
    with pytest.raises(SessionConflict):
        asked.invoke(session_id="s-1", results=results)
    assert len(model(asked).requests) == 2


def test_late_results_are_refused() -> None:
    clock = FakeClock()
    asked = bank(clock)
    results = handed_over(asked)
    clock.advance(1801)
    with pytest.raises(ValidationError, match="expired"):
        asked.invoke(session_id="s-1", results=results)


def test_results_of_a_session_that_was_ended_are_refused() -> None:
    asked = bank()
    results = handed_over(asked)
    asked.end_session("s-1")
    with pytest.raises(ValidationError, match="no call waits"):
        asked.invoke(session_id="s-1", results=results)


def test_results_of_a_turn_that_was_given_up_are_refused() -> None:
    asked = bank()
    model(asked)._replies[1] = answer("Something else.")
    results = handed_over(asked)
    asked.invoke("Never mind", "s-1")
    with pytest.raises(ValidationError, match="no call waits"):
        asked.invoke(session_id="s-1", results=results)


def test_identical_results_at_once_are_taken_once() -> None:
    asked = bank()
    model(asked)._replies[1] = answer("Done.")
    results = handed_over(asked)
    barrier, outcomes = threading.Barrier(8), []

    def resume() -> None:
        barrier.wait()
        try:
            outcomes.append(asked.invoke(session_id="s-1", results=results).text)
        except SessionConflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=resume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"Done.", "conflict"}
    assert "Done." in outcomes
    assert len(model(asked).requests) == 2
