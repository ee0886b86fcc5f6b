"""Several calls in one reply: carried out at the same time, told in the model's order."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from engine_turns import results_of
from waiting import until
from whole_agents import BOTH, NATIVE, Family, agent, answer, texts_of

from orchestrator import ActionGroup, Agent, DependencyFailed, Limits, Reply
from orchestrator.engine.run import event_loop
from orchestrator.errors import ActionOutcomeUnknown
from orchestrator.support.threads import in_thread
from orchestrator.testing import InMemoryStore

WAIT = 60  # a bound for tests that hang, never a pause


def invoke(agent: Agent, *args: Any, **options: Any) -> Reply:
    return agent.invoke(*args, **options)


def ainvoke(agent: Agent, *args: Any, **options: Any) -> Reply:
    return asyncio.run(agent.ainvoke(*args, **options))


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke])
Run = Callable[..., Reply]


def calls(family: Family, count: int) -> Any:
    return family.calls(*[("work::do", {"n": n}) for n in range(count)])


def worker(do: Callable[..., Any]) -> list[ActionGroup]:
    do.__name__ = "do"
    return [ActionGroup("work", [do])]


@EACH_WAY
@BOTH
def test_calls_run_at_the_same_time_and_results_keep_their_order(family: Family, run: Run) -> None:
    barrier = threading.Barrier(4)

    def do(n: int) -> str:
        barrier.wait(WAIT)
        return f"done {n}"

    model = family.model([calls(family, 4), answer("All done.")])
    assert run(agent(model, worker(do)), "Do it.", "s-1").text == "All done."
    assert results_of(model.requests[1]) == [f"done {n}" for n in range(4)]


def test_async_actions_run_at_the_same_time_in_one_loop() -> None:
    there: list[int] = []
    threads = set()

    async def do(n: int) -> str:
        there.append(n)
        threads.add(threading.get_ident())
        if len(there) == 4:
            everybody.set()
        await everybody.wait()
        return f"done {n}"

    everybody = asyncio.Event()
    model = NATIVE.model([calls(NATIVE, 4), answer("All done.")])
    ainvoke(agent(model, worker(do)), "Do it.", "s-1")
    assert threads == {threading.get_ident()}
    assert results_of(model.requests[1]) == [f"done {n}" for n in range(4)]


@EACH_WAY
def test_no_more_run_at_the_same_time_than_the_limit_says(run: Run) -> None:
    lock, pairs = threading.Lock(), threading.Barrier(2)
    running, most = 0, 0

    def do(n: int) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pairs.wait(WAIT)
        with lock:
            running -= 1
        return f"done {n}"

    model = NATIVE.model([calls(NATIVE, 6), answer("All done.")])
    run(agent(model, worker(do), limits=Limits(parallel=2)), "Do it.", "s-1")
    assert most == 2
    assert results_of(model.requests[1]) == [f"done {n}" for n in range(6)]


@EACH_WAY
def test_when_one_ends_the_next_begins(run: Run) -> None:
    third = threading.Event()

    def do(n: int) -> str:
        if n == 0:
            assert third.wait(WAIT)
        if n == 2:
            third.set()
        return f"done {n}"

    model = NATIVE.model([calls(NATIVE, 3), answer("All done.")])
    run(agent(model, worker(do), limits=Limits(parallel=2)), "Do it.", "s-1")
    assert results_of(model.requests[1]) == [f"done {n}" for n in range(3)]


@EACH_WAY
def test_one_that_fails_ends_the_turn_and_the_others_are_known(run: Run) -> None:
    def do(n: int) -> str:
        if n == 1:
            raise RuntimeError("secret payload")
        return f"done {n}"

    store = InMemoryStore()
    model = NATIVE.model([calls(NATIVE, 3), answer("Only some.")])
    asked = agent(model, worker(do), sessions=store)
    with pytest.raises(DependencyFailed) as failed:
        run(asked, "Do it.", "s-1")
    assert failed.value.resource == "work::do"
    assert "secret payload" not in failed.value.message
    (info,) = store.list()
    records = [one for one in store.load(info.key) if one["kind"] == "action"]
    assert sorted((one["id"], one.get("state", "")) for one in records) == [
        ("call-0-0", ""),
        ("call-0-1", "FAILURE"),
        ("call-0-2", ""),
    ]
    # The next turn knows what was done and what was not.
    run(asked, "What did you do?", "s-1")
    (told,) = [one for one in model.requests[1].messages if "toolResult" in one["content"][0]]
    results = [block["toolResult"] for block in told["content"]]
    assert [result["content"][0]["text"] for result in results] == [
        "done 0",
        "The action failed.",
        "done 2",
    ]
    assert [result.get("status") for result in results] == [None, "error", None]


@EACH_WAY
@pytest.mark.parametrize("count", [1, 3])
def test_one_that_takes_too_long_is_given_up(run: Run, count: int) -> None:
    never = threading.Event()
    others = []

    def do(n: int) -> str:
        if n == 0:
            never.wait(WAIT)
        else:
            others.append(n)
        return f"done {n}"

    model = NATIVE.model([calls(NATIVE, count), answer("Next.")])
    limits = Limits(action_seconds=0.2)
    asked = agent(model, worker(do), limits=limits)
    with pytest.raises(ActionOutcomeUnknown, match=r"within 0\.2 seconds"):
        run(asked, "Do it.", "s-1")
    never.set()
    until(lambda: sorted(others) == list(range(1, count)))
    assert run(asked, "And now?", "s-1").text == "Next."
    # What the developer is told is not for the model.
    told = "".join(texts_of(model.requests[-1]))
    assert "whether it took effect is not known" in told
    assert "Limits(" not in told and "seconds" not in told


def test_an_action_that_ended_while_the_loop_stood_still_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    def begin(work: Callable[[], Any], **options: Any) -> Any:
        nonlocal now
        future = in_thread(work, **options)
        future.result(WAIT)
        now += 60.0  # before the loop can look at what has ended
        return future

    async def run() -> str:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        return (await asked.ainvoke("Do it.", "s-1")).text

    monkeypatch.setattr(event_loop, "in_thread", begin)
    model = NATIVE.model([calls(NATIVE, 1), answer("Done.")])
    asked = agent(model, worker(lambda n: f"done {n}"), limits=Limits(action_seconds=30))
    assert asyncio.run(run()) == "Done."
    assert results_of(model.requests[1]) == ["done 0"]


def test_an_async_action_that_takes_too_long_is_cancelled() -> None:
    cancelled = []

    async def do(n: int) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(n)
            raise
        return ""

    model = NATIVE.model([calls(NATIVE, 1)])
    with pytest.raises(ActionOutcomeUnknown):
        ainvoke(agent(model, worker(do), limits=Limits(action_seconds=0.05)), "Do it.", "s-1")
    assert cancelled == [0]


def test_a_stuck_action_beside_async_ones_does_not_hold_the_loop() -> None:
    never = threading.Event()
    ended = []

    def do(n: int) -> str:
        never.wait(WAIT)
        ended.append(n)
        return ""

    async def other() -> str:
        return ""

    do.__name__ = "do"
    asked = agent(
        NATIVE.model([calls(NATIVE, 1)]),
        [ActionGroup("work", [do, other])],
        limits=Limits(action_seconds=0.05),
    )
    with pytest.raises(ActionOutcomeUnknown):
        ainvoke(asked, "Do it.", "s-1")
    assert not ended
    never.set()


def test_a_blocking_action_does_not_block_the_loop() -> None:
    seen = threading.Event()

    def do(n: int) -> str:
        assert seen.wait(WAIT)  # until the loop has run on
        return "done"

    async def both() -> str:
        task = asyncio.create_task(asked.ainvoke("Do it.", "s-1"))
        while not model.requests:
            await asyncio.sleep(0)
        seen.set()
        return (await task).text

    model = NATIVE.model([calls(NATIVE, 1), answer("Done.")])
    asked = agent(model, worker(do))
    assert asyncio.run(both()) == "Done."


@EACH_WAY
def test_actions_see_the_callers_context_variables(run: Run) -> None:
    def do(n: int) -> str:
        return user.get()

    user.set("ann")
    model = NATIVE.model([calls(NATIVE, 2), answer("Done.")])
    run(agent(model, worker(do)), "Do it.", "s-1")
    assert results_of(model.requests[1]) == ["ann", "ann"]


user: ContextVar[str] = ContextVar("user")


@EACH_WAY
def test_equal_ids_of_a_model_mean_different_calls(run: Run) -> None:
    # Some servers number the calls of every reply from 0.
    def do(n: int) -> str:
        made.append(n)
        return f"done {n}"

    def use(n: int) -> dict[str, Any]:
        return {"toolUse": {"toolUseId": "call_0", "name": "work__do", "input": {"n": n}}}

    made: list[int] = []
    model = NATIVE.model([[use(1)], [use(2)], [use(3), use(4)], answer("Done.")])
    assert run(agent(model, worker(do)), "Do it.", "s-1").text == "Done."
    assert sorted(made) == [1, 2, 3, 4]
    assert results_of(model.requests[2]) == ["done 2"]
    assert results_of(model.requests[3]) == ["done 3", "done 4"]


@EACH_WAY
@pytest.mark.parametrize("ids", [("t-3", "t", "t"), ("call-2", None), ("t", "t", "t-2")])
def test_no_id_that_is_made_is_one_of_the_models_own(run: Run, ids: tuple[Any, ...]) -> None:
    def do(n: int) -> str:
        return f"done {n}"

    uses = [
        {"toolUse": {"toolUseId": id, "name": "work__do", "input": {"n": n}}}
        for n, id in enumerate(ids)
    ]
    model = NATIVE.model([uses, answer("Done.")])
    run(agent(model, worker(do)), "Do it.", "s-1")
    assert results_of(model.requests[1]) == [f"done {n}" for n in range(len(ids))]
    # A provider refuses two calls of one id.
    _, said, results = model.requests[1].messages
    sent = [block["toolUse"]["toolUseId"] for block in said["content"]]
    assert len(set(sent)) == len(ids)
    assert [block["toolResult"]["toolUseId"] for block in results["content"]] == sent


def plain(value: Any) -> Any:
    """A trace without what differs from one turn to the next."""
    if isinstance(value, dict):
        kept = {key: plain(one) for key, one in value.items() if not key.endswith(("Time", "Ms"))}
        kept.pop("clientRequestId", None)
        return kept
    if isinstance(value, list):
        return [plain(one) for one in value]
    # The ids of a provider's message are made of the turn's.
    return re.sub(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=msg_bdrk_)[0-9a-f]{32}", "<id>", str(value)
    )


@BOTH
def test_both_drivers_run_the_same_turn(family: Family) -> None:
    def do(n: int) -> str:
        return f"done {n}"

    script = [
        calls(family, 2),
        family.calls(("work::undo", {"n": 1})),
        family.calls(("work::do", {})),
        calls(family, 1),
        answer("Done."),
    ]
    models = [family.model(script) for _ in range(2)]
    replies = [
        run(agent(model, worker(do)), "Do it.", "s-1")
        for run, model in zip((invoke, ainvoke), models, strict=True)
    ]
    assert plain(replies[0].as_dict()) == plain(replies[1].as_dict())
    assert models[0].requests == models[1].requests
