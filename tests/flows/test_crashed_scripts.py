"""A process is killed in a script of an agent, wherever it writes: the next one goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from flow_support import scripted, statements, texts
from forking import forked
from left_out import sampled
from scripted_crashes import REPLIES, agent

from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.sessions import session_label

WRITES = 16  # of a whole turn; the test below would say if they were more


def test_a_turn_writes_so_often(tmp_path: Path) -> None:
    made = agent(tmp_path, scripted(*REPLIES), WRITES + 1000)
    made.invoke("Hello", "s-1")
    store = made.sessions.store
    assert WRITES <= WRITES + 1000 - store.left <= WRITES + 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("writes", sampled(range(1, WRITES)))
def test_the_script_goes_on_and_nothing_is_asked_or_done_twice(writes: int, tmp_path: Path) -> None:
    whole_folder, folder = tmp_path / "whole", tmp_path / "killed"
    whole_folder.mkdir()
    folder.mkdir()
    model = scripted(*REPLIES)
    whole = agent(whole_folder, model).invoke("Hello", "s-1")
    done = forked(Path(__file__).with_name("scripted_crashes.py"), folder, writes)
    assert done.returncode == -signal.SIGKILL, done.stderr

    known = agent(folder, scripted()).sessions.records
    label = session_label(agent(folder, scripted()).plan.owner, "s-1")
    asked = sum(record["kind"] == "model" for record in known(label))
    again = scripted(*REPLIES[asked:])
    begun = [one for one in known(label) if one["kind"] in ("intent", "action")]
    if begun and begun[-1]["kind"] == "intent":
        with pytest.raises(ActionOutcomeUnknown):  # it is not done again, unless somebody says so
            agent(folder, again).invoke(session_id="s-1")
        reply = agent(folder, again).decide("s-1", repeat=["notes::note"])
    else:
        reply = agent(folder, again).invoke(session_id="s-1")
    assert reply.text == whole.text
    assert [texts(it) for it in again.requests] == [texts(it) for it in model.requests[asked:]]
    assert (folder / "notes.txt").read_text() == (whole_folder / "notes.txt").read_text()
    assert statements(reply.trace) == statements(whole.trace)
