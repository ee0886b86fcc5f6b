"""`Agent.submit`: a turn that some worker runs."""

import asyncio
from threading import Event
from types import SimpleNamespace
from uuid import uuid4

import pytest
from durable_support import CLAUDE, answer, call, make_agent

from orchestrator import Collaborator
from orchestrator.actions import action
from orchestrator.agent.durable import DurableRuns, Worker, database
from orchestrator.errors import (
    DependencyFailed,
    ModelOutputError,
    ResourceNotFound,
    SessionConflict,
    ThrottlingError,
    ValidationError,
)
from orchestrator.sessions import session_label
from orchestrator.testing import ScriptedModel

LONG = 60  # seconds that no test waits for, unless it fails


def get_order(order: str) -> str:
    """Looks an order up.

    Args:
        order: Its number.
    """
    return f"{order} is on its way"


def steps(runs, submission):
    return [it["function_name"] for it in runs.client.list_workflow_steps(submission.id)]


def test_a_worker_answers_and_its_steps_are_the_effects(runs, sessions, work):
    replies = [call("get_order", order="1"), answer("It comes.")]
    agent = make_agent(sessions, replies, get_order)
    submission = agent.submit("Where is 1?", "s-1", runs=runs)
    assert submission.status() == "queued"
    with work(agent):
        reply = submission.result(LONG)
    assert (reply.text, reply.stop_reason, reply.session_id) == ("It comes.", "end_turn", "s-1")
    assert (reply.usage.calls, len(reply.trace), submission.status()) == (2, 7, "ended")
    assert steps(runs, submission) == [
        "model ORCHESTRATION",
        "actions shop::get_order",
        "model ORCHESTRATION",
    ]
    assert [turn.id for turn in agent.turns("s-1")] == [submission.id]


def test_the_steps_of_dbos_hold_no_content(runs, sessions, work):
    replies = [call("get_order", order="canary-1"), answer("canary-2")]
    agent = make_agent(sessions, replies, get_order)
    with work(agent):
        submission = agent.submit("canary-3", "s-1", runs=runs)
        submission.result(LONG)
    assert "canary" not in str(runs.client.list_workflow_steps(submission.id))


def test_a_failed_turn_raises_its_error(runs, sessions, work):
    agent = make_agent(sessions, [])
    with work(agent):
        submission = agent.submit("Hi", runs=runs)
        with pytest.raises(ModelOutputError, match="has 0 replies"):
            submission.result(LONG)
    assert submission.status() == "failed"


def test_the_twins_for_an_event_loop(runs, sessions, work):
    agent = make_agent(sessions, [answer("Yes.")])

    async def ask():
        submission = agent.submit("Hi", "s-1", runs=runs)
        assert await submission.astatus() == "queued"
        with pytest.raises(TimeoutError, match="is queued after 0 seconds"):
            await submission.aresult(0)
        await submission.acancel()
        return (await submission.aresult(LONG)).stop_reason

    assert asyncio.run(ask()) == "cancelled"


def test_a_turn_that_is_cancelled_ends_after_its_effect(runs, sessions, work):
    begun, go_on, done = Event(), Event(), []

    def pay() -> str:
        """Pays."""
        begun.set()
        assert go_on.wait(LONG)
        done.append("paid")
        return "paid"

    agent = make_agent(sessions, [call("pay"), answer("Paid.")], pay)
    with work(agent):
        submission = agent.submit("Pay", "s-1", runs=runs)
        assert begun.wait(LONG)
        submission.cancel()
        go_on.set()
        assert submission.result(LONG).stop_reason == "cancelled"
    (turn,) = agent.turns("s-1")
    assert (done, turn.stop_reason) == (["paid"], "cancelled")
    assert [it["kind"] for it in turn.records] == ["turn", "model", "intent", "action", "end"]


def test_the_same_request_id_is_one_turn(runs, sessions, work):
    agent, id = make_agent(sessions, [answer("Once.")]), str(uuid4())
    with work(agent):
        first = agent.submit("Hi", "s-1", runs=runs, request_id=id)
        assert agent.submit("Hi", "s-1", runs=runs, request_id=id).id == first.id
        assert first.result(LONG).text == "Once."
    assert agent.submit("Hi", "s-1", runs=runs, request_id=id).result(LONG).text == "Once."
    with pytest.raises(SessionConflict, match="was submitted with other arguments"):
        agent.submit("Bye", "s-1", runs=runs, request_id=id)


def test_a_confirmation_days_later_by_another_process(runs, sessions, work):
    @action(require_confirmation=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    week = 7 * 86_400
    first = make_agent(sessions, [call("pay")], pay, idle_session_ttl=week)
    with work(first):
        asked = first.submit("Pay", "s-1", runs=runs)
        assert asked.result(LONG).stop_reason == "return_control"
    second = make_agent(sessions, [answer("Paid.")], pay, idle_session_ttl=week)
    control = second.find_submission(asked.id, runs=runs).result(LONG).return_control
    results = control.answer({"pay": True})
    with work(second):
        for _ in range(2):  # the answer may be sent twice
            done = second.submit("", "s-1", runs=runs, results=results)
            assert done.result(LONG).text == "Paid."
    (turn,) = second.turns("s-1")
    reply = done.result(0)
    assert (reply.turn_id, reply.trace) == (turn.id, turn.trace) and len(turn.trace) > 3


def test_a_busy_session_is_waited_for(runs, sessions, work):
    agent = make_agent(sessions, [answer("1"), answer("2"), answer("3")])
    with work(agent, concurrency=3):
        turns = [agent.submit(f"{n}?", "s-1", runs=runs) for n in range(3)]
        assert sorted(it.result(LONG).text for it in turns) == ["1", "2", "3"]
    assert sorted(it.question for it in agent.turns("s-1")) == ["0?", "1?", "2?"]


def test_a_worker_has_its_lease_before_it_takes_turns(sessions, work, monkeypatch):
    from orchestrator.agent.durable.liveness import Liveness

    def fail(self, *arguments):
        raise ConnectionError("no lease")

    launched = []
    monkeypatch.setattr(Liveness, "__init__", fail)
    monkeypatch.setattr(Worker, "_launch", lambda self, *arguments: launched.append(1))
    with pytest.raises(DependencyFailed, match="cannot be used"):
        work(make_agent(sessions, []))
    assert launched == []


class Throttled(ScriptedModel):
    """A model that is throttled a few times."""

    times = 2

    def complete(self, request):
        if self.times:
            self.times -= 1
            raise ThrottlingError("slow down")
        return super().complete(request)


@pytest.fixture
def no_waiting(monkeypatch):
    from orchestrator.agent.durable import workflow

    monkeypatch.setattr(workflow, "_LONGEST_WAIT", 0.0)


def test_a_throttled_turn_is_asked_again(runs, sessions, work, no_waiting):
    agent = make_agent(sessions, Throttled([answer("At last.")], CLAUDE))
    with work(agent):
        submission = agent.submit("Hi", "s-1", runs=runs, retries=2)
        assert submission.result(LONG).text == "At last."
    assert [turn.text for turn in agent.turns("s-1")] == ["At last."]


def test_a_turn_that_has_begun_an_action_is_not_asked_again(runs, sessions, work, no_waiting):
    paid = []

    def pay() -> str:
        """Pays."""
        paid.append(1)
        raise ConnectionError("the line was cut")

    agent = make_agent(sessions, [call("pay"), call("pay")], pay)
    with work(agent):
        submission = agent.submit("Pay", "s-1", runs=runs, retries=5)
        with pytest.raises(DependencyFailed):
            submission.result(LONG)
    assert paid == [1]


class RemoteBank:
    """A remote agent, which is asked by its alias."""

    alias_arn = "arn:aws:bedrock:us-east-1:123456789012:agent-alias/AAAAAAAAAA/BBBBBBBBBB"

    def __init__(self):
        self.asked = []

    def invoke(self, message, session_id, attributes, prompt_attributes):
        self.asked.append(message)
        return SimpleNamespace(text="paid", citations=[], trace=[], files=[])


class ThrottledLater(ScriptedModel):
    """A model whose second call is throttled."""

    calls = 0

    def complete(self, request):
        self.calls += 1
        if self.calls == 2:
            raise ThrottlingError("slow down")
        return super().complete(request)


def test_a_turn_that_has_asked_a_remote_agent_is_not_asked_again(runs, sessions, work, no_waiting):
    message = {"recipient": "bank", "content": "pay 20"}
    use = {"toolUseId": "t-1", "name": "AgentCommunication__sendMessage", "input": message}
    ask, bank = [{"toolUse": use}], RemoteBank()
    model = ThrottledLater([ask, ask, answer("Paid.")], CLAUDE)
    members = [Collaborator(bank, "Pays people when asked to.", name="bank")]
    agent = make_agent(sessions, model, collaborators=members)
    with work(agent):
        submission = agent.submit("Pay 20", "s-1", runs=runs, retries=2)
        with pytest.raises(ThrottlingError):
            submission.result(LONG)
    assert bank.asked == ["pay 20"]


def test_other_tenants_and_agents_find_nothing(runs, sessions, work):
    agent = make_agent(sessions, [answer("Yes."), answer("Yes.")])
    mine, other = agent.for_tenant("a"), agent.for_tenant("b")
    id = str(uuid4())
    submission = mine.submit("Hi", "s-1", runs=runs, request_id=id)
    for stranger in (agent, other):
        with pytest.raises(ResourceNotFound, match="has no submitted turn"):
            stranger.find_submission(submission.id, runs=runs)
    assert other.submit("Hi", "s-1", runs=runs, request_id=id).id != submission.id
    with work(agent, concurrency=1):
        assert mine.find_submission(submission.id, runs=runs).result(LONG).text == "Yes."
    assert len(mine.turns("s-1")) == 1
    assert session_label(mine.plan.owner, "s-1") != session_label(agent.plan.owner, "s-1")


def test_what_cannot_be_submitted_is_refused_at_once(runs, sessions, url):
    agent = make_agent(sessions, [])
    with pytest.raises(ValidationError, match="are in this process's memory"):
        make_agent(None, []).submit("Hi", runs=runs)
    with pytest.raises(ValidationError, match="are in this process's memory"):
        Worker(url, [make_agent(None, [])])
    with pytest.raises(ValidationError, match="has no files="):
        agent.submit("Hi", runs=runs, files=["a.txt"])
    with pytest.raises(ValidationError, match="session_id '/' is not valid"):
        agent.submit("Hi", "/", runs=runs)
    with pytest.raises(ValidationError, match="request_id '1' is no UUID"):
        agent.submit("Hi", runs=runs, request_id="1")
    with pytest.raises(TypeError, match="unknown options"):
        agent.submit("Hi", runs=runs, colour="red")
    with pytest.raises(ValidationError, match="neither sqlite:///FILE"):
        Worker("mysql://root:secret@host/db", [agent])
    assert runs.client.list_workflows() == []


def test_a_process_has_one_worker(sessions, work):
    agent = make_agent(sessions, [])
    with work(agent), pytest.raises(ValidationError, match="this process has a worker"):
        work(agent)


def test_a_worker_that_is_closed_leaves_nothing_running(runs, sessions, work):
    agent = make_agent(sessions, [answer("1"), answer("2")])
    with work(agent):
        agent.submit("Hi", "s-1", runs=runs).result(LONG)
    later = agent.submit("Hi", "s-2", runs=runs)
    assert later.status() == "queued"
    with work(agent):
        assert later.result(LONG).text == "2"


def test_a_schedule_asks_by_itself(runs, sessions, work):
    agent = make_agent(sessions, [answer("None is late.")])
    runs.schedule(agent, "morning", "0 7 29 2 *", "Which are late?", "s-1")
    with pytest.raises(ValidationError, match="the agent has one of this name"):
        runs.schedule(agent, "morning", "0 8 29 2 *", "Which are late?")
    with pytest.raises(ValidationError, match="not those of cron"):
        runs.schedule(agent, "evening", "at seven", "Which are late?")
    (schedule,) = runs.client.list_schedules()
    with work(agent):
        # What its time does, without waiting for it.
        assert runs.client.trigger_schedule(schedule["schedule_name"]).get_result()
    assert [turn.text for turn in agent.turns("s-1")] == ["None is late."]
    runs.unschedule(agent, "morning")
    assert runs.client.list_schedules() == []


def test_the_waiting_turns_of_a_session_take_no_place_of_their_queue(runs, sessions, work):
    begun, go_on = Event(), Event()

    class Blocks(ScriptedModel):
        def complete(self, request):
            if request.question == "Long":
                begun.set()
                assert go_on.wait(LONG)
            return super().complete(request)

    agent = make_agent(sessions, Blocks([answer("Yes.")] * 12, CLAUDE))
    turns = [agent.submit("Long", "s-1", runs=runs)]
    with work(agent, concurrency=2):
        try:
            assert begun.wait(LONG)
            turns += [agent.submit(f"{n}?", "s-1", runs=runs) for n in range(1, 10)]
            other = agent.submit("Hi", "s-2", runs=runs)
            assert other.result(LONG).text == "Yes."
            assert {it.status() for it in turns[1:]} == {"queued"}
        finally:
            go_on.set()
        assert {it.result(LONG).text for it in turns} == {"Yes."}
    assert len(agent.turns("s-1")) == 10


@pytest.mark.parametrize("limits", [{"most": 4}, {"rate": (100, 60.0)}])
def test_limits_of_all_workers_hold_for_many_sessions(runs, sessions, work, limits):
    agent = make_agent(sessions, [answer("Yes.")] * 6)
    turns = [agent.submit("Hi", f"s-{n % 3}", runs=runs) for n in range(6)]
    with work(agent, **limits, concurrency=2):
        assert {it.result(LONG).text for it in turns} == {"Yes."}


def test_a_turn_without_a_partition_runs_too(runs, sessions, work):
    agent = make_agent(sessions, [answer("Yes.")])
    row = {"workflow_name": "orchestrator.turn", "queue_name": "turns", "app_version": "1"}
    turn = {"agent": f"{agent.plan.agent_id}/{agent.plan.alias_id}", "question": "Hi"}
    with work(agent):
        handle = runs.client.enqueue(row, turn)
        assert handle.get_result()["text"] == "Yes."


def test_a_sqlite_that_dbos_cannot_use_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "sys", SimpleNamespace(version_info=(3, 13, 0)))
    old = SimpleNamespace(sqlite_version_info=(3, 40, 1), sqlite_version="3.40.1")
    monkeypatch.setattr(database, "sqlite3", old)
    file = tmp_path / "runs.sqlite"
    with pytest.raises(DependencyFailed, match=r"SQLite 3\.42 or later .* has 3\.40\.1; use Post"):
        DurableRuns(f"sqlite:///{file}")
    assert not file.exists()
