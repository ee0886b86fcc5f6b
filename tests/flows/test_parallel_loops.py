"""Items of a loop side by side: what it comes to, how many at a time, and what it tells."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from flow_support import Echo, agent, as_stored, handed_over, program, statements

from orchestrator import ActionGroup, Agent, Collaborator, Flow, FlowError, FlowEvent, LimitExceeded
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.engine.run import threads as side_by_side
from orchestrator.engine.trace.reply import TextDelta
from orchestrator.errors import ThrottlingError, ValidationError
from orchestrator.limits import Limits
from orchestrator.models import RecordingModel, ReplayModel
from orchestrator.sessions import InMemoryStore
from orchestrator.support import threads
from orchestrator.support.user_code import keep_causes


@pytest.fixture(autouse=True, scope="module")
def debugging() -> Iterator[None]:
    """Errors keep what a function raised."""
    with keep_causes():
        yield


MAP = program(
    "FOR $x in $xs:",
    "    Say $x -> said",
    "    @note($said, x=$x) >> notes",
    "END",
    "End with $notes -> out",
)


def note(said: str, x: Any) -> str:
    return f"{x}: {said}"


TOOLS = {"note": note}


class Meeting:
    """A function whose first calls wait for each other: so many run at the same time."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count, timeout=60)
        self._left = count
        self._lock = threading.Lock()

    def __call__(self, text: str) -> str:
        with self._lock:
            self._left -= 1
            waits = self._left >= 0
        if waits:
            self._barrier.wait()
        return f"<{text}>"


def test_items_run_at_the_same_time_and_come_together_in_order() -> None:
    model, alone = Echo(Meeting(3)), Echo()
    result = MAP.run({"xs": [1, 2, 3]}, model=model, tools=TOOLS, parallel=3)
    assert model.most == 3
    wanted = MAP.run({"xs": [1, 2, 3]}, model=alone, tools=TOOLS)
    assert alone.most == 1
    assert result.variables == wanted.variables
    assert result.variables["notes"] == ["1: <Say 1>", "2: <Say 2>", "3: <Say 3>"]
    assert (result.output, result.usage) == (wanted.output, wanted.usage)


@pytest.mark.parametrize(
    ("line", "parallel", "limit", "most"),
    [
        ("FOR $x in $xs:", None, 8, 1),
        ("FOR $x in $xs:", 1, 8, 1),
        ("FOR $x in $xs:", 2, 8, 2),
        ("FOR $x in $xs:", 5, 3, 3),
        ("FOR $x in $xs PARALLEL:", None, 2, 2),
        ("FOR $x in $xs PARALLEL 2:", None, 8, 2),
        ("FOR $x in $xs PARALLEL 4:", 2, 8, 2),
        ("FOR $x in $xs PARALLEL 2:", 4, 8, 2),
        ("FOR $x in $xs PARALLEL:", 1, 8, 1),
        ("FOR $x in [1, 2, 3, 4, 5, 6]PARALLEL 2:", None, 8, 2),
    ],
)
def test_never_more_than_so_many(line: str, parallel: int | None, limit: int, most: int) -> None:
    flow = program(line, "    Say $x >> said", "END")
    model = Echo(Meeting(most))
    limits = Limits(parallel=limit)
    result = flow.run({"xs": [1, 2, 3, 4, 5, 6]}, model=model, limits=limits, parallel=parallel)
    assert model.most == most
    assert result.output == "<Say 6>"


def test_no_limits_given_are_no_bound() -> None:
    model = Echo(Meeting(12))
    flow = program("FOR $x in $xs:", "    Say $x >> said", "END")
    flow.run({"xs": list(range(12))}, model=model, parallel=12)
    assert model.most == 12


def test_an_ended_item_makes_room_for_the_next_one() -> None:
    second = threading.Event()

    def answer(text: str) -> str:
        if text == "Say 1":
            assert second.wait(60)
        elif text == "Say 3":  # begins while the first is still at work
            second.set()
        return text

    model = Echo(answer)
    flow = program("FOR $x in [1, 2, 3]:", "    Say $x >> said", "END")
    assert flow.run(model=model, parallel=2).variables["said"] == ["Say 1", "Say 2", "Say 3"]


@pytest.mark.parametrize("parallel", [0, -1, True, "4", 2.0])
def test_so_many_is_a_number_from_one(parallel: Any) -> None:
    with pytest.raises(ValidationError, match="parallel is a whole number"):
        MAP.run({"xs": []}, model=Echo(), parallel=parallel)
    with pytest.raises(ValidationError, match="parallel is a whole number"):
        MAP.as_orchestration(parallel=parallel)


def test_in_an_event_loop() -> None:
    async def run() -> tuple[Any, Echo]:
        model = Echo()
        result = await MAP.arun({"xs": [1, 2, 3, 4]}, model=model, tools=TOOLS, parallel=4)
        return result, model

    result, _ = asyncio.run(run())
    wanted = MAP.run({"xs": [1, 2, 3, 4]}, model=Echo(), tools=TOOLS)
    assert (result.output, result.variables) == (wanted.output, wanted.variables)


# What depends on what

INDEPENDENT = [
    ["Say $x -> a", "Again $a -> a"],
    ["Say $x >> a", "Say more of $x >> b"],
    [
        "@f($x) -> a",
        'IF $a == "1":',
        "    @f(2) -> b",
        "else:",
        "    @f(3) -> b",
        "END",
        "On $b >> c",
    ],
    ["@f($x) -> a", "@f(1) >> a", "Say $a -> b"],
    ["FOR $y in $xs:", "    @f($y) -> a", "    On $a >> b", "END"],
    ["FOR $y in $xs:", "    FOR $z in $xs:", "        @f($z) >> b", "    END", "END"],
    ["@agent(task='On $x', tools=[]) -> helper"],
    ["@agent(task='On $x', tools=['f']) -> helper", "@helper('more') -> a", "Say $a -> b"],
    ["Say ${x} and $before -> b"],
    ['@condition_judge($x, ["1", "2"]) -> kind', 'IF $kind == "1":', "    @f(1) >> ones", "END"],
    ["@code(```json", '{"a": "$x", "$b": 1}', "```) -> b"],
    ["@f($x) -> x", "Say $x -> a"],
]

DEPENDENT = [
    (["Say $x and $a -> a"], 2, "line 2 reads $a, which line 2 assigns"),
    (["Say $x -> a", "Then ${b[0]} -> b"], 3, "line 3 reads $b"),
    (["Say $x >> a", "How many? $a -> b"], 3, "line 3 reads $a, which line 2 assigns"),
    (["IF $x == 1:", "    @f(1) -> a", "END", "Say $a -> b"], 5, "line 5 reads $a"),
    (["IF $b == 1:", "    @f(1) -> a", "END", "Say $x -> b"], 2, "line 2 reads $b"),
    (["FOR $y in $xs:", "    @f($y) -> a", "END", "Say $a -> b"], 5, "line 5 reads $a"),
    (["FOR $y in $xs:", "    @f($y) -> a", "END", "Say $y -> b"], 5, "line 5 reads $y"),
    (["FOR $y in $xs:", "    Say $y, $a -> a", "END"], 3, "line 3 reads $a"),
    (["FOR $y in $a:", "    Say $y >> a", "END"], 2, "line 2 reads $a"),
    (['@f("$a") -> a'], 2, "line 2 reads $a"),
    (["@f([1, {k: $a}]) -> a"], 2, "line 2 reads $a"),
    (["@condition_judge($x, $a) -> a"], 2, "line 2 reads $a"),
    (["@code(```python", "python_res = $a + 1", "```) -> a"], 2, "line 2 reads $a"),
    (["@code(```json", '{"k": ["$a"]}', "```) -> a"], 2, "line 2 reads $a"),
    (["@code(add one to $a) -> a"], 2, "line 2 reads $a"),
    (["Say $x -> a", "(bp)"], 3, "line 3 is a breakpoint"),
    (["IF $x == 3:", '    @exit(msg="done")', "END"], 3, "line 3 may end the program"),
    (["@agent(type='prompt-based', task='Talk.') -> a"], 2, "line 2 may wait for the user"),
    (["@agent(type=$kind, task='Talk.', tools=[]) -> a"], 2, "line 2 may wait for the user"),
    (["@agent(task='On $x') -> a"], 2, "line 2 may call the agent 'a', which line 2 makes"),
    (["Say $x -> b", "@agent(task='On $x', tools=[]) -> a"], 2, "line 2 may call the agent 'a'"),
    (["@agent(task='On $x', tools=$t) -> a"], 2, "line 2 may call the agent 'a'"),
    (
        ["IF $x == 1:", "    @agent(task='A', tools=[]) -> a", "END", "@a('b') -> c"],
        5,
        "line 5 may",
    ),
]


def looped(body: list[str], marked: str = "") -> list[str]:
    return [f"FOR $x in $xs{marked}:", *(f"    {line}" for line in body), "END"]


@pytest.mark.parametrize("body", INDEPENDENT, ids=lambda it: " | ".join(it))
def test_independent_items_run_side_by_side(body: list[str]) -> None:
    flow = program(*looped(body, " PARALLEL"))  # or it would be an error
    given = {"xs": ["1", "2", "3"], "before": "b", "b": 5}
    wanted = program(*looped(body)).run(given, model=Echo(), tools={"f": str})
    got = flow.run(given, model=Echo(), tools={"f": str})
    assert (got.output, got.variables) == (wanted.output, wanted.variables)
    assert all("iteration" in it.members for it in heard(flow, given) if it.line > 1)


def heard(flow: Flow, given: Any, model: Any = None, **more: Any) -> list[FlowEvent]:
    told: list[FlowEvent] = []
    tools = more.pop("tools", {"f": str})
    flow.run(given, model=model or Echo(), tools=tools, on_event=told.append, **more)
    return told


@pytest.mark.parametrize(("body", "line", "why"), DEPENDENT, ids=lambda it: str(it)[:60])
def test_items_that_need_those_before_them_run_one_by_one(
    body: list[str], line: int, why: str
) -> None:
    with pytest.raises(FlowError) as raised:
        program(*looped(body, " PARALLEL"))
    assert raised.value.line == 1
    assert f"cannot run side by side: {why}" in raised.value.message
    assert "不能并行" in raised.value.message_zh
    assert f"第 {line} 行" in raised.value.message_zh


def test_a_run_says_why_a_loop_runs_one_by_one_once_and_goes_on() -> None:
    flow = program(
        "FOR $y in [1, 2]:", "  FOR $x in [1, 2]:", "    Say $a and $x -> a", "  END", "END"
    )
    told = heard(flow, {"a": 0}, parallel=4)
    warnings = [it for it in told if it.type == "warning"]
    assert [(it.line, it.members["text"]) for it in warnings] == [
        (
            1,
            "this FOR runs one item after the other: line 3 reads $a, which line 3 assigns for the "
            "next item",
        ),
        (
            2,
            "this FOR runs one item after the other: line 3 reads $a, which line 3 assigns for the "
            "next item",
        ),
    ]
    assert "逐项执行" in warnings[0].members["text_zh"]
    assert [it for it in heard(flow, {"a": 0}) if it.type == "warning"] == []


def test_an_agent_that_talks_is_not_called_side_by_side() -> None:
    lines = ["@agent(type='prompt-based', task='Talk.', tools=[]) -> guide"]
    with pytest.raises(FlowError, match="line 3 may wait for the user"):
        program(*lines, *looped(["@guide('On $x') -> a"], " PARALLEL"))
    with pytest.raises(FlowError, match="line 3 may wait for the user"):
        program(*lines, *looped(["Ask on $x -> a"], " PARALLEL"))
    program(*lines, *looped(["@agent(task='On $x', tools=[]) -> a"], " PARALLEL"))


@pytest.mark.parametrize("tools", ["", ", tools=['guide']", ", tools=$tools"])
def test_an_agent_whose_tools_talk_is_not_called_side_by_side(tools: str) -> None:
    lines = [
        "@agent(type='prompt-based', task='Talk.', tools=[]) -> guide",
        f"@agent(task='Lead.'{tools}) -> boss",
        "@agent(task='Lead them.', tools=['boss']) -> chief",
    ]
    for name in ("boss", "chief"):
        with pytest.raises(FlowError, match="line 5 may wait for the user"):
            program(*lines, *looped([f"@{name}('On $x') -> a"], " PARALLEL"))


def test_an_agent_that_is_made_later_talks_to_nobody_before() -> None:
    loop = looped(["Say $x -> a"], " PARALLEL")
    talker = "@agent(type='prompt-based', task='Talk.', tools=[]) -> guide"
    program(*loop, talker)
    around = ["FOR $y in $ys:", *(f"    {line}" for line in [*loop, talker]), "END"]
    with pytest.raises(FlowError, match="line 3 may wait for the user"):
        program(*around)


@pytest.mark.parametrize("line", ["FOR $x in $xs PARALLEL 0:", "FOR $x in PARALLEL:"])
def test_a_header_that_is_wrong(line: str) -> None:
    with pytest.raises(FlowError) as raised:
        program(line, "    Say -> a", "END")
    assert raised.value.line == 1


def test_a_text_may_end_in_the_word() -> None:
    flow = program('FOR $x in ["a PARALLEL"]:', "    @f($x) -> y", "END")
    assert flow.run(model=Echo(), tools={"f": str}).output == "a PARALLEL"


# Agents of the program, nested loops


def test_agents_that_items_make_are_there_afterwards() -> None:
    body = ["@agent(task='On $x', tools=[]) -> helper"]
    lines = [*looped(body, " PARALLEL"), "@helper('more') -> out"]
    model = Echo()
    result = program(*lines).run({"xs": [1, 2]}, model=model)
    assert result.output == "<more>"
    assert result.variables["helper"] == "<On 2>"


def test_loops_in_loops_share_what_may_run_at_the_same_time() -> None:
    flow = program(
        "FOR $x in [1, 2]:",
        "    FOR $y in [1, 2, 3, 4]:",
        "        Say $x $y >> said",
        "    END",
        "    Then $x >> said",
        "END",
    )
    model = Echo(Meeting(4))
    result = flow.run(model=model, parallel=4)
    assert model.most == 4
    assert result.variables == flow.run(model=Echo()).variables
    told = heard(flow, {}, parallel=4)
    iterations = Counter(tuple(it.members.get("iteration", ())) for it in told)
    assert iterations[(2, 3)] > 0
    assert {len(it) for it in iterations} == {0, 1, 2}


# What it tells


def test_events_say_which_item_they_are_of() -> None:
    told = heard(MAP, {"xs": ["a", "b"]}, tools=TOOLS, parallel=2)
    alone = heard(MAP, {"xs": ["a", "b"]}, tools=TOOLS)
    assert [it.seq for it in told if it.type != "token"] == sorted(
        it.seq for it in told if it.type != "token"
    )
    for number in (1, 2):
        own = [it for it in told if it.members.get("iteration") == [number]]
        assert [it.type for it in own] == [
            "variable_set",
            "statement_start",
            "token",
            "variable_set",
            "statement_start",
            "tool_call",
            "tool_result",
            "variable_set",
        ]
    last = {it.members["name"]: it.members["value"] for it in told if it.type == "variable_set"}
    assert last == {
        it.members["name"]: it.members["value"] for it in alone if it.type == "variable_set"
    }
    assert told[-1].result is not None


def test_the_trace_tells_items_in_the_order_of_the_list() -> None:
    result = MAP.run({"xs": ["a", "b"]}, model=Echo(), tools=TOOLS, parallel=2)
    assert statements(result.trace) == [
        "line 1: FOR $x in $xs:",
        "item 1, line 2: Say $x -> said",
        "item 1, line 3: @note($said, x=$x) >> notes",
        "item 2, line 2: Say $x -> said",
        "item 2, line 3: @note($said, x=$x) >> notes",
        "line 5: End with $notes -> out",
    ]
    assert len({it["agentId"] for it in result.trace}) == 1
    assert {len(it["callerChain"]) for it in result.trace} == {1}
    assert not any("collaboratorName" in it for it in result.trace)


# Failures, budgets, stopping


class Failures(InMemoryStore):
    """Keeps journals, and tells when the failure of an item has been written down."""

    def __init__(self) -> None:
        super().__init__()
        self.known = threading.Event()

    def append(
        self, key: str, expected: int, records: Sequence[Any], *, label: str = "", at: int = 0
    ) -> None:
        super().append(key, expected, records, label=label, at=at)
        if any(it["kind"] == "branch" and it["result"] == "failure" for it in records):
            self.known.set()


def test_the_first_in_order_that_fails_is_told_and_the_others_stop() -> None:
    store = Failures()

    def answer(text: str) -> str | Exception:
        if text == "Say 2":
            return ThrottlingError("slow down", resource="m")
        assert store.known.wait(60)
        return text

    model = Echo(answer)
    flow = program("FOR $x in $xs:", "    Say $x -> a", "    Then $a -> b", "END", "End -> c")
    with pytest.raises(FlowError, match="slow down") as raised:
        flow.run({"xs": list(range(1, 9))}, model=model, parallel=2, sessions=store, run_id="run-1")
    assert (raised.value.line, raised.value.statement) == (2, "Say $x -> a")
    assert isinstance(raised.value.__cause__, ThrottlingError)
    assert "第 2 行" in raised.value.message_zh
    assert not any(it.startswith(("Then", "End", "Say 4")) for it in model.asked)


def test_a_failure_beside_an_item_that_is_in_a_loop_of_its_own_is_told() -> None:
    store, inside = Failures(), threading.Event()

    def answer(text: str) -> str | Exception:
        if text == "Is 2":
            assert inside.wait(60)
            return ThrottlingError("slow down", resource="m")
        if text.startswith("In"):
            inside.set()
            assert store.known.wait(60)
        return text

    flow = program(
        "FOR $x in [1, 2]:",
        "    Is $x -> a",
        "    FOR $y in [3, 4]:",
        "        In $a $y -> b",
        "        Then $b -> c",
        "    END",
        "END",
    )
    model = Echo(answer)
    with pytest.raises(FlowError, match="slow down") as raised:
        flow.run(model=model, parallel=2, sessions=store, run_id="run-1")
    assert raised.value.line == 2
    assert not any(it.startswith("Then") for it in model.asked)


def test_of_several_failures_the_first_in_order_is_told() -> None:
    def fail(x: int) -> None:
        barrier.wait()
        if x == 1:
            assert second.wait(60)
        if x == 2:
            second.set()
        raise ValueError(f"no {x}")

    barrier, second = threading.Barrier(2, timeout=60), threading.Event()
    flow = program("FOR $x in [1, 2]:", "    @fail($x) -> a", "END")
    with pytest.raises(FlowError) as raised:
        flow.run(model=Echo(), tools={"fail": fail}, parallel=2)
    assert "no 1" in repr(raised.value.__cause__)


def test_an_agent_tells_what_failed_an_item_as_what_it_is() -> None:
    flow = program("FOR $x in [1, 2] PARALLEL:", "    Say $x -> a", "END")
    asked = Agent("a", "You help.", Echo(lambda _: ThrottlingError("slow")), orchestration=flow)
    with pytest.raises(ThrottlingError, match=r"<text>:2:5: slow"):
        asked.invoke("?", "s-1")
    (turn,) = asked.turns("s-1")
    assert "slow" in str(turn.trace)


@pytest.mark.parametrize(
    ("limits", "limit", "asked"),
    [
        (Limits(model_calls=5), "model_calls", 5),
        (Limits(iterations=4), "iterations", 4),
        (Limits(tokens=31), "tokens", None),
    ],
)
def test_budgets_hold_for_all_items_together(limits: Limits, limit: str, asked: int | None) -> None:
    model = Echo()
    flow = program("FOR $x in $xs:", "    Say $x -> a", "    Then $a >> b", "END")
    with pytest.raises(LimitExceeded) as raised:
        flow.run({"xs": list(range(10))}, model=model, limits=limits, parallel=4)
    assert raised.value.limit == limit
    if asked is None:  # ten tokens a call: those at the same time may go over together, no more
        assert 4 <= len(model.asked) <= 7
    else:
        assert len(model.asked) == asked


def test_actions_are_counted_together() -> None:
    called: list[int] = []
    flow = program("FOR $x in $xs:", "    @f($x) -> a", "END")
    with pytest.raises(LimitExceeded) as raised:
        flow.run(
            {"xs": list(range(10))},
            model=Echo(),
            tools={"f": called.append},
            limits=Limits(actions=4),
            parallel=3,
        )
    assert (raised.value.limit, len(called)) == ("actions", 4)


def test_what_a_loop_spent_is_spent_afterwards() -> None:
    flow = program("FOR $x in [1, 2, 3]:", "    Say $x -> a", "END", "End -> b")
    for limits in (Limits(model_calls=3), Limits(iterations=3)):
        model = Echo()
        with pytest.raises(LimitExceeded):
            flow.run(model=model, limits=limits, parallel=3)
        assert len(model.asked) == 3
    assert flow.run(model=Echo(), limits=Limits(model_calls=4, iterations=4), parallel=3).output


def test_nested_loops_are_in_the_same_budget() -> None:
    flow = program(
        "FOR $x in [1, 2]:", "    FOR $y in [1, 2, 3]:", "        Say $x $y -> a", "    END", "END"
    )
    model = Echo()
    with pytest.raises(LimitExceeded):
        flow.run(model=model, limits=Limits(model_calls=5), parallel=4)
    assert len(model.asked) == 5
    model = Echo()
    flow.run(model=model, limits=Limits(model_calls=6, iterations=6), parallel=4)
    assert len(model.asked) == 6


def test_agents_that_items_ask_are_in_the_same_budget() -> None:
    flow = program("FOR $x in [1, 2, 3] PARALLEL:", "    @desk('On $x') >> said", "END")

    def asked(calls: int) -> tuple[Any, Echo]:
        model = Echo(lambda text: f"<answer>{text}</answer>")
        helper = Agent("helper", "You help people who ask.", model)
        team = [Collaborator(helper, "Knows all.", "desk")]
        made, _ = agent(flow, collaborators=team, limits=Limits(model_calls=calls))
        return made, model

    made, model = asked(3)
    assert made.invoke("?", "s-1").text
    assert len(model.asked) == 3
    made, model = asked(2)
    with pytest.raises(LimitExceeded):
        made.invoke("?", "s-1")
    assert len(model.asked) == 2


@pytest.mark.parametrize("calls", [3, 4])
def test_the_items_of_a_collaborators_loop_are_in_its_own_budget(calls: int) -> None:
    flow = program("FOR $x in [1, 2, 3, 4] PARALLEL:", "    Say $x -> said", "END")
    model = Echo()
    limits = Limits(model_calls=calls)
    helper = Agent("helper", "You help.", model, orchestration=flow, limits=limits)
    team = [Collaborator(helper, "Knows all.", "desk")]
    made, _ = agent(program("@desk('Work') -> said"), collaborators=team)
    if calls == 4:
        assert made.invoke("?", "s-1").text == "<Say 4>"
    else:
        with pytest.raises(LimitExceeded):
            made.invoke("?", "s-1")
    assert len(model.asked) == calls


def test_closing_a_stream_stops_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0)
    before = set(threading.enumerate())
    stopped = threading.Event()
    monkeypatch.setattr(side_by_side, "Event", lambda: stopped)

    def answer(text: str) -> str:  # a few times; then it waits until all are stopped
        assert len(model.asked) < 5 or stopped.wait(60)
        return text

    model = Echo(answer)
    flow = program("FOR $x in $xs:", "    Say $x -> a", "    Then $a -> b", "END")
    events = flow.stream({"xs": list(range(50))}, model=model, parallel=2)
    for event in events:
        if event.type == "token":
            break
    events.close()
    asked = len(model.asked)
    assert asked < 20
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()
    assert len(model.asked) == asked


# Waiting, recording, agents


def test_calls_that_the_caller_carries_out_are_handed_over_one_by_one() -> None:
    flow = program(
        "FOR $x in [1, 2, 3]:", "    @pay('to $x') >> paid", "    Thank $x >> said", "END"
    )
    model = Echo()
    given: dict[str, Any] = {"model": model, "action_groups": [handed_over()]}
    result = flow.run(parallel=3, **given)
    for number in (1, 2, 3):
        assert result.waits_for == "call"
        call = result.reply.return_control.invocation_inputs[0]["functionInvocationInput"]
        assert call["parameters"][0]["value"] == f"to {number}"
        assert "collaboratorName" not in call
        assert len(model.asked) == number - 1
        state = as_stored(result.paused)
        result = flow.resume(state, results=f"paid {number}", **given)
    assert result.variables["paid"] == ["paid 1", "paid 2", "paid 3"]
    assert result.variables["said"] == ["<Thank 1>", "<Thank 2>", "<Thank 3>"]
    assert sorted(model.asked) == ["Thank 1", "Thank 2", "Thank 3"]


def test_events_are_told_once_though_items_wait() -> None:
    flow = program("FOR $x in [1, 2]:", "    Ask $x -> a", "    @pay($a) >> paid", "END")
    given: dict[str, Any] = {"model": Echo(), "action_groups": [handed_over()]}
    told: list[FlowEvent] = []
    result = flow.run(parallel=2, on_event=told.append, **given)
    while result.paused is not None:
        state = as_stored(result.paused)
        result = flow.resume(state, results="ok", on_event=told.append, **given)
    own = [(it.type, it.line, str(it.members.get("iteration"))) for it in told]
    starts = Counter(it for it in own if it[0] == "statement_start")
    assert set(starts.values()) == {1}
    assert len(starts) == 5
    numbers = [it.seq for it in told if it.type not in ("token", "breakpoint")]
    assert numbers == sorted(set(numbers))


def test_a_breakpoint_after_the_loop_has_what_it_came_to() -> None:
    flow = program(*looped(["Say $x >> said"], " PARALLEL"), "(bp)", "End $said -> out")
    waits = flow.run({"xs": [1, 2]}, model=Echo())
    assert waits.variables["said"] == ["<Say 1>", "<Say 2>"]
    model = Echo()
    result = flow.resume(as_stored(waits.paused), model=model)
    assert result.output == '<End ["<Say 1>", "<Say 2>"]>'
    assert len(model.asked) == 1


def test_step_by_step_a_loop_runs_one_by_one() -> None:
    flow = program(*looped(["Say $x >> said"], " PARALLEL"))
    result = flow.run({"xs": [1, 2]}, model=Echo(), step=True)
    assert (result.line, result.variables) == (1, {"xs": [1, 2]})
    result = flow.resume(result.paused, model=Echo(), mode="step")
    assert (result.line, result.variables["x"]) == (2, 1)
    while result.paused is not None:
        result = flow.resume(result.paused, model=Echo(), mode="step")
    assert result.variables["said"] == ["<Say 1>", "<Say 2>"]


def test_recorded_replies_are_replayed(tmp_path: Any) -> None:
    file = tmp_path / "replies.jsonl"
    given = {"xs": [1, 2, 3, 4]}
    wanted = MAP.run(given, model=RecordingModel(Echo(), file), tools=TOOLS, parallel=4)
    again = MAP.run(given, model=ReplayModel(file), tools=TOOLS, parallel=2)
    alone = MAP.run(given, model=ReplayModel(file), tools=TOOLS)
    assert wanted.variables == again.variables == alone.variables


def test_the_loop_of_an_agents_script() -> None:
    flow = program("FOR $x in [1, 2, 3] PARALLEL:", "    Say $x -> a", "    @log($a) >> b", "END")
    given: list[str] = []

    def log(text: str) -> str:
        """Logs."""
        given.append(text)
        return "ok"

    model = Echo(Meeting(3))
    asked = Agent(
        "a", "You help.", model, action_groups=[ActionGroup("g", [log])], orchestration=flow
    )
    assert asked.invoke("?", "s-1").text == "ok"
    assert model.most == 3
    assert sorted(given) == ["<Say 1>", "<Say 2>", "<Say 3>"]
    (turn,) = asked.turns("s-1")
    assert [it for it in statements(turn.trace) if it.startswith("item 3")]
    events = list(asked.stream("!", "s-1"))
    assert "".join(it.text for it in events if isinstance(it, TextDelta)) == "ok"


def test_an_agents_loops_run_side_by_side_as_it_is_said() -> None:
    flow = program("FOR $x in [1, 2, 3, 4]:", "    Say $x -> a", "END")
    for parallel, limit, most in ((3, 8, 3), (3, 2, 2), (None, 8, 1)):
        model = Echo(Meeting(most))
        orchestration = flow.as_orchestration(parallel=parallel)
        limits = Limits(parallel=limit)
        Agent("a", "You help.", model, orchestration=orchestration, limits=limits).invoke(
            "?", "s-1"
        )
        assert model.most == most


class Marks:
    """Sets a session attribute and a prompt session attribute by each call."""

    def call(self, call: Call, context: CallContext) -> ActionResult:
        name = str(call.arguments["name"])
        return ActionResult(
            "ok",
            session_attributes={**context.session_attributes, name: "1"},
            prompt_session_attributes={**context.prompt_session_attributes, name: "2"},
        )


def test_attributes_that_items_change_come_together() -> None:
    functions = [{"name": "mark", "parameters": {"name": {"type": "string"}}}]
    group = ActionGroup("marks", executor=Marks(), functions=functions)
    seen: list[Any] = []

    class Looks:
        def call(self, call: Call, context: CallContext) -> ActionResult:
            seen.append((context.session_attributes, context.prompt_session_attributes))
            return ActionResult("ok")

    look = ActionGroup("looks", executor=Looks(), functions=[{"name": "look"}])
    flow = program(
        "FOR $x in ['a', 'b', 'c'] PARALLEL:", "    @mark($x) -> m", "END", "@look() -> l"
    )
    asked = Agent("a", "You help.", Echo(), action_groups=[group, look], orchestration=flow)
    asked.invoke("?", "s-1")
    ((session, prompt),) = seen
    assert dict(session) == {"a": "1", "b": "1", "c": "1"}
    assert dict(prompt) == {"a": "2", "b": "2", "c": "2"}


def test_a_models_question_to_the_user_ends_the_turn() -> None:
    call = {"toolUse": {"toolUseId": "t", "name": "user__askuser", "input": {"question": "Which?"}}}
    flow = program("FOR $x in [1, 2] PARALLEL:", "    Help with $x -> a", "END", "End -> b")
    groups = [ActionGroup("ask", signature="AMAZON.UserInput")]
    asked, model = agent(flow, [call], [call], groups=groups)
    reply = asked.invoke("?", "s-1")
    assert (reply.text, reply.stop_reason) == ("Which?", "ask_user")
    assert len(model.requests) <= 2
