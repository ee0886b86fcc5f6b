"""`Flow`: ways to run a script, what is told meanwhile, and going on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flow_support import CLAUDE, PLAIN, as_stored, handed_over, program, script, scripted, texts
from left_out import sampled

from orchestrator import Flow, FlowError, FlowEvent, LimitExceeded
from orchestrator.agent.compile import build_plan
from orchestrator.errors import ThrottlingError, ValidationError
from orchestrator.limits import Limits
from orchestrator.models import RecordingModel, ReplayModel, ScriptedModel

LOOP = program(
    "FOR $city in $cities:",
    "    Greet $city -> greeting",
    "    $greeting again -> greetings",
    "    (bp)",
    "END",
    "All of $greetings -> all",
)


def kinds(events: list[FlowEvent]) -> list[str]:
    return [event.type for event in events]


def test_events_tell_statements_tokens_and_variables_in_order() -> None:
    flow = program("@double(2) -> n", "Say $n -> a", "$no -> b")
    events = list(flow.stream(model=scripted("four", "x"), tools={"double": lambda n: n * 2}))
    assert kinds(events) == [
        "run_start",
        *("statement_start", "tool_call", "tool_result", "variable_set"),
        *("statement_start", "token", "variable_set"),
        *("statement_start", "warning", "token", "variable_set"),
        "run_end",
    ]
    assert [it.seq for it in events if it.type != "token"] == list(range(1, 12))
    assert events[1].statement == "@double(2) -> n"
    assert events[2].as_dict() == {
        "type": "tool_call",
        "seq": 3,
        "line": 1,
        "statement": "@double(2) -> n",
        "name": "double",
        "args": [2],
        "kwargs": {},
    }
    assert events[-1].result.output == "x"


def test_all_ways_to_run_come_to_the_same() -> None:
    def model() -> Any:
        return scripted("hi", "x", "hi", "x", "y")

    cities: dict[str, Any] = {"cities": ["Rome", "Bern"]}
    told: list[FlowEvent] = []
    flow = program("FOR $city in $cities:", "    $city -> a", "    $a -> b", "END", "$b -> c")
    plain = flow.run(cities, model=model())
    heard = flow.run(cities, model=model(), on_event=told.append)
    streamed = list(flow.stream(cities, model=model()))

    async def all_async() -> tuple[Any, Any, list[FlowEvent]]:
        one = await flow.arun(cities, model=model())
        other = await flow.arun(cities, model=model(), on_event=lambda _: None)
        return one, other, [it async for it in flow.astream(cities, model=model())]

    one, other, astreamed = asyncio.run(all_async())
    results = [plain, heard, streamed[-1].result, one, other, astreamed[-1].result]
    assert {json.dumps([it.output, it.variables]) for it in results} == {
        json.dumps([plain.output, plain.variables])
    }
    assert streamed == astreamed == told


def test_a_replies_text_comes_as_it_streams() -> None:
    tokens: list[str] = []
    result = program("Say -> a", "Say -> b").run(
        model=scripted("one two", "three"),
        on_event=lambda it: tokens.append(it.members["text"]) if it.type == "token" else None,
    )
    assert "".join(tokens) == "one twothree"
    assert result.output == "three"


def test_a_failure_is_an_event_and_then_raised() -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    events = []
    with pytest.raises(FlowError) as raised:
        for event in program("", "@fail() -> a").stream(model=scripted(), tools={"fail": fail}):
            events.append(event)
    last = events[-1]
    assert (last.type, last.line, last.statement) == ("error", 2, "@fail() -> a")
    assert last.members["text"] == raised.value.reason
    assert last.members["text_zh"] == raised.value.message_zh
    assert "RuntimeError" in raised.value.message
    assert raised.value.message_zh.startswith("第 2 行：执行失败")


def test_a_model_that_fails_fails_the_statement() -> None:
    error = ThrottlingError("slow down")
    with pytest.raises(FlowError, match="slow down") as raised:
        program("Say -> a").run(model=scripted(error))
    assert raised.value.__cause__ is error
    assert (raised.value.line, raised.value.statement) == (1, "Say -> a")


def test_a_limit_is_told_as_itself() -> None:
    flow = program("FOR $i in [1, 2, 3]:", "    Say -> a", "END")
    with pytest.raises(LimitExceeded) as raised:
        flow.run(model=scripted("1", "2", "3"), limits=Limits(iterations=2))
    assert raised.value.limit == "iterations"


def test_a_seed_makes_choices_the_same() -> None:
    flow = script("user: 'A [[F:|a|b|c|d|e|f|g|h:random]]'", "$echo: done")

    def drawn(seed: int | None) -> Any:
        return flow.run(model=scripted("ok"), seed=seed).variables["F"]

    assert drawn(7) == drawn(7)
    assert len({drawn(seed) for seed in range(20)}) > 3


def test_an_async_function_may_be_called_in_an_event_loop() -> None:
    async def slow(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    flow = program('@slow("a") -> b')
    assert asyncio.run(flow.arun(model=scripted(), tools={"slow": slow})).output == "A"


def test_arguments_are_json_data() -> None:
    with pytest.raises(ValidationError, match="no JSON data"):
        program("Say $a -> b").run({"a": object()}, model=scripted())


def test_options_are_known_and_there_is_a_model() -> None:
    with pytest.raises(TypeError, match="modell"):
        program("Say -> b").run(modell="local")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="model="):
        program("Say -> b").run()


# Waiting


def test_a_run_by_steps_waits_before_its_first_statement() -> None:
    flow = program("Say -> a", "Say -> b")
    model = scripted("1", "2")
    result = flow.run(model=model, step=True)
    assert (result.waits_for, result.line, result.statement) == ("breakpoint", 1, "Say -> a")
    assert not model.requests
    result = flow.resume(as_stored(result.paused), model=model, mode="step")
    assert (result.line, result.variables) == (2, {"a": "1"})
    result = flow.resume(as_stored(result.paused), model=model, mode="step")
    assert (result.paused, result.variables) == (None, {"a": "1", "b": "2"})


def test_a_ppe_script_runs_by_steps() -> None:
    flow = script("$set: {a: 1}", "user: Name a bird", "assistant: '[[bird]]'", "user: '{{bird}}?'")
    model = scripted("heron", "Grey.")
    result = flow.run(model=model, step=True)
    lines = []
    while result.paused is not None:
        lines.append((result.line, result.waits_for, dict(result.variables)))
        result = flow.resume(as_stored(result.paused), model=model, mode="step")
    assert [line for line, _, _ in lines] == [1, 2, 3, 4]
    assert {waits for _, waits, _ in lines} == {"breakpoint"}
    assert lines[1][2]["a"] == 1
    assert result.output == "Grey."
    assert len(model.requests) == 2


def test_a_ppe_script_goes_on_from_a_step() -> None:
    flow = script("user: 'On {{content}}'", "assistant: '[[a]]'", "user: 'And {{a}}?'")
    waits = flow.run("birds", model=scripted(), step=True)
    assert (waits.line, waits.variables) == (1, {"content": "birds"})
    model = scripted("heron", "Grey.")
    result = flow.resume(as_stored(waits.paused), model=model)
    assert (result.paused, result.output) == (None, "Grey.")


def test_a_talk_goes_on_with_the_users_texts() -> None:
    flow = program('@agent(type="prompt-based", task="Talk.") -> talk', "Sum $talk -> sum")
    model = scripted("What now?", "Fine.", "Summed.")
    result = flow.run(model=model)
    assert (result.waits_for, result.question) == ("user", "What now?")
    result = flow.resume(as_stored(result.paused), model=model, text="Sing.\n-> x")
    assert (result.waits_for, result.question) == ("user", "Fine.")
    events = list(flow.resume_stream(as_stored(result.paused), model=model, text="exit"))
    assert events[-1].result.output == "Summed."
    assert texts(model.requests[1])[-1] == "Sing.\n-> x"
    assert "run_start" not in kinds(events)


def test_the_last_event_of_a_run_that_waits_says_so() -> None:
    *_, last = program("Say -> a", "(bp)").stream(model=scripted("x"))
    assert (last.type, last.line, last.members) == ("breakpoint", 2, {"waits_for": "breakpoint"})
    assert last.result.paused is not None
    flow = program('@agent(type="prompt-based", task="Talk.") -> talk')
    *_, last = flow.stream(model=scripted("Hi?"))
    assert last.members == {"waits_for": "user", "text": "Hi?"}


def test_events_of_a_run_that_goes_on_are_told_once() -> None:
    model = scripted("1", "2", "3", "4", "5")
    events: list[FlowEvent] = []
    result = LOOP.run({"cities": ["Rome", "Bern"]}, model=model, on_event=events.append)
    while result.paused is not None:
        state = as_stored(result.paused)
        result = LOOP.resume(state, model=model, on_event=events.append)
    seen = [event.seq for event in events if event.type != "token"]
    assert seen == sorted(set(seen))
    assert kinds(events).count("run_start") == 1


def test_a_mode_is_continue_or_step() -> None:
    paused = program("(bp)").run(model=scripted()).paused
    with pytest.raises(ValidationError, match="'run'"):
        program("(bp)").resume(paused, model=scripted(), mode="run")  # type: ignore[arg-type]


def test_a_call_that_the_caller_carries_out_goes_on_with_its_result() -> None:
    options: dict[str, Any] = {"action_groups": [handed_over()]}
    flow = program('@pay("Emma") -> paid', "Say $paid -> said")
    result = flow.run(model=scripted(), **options)
    assert result.waits_for == "call"
    (call,) = result.reply.return_control.invocation_inputs
    assert call["functionInvocationInput"]["function"] == "pay"
    state = as_stored(result.paused)
    with pytest.raises(ValidationError, match="results="):
        flow.resume(state, model=scripted(), **options)
    result = flow.resume(state, model=scripted("ok"), results={"pay": "5 EUR"}, **options)
    assert result.variables == {"paid": "5 EUR", "said": "ok"}


# Recording


def test_a_run_is_recorded_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    flow = program("Say $a -> b", '@condition_judge($b, ["x", "y"]) -> c')
    first = flow.run({"a": 1}, model=RecordingModel(scripted("one", "x"), file))
    again = flow.run({"a": 1}, model=ReplayModel(file))
    assert (again.output, again.variables) == (first.output, first.variables)


# Choices


def test_a_model_that_can_be_held_calls_a_tool_with_the_choices() -> None:
    call = {"toolUse": {"toolUseId": "t", "name": "choose", "input": {"choice": "b"}}}
    model = scripted([call])
    result = program('@condition_judge("x", ["a", "b"]) -> c').run(model=model)
    assert result.output == "b"
    (request,) = model.requests
    assert request.tool_choice == {"tool": {"name": "choose"}}
    schema = request.tools[0]["toolSpec"]["inputSchema"]["json"]
    assert schema["properties"]["choice"]["enum"] == ["a", "b", "no_answer"]


@pytest.mark.parametrize("id", ["us.amazon.nova-pro-v1:0", "openai:gpt-4o", CLAUDE])
def test_models_that_can_be_held(id: str) -> None:
    model = scripted("b", model_id=id)
    assert program('@condition_judge("x", ["a", "b"]) -> c').run(model=model).output == "b"
    assert model.requests[0].tool_choice is not None


@pytest.mark.parametrize("id", [PLAIN, "anthropic.claude-v2:1", "openai:llama3"])
def test_other_models_are_told_and_checked(id: str) -> None:
    model = scripted("kiwi", "banana", model_id=id)
    flow = script("user: Pick", "assistant: '[[F:|apple|banana]]'")
    assert flow.run(model=model).variables["F"] == "banana"
    assert [request.tool_choice for request in model.requests] == [None, None]
    assert not model.requests[0].tools


def test_a_model_in_the_middle_of_its_text_is_not_held() -> None:
    model = scripted("banana")
    flow = script("user: Pick", "assistant: 'I take [[F:|apple|banana]]'")
    assert flow.run(model=model).variables["F"] == "banana"
    assert model.requests[0].tool_choice is None


def test_an_embedded_model_is_held_by_a_grammar() -> None:
    from orchestrator.models.grammar import grammar_of

    model = scripted("b", model_id="local:x")
    program('@condition_judge("x", ["a \\"q\\"", "b"]) -> c').run(model=model)
    (request,) = model.requests
    assert request.call_format.choices == ('a "q"', "b", "no_answer")
    assert grammar_of(request.call_format) == 'root ::= "a \\"q\\"" | "b" | "no_answer"\n'


def test_registered_functions_are_in_the_grammar_of_an_embedded_model() -> None:
    def double(number: int) -> int:
        """Doubles."""
        return 2 * number

    call = {"toolUse": {"toolUseId": "t", "name": "double", "input": {"number": 4}}}
    model = scripted([call], model_id="local:x")
    assert program("Double 4 -> a").run(model=model, tools={"double": double}).output == 8
    (request,) = model.requests
    assert [one.name for one in request.call_format.operations] == ["double"]
    assert '"double"' in request.system


# Crashes and other processes

CHILD = """
import json, os, sys
from orchestrator import load_flow
from orchestrator.testing import ScriptedModel

file, store, log, replies, dies = sys.argv[1:]


def work(n):
    with open(log, "a") as out:
        out.write(f"{n}\\n")
    return n


def die():
    if dies == "yes":
        os.kill(os.getpid(), 9)
    return "alive"


model = ScriptedModel(json.loads(replies), "anthropic.claude-3-5-sonnet-20240620-v1:0")
result = load_flow(file).run(
    {"a": 1}, model=model, tools={"work": work, "die": die}, sessions=store, run_id="r-1"
)
print(json.dumps([result.output, result.variables, len(model.requests)]))
"""


def child(*words: Any, script: str = CHILD) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(given, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.exhaustive
def test_a_run_that_was_killed_goes_on_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "flow.pl").write_text(
        "Say $a -> one\n@work(1) -> two\nSay $two -> three\n"
        "@work(2) -> four\n@die() -> five\nEnd -> six\n"
    )
    given = (tmp_path / "flow.pl", tmp_path / "runs.sqlite", tmp_path / "log")
    killed = child(*given, '["first", "second"]', "yes")
    assert killed.returncode == -9, killed.stderr
    again = child(*given, '["last"]', "no")
    if again.returncode:  # nobody knows whether the call that was killed took effect
        assert "nobody knows" in again.stderr
    assert (tmp_path / "log").read_text() == "1\n2\n"


DYING = """
class Dying(ScriptedModel):
    def complete(self, request):
        if len(self.requests) == 1 and dies == "yes":
            os.kill(os.getpid(), 9)
        return super().complete(request)


model = Dying"""


def killed_in_its_second_call(folder: Path) -> tuple[Any, ...]:
    """Runs a script in a process that is killed; what a process is given that goes on with it."""
    file = folder / "flow.pl"
    file.write_text("Say $a -> one\n@work(1) -> two\nSay $two -> three\nEnd $one -> four\n")
    given = (file, folder / "runs.sqlite", folder / "log")
    killed = child(*given, '["first"]', "yes", script=CHILD.replace("model = ScriptedModel", DYING))
    assert killed.returncode == -9, killed.stderr
    return given


@pytest.mark.exhaustive
def test_a_run_that_was_killed_between_its_steps_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    given = killed_in_its_second_call(tmp_path)
    again = child(*given, '["second", "third"]', "no")
    assert again.returncode == 0, again.stderr
    output, variables, calls = json.loads(again.stdout)
    assert (output, calls) == ("third", 2)
    assert variables == {"a": 1, "one": "first", "two": 1, "three": "second", "four": "third"}
    assert (tmp_path / "log").read_text() == "1\n"


def test_a_changed_script_does_not_go_on_with_the_run_of_the_old_one(tmp_path: Path) -> None:
    killed_in_its_second_call(tmp_path)
    options: dict[str, Any] = {"sessions": tmp_path / "runs.sqlite", "run_id": "r-1"}
    with pytest.raises(FlowError, match="another version of this script") as raised:
        program("Other $a -> one").run({"a": 1}, model=scripted("x"), **options)
    assert "另一版本" in raised.value.message_zh


def test_a_run_waits_and_goes_on_in_a_store(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    flow = program("Say -> a", "(bp)", "Say $a -> b")
    paused = flow.run(model=scripted("1"), sessions=store, run_id="r-1").paused
    result = flow.resume(as_stored(paused), model=scripted("2"), sessions=store)
    assert (result.output, result.variables) == ("2", {"a": "1", "b": "2"})


RESUMER = """
import json, sys
from orchestrator import load_flow
from orchestrator.testing import ScriptedModel

file, state, replies, mode = sys.argv[1:]
model = ScriptedModel(json.loads(replies), "anthropic.claude-3-5-sonnet-20240620-v1:0")
result = load_flow(file).resume(json.loads(open(state).read()), model=model, mode=mode)
open(state, "w").write(json.dumps(result.paused))
told = [[r.system, list(r.messages)] for r in model.requests]
print(json.dumps([result.output, result.variables, told]))
"""


@pytest.mark.parametrize("mode", sampled(["continue", "step"]))
def test_a_run_ends_in_new_processes_as_if_it_had_never_waited(tmp_path: Path, mode: str) -> None:
    file, state = tmp_path / "flow.pl", tmp_path / "state.json"
    text = 'Say $x -> a\n(bp)\nIF $a == "1":\n    Say $a >> b\n    @(bp)\n    Say $b >> b\nEND\n'
    text += "End -> c\n"
    file.write_text(text)
    replies = ["1", "2", "3", "4"]
    whole = scripted(*replies)
    plain = Flow.from_text(text.replace("@(bp)", "").replace("(bp)", ""), "pl")
    expected = plain.run({"x": "$a"}, model=whole)
    model = scripted(*replies)
    flow = Flow.from_text(text, "pl")
    result = flow.run({"x": "$a"}, model=model)
    state.write_text(json.dumps(result.paused))
    asked, found = len(model.requests), [result.output, result.variables]
    requests = [[it.system, list(it.messages)] for it in model.requests]
    for _ in range(9):
        if json.loads(state.read_text()) is None:
            break
        given = [sys.executable, "-c", RESUMER, file, state, json.dumps(replies[asked:]), mode]
        done = subprocess.run(given, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        *found, told = json.loads(done.stdout)
        requests += told
        asked += len(told)
    assert json.loads(state.read_text()) is None
    assert found == [expected.output, expected.variables]
    assert requests == [[it.system, list(it.messages)] for it in whole.requests]


# Stopping


def test_closing_the_stream_stops_the_run() -> None:
    model = scripted("1", "2")
    events = program("Say -> a", "Say -> b").stream(model=model)
    for event in events:
        if event.type == "variable_set":
            events.close()
            break
    assert len(model.requests) == 1


def test_a_task_that_is_cancelled_stops_the_run() -> None:
    async def run() -> None:
        flow, begun = program("@wait() -> a", "Say -> b"), asyncio.Event()

        async def wait() -> str:
            return "x"

        task = asyncio.ensure_future(
            flow.arun(model=model, tools={"wait": wait}, on_event=lambda _: begun.set())
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    model = scripted("1")
    asyncio.run(run())
    assert not model.requests


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that agents were compiled for, one entry an agent."""
    models: list[str] = []

    def count(**arguments: Any) -> Any:
        models.append(arguments["model"].model_id)
        return build_plan(**arguments)

    monkeypatch.setattr("orchestrator.agent.agent.build_plan", count)
    return models


def test_a_flow_is_compiled_once_for_each_model_and_its_options(compiled: list[str]) -> None:
    def double(n: int) -> int:
        return n * 2

    flow, tools = program("@double(2) -> n", "Say $n -> a"), {"double": double}
    one = scripted("a", "b")
    assert [flow.run(model=one, tools=tools).output for _ in range(2)] == ["a", "b"]
    assert flow.run(model=scripted("c"), tools=tools, limits=Limits(iterations=5)).output == "c"
    assert len(compiled) == 1

    assert flow.run(model=scripted("d"), tools={"double": lambda n: n}).output == "d"
    assert flow.run(model=ScriptedModel(["e"], "other"), tools=tools).output == "e"
    assert compiled == [one.model_id, one.model_id, "other"]


def test_runs_of_one_compiled_flow_keep_their_own_options(compiled: list[str]) -> None:
    flow = program("Say a -> a", "Say b -> b")
    with pytest.raises(LimitExceeded):
        flow.run(model=scripted("a", "b"), limits=Limits(model_calls=1))
    events: list[FlowEvent] = []
    assert flow.run(model=scripted("a", "b"), on_event=events.append).output == "b"
    assert kinds(events).count("variable_set") == 2
    assert len(compiled) == 1


def test_few_compiled_agents_are_kept(compiled: list[str]) -> None:
    flow = program("Say a -> a")
    for name in [*"abcdefghi", "i", "a"]:
        flow.run(model=ScriptedModel(["a"], name))
    assert compiled == [*"abcdefghi", "a"]
