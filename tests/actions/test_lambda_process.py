"""Handlers in processes of their own: their folder, their state, their ends."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from action_support import SECRET, context, run
from whole_agents import NATIVE, answer

from orchestrator import Agent
from orchestrator.actions import ActionGroup, LambdaProcess, lambda_process
from orchestrator.definition import load_definition
from orchestrator.errors import ActionOutcomeUnknown, DefinitionError, DependencyFailed

REPLY = """
import json, os, sys
def reply(event, body):
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": {"TEXT": {"body": json.dumps(body)}}}}}
"""


def group(folder: Path, code: str, **options: Any) -> ActionGroup:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lambda_function.py").write_text(REPLY + code, encoding="utf-8")
    functions = [{"name": "act", "parameters": {"what": {"type": "string"}}}]
    executor = LambdaProcess(folder / "lambda_function.py", **options)
    return ActionGroup("house", functions=functions, executor=executor)


def ask(made: ActionGroup, **options: Any) -> Any:
    return json.loads(run(made, "act", context(**options)).text)


LIBRARY = """
from pathlib import Path
import shelves
BOOKS = json.loads(Path("data/books.json").read_text())
def lambda_handler(event, context):
    with open("data/motto.txt") as file:
        motto = file.read()
    return reply(event, {
        "books": BOOKS, "motto": motto, "shelf": shelves.NAME, "files": sorted(os.listdir(".")),
        "root": os.environ["LAMBDA_TASK_ROOT"] == os.getcwd(),
        "name": os.environ["AWS_LAMBDA_FUNCTION_NAME"] == context.function_name,
        "handler": os.environ["_HANDLER"], "region": os.environ["AWS_REGION"],
        "branch": os.environ["BRANCH"], "time": context.get_remaining_time_in_millis() > 0,
    })
"""


def test_a_library_that_reads_files_beside_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    code = tmp_path / "functions" / "library"
    (code / "data").mkdir(parents=True)
    (code / "data" / "books.json").write_text('["Emma"]')
    (code / "data" / "motto.txt").write_text("Quiet, please.")
    (code / "shelves.py").write_text("NAME = 'north'")
    (code / "app.py").write_text(REPLY + LIBRARY)
    (tmp_path / "agent.yaml").write_text(
        """
agentName: library
instruction: You help the readers of a small library to find books and shelves.
actionGroups:
  - actionGroupName: books
    functionSchema: {functions: [{name: act, description: Look around.}]}
    actionGroupExecutor: {lambda: functions/library/app.py}
    environment: {BRANCH: harbour}
    isolation: PROCESS
"""
    )
    model = NATIVE.model([NATIVE.calls(("books::act", {})), answer("Emma.")])
    before = os.getcwd()
    with Agent.load(tmp_path, model=model) as agent:
        assert agent.invoke("Which books are there?", session_id="s-1").text == "Emma."
    [block] = model.requests[1].messages[-1]["content"]
    assert json.loads(block["toolResult"]["content"][0]["text"]) == {
        "books": ["Emma"],
        "motto": "Quiet, please.",
        "shelf": "north",
        "files": ["app.py", "data", "shelves.py"],
        "root": True,
        "name": True,
        "handler": "app.lambda_handler",
        "region": "eu-west-3",
        "branch": "harbour",
        "time": True,
    }
    assert os.getcwd() == before and "shelves" not in sys.modules


STATE = """
COUNT = 0
def lambda_handler(event, context):
    global COUNT
    COUNT += 1
    os.environ["SEEN"] = str(COUNT)
    sys.path.append("x")
    os.chdir("/")
    return reply(event, [COUNT, os.getpid(), os.environ["SEEN"]])
"""


def test_a_warm_process_keeps_its_state_to_itself(tmp_path: Path) -> None:
    first, second = group(tmp_path, STATE), group(tmp_path, STATE)
    before = (os.getcwd(), list(sys.path))
    counts = [ask(first), ask(first), ask(second)]
    assert [count for count, _, _ in counts] == [1, 2, 1]
    assert counts[0][1] == counts[1][1] != counts[2][1] != os.getpid()
    assert "SEEN" not in os.environ and (os.getcwd(), sys.path) == before


def test_a_process_that_ended_while_it_waited_fails_no_call(tmp_path: Path) -> None:
    code = "def lambda_handler(event, context):\n    return reply(event, os.getpid())\n"
    made = group(tmp_path, code)
    first = ask(made)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    second = ask(made)
    assert second != first and ask(made) == second


ENDINGS = f"""
import signal
from decimal import Decimal
def lambda_handler(event, context):
    what = event["parameters"][0]["value"]
    if what == "raise":
        raise KeyError("{SECRET}")
    if what == "exit":
        sys.exit(3)
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "set":
        return {{"response": {{1, 2}}}}
    if what == "self":
        it = []
        it.append(it)
        return it
    if what == "large":
        return "x" * 7_000_000
    if what == "decimals":
        return {{"price": Decimal("19.5")}}
    return os.getpid()
"""


def test_how_calls_end(tmp_path: Path) -> None:
    made = group(tmp_path, ENDINGS)

    def end(what: str) -> str:
        try:
            return run(made, "act", what=what).text
        except DependencyFailed as error:
            assert error.resource == "house::act"
            return str(error)

    first = end("")
    assert first.isdecimal()
    assert "raised KeyError at lambda_function.py:13; its own message is kept" in end("raise")
    assert "returned a set, which has no JSON form" in end("set")
    assert "returned a value that contains itself, which has no JSON form" in end("self")
    assert end("large").startswith("The function ran: do not repeat it. Its answer has 7000")
    assert end("decimals") == '{"price": 19.5}'
    assert end("") == first  # none of these ended the process
    assert "raised SystemExit" in end("exit")
    second = end("")
    assert second.isdecimal() and second != first
    assert "ended its process (SIGSEGV)" in end("crash")
    assert end("").isdecimal()


def test_a_secret_in_an_exception_is_shown_for_debugging_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = group(tmp_path, ENDINGS)
    with pytest.raises(DependencyFailed) as caught:
        run(made, "act", what="raise")
    assert caught.value.__cause__ is None and SECRET not in str(caught.value)
    monkeypatch.setenv("ORCHESTRATOR_DEBUG", "1")
    with pytest.raises(DependencyFailed) as caught:
        run(made, "act", what="raise")
    assert SECRET not in str(caught.value) and SECRET in str(caught.value.__cause__)


def test_a_file_that_fails_is_run_again_by_the_next_call(tmp_path: Path) -> None:
    code = """
if not os.path.exists("ready"):
    open("ready", "w").close()
    raise RuntimeError("not yet")
def lambda_handler(event, context):
    return reply(event, "ready")
"""
    made = group(tmp_path, code)
    with pytest.raises(DependencyFailed, match=r"raised RuntimeError at lambda_function.py:10"):
        ask(made)
    assert ask(made) == "ready"


def test_a_handler_that_hangs_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import threading
def lambda_handler(event, context):
    os.mkfifo("held")
    held = os.open("held", os.O_RDWR)
    print("hangs")
    threading.Event().wait()
"""
    made = group(tmp_path, code)

    def monotonic() -> float:  # a minute passes as soon as it hangs
        return 60.0 if "hangs" in caplog.messages else 0.0

    monkeypatch.setattr(lambda_process, "time", SimpleNamespace(monotonic=monotonic))
    with (
        caplog.at_level(logging.INFO, "orchestrator.handler"),
        pytest.raises(ActionOutcomeUnknown, match="did not answer before its time was up"),
    ):
        ask(made, seconds=60.0)
    # Nobody has it open for writing any more, so opening it to read and not to wait finds its end.
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert os.read(held, 1) == b""
    finally:
        os.close(held)


GATE = """
def lambda_handler(event, context):
    with open("gate") as gate:
        gate.read()
    return reply(event, os.getpid())
"""


def test_calls_beyond_the_number_of_processes_wait(tmp_path: Path) -> None:
    made = group(tmp_path, GATE, processes=1)
    os.mkfifo(tmp_path / "gate")
    pids: list[int] = []
    first = threading.Thread(target=lambda: pids.append(ask(made)))
    first.start()
    with open(tmp_path / "gate", "w"):  # when it can be opened, the first call is reading
        with pytest.raises(DependencyFailed, match="was not begun: all processes") as caught:
            ask(made, seconds=0.05)
        assert not isinstance(caught.value, ActionOutcomeUnknown)
    first.join()
    second = threading.Thread(target=lambda: pids.append(ask(made)))
    second.start()
    open(tmp_path / "gate", "w").close()
    second.join()
    assert len(pids) == 2 and pids[0] == pids[1]


def test_what_it_prints_and_logs_goes_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
import logging
logger = logging.getLogger()
logger.setLevel(logging.INFO)
def lambda_handler(event, context):
    print("looking\\nfor it")
    logger.info("found")
    os.system("echo by a program")
    sys.stderr.write("no line end")
    return reply(event, 1)
"""
    with caplog.at_level(logging.INFO, "orchestrator.handler"):
        ask(group(tmp_path, code))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["looking", "for it", r"[INFO]\tfound", "by a program", "no line end"]
    assert capfd.readouterr() == ("", "")


def test_warm_processes_are_few_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambda_process, "MOST_WARM", 2)
    code = "def lambda_handler(event, context):\n    return reply(event, os.getpid())\n"
    made = [group(tmp_path / str(number), code) for number in range(3)]
    pids = [ask(one) for one in made]

    def is_there(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    # Those that other tests left warm were ended first, then the first of these.
    assert [is_there(pid) for pid in pids] == [False, True, True]
    executor = made[2].executor
    assert isinstance(executor, LambdaProcess)
    executor.close()
    assert [is_there(pid) for pid in pids] == [False, True, False]
    assert ask(made[2]) not in pids
    del made, executor
    assert not is_there(pids[1])


def test_it_ends_with_a_killed_parent(tmp_path: Path) -> None:
    code = """
HELD = os.open("held", os.O_WRONLY)
def lambda_handler(event, context):
    import threading
    if event["parameters"]:
        os.write(HELD, b"running ")
        threading.Event().wait()
    return reply(event, 1)
"""
    os.mkfifo(tmp_path / "held")
    group(tmp_path, code)
    script = f"""
import os, sys, threading
sys.path[:0] = {sys.path!r}
from orchestrator.actions import LambdaProcess
from orchestrator.actions.lambda_environment import LambdaContext
made = LambdaProcess({str(tmp_path / "lambda_function.py")!r})
event = {{"actionGroup": "g", "function": "f", "parameters": [1]}}
made.invoke(event, LambdaContext("f", "r", None))
"""
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        with open(tmp_path / "held", "rb", buffering=0) as held:
            assert held.read(8) == b"running "
            parent.kill()
            assert held.read() == b""  # the end: nobody has it open any more


def test_an_async_handler(tmp_path: Path) -> None:
    code = "async def lambda_handler(event, context):\n    return reply(event, 'later')\n"
    assert ask(group(tmp_path, code)) == "later"


@pytest.mark.parametrize(
    "executor", ["{customControl: RETURN_CONTROL}", '{lambda: "arn:aws:lambda:x"}']
)
def test_only_files_are_isolated(tmp_path: Path, executor: str) -> None:
    (tmp_path / "agent.yaml").write_text(
        f"""
agentName: a
actionGroups:
  - actionGroupName: g
    functionSchema: {{functions: [{{name: f}}]}}
    actionGroupExecutor: {executor}
    isolation: PROCESS
"""
    )
    with pytest.raises(DefinitionError, match=r"agent.yaml:7:16: .*only a handler file"):
        load_definition(tmp_path)
