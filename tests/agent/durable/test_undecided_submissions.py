"""A worker is killed in an action: its turn waits for a decision, as it would for an approval.

So does the run of a script.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from durable_support import answer
from durable_support import make_agent as make_shop
from undecided_worker import make_agent, make_flow

from orchestrator import Collaborator
from orchestrator.agent.bedrock_agent import BedrockAgent
from orchestrator.engine.plan import RemoteReply
from orchestrator.errors import ActionOutcomeUnknown, OrchestratorError

HERE = Path(__file__).parent
LONG = 60  # seconds that no test waits for, unless it fails


def kill_in_action(kind, url, sessions, log):
    paths = [str(HERE.parents[2]), str(HERE), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, str(HERE / "undecided_worker.py"), kind, url, sessions, str(log)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,  # it works until that is closed
    ) as worker:
        assert worker.wait(LONG) == -9


def test_a_turn_waits_for_its_decision(runs, url, sessions, work, tmp_path):
    log = tmp_path / "log"
    log.touch()
    agent = make_agent(sessions, log)
    submission = agent.submit("Pay Ann", "s-1", runs=runs)
    kill_in_action("agent", url, sessions, log)
    with work(agent, lease=1.0):
        with pytest.raises(ActionOutcomeUnknown, match="nobody knows") as unknown:
            submission.result(LONG)
        undecided = unknown.value.undecided
        (call,) = undecided.calls
        assert (undecided.turn_id, undecided.session_id) == (submission.id, "s-1")
        assert agent.find_undecided() == [undecided] and unknown.value.reply.trace
        # Another turn of the session is told so, and is not mistaken for the one that waits.
        other = agent.submit("Hello?", "s-1", runs=runs)
        with pytest.raises(ActionOutcomeUnknown, match=call.key) as told:
            other.result(LONG)
        assert (told.value.undecided, other.status()) == (None, "failed")
        results = undecided.answer(repeat=[call.key])
        for _ in range(2):  # the decision may be sent twice
            done = agent.submit("", "s-1", runs=runs, results=results)
            reply = done.result(LONG)
            assert (reply.text, reply.turn_id) == ("Paid.", submission.id)
    assert log.read_text().split() == [call.key]
    assert agent.find_undecided() == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("decision", "paid", "said"),
    [
        ({"repeat": ["bank::pay"]}, 1, "Say that Ann was paid."),
        ({"happened": {"bank::pay": "paid twice"}}, 0, "Say that Ann was paid twice."),
    ],
    ids=["repeat", "happened"],
)
def test_a_run_of_a_script_waits_for_its_decision(
    decision, paid, said, runs, url, sessions, work, tmp_path
):
    log = tmp_path / "log"
    log.touch()
    bill = make_flow(sessions, log)
    first = bill.submit(runs=runs, run_id="r-1")
    kill_in_action("flow", url, sessions, log)
    with work(flows=[bill], lease=1.0):
        with pytest.raises(ActionOutcomeUnknown, match="nobody knows") as unknown:
            first.result(LONG)
        undecided = unknown.value.undecided
        (call,) = undecided.calls
        assert (undecided.session_id, call.name) == ("r-1", "bank::pay")
        assert bill.agent.find_undecided() == [undecided] and log.read_text() == ""
        results = undecided.answer(**decision)
        for _ in range(2):  # the decision may be sent twice
            done = bill.submit(runs=runs, run_id="r-1", results=results)
            assert done.result(LONG).output == said
    assert log.read_text().split() == [call.key] * paid
    assert bill.agent.find_undecided() == []


@pytest.mark.exhaustive
def test_a_run_of_a_script_is_given_up(runs, url, sessions, work, tmp_path):
    log = tmp_path / "log"
    log.touch()
    bill = make_flow(sessions, log)
    first = bill.submit(runs=runs, run_id="r-1")
    kill_in_action("flow", url, sessions, log)
    with work(flows=[bill], lease=1.0):
        with pytest.raises(ActionOutcomeUnknown) as unknown:
            first.result(LONG)
        undecided = unknown.value.undecided
        results = undecided.answer(give_up=["bank::pay"])
        done = bill.submit(runs=runs, run_id="r-1", results=results)
        with pytest.raises(OrchestratorError, match=undecided.calls[0].key):
            done.result(LONG)
    assert log.read_text() == "" and bill.agent.find_undecided() == []


class LostBank(BedrockAgent):
    """An agent in Bedrock whose first answer is lost."""

    def __init__(self):
        super().__init__(
            "arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID"
        )
        self.asked = []

    def invoke(self, text, *others):
        self.asked.append(text)
        if len(self.asked) == 1:
            raise ActionOutcomeUnknown("its answer did not arrive", resource=self.alias_arn)
        return RemoteReply("Paid.")


def test_a_lost_answer_of_a_remote_agent_waits_for_its_decision(runs, sessions, work):
    message = {"recipient": "bank", "content": "Pay 20."}
    use = {"toolUseId": "t-1", "name": "AgentCommunication__sendMessage", "input": message}
    bank = LostBank()
    members = [Collaborator(bank, "Pays people when asked to.", name="bank")]
    agent = make_shop(sessions, [[{"toolUse": use}], answer("Paid.")], collaborators=members)
    with work(agent):
        first = agent.submit("Pay 20", "s-1", runs=runs, retries=2)
        with pytest.raises(ActionOutcomeUnknown) as unknown:
            first.result(LONG)
        assert bank.asked == ["Pay 20."]
        results = unknown.value.undecided.answer(repeat=["bank"])
        done = agent.submit("", "s-1", runs=runs, results=results)
        assert done.result(LONG).text == "Paid."
    assert bank.asked == ["Pay 20."] * 2
