"""Turns that a stopped worker has left: who goes on with them, and who does not."""

import pytest
from durable_support import CLAUDE, answer, call, make_agent

from orchestrator.errors import SessionBusy, ThrottlingError, TurnLeft
from orchestrator.testing import ScriptedModel

LONG = 60  # seconds that no test waits for, unless it fails


def leave(agent, question, session_id, **options):
    """Begins a turn, and stops before its first effect, as a worker that is killed there."""

    def stop(progress, work):
        raise TurnLeft

    with pytest.raises(TurnLeft):
        agent.invoke_in_steps(stop, question, session_id, **options)


@pytest.fixture
def paid():
    return []


@pytest.fixture
def shop(sessions, paid):
    def make(*replies):
        def pay() -> str:
            """Pays."""
            paid.append(1)
            return "paid"

        return make_agent(sessions, list(replies), pay)

    return make


def leave_submitted(agent, runs):
    submission = agent.submit("Pay", "s-1", runs=runs)
    leave(agent, "Pay", "s-1", workflow=submission.id, request_id=submission.id)
    return submission


def test_a_left_turn_that_is_cancelled_ends_in_its_journal(runs, shop, paid, work):
    agent = shop(answer("Tea."))
    first = leave_submitted(agent, runs)
    first.cancel()
    (turn,) = agent.turns("s-1")
    assert (turn.stop_reason, [it["kind"] for it in turn.records][-1]) == ("cancelled", "end")
    assert agent.recover() == []
    second = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent):
        assert second.result(LONG).text == "Tea."
    assert (first.result(0).stop_reason, paid) == ("cancelled", [])


def test_a_turn_of_the_session_ends_one_that_was_cancelled(runs, shop, paid, work):
    agent = shop(answer("Tea."))
    first = leave_submitted(agent, runs)
    runs.client.cancel_workflow(first.id)  # as while its worker still seemed to live
    second = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent):
        assert second.result(LONG).text == "Tea."
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["cancelled", "end_turn"]
    assert paid == []


def test_a_turn_that_is_cancelled_while_another_one_goes_on_with_it(runs, sessions, work):
    done = []

    def pay() -> str:
        """Pays."""
        done.append(1)
        return "paid"

    class Cancels(ScriptedModel):
        def complete(self, request):
            if request.question == "Pay":
                runs.client.cancel_workflow(first.id)
            return super().complete(request)

    agent = make_agent(sessions, Cancels([call("pay"), answer("Tea.")], CLAUDE), pay)
    first = agent.submit("Pay", "s-1", runs=runs, queue="elsewhere")
    leave(agent, "Pay", "s-1", workflow=first.id, request_id=first.id)
    second = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent):
        assert second.result(LONG).text == "Tea."
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["cancelled", "end_turn"]
    assert done == []


def test_a_left_turn_is_its_workflows_and_not_recovers(runs, shop, paid, work):
    agent = shop(call("pay"), answer("Paid."))
    submission = leave_submitted(agent, runs)
    assert (agent.recover(), paid) == ([], [])
    with work(agent):
        assert submission.result(LONG).text == "Paid."
    assert (paid, len(agent.turns("s-1"))) == ([1], 1)


def test_a_left_turn_of_no_workflow_is_recovered(shop):
    agent = shop(answer("Tea."))
    leave(agent, "Tea?", "s-1")
    assert [turn.reply.text for turn in agent.recover()] == ["Tea."]


class Throttled(ScriptedModel):
    def complete(self, request):
        if request.question == "Pay":
            raise ThrottlingError("slow down")
        return super().complete(request)


def test_the_failure_of_a_left_turn_is_not_that_of_the_next_one(runs, sessions, work):
    agent = make_agent(sessions, Throttled([answer("Tea.")], CLAUDE))
    leave(agent, "Pay", "s-1")
    submission = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent):
        assert submission.result(LONG).text == "Tea."
    assert [turn.stop_reason for turn in agent.turns("s-1")] == ["failure", "end_turn"]


def test_a_left_turn_that_ends_meanwhile_is_not_in_the_way(runs, shop, work, monkeypatch):
    agent = shop(answer("First."), answer("Tea."))
    leave(agent, "Hi", "s-1")
    find = agent.sessions.open_turns.find

    def find_too_early(label):
        found = find(label)
        if found is not None:
            agent.invoke("", "s-1")  # somebody else goes on with it
        return found

    monkeypatch.setattr(agent.sessions.open_turns, "find", find_too_early)
    submission = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent):
        assert submission.result(LONG).text == "Tea."
    assert [turn.text for turn in agent.turns("s-1")] == ["First.", "Tea."]


def test_a_session_that_is_busy_for_a_moment_is_tried_again(runs, shop, work, monkeypatch):
    agent = shop(answer("Tea."))
    acquire, refusals = agent.sessions.acquire, [SessionBusy("busy"), SessionBusy("busy")]

    def acquire_late(*session):
        if refusals:
            raise refusals.pop()
        return acquire(*session)

    monkeypatch.setattr(agent.sessions, "acquire", acquire_late)
    submission = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent):
        assert submission.result(LONG).text == "Tea."


def test_thirty_turns_of_one_session_are_all_answered(runs, sessions, work):
    agent = make_agent(sessions, [answer(str(n)) for n in range(30)])
    turns = [agent.submit(f"{n}?", "s-1", runs=runs) for n in range(30)]
    with work(agent):
        answers = [turn.result(LONG).text for turn in turns]
    assert sorted(map(int, answers)) == list(range(30))
    assert len(agent.turns("s-1")) == 30


def test_what_a_worker_has_read_of_a_session_is_not_read_again(runs, sessions, work, monkeypatch):
    agent = make_agent(sessions, [answer(str(n)) for n in range(3)])
    load, whole = agent.sessions.store.load, []

    def count(key, after=0):
        found = load(key, after)
        if found and not after:
            whole.append(key)
        return found

    monkeypatch.setattr(agent.sessions.store, "load", count)
    with work(agent):
        for number in range(3):
            assert agent.submit("Hi", "s-1", runs=runs).result(LONG).text == str(number)
    assert len(whole) == 1  # for the ids of its turns
    assert len(agent.turns("s-1")) == 3
