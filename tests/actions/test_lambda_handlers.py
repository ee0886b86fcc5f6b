"""Lambda handler files run in this process: event, context, confinement, failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from action_support import SECRET, context, run

from orchestrator.actions import ActionGroup, Call, LambdaHandler
from orchestrator.errors import DefinitionError, DependencyFailed

ECHO = """
import json
SEEN = []
def lambda_handler(event, context):
    SEEN.append(event)
    about = {name: getattr(context, name) for name in (
        "function_name", "function_version", "memory_limit_in_mb", "aws_request_id",
        "invoked_function_arn", "log_group_name", "log_stream_name", "identity", "client_context")}
    about["left"] = context.get_remaining_time_in_millis()
    body = json.dumps({"event": event, "context": about})
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event.get("function"),
        "functionResponse": {"responseBody": {"TEXT": {"body": body}}}},
        "sessionAttributes": {**event["sessionAttributes"], "seen": "yes"}}
"""
FUNCTIONS = [
    {"name": "get_days", "parameters": {"year": {"type": "integer", "required": True}}},
    {"name": "now"},
]
API = {
    "openapi": "3.0.0",
    "paths": {
        "/claims/{id}": {
            "put": {
                "operationId": "change",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {"properties": {"paid": {"type": "boolean"}}}
                        }
                    }
                },
            }
        }
    },
}


def handler(folder: Path, code: str, name: str = "handler.py", **options: Any) -> LambdaHandler:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code, encoding="utf-8")
    return LambdaHandler(file, **options)


def group(executor: LambdaHandler) -> ActionGroup:
    return ActionGroup("hr", functions=FUNCTIONS, executor=executor)


def test_a_function_event_is_bedrocks(tmp_path: Path) -> None:
    given = context(seconds=30.0)
    result = run(group(handler(tmp_path, ECHO)), "get_days", given, year="2027")
    read = json.loads(result.text)
    assert read["event"] == {
        "messageVersion": "1.0",
        "agent": {"name": "claims", "id": "AGENT12345", "alias": "TSTALIASID", "version": "DRAFT"},
        "inputText": "Which claims are open?",
        "sessionId": "s-1",
        "actionGroup": "hr",
        "function": "get_days",
        "parameters": [{"name": "year", "type": "integer", "value": "2027"}],
        "sessionAttributes": {"employeeId": "E-1"},
        "promptSessionAttributes": {"language": "en"},
    }
    about = read["context"]
    assert about["aws_request_id"] == "key-1" and about["function_version"] == "$LATEST"
    assert about["invoked_function_arn"].endswith(f":function:{about['function_name']}")
    assert 25_000 < about["left"] <= 30_000
    assert (result.notes, result.state) == ((), "")
    assert result.session_attributes == {"employeeId": "E-1", "seen": "yes"}
    assert result.prompt_session_attributes is None


def test_an_event_without_parameters_has_an_empty_list(tmp_path: Path) -> None:
    assert json.loads(run(group(handler(tmp_path, ECHO)), "now").text)["event"]["parameters"] == []


def test_an_api_event_is_bedrocks(tmp_path: Path) -> None:
    made = ActionGroup("claims", api_schema=API, executor=handler(tmp_path, ECHO))
    event = json.loads(run(made, "change", id="c-1", paid="True").text)["event"]
    assert (event["apiPath"], event["httpMethod"], "function" in event) == (
        "/claims/{id}",
        "PUT",
        False,
    )
    assert event["parameters"] == [{"name": "id", "type": "string", "value": "c-1"}]
    assert event["requestBody"] == {
        "content": {
            "application/json": {
                "properties": [{"name": "paid", "type": "boolean", "value": "true"}]
            }
        }
    }


def test_a_handler_cannot_change_more_than_its_event(tmp_path: Path) -> None:
    given = context()
    code = """
def lambda_handler(event, context):
    event["sessionAttributes"].clear()
    event["agent"].clear()
    return ""
"""
    run(group(handler(tmp_path, code)), "now", given)
    assert given.session_attributes == {"employeeId": "E-1"} and given.agent["id"] == "AGENT12345"


def test_another_function_may_be_named(tmp_path: Path) -> None:
    made = handler(tmp_path, "def main(event, context): return 'main'", function="main")
    assert run(group(made), "now").text == "main"


def test_an_async_handler_is_awaited(tmp_path: Path) -> None:
    made = handler(tmp_path, "async def lambda_handler(event, context): return 'later'")
    assert run(group(made), "now").text == "later"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            f"def lambda_handler(e, c):\n    x = 1\n    raise ValueError('{SECRET}')",
            "'hr::now' raised ValueError at handler.py:3",
        ),
        (
            f"import json\ndef lambda_handler(e, c):\n    json.loads('{SECRET}')",
            "raised JSONDecodeError at handler.py:3",
        ),
        ("def lambda_handler(e, c):\n    raise SystemExit(1)", "raised SystemExit at handler.py:2"),
        (
            "import nowhere_to_be_found\ndef lambda_handler(e, c): ...",
            "raised ModuleNotFoundError at handler.py:1",
        ),
        (
            f"def lambda_handler(e, c): ...\nraise KeyError('{SECRET}')",
            "raised KeyError at handler.py:2",
        ),
        (
            "def lambda_handler(e, c): ...\ndel lambda_handler",
            "no function 'lambda_handler' after it ran",
        ),
        ("lambda_handler = 5", "no function 'lambda_handler'"),
    ],
)
def test_a_failure_names_type_and_place_and_no_payload(
    tmp_path: Path, code: str, says: str
) -> None:
    with pytest.raises(DependencyFailed, match=says) as caught:
        run(group(handler(tmp_path, code)), "now")
    assert SECRET not in caught.value.message
    assert caught.value.resource == "hr::now"


def test_a_file_that_failed_to_load_is_tried_again(tmp_path: Path) -> None:
    made = group(
        handler(
            tmp_path,
            "import os\nif not os.path.exists(__file__ + '.ok'): raise OSError\n"
            "def lambda_handler(e, c): return 'up'",
        )
    )
    with pytest.raises(DependencyFailed):
        run(made, "now")
    (tmp_path / "handler.py.ok").touch()
    assert run(made, "now").text == "up"


def test_nothing_runs_before_the_first_call(tmp_path: Path) -> None:
    made = handler(
        tmp_path,
        "from pathlib import Path\nPath(__file__ + '.ran').touch()\n"
        "def lambda_handler(e, c): return ''",
    )
    assert not (tmp_path / "handler.py.ran").exists()
    run(group(made), "now")
    assert (tmp_path / "handler.py.ran").exists()


def test_mistakes_are_found_without_running_the_file(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="'lambda_handler'; did you mean 'lambda_handlr'"):
        handler(tmp_path, "def lambda_handlr(e, c): ...")
    with pytest.raises(DefinitionError, match="syntax error") as caught:
        handler(tmp_path, "x = 1\ndef f(:\n")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "handler.py"), 2)
    for code in (
        "from app import lambda_handler",
        "import app as lambda_handler",
        "if True:\n    lambda_handler = print",
        "from app import *",
        "lambda_handler: object = None",
    ):
        handler(tmp_path, code)


def test_the_file_must_exist_and_be_python(tmp_path: Path) -> None:
    (tmp_path / "my-handler.py").write_text("def lambda_handler(e, c): ...")
    (tmp_path / "notes.txt").write_text("")
    for name, says in (
        ("none.py", "not a Python file"),
        ("notes.txt", "not a Python file"),
        ("my-handler.py", "no Python identifier"),
        ("\0.py", "not possible|not a Python file"),
    ):
        with pytest.raises(DefinitionError, match=says):
            LambdaHandler(name, root=tmp_path)


def test_the_file_must_be_inside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "agent"
    root.mkdir()
    (tmp_path / "outside.py").write_text("def lambda_handler(e, c): return ''")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "folder").symlink_to(tmp_path)
    for path in (
        "../outside.py",
        "link.py",
        "folder/outside.py",
        str(tmp_path / "outside.py"),
        "x/../../outside.py",
    ):
        with pytest.raises(DefinitionError, match="outside the agent's folder"):
            LambdaHandler(path, root=root)
    (root / "inside.py").write_text("def lambda_handler(e, c): return 'in'")
    assert run(group(LambdaHandler("inside.py", root=root)), "now").text == "in"


def test_print_does_not_reach_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code = """
import sys
def lambda_handler(event, context):
    print("a", 1, sep="-")
    print("err", file=sys.stderr)
    return ""
"""
    with caplog.at_level("INFO", logger="orchestrator.handler"):
        run(group(handler(tmp_path, code)), "now")
    assert capsys.readouterr() == ("", "err\n")
    assert [record.getMessage() for record in caplog.records] == ["a-1"]


def test_a_call_without_key_gets_a_request_id_of_its_own(tmp_path: Path) -> None:
    executor = handler(tmp_path, "def lambda_handler(e, c): return c.aws_request_id")
    operation = group(executor).operations[1]
    ids = {executor.call(Call(str(n), operation, {}), context()).text for n in range(2)}
    assert len(ids) == 2 and all(len(one) == 36 for one in ids)
