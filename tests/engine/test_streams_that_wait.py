"""`Agent.astream` over models that wait between their pieces, or that never do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from whole_agents import NATIVE, answer

from orchestrator import Agent, DependencyFailed, LimitExceeded, Limits, Sessions, TextDelta
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.testing import FakeClock, InMemoryStore

Step = str | BaseException | Callable[[], Any]
BOUND = pytest.mark.parametrize("seconds", [None, 600.0])


async def tick() -> None:
    await asyncio.sleep(0)


async def forever() -> None:
    await asyncio.Event().wait()


class Stepping(Model):
    """Goes through steps: a text is streamed, an error raised, and anything else waited for."""

    model_id = NATIVE.model_id

    def __init__(self, *steps: Step) -> None:
        self.steps = ["<answer>", *steps]
        self.taken = 0
        self.ended: list[str] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply([{"text": answer("Hello again.")}])

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        said = ""
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, str):
                    self.taken += 1
                    said += step
                    yield step
                else:
                    await step()
            yield ModelReply([{"text": said}])
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        finally:
            await tick()
            self.ended.append("closed")


def subject(model: Model, seconds: float | None = None, **options: Any) -> Agent:
    options.setdefault("sessions", InMemoryStore())
    return Agent("hr", "You help employees.", model, limits=Limits(seconds=seconds), **options)


def last_record(agent: Agent) -> dict[str, Any]:
    store = agent.sessions.store
    (info,) = store.list()
    return dict(store.load(info.key)[-1])


def words(count: int) -> list[str]:
    return [f"w{number} " for number in range(count)]


async def deltas(agent: Agent) -> list[str]:
    stream = agent.astream("Go", "s-1")
    return [event.text async for event in stream if isinstance(event, TextDelta)]


@BOUND
def test_pieces_come_in_order_whether_the_model_waits_or_not(seconds: float | None) -> None:
    steps: list[Step] = []
    for number, word in enumerate(words(200)):
        steps += [word] + [tick] * (number % 3)
    pieces = asyncio.run(deltas(subject(Stepping(*steps), seconds)))
    assert len(pieces) == 200
    assert "".join(pieces) == "".join(words(200)).strip()


@BOUND
def test_each_piece_may_be_taken_in_a_task_of_its_own(seconds: float | None) -> None:
    async def main() -> str:
        events = subject(model, seconds).astream("Go", "s-1")
        pieces: list[str] = []
        while True:
            try:
                event = await asyncio.create_task(anext(events))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return "".join(pieces)
            if isinstance(event, TextDelta):
                pieces.append(event.text)

    model = Stepping("One ", tick, "two ", tick, tick, "three")
    assert asyncio.run(main()) == "One two three"


def test_no_piece_is_taken_from_the_model_before_the_one_before_it_was_taken() -> None:
    async def main() -> list[int]:
        taken = []
        async for event in subject(model).astream("Go", "s-1"):
            if isinstance(event, TextDelta):
                taken.append(model.taken)
        return taken

    model = Stepping(*words(100))
    assert asyncio.run(main()) == list(range(2, 102))  # the first was the tag


def count_ticks(model: Stepping) -> list[int]:
    """How often another task had run when each piece came."""

    async def main() -> list[int]:
        async def run() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await tick()

        ticks, counts = 0, []
        other = asyncio.create_task(run())
        async for event in subject(model).astream("Go", "s-1"):
            if isinstance(event, TextDelta):
                counts.append(ticks)
        other.cancel()
        return counts

    return asyncio.run(main())


def test_others_have_their_turn_while_a_model_streams_without_a_wait() -> None:
    counts = count_ticks(Stepping(*words(400)))
    assert counts[-1] - counts[0] >= 400 // 32 - 1
    assert all(counts[at + 32] > counts[at] for at in range(len(counts) - 32))


def test_a_model_that_waits_is_not_held_up_by_more_waits() -> None:
    steps: list[Step] = []
    for word in words(400):
        steps += [word, tick]
    counts = count_ticks(Stepping(*steps))
    assert counts[-1] - counts[0] == 399


def test_a_model_that_hangs_after_it_waited_and_went_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = FakeClock(), 0.0  # both stand still: only what hangs takes time

    async def hang() -> None:
        nonlocal now
        now += 1.0
        await forever()

    model = Stepping("One ", tick, "two ", tick, tick, "three", hang)
    agent = Agent(
        "hr", "You help.", model, limits=Limits(seconds=0.05), sessions=Sessions(clock=clock)
    )
    pieces: list[str] = []

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        async for event in agent.astream("Go", "s-1"):
            if isinstance(event, TextDelta):
                pieces.append(event.text)

    with pytest.raises(LimitExceeded) as caught:
        asyncio.run(main())
    assert caught.value.limit == "seconds"
    assert "".join(pieces) == "One two three"
    assert model.ended == ["CancelledError", "closed"]


@BOUND
@pytest.mark.parametrize("waits", [[], [tick]])
def test_a_model_that_raises_after_pieces(waits: list[Step], seconds: float | None) -> None:
    model = Stepping("One ", "two ", *waits, RuntimeError("hunter2"))
    agent = subject(model, seconds)
    with pytest.raises(DependencyFailed, match="raised RuntimeError") as caught:
        asyncio.run(deltas(agent))
    assert "hunter2" not in str(caught.value)
    assert caught.value.reply is not None
    assert last_record(agent)["result"] == "failure"
    assert agent.invoke("Hello?", "s-1").text == "Hello again."


def test_a_model_may_stream_by_an_iterator_of_its_own() -> None:
    class Pieces:
        def __init__(self) -> None:
            self.left: list[Any] = [
                "<answer>One ",
                "two",
                ModelReply([{"text": "<answer>One two"}]),
            ]

        def __aiter__(self) -> Pieces:
            return self

        async def __anext__(self) -> Any:
            await tick()
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

        async def aclose(self) -> None:
            await tick()
            self.left.append("closed")

    class Iterates(Stepping):
        def astream(self, request: ModelRequest) -> Any:
            return pieces

    pieces = Pieces()
    assert asyncio.run(deltas(subject(Iterates()))) == ["One", " two"]
    assert pieces.left == ["closed"]


def test_a_model_that_streams_what_is_no_text() -> None:
    class Odd(Stepping):
        async def astream(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield "<answer>One"
            yield b"two"

    agent = subject(Odd())
    with pytest.raises(
        DependencyFailed, match="of the class 'bytes'; it has to reply with ModelReply"
    ):
        asyncio.run(deltas(agent))


@BOUND
def test_a_task_that_is_cancelled_while_the_model_waits_between_pieces(
    seconds: float | None,
) -> None:
    async def main() -> None:
        waits = asyncio.Event()

        async def hang() -> None:
            waits.set()
            await forever()

        model = Stepping("One ", tick, "two", hang)
        agent = subject(model, seconds)
        task = asyncio.create_task(deltas(agent))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.ended == ["CancelledError", "closed"]
        assert last_record(agent)["result"] == "cancelled"

    asyncio.run(main())


def test_a_stream_whose_last_step_was_cancelled_has_ended() -> None:
    async def main() -> None:
        waits = asyncio.Event()

        async def hang() -> None:
            waits.set()
            await forever()

        model = Stepping("One ", "two", hang)
        agent = subject(model)
        events = agent.astream("Go", "s-1")
        async for event in events:
            if isinstance(event, TextDelta) and event.text.strip() == "two":
                break
        step = asyncio.create_task(anext(events))  # type: ignore[arg-type]
        await waits.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert model.ended == ["CancelledError", "closed"]
        await events.aclose()
        assert [event async for event in events] == []
        assert last_record(agent)["result"] == "cancelled"
        assert agent.invoke("Hello?", "s-1").text == "Hello again."

    asyncio.run(main())


@pytest.mark.parametrize("before", [[], [tick]])
def test_closing_waits_for_what_the_model_has_to_end(before: list[Step]) -> None:
    async def main() -> None:
        model = Stepping(*before, "One ", "two ", *words(100))
        agent = subject(model)
        events = agent.astream("Go", "s-1")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        assert model.ended == ["GeneratorExit", "closed"]
        assert model.taken == 2
        assert last_record(agent)["result"] == "cancelled"
        assert agent.invoke("Hello?", "s-1").text == "Hello again."

    asyncio.run(main())


def test_a_coroutine_that_is_closed_while_the_model_waits_ends_the_turn() -> None:
    class Waits(Stepping):
        async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
            try:
                yield "<answer>One "
                await tick()
            finally:
                self.ended.append("closed")

    model = Waits()
    agent = subject(model)
    work = deltas(agent)  # an event loop that stops for ever would leave it like that
    work.send(None)
    work.close()
    assert model.ended == ["closed"]
    assert last_record(agent)["result"] == "cancelled"
    assert agent.invoke("Hello?", "s-1").text == "Hello again."


def test_an_error_thrown_into_a_stream_stops_the_turn_and_comes_out() -> None:
    async def main() -> None:
        model = Stepping(*words(9))
        agent = subject(model)
        events = agent.astream("Go", "s-1")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        with pytest.raises(KeyError, match="mine"):
            await events.athrow(KeyError("mine"))
        assert model.ended == ["GeneratorExit", "closed"]
        assert last_record(agent)["result"] == "cancelled"

    asyncio.run(main())


def test_a_model_that_fails_while_it_is_closed_ends_the_turn_all_the_same() -> None:
    class Fails(Stepping):
        async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
            try:
                for word in ("<answer>", *words(9)):
                    yield word
            finally:
                await tick()
                raise ValueError

    async def main() -> None:
        agent = subject(Fails())
        events = agent.astream("Go", "s-1")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        assert last_record(agent)["result"] == "failure"
        assert agent.invoke("Hello?", "s-1").text == "Hello again."

    asyncio.run(main())


SPACED = ["One", " ", " two", "  three ", " \n", "\n", "four", "\t", "five ", "", " ", "six", " "]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_white_space_is_streamed_before_what_follows_it(way: str) -> None:
    class Both(Stepping):
        def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
            yield from ("<answer>", *SPACED)
            yield ModelReply([{"text": "".join(("<answer>", *SPACED))}])

    agent = subject(Both(*SPACED))
    if way == "astream":
        pieces = asyncio.run(deltas(agent))
    else:
        stream = agent.stream("Go", "s-1")
        pieces = [event.text for event in stream if isinstance(event, TextDelta)]
    assert pieces == ["One", "  two", "  three", "  \n\nfour", "\tfive", "  six"]
