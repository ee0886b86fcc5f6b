"""Action groups made of a definition."""

import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.actions.base import Call, CallContext
from orchestrator.actions.group import ActionGroup, ReturnControl
from orchestrator.definition import build_action_groups, load_definition, parse_definition
from orchestrator.errors import DefinitionError

HANDLER = """
import os

def main(event, context):
    text = os.environ["GREETING"] + " " + event["parameters"][0]["value"]
    body = {"TEXT": {"body": text}}
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": {"responseBody": body},
        },
    }
"""

ACTIONS = """
from __future__ import annotations
from dataclasses import dataclass
from orchestrator.actions.python import action
from helper import SUFFIX

@dataclass
class Claim:
    id: str

@action
def second(claim_id: str) -> Claim:
    "One claim."
    return Claim(claim_id + SUFFIX)

@action
def first() -> str:
    "A greeting."
    return "hello"

again = first

@action
def _hidden() -> str:
    return "no"
"""

OPENAPI = """
openapi: 3.0.0
info: {title: t, version: "1"}
paths:
  /claims:
    get:
      operationId: listClaims
      description: All claims.
      responses: {"200": {description: ok}}
"""

FUNCTIONS = "functionSchema: {functions: [{name: f, parameters: {who: {type: string}}}]}"
ARN = "arn:aws:lambda:us-east-1:123456789012:function:f"


def built(folder: Path, groups: str) -> list[ActionGroup]:
    (folder / "agent.yaml").write_text(f"agentName: a\nactionGroups:\n{groups}", encoding="utf-8")
    return build_action_groups(load_definition(folder))


def carry_out(group: ActionGroup, name: str, **arguments: Any) -> str:
    operation = next(it for it in group.operations if it.name == name)
    context = CallContext(
        agent={"name": "a", "id": "", "alias": "", "version": ""},
        session_id="s",
        input_text="hi",
        session_attributes={},
        prompt_session_attributes={},
        max_bytes=1000,
    )
    assert group.executor is not None and not isinstance(group.executor, ReturnControl)
    return group.executor.call(Call("c", operation, arguments), context).text


def test_a_lambda_handler_with_its_environment(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    (group,) = built(
        tmp_path,
        f"""
  - actionGroupName: greet
    description: Greets.
    {FUNCTIONS}
    actionGroupExecutor: {{lambda: "handler.py:main"}}
    environment: {{GREETING: hello}}
""",
    )
    assert (group.name, group.description) == ("greet", "Greets.")
    assert carry_out(group, "f", who="you") == "hello you"


def test_the_actions_of_a_python_file_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "actions.py").write_text(ACTIONS)
    (tmp_path / "helper.py").write_text("SUFFIX = '!'\n")
    (group,) = built(
        tmp_path, "  - {actionGroupName: g, actionGroupExecutor: {python: actions.py}}"
    )
    assert [it.name for it in group.operations] == ["second", "first"]
    assert carry_out(group, "second", claim_id="c-1") == '{"id": "c-1!"}'
    assert "helper" not in sys.modules and "actions" not in sys.modules


def test_return_of_control_and_user_input_and_a_disabled_group(tmp_path: Path) -> None:
    control, ask = built(
        tmp_path,
        f"""
  - {{actionGroupName: g, {FUNCTIONS}, actionGroupExecutor: {{customControl: RETURN_CONTROL}}}}
  - {{actionGroupName: ask, parentActionGroupSignature: AMAZON.UserInput}}
  - {{actionGroupName: off, actionGroupState: DISABLED}}
""",
    )
    assert isinstance(control.executor, ReturnControl)
    assert (ask.name, ask.signature, ask.operations) == ("ask", "AMAZON.UserInput", ())


@pytest.mark.parametrize("member", ["file: openapi.yaml", "payload: *text"])
def test_an_openapi_schema(tmp_path: Path, member: str) -> None:
    (tmp_path / "openapi.yaml").write_text(OPENAPI)
    indented = OPENAPI.replace("\n", "\n      ")
    (group,) = built(
        tmp_path,
        f"""
  - actionGroupName: api
    description: &text |{indented}
    apiSchema: {{{member}}}
    actionGroupExecutor: {{customControl: RETURN_CONTROL}}
""",
    )
    assert [(it.verb, it.path, it.name) for it in group.operations] == [
        ("GET", "/claims", "listClaims")
    ]


@pytest.mark.parametrize(
    ("group", "place", "message"),
    [
        (
            f"{{actionGroupName: g, {FUNCTIONS}, actionGroupExecutor: {{lambda: 'arn:aws:s3'}}}}",
            (3, 133),
            "'arn:aws:s3' is not the ARN of a Lambda function; one looks like "
            "'arn:aws:lambda:eu-central-1:123456789012:function:claims', with ':<alias>' or "
            "':<version>' after it if there is one",
        ),
        (
            f"{{actionGroupName: g, {FUNCTIONS}}}",
            (3, 5),
            "the action group 'g' has no executor; add actionGroupExecutor: "
            "{lambda: <handler.py>} or {customControl: RETURN_CONTROL}",
        ),
        (
            "{actionGroupName: g, actionGroupExecutor: {customControl: RETURN_CONTROL}}",
            (3, 5),
            "the action group 'g' has neither apiSchema nor functionSchema",
        ),
        (
            "{actionGroupName: g, parentActionGroupSignature: ANTHROPIC.Bash}",
            (3, 54),
            "the built-in action group 'ANTHROPIC.Bash' is not supported yet; "
            "set actionGroupState: DISABLED or leave the group out",
        ),
        (
            "{actionGroupName: g, apiSchema: {s3: {s3BucketName: abc}}, "
            "actionGroupExecutor: {customControl: RETURN_CONTROL}}",
            (3, 42),
            "a schema in Amazon S3 has an s3BucketName and an s3ObjectKey",
        ),
        (
            "{actionGroupName: g, actionGroupExecutor: {python: empty.py}}",
            (3, 56),
            "the file 'empty.py' has no @action function; decorate one",
        ),
    ],
)
def test_what_cannot_be_built(
    tmp_path: Path, group: str, place: tuple[int, int], message: str
) -> None:
    (tmp_path / "empty.py").write_text("def f(): ...\n")
    with pytest.raises(DefinitionError) as caught:
        built(tmp_path, f"  - {group}\n")
    error = caught.value
    assert (error.reason, error.line, error.column) == (message, *place)
    assert error.file == str(tmp_path / "agent.yaml")


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ("x = 1\ny = x / 0\n", ("actions.py", 2, None), "ZeroDivisionError"),
        ("def f(:\n", ("actions.py", 1, 7), "SyntaxError"),
        # What fails is the file beside it.
        ("import helper\n", ("helper.py", 2, None), "KeyError"),
    ],
)
def test_a_python_file_that_raises(
    tmp_path: Path, content: str, place: tuple[str, int, int | None], message: str
) -> None:
    (tmp_path / "actions.py").write_text(content)
    (tmp_path / "helper.py").write_text("\n{}['x']\n")
    with pytest.raises(DefinitionError, match=f"failed with {message}") as caught:
        built(tmp_path, "  - {actionGroupName: g, actionGroupExecutor: {python: actions.py}}")
    name, line, column = place
    assert caught.value.file == str((tmp_path / name).resolve())
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_wrong_schema_in_a_file_has_the_files_place(tmp_path: Path) -> None:
    (tmp_path / "openapi.yaml").write_text("openapi: 3.0.0\npaths: [\n")
    with pytest.raises(DefinitionError) as caught:
        built(
            tmp_path,
            "  - {actionGroupName: g, apiSchema: {file: openapi.yaml}, "
            "actionGroupExecutor: {customControl: RETURN_CONTROL}}",
        )
    assert caught.value.file == str((tmp_path / "openapi.yaml").resolve())


def test_a_wrong_schema_in_the_definition_has_its_place(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        built(
            tmp_path,
            "  - {actionGroupName: g, apiSchema: {payload: '[]'}, "
            "actionGroupExecutor: {customControl: RETURN_CONTROL}}",
        )
    error = caught.value
    assert (error.file, error.line, error.column) == (str(tmp_path / "agent.yaml"), 3, 37)
    assert "OpenAPI document" in error.reason


def test_broken_yaml_in_a_payload_has_the_payloads_line(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"agent\.yaml:3:37: line 2 of the payload: "):
        built(
            tmp_path,
            '  - {actionGroupName: g, apiSchema: {payload: "openapi: 3.0.0\\npaths: ]"}, '
            "actionGroupExecutor: {customControl: RETURN_CONTROL}}",
        )


def test_another_folder_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "actions.py").write_text("from orchestrator.actions.python import action\n"
                                         "@action\ndef f() -> str: 'It.'\n")  # fmt: skip
    definition = parse_definition(
        "agentName: a\nactionGroups:\n"
        "  - {actionGroupName: g, actionGroupExecutor: {python: actions.py}}"
    )
    (group,) = build_action_groups(definition, tmp_path)
    assert [it.name for it in group.operations] == ["f"]
