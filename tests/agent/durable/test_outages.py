"""The database is away while a submitted turn runs, and comes back: the turn goes on."""

import logging

import pytest
from durable_support import CLAUDE, answer, call, make_agent

from orchestrator.agent.durable.liveness import Patience
from orchestrator.agent.durable.outage_log import OutageLog
from orchestrator.errors import DependencyFailed
from orchestrator.sessions import SQLiteStore
from orchestrator.testing import ScriptedModel

LONG = 60  # seconds that no test waits for, unless it fails


def build_outage():
    error = DependencyFailed("the session store 'test' failed: no connection")
    error.is_outage = True
    return error


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
    with work(make_agent(sessions, [])):
        for text in (said, "Notification listener error: refused", "Something else"):
            logging.getLogger("dbos").warning(text)
    assert [it.message for it in caplog.records if it.name == "dbos"] == ["Something else"]
