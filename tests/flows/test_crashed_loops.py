"""A process is killed in a loop that runs side by side: the next one goes on, and asks no twice."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flow_support import Echo, statements
from forking import forked
from left_out import sampled
from parallel_crashes import asked_in, run
from scripted_crashes import Store

from orchestrator.errors import ActionOutcomeUnknown, LimitExceeded
from orchestrator.limits import Limits

SCRIPT = Path(__file__).with_name("parallel_crashes.py")
WRITES = 45
"""Of a whole run, at most; it depends on which item is faster how many there are."""


def records_of(folder: Path) -> list[Any]:
    store = Store(folder / "runs.sqlite")
    (info,) = store.list()
    return store.load(info.key)


@pytest.mark.parametrize("writes", [1, 2, 3, *sampled(range(4, WRITES, 3))])
def test_the_loop_goes_on_and_nothing_is_asked_or_done_twice(writes: int, tmp_path: Path) -> None:
    whole_folder, folder = tmp_path / "whole", tmp_path / "killed"
    whole_folder.mkdir()
    folder.mkdir()
    model = Echo()
    whole = run(whole_folder, model)
    done = forked(SCRIPT, folder, writes)
    if done.returncode == 0:  # fewer writes were needed
        assert writes > WRITES // 2
        return
    assert done.returncode == -signal.SIGKILL, done.stderr

    records = records_of(folder)
    if records[-1]["kind"] == "end":  # it had just come to its end
        return
    known = asked_in(records)
    ended = {(one.get("branch"), one["id"]) for one in records if one["kind"] == "action"}
    begun = {
        (one.get("branch"), it["id"])
        for one in records
        if one["kind"] == "intent"
        for it in one["calls"]
    }
    again = Echo()
    decisions: dict[str, Any] = {}
    for _ in begun - ended:  # nobody knows whether those took effect: each waits for a word
        with pytest.raises(ActionOutcomeUnknown) as raised:
            run(folder, again, **decisions)
        undecided = raised.value.undecided
        (call,) = undecided.calls
        (text,) = json.loads(call.input["functionInvocationInput"]["parameters"][0]["value"])
        file = folder / "log.txt"
        is_logged = file.exists() and text in file.read_text().split("\n")
        decided: Any = {"happened": {call.key: f"logged {text}"}}
        if not is_logged:
            decided = {"repeat": [call.key]}
        decisions = {"results": undecided.answer(**decided)}
    result = run(folder, again, **decisions)
    assert (result.output, result.variables) == (whole.output, whole.variables)
    assert Counter(again.asked) + known == Counter(model.asked)
    logged = [sorted((it / "log.txt").read_text().split("\n")) for it in (folder, whole_folder)]
    assert logged[0] == logged[1]
    assert statements(result.trace) == statements(whole.trace)
    if not decisions:  # else several invocations have asked
        assert result.reply.usage.calls == len(again.asked)


@pytest.mark.parametrize("limit", ["model_calls", "iterations"])
@pytest.mark.parametrize("writes", [18, 26])
def test_what_was_asked_before_the_crash_is_in_the_budgets(
    writes: int, limit: str, tmp_path: Path
) -> None:
    forked(SCRIPT, tmp_path, writes)
    records = records_of(tmp_path)
    known = asked_in(records).total()
    left = 11 - known  # of one at the beginning, three, six in the inner loops, and the last
    if records[-1]["kind"] == "end" or left < 2:
        return
    again = Echo()
    with pytest.raises((LimitExceeded, ActionOutcomeUnknown)) as raised:
        run(tmp_path, again, limits=Limits(**{"model_calls": 99, "iterations": 99, limit: 10}))
    if isinstance(raised.value, LimitExceeded):  # else an action's effect is not known
        assert raised.value.limit == limit
        assert len(again.asked) == left - 1
