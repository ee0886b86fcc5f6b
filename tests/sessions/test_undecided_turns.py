"""An action whose outcome nobody knows suspends its turn until somebody says what became of it."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import uuid4

import pytest
from left_turns import CALL, Bank, Knowing, Places
from whole_agents import NATIVE, answer, texts_of

from orchestrator import Agent, SessionConflict, ValidationError
from orchestrator.actions import ActionResult
from orchestrator.engine.undecided_calls import Undecided, UndecidedCall
from orchestrator.errors import ActionOutcomeUnknown, DefinitionError
from orchestrator.sessions import session_label

PAID = answer("Paid.")


def kinds(agent: Agent, session: str = "s-1") -> list[str]:
    label = session_label(agent.plan.owner, session)
    found = [record["kind"] for record in agent.sessions.records(label)]
    return [kind for kind in found if kind != "claim"]


def last_prompt(agent: Agent) -> str:
    model: Any = agent.plan.stages["ORCHESTRATION"].model
    return str(texts_of(model.requests[-1]))


def test_recovery_suspends_the_turn_and_says_what_is_undecided(places: Places) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank)
    (turn,) = agent.recover()
    assert turn.outcome == "undecided" and turn.open_decision is not None
    (undecided,) = agent.find_undecided()
    assert undecided == turn.open_decision
    assert (undecided.session_id, undecided.question) == ("s-1", "Pay Ann")
    (call,) = undecided.calls
    assert (call.key, call.name) == (key, "bank::pay")
    given = call.input["functionInvocationInput"]
    assert given["parameters"] == [{"name": "to", "type": "string", "value": "ann"}]
    assert given["actionInvocationType"] == "USER_CONFIRMATION_AND_RESULT"
    assert bank.keys == [] and agent.recover() == []
    (past,) = agent.turns("s-1")
    assert (past.id, past.stop_reason) == (undecided.turn_id, "undecided")
    assert "bank" in str(past.trace[-1])
    assert places.agent(bank, name="other").find_undecided() == []
    assert undecided.as_dict()["calls"][0]["key"] == key


def test_recovery_reads_what_waits_once(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, PAID)
    read: list[str] = []
    store: Any = agent.sessions.store
    load = store.load

    def count(key: str, first: int = 0) -> Any:
        read.append(key)
        return load(key, first)

    agent.recover()
    monkeypatch.setattr(store, "load", count)
    assert agent.recover() == [] and len(read) <= 1
    assert agent.recover() == [] and len(read) <= 1
    assert [one.calls[0].key for one in agent.find_undecided()] == [key]
    assert agent.decide("s-1", repeat=[key]).text == "Paid."
    read.clear()
    assert agent.recover() == [] and read == []


def test_it_happened(places: Places) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, PAID)
    agent.recover()
    reply = agent.decide("s-1", happened={key: {"receipt": 7}})
    assert (reply.text, bank.keys) == ("Paid.", [])
    assert '{"receipt": 7}' in last_prompt(agent)
    assert kinds(agent) == [
        *("turn", "model", "intent", "suspend", "decided", "action", "model", "end")
    ]
    assert agent.find_undecided("s-1") == []
    (turn,) = agent.turns("s-1")
    assert "receipt" in str(turn.trace) and turn.stop_reason == "end_turn"
    assert [step.kind for step in turn.steps()] == [
        *("model", "return_control", "decision", "action", "model")
    ]


def test_it_did_not_and_is_carried_out_with_the_same_key(places: Places) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, PAID)
    agent.recover()
    assert agent.decide("s-1", repeat=["bank::pay"]).text == "Paid."
    assert bank.keys == [key]
    assert kinds(agent)[4:] == ["decided", "intent", "action", "model", "end"]


def test_given_up(places: Places) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, answer("I do not know."))
    agent.recover()
    with pytest.raises(ActionOutcomeUnknown, match=key) as failed:
        agent.decide("s-1", give_up=[key])
    assert failed.value.undecided is None
    assert agent.invoke("Did you pay?", "s-1").text == "I do not know."
    assert "whether it took effect is not known" in last_prompt(agent)
    assert bank.keys == []


def test_in_an_event_loop(places: Places) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, PAID)

    async def decide() -> str:
        (turn,) = await agent.arecover()
        assert turn.outcome == "undecided"
        return (await agent.adecide("s-1", happened={key: "paid"})).text

    assert asyncio.run(decide()) == "Paid."


def ask_anew(agent: Agent) -> Any:
    return agent.invoke("Hello?", "s-1")


def ask_again(agent: Agent) -> Any:
    return agent.invoke("Pay Ann", "s-1")


def go_on(agent: Agent) -> Any:
    return agent.invoke("", "s-1")


def stream(agent: Agent) -> Any:
    return list(agent.stream("Hello?", "s-1"))


@pytest.mark.parametrize("ask", [ask_anew, ask_again, go_on, stream])
def test_who_asks_meanwhile_is_told_how_to_decide(places: Places, ask: Any) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank)
    agent.recover()
    before = kinds(agent)
    for _ in range(2):
        with pytest.raises(ActionOutcomeUnknown, match="orchestrator sessions decide s-1") as told:
            ask(agent)
        assert told.value.undecided == agent.find_undecided("s-1")[0]
        assert key in told.value.message and told.value.resource == "bank::pay"
    assert kinds(agent) == before and bank.keys == []


def test_the_request_keeps_its_id_and_gets_its_answer(places: Places) -> None:
    request = str(uuid4())
    key, bank = places.leave_turn("s-1", request_id=request), Bank()
    agent = places.agent(bank, PAID)
    for _ in range(2):
        with pytest.raises(ActionOutcomeUnknown) as told:
            agent.invoke("Pay Ann", "s-1", request_id=request)
        assert told.value.undecided is not None and told.value.undecided.turn_id == request
        assert told.value.reply is not None and told.value.reply.stop_reason == "undecided"
    assert agent.decide("s-1", happened={key: "paid"}).turn_id == request
    assert agent.invoke("Pay Ann", "s-1", request_id=request).text == "Paid."
    assert kinds(agent).count("suspend") == 1


def test_the_same_decision_again_has_the_same_answer_and_another_is_refused(
    places: Places,
) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, PAID)
    agent.recover()
    (undecided,) = agent.find_undecided("s-1")
    results = undecided.answer(repeat=[key])
    for _ in range(2):
        assert agent.invoke("", "s-1", results=results).text == "Paid."
    assert bank.keys == [key]
    with pytest.raises(SessionConflict, match="something else was decided"):
        agent.invoke("", "s-1", results=undecided.answer(give_up=[key]))
    with pytest.raises(ValidationError, match="waits for no decision"):
        agent.decide("s-1", repeat=[key])


def test_what_is_lost_again_is_undecided_again(places: Places) -> None:
    key = places.leave_turn("s-1")
    first = places.agent(Bank(dies=True))
    first.recover()
    (before,) = first.find_undecided("s-1")
    with pytest.raises(BaseException, match=r"^$"):
        first.decide("s-1", repeat=[key])
    bank = Bank()
    agent = places.agent(bank, PAID)
    (turn,) = agent.recover()
    assert turn.open_decision is not None and turn.open_decision.calls == before.calls
    assert turn.open_decision.invocation_id != before.invocation_id
    # The first decision was carried out; it is not taken for one about what happened since.
    with pytest.raises(ActionOutcomeUnknown):
        agent.invoke("", "s-1", results=before.answer(repeat=[key]))
    assert bank.keys == []
    assert agent.decide("s-1", happened={key: "paid"}).text == "Paid."


def test_a_decision_that_was_written_down_holds_for_the_next_process(places: Places) -> None:
    key = places.leave_turn("s-1")
    first = places.agent(Bank(dies=True))
    first.recover()
    label = session_label(first.plan.owner, "s-1")
    write, sessions = first.sessions.write, first.sessions

    def stop_after_deciding(session: Any, records: Any) -> None:
        write(session, records)
        if records[0]["kind"] == "decided":
            raise KeyboardInterrupt

    sessions.write = stop_after_deciding  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        first.decide("s-1", repeat=[key])
    assert [it["kind"] for it in first.sessions.records(label)][-1] == "decided"
    bank = Bank()
    agent = places.agent(bank, PAID)
    (turn,) = agent.recover()
    assert (turn.outcome, bank.keys) == ("answer", [key])


TWO = NATIVE.calls(("bank::pay", {"to": "ann"}), ("bank::pay", {"to": "bob"}))


def test_each_of_several_calls_is_decided(places: Places) -> None:
    places.leave_turn("s-1", TWO)
    bank = Bank()
    agent = places.agent(bank, PAID)
    agent.recover()
    (undecided,) = agent.find_undecided("s-1")
    one, two = (call.key for call in undecided.calls)
    for wrong, problem in (
        ({"happened": {one: "paid"}}, "nothing was decided of"),
        ({"repeat": [one, two, "x"]}, "no undecided call"),
        ({"repeat": ["bank::pay"]}, "the name of several calls"),
        ({"repeat": [one, two], "give_up": [one]}, "decided twice"),
    ):
        with pytest.raises(ValidationError, match=problem):
            agent.decide("s-1", **wrong)  # type: ignore[arg-type]
    assert agent.decide("s-1", happened={one: "ann has it"}, repeat=[two]).text == "Paid."
    assert bank.keys == [two]
    assert "ann has it" in last_prompt(agent)


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        ({}, "needs a 'responseBody'"),
        ({"confirmationState": "DENY", "responseBody": {"TEXT": {"body": "x"}}}, "two things"),
        ({"confirmationState": "CONFIRM", "responseState": "FAILURE"}, "two things"),
        ({"responseState": "REPROMPT"}, "needs a 'responseBody'"),
        ({"function": "other", "confirmationState": "CONFIRM"}, "no result was given"),
    ],
)
def test_a_result_that_decides_nothing_is_refused(
    places: Places, member: dict[str, Any], problem: str
) -> None:
    places.leave_turn("s-1")
    agent = places.agent(Bank(), PAID)
    agent.recover()
    (undecided,) = agent.find_undecided("s-1")
    result = {"actionGroup": "bank", "function": "pay", **member}
    results = {
        "invocationId": undecided.invocation_id,
        "returnControlInvocationResults": [{"functionResult": result}],
    }
    with pytest.raises(ValidationError, match=problem):
        agent.invoke("", "s-1", results=results)
    assert agent.find_undecided("s-1") == [undecided]


def test_an_executor_that_knows_is_asked_first(places: Places) -> None:
    places.leave_turn("s-1", TWO)
    bank = Knowing(ActionResult("paid before"))
    (turn,) = places.agent(bank, PAID).recover()
    assert (turn.outcome, len(bank.asked)) == ("answer", 2)


def test_the_session_waits_for_longer_than_it_may_be_idle(places: Places) -> None:
    key = places.leave_turn("s-1")
    agent = places.agent(Bank(), PAID)
    agent.recover()
    agent.sessions.clock = lambda: time.time_ns() + 30 * 86_400 * 10**9
    assert agent.decide("s-1", happened={key: "paid"}).text == "Paid."


def test_its_user_may_end_the_session(places: Places) -> None:
    request = str(uuid4())
    places.leave_turn("s-1", request_id=request)
    agent = places.agent(Bank(), answer("Hello!"))
    agent.recover()
    agent.end_session("s-1")
    assert agent.find_undecided() == []
    with pytest.raises(ActionOutcomeUnknown, match="which has ended since"):
        agent.invoke("Pay Ann", "s-1", request_id=request)
    assert agent.invoke("Hello?", "s-1").text == "Hello!"


def test_another_version_of_the_agent_decides_nothing(places: Places) -> None:
    key = places.leave_turn("s-1")
    agent = places.agent(Bank(), PAID)
    agent.recover()
    other = agent.with_changes(instruction="You pay nobody.")
    with pytest.raises(SessionConflict, match="another version of this agent"):
        other.decide("s-1", repeat=[key])
    assert agent.decide("s-1", happened={key: "paid"}).text == "Paid."


@pytest.mark.parametrize("group", [False, True], ids=["instruction", "function"])
def test_another_version_of_the_agent_may_give_up(places: Places, group: bool) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    places.agent(bank).recover()
    changed = places.agent(bank, answer("I do not know."), name="bank")
    if group:
        changed = Agent(
            "bank",
            agent_id=changed.plan.agent_id,
            model=changed.plan.stages["ORCHESTRATION"].model,
            instruction="You answer questions about payments of all kinds.",
            sessions=changed.sessions,
        )
    else:
        changed = changed.with_changes(instruction="You pay nobody at all, and say so.")
    assert [one.calls[0].key for one in changed.find_undecided("s-1")] == [key]
    with pytest.raises(SessionConflict, match=r"give all of them up, or end the session$") as told:
        changed.decide("s-1", happened={key: "paid"})
    assert "another question" not in str(told.value)
    with pytest.raises(ActionOutcomeUnknown, match=key) as failed:
        changed.decide("s-1", give_up=[key])
    assert failed.value.undecided is None and changed.find_undecided() == []
    assert changed.invoke("Did you pay?", "s-1").text == "I do not know."
    assert bank.keys == []


def test_an_agent_may_end_such_turns_instead(places: Places) -> None:
    key, bank = places.leave_turn("s-1"), Bank()
    agent = places.agent(bank, answer("Hello!"), unknown_outcomes="end")
    (turn,) = agent.recover()
    assert turn.outcome == "unknown" and key in str(turn.error)
    assert agent.find_undecided() == []
    assert agent.invoke("Hello?", "s-1").text == "Hello!"
    assert bank.keys == []
    with pytest.raises(DefinitionError, match="unknown_outcomes='stop' is unknown"):
        places.agent(bank, unknown_outcomes="stop")


def test_other_tenants_see_and_decide_nothing(places: Places) -> None:
    bank = Bank(dies=True)
    ann = places.agent(bank, CALL).for_tenant("ann")
    with pytest.raises(BaseException, match=r"^$"):
        ann.invoke("Pay Ann", "s-1")
    agent = places.agent(Bank())
    (turn,) = agent.for_tenant("ann").recover()
    assert turn.outcome == "undecided"
    for other in (agent, agent.for_tenant("bob")):
        assert other.find_undecided() == []
        with pytest.raises(ValidationError, match="waits for no decision"):
            other.decide("s-1", repeat=["bank::pay"])
        assert turn.open_decision is not None
        with pytest.raises(ValidationError, match="no call waits for results"):
            other.invoke("", "s-1", results=turn.open_decision.answer(repeat=["bank::pay"]))


def test_an_apis_call_is_named_as_traces_show_it() -> None:
    api = {"actionGroup": "orders", "httpMethod": "POST", "apiPath": "/orders/{id}"}
    call = UndecidedCall("k-1", "POST::orders::/orders/{id}", {"apiInvocationInput": api})
    undecided = Undecided("s-1", "t-1", "Order it", "i-1", (call,), 0)
    shown = undecided.answer(repeat=["orders::POST /orders/{id}"])
    assert shown == undecided.answer(repeat=["POST::orders::/orders/{id}"])
    assert shown == undecided.answer(repeat=["k-1"])
