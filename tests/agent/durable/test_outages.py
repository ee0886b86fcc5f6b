"""The database is away while a submitted turn runs, and comes back: the turn goes on."""

import logging
import time
from threading import Event

import pytest
from durable_support import CLAUDE, answer, call, make_agent
from waiting import until

from orchestrator import Collaborator, Limits
from orchestrator.agent.durable.liveness import Patience
from orchestrator.agent.durable.outage_log import OutageLog
from orchestrator.agent.durable.worker import Worker
from orchestrator.agent.durable.workflow import count_running
from orchestrator.errors import DependencyFailed
from orchestrator.sessions import SQLiteStore, outages
from orchestrator.sessions import sessions as sessions_module
from orchestrator.testing import ScriptedModel

LONG = 60  # seconds that no test waits for, unless it fails


def build_outage():
    return DependencyFailed("the session store 'test' failed: no connection", is_outage=True)


class AwayStore(SQLiteStore):
    """A store that is away before some of its writes, and in between has made one all the same."""

    def __init__(self, path, away_at, *, writes_first=False):
        super().__init__(path)
        self._away_at, self._writes_first = away_at, writes_first
        self.tries = 0

    def _fail_at_times(self, write):
        self.tries += 1
        if self.tries not in (self._away_at, self._away_at + 1):
            return write()
        if self._writes_first and self.tries == self._away_at:
            write()
        raise build_outage()

    def begin(self, *args, **options):
        return self._fail_at_times(lambda: super(AwayStore, self).begin(*args, **options))

    def append(self, *args, **options):
        return self._fail_at_times(lambda: super(AwayStore, self).append(*args, **options))


# A turn with an action makes five writes: its start, the reply with the intent, the outcome, and
# two that end it.
@pytest.mark.parametrize("writes_first", [False, True], ids=["nothing written", "written"])
@pytest.mark.parametrize("away_at", [1, 2, 3, 4])
def test_a_turn_outlasts_an_outage_of_its_store(runs, sessions, work, away_at, writes_first):
    paid = []

    def pay(amount: str) -> str:
        """Pays.

        Args:
            amount: What.
        """
        paid.append(amount)
        return "paid"

    model = ScriptedModel([call("pay", amount="20"), answer("It is paid.")], CLAUDE)
    store = AwayStore(sessions, away_at, writes_first=writes_first)
    agent = make_agent(store, model, pay)
    submission = agent.submit("Pay 20", "s-1", runs=runs)
    with work(agent):
        assert submission.result(LONG).text == "It is paid."
    assert store.tries > away_at + 1
    assert (paid, len(model.requests)) == (["20"], 2)
    (turn,) = agent.turns("s-1")
    assert (turn.stop_reason, turn.text) == ("end_turn", "It is paid.")


def test_a_turn_fails_for_another_failure_of_its_store(runs, sessions, work):
    class Damaged(SQLiteStore):
        def begin(self, *args, **options):
            raise DependencyFailed("the session store 'test' is damaged")

        append = begin

    agent = make_agent(Damaged(sessions), [answer("Tea.")])
    submission = agent.submit("Tea?", "s-1", runs=runs)
    with work(agent), pytest.raises(DependencyFailed, match="is damaged"):
        submission.result(LONG)


def test_nobody_is_taken_for_dead_soon_after_an_outage_of_all_leases():
    now = [0.0]
    patience = Patience(30.0, lambda: now[0])
    seen = []
    for seconds in (7.5, 7.5, 45.0, 7.5, 7.5, 7.5, 7.5, 7.5):
        now[0] += seconds
        patience.note_renewal()
        seen.append(patience.is_over)
    assert seen == [True, True, False, False, False, False, True, True]


def test_an_outage_is_two_lines_of_the_log(caplog):
    log = OutageLog("the lease was not renewed", "it is renewed")
    log.note_success()
    for _ in range(3):
        log.note_failure(ConnectionError())
    log.note_success()
    log.note_success()
    assert caplog.messages == ["the lease was not renewed: ConnectionError", "it is renewed"]


def test_the_log_has_no_line_for_each_try_of_dbos(sessions, work, caplog):
    said = "Exception listing queues: (psycopg.OperationalError) connection refused"
    log = OutageLog("the lease was not renewed", "it is renewed")
    with work(make_agent(sessions, [])):
        for note in (log.note_success, lambda: log.note_failure(ConnectionError())):
            note()
            for text in (said, "Notification listener error: refused", "Something else"):
                logging.getLogger("dbos").warning(text)
    # What is wrong while the database is there, nothing else says.
    told = [it.message for it in caplog.records if it.name == "dbos"]
    assert told == [
        said,
        "Notification listener error: refused",
        "Something else",
        "Something else",
    ]


class Clock:
    """The system's, but for what outages add."""

    def __init__(self):
        self.added = 0

    def __getattr__(self, name):
        return getattr(time, name)

    def monotonic_ns(self):
        return time.monotonic_ns() + self.added


@pytest.mark.parametrize("away_at", range(1, 7))
def test_a_teams_time_stands_still_in_an_outage(away_at, runs, sessions, work, monkeypatch):
    clock = Clock()
    for module in (sessions_module, outages):
        monkeypatch.setattr(module, "time", clock)

    class Slow(AwayStore):
        def _fail_at_times(self, write):
            try:
                return super()._fail_at_times(write)
            except DependencyFailed:
                clock.added += 1000 * 10**9
                raise

    def pay(amount: str) -> str:
        """Pays.

        Args:
            amount: What.
        """
        return "paid"

    limits = Limits(seconds=500)
    model = ScriptedModel([call("pay", amount="20"), answer("It is paid.")], CLAUDE)
    bank = make_agent(None, model, pay)
    message = {"recipient": "bank", "content": "Pay 20"}
    use = {"toolUseId": "t-1", "name": "AgentCommunication__sendMessage", "input": message}
    store = Slow(sessions, away_at)
    replies = [[{"toolUse": use}], answer("All is paid.")]
    team = [Collaborator(bank, "Pays people when it is asked to.", name="bank")]
    agent = make_agent(store, replies, collaborators=team, limits=limits)
    submission = agent.submit("Pay 20", "s-1", runs=runs)
    with work(agent):
        assert submission.result(LONG).text == "All is paid."
    assert clock.added


def test_a_closed_worker_keeps_no_turn_that_waits(url, runs, sessions):
    asked = Event()

    class Gone(SQLiteStore):
        def begin(self, *args, **options):
            asked.set()
            raise build_outage()

        append = begin

    agent = make_agent(Gone(sessions), [answer("Tea.")])
    agent.submit("Tea?", "s-1", runs=runs)
    worker = Worker(url, [agent])
    assert asked.wait(LONG)
    worker.close(0)
    until(lambda: not count_running())


def test_a_wait_for_a_database_ends(caplog):
    seconds = iter([0, *range(0, 10_000, 1000)])
    outages.allow_waiting()

    def fail():
        raise build_outage()

    with pytest.raises(DependencyFailed):
        outages.outlast(fail, lambda: next(seconds))
    assert 2 < len(caplog.messages) < 6
    assert "for 1000 seconds by now" in caplog.text
    try:
        outages.stop_waiting()
        with pytest.raises(DependencyFailed):
            outages.outlast(fail)
    finally:
        outages.allow_waiting()
