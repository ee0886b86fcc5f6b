"""Row 16: schemas that would make the check of one value take hours, and the server with it.

A schema comes from a caller, a document or a tool server, and the value from a model. What may
never end runs in a process of its own, which is given a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from control_support import served
from left_out import sampled
from runtime_servers import CLAUDE, calls, definition, running, says, write_agent

from orchestrator import ActionGroup, DefinitionError, ReturnControl
from orchestrator.actions import Catalog, MCPServer
from orchestrator.actions.coercion import compile_schema
from orchestrator.actions.openapi import api_operations
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.testing import ScriptedModel

ACCOUNT = {
    "region_name": "us-east-1",
    "aws_access_key_id": "AKIDEXAMPLE",
    "aws_secret_access_key": "secret",
}
STRING = {"type": "string"}
SLOW_PATTERN, SLOW_VALUE = "^(a+)+$", "a" * 40 + "!"


def api(schema: Any, **more: Any) -> dict[str, Any]:
    """An OpenAPI document of one operation with one parameter."""
    parameter = {"name": "value", "in": "query", "schema": schema}
    get = {"operationId": "look", "description": "Looks.", "parameters": [parameter]}
    return {"openapi": "3.0.0", "paths": {"/look": {"get": get}}, **more}


def payload_group(schema: Any) -> dict[str, Any]:
    return {
        "actionGroupName": "hr",
        "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
        "apiSchema": {"payload": json.dumps(api(schema))},
    }


def run_alone(code: str, given: str = "") -> str:
    """What a program prints; one that does not end in a minute fails the test."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


CHECK = """
import json, sys
from orchestrator import ActionGroup, ReturnControl
from orchestrator.actions import Catalog
given = json.load(sys.stdin)
group = ActionGroup("hr", api_schema=json.dumps(given["api"]), executor=ReturnControl())
catalog = Catalog([group])
value = given["value"] * given.get("times", 1)
print(catalog.validate(catalog.operations[0], {"value": value})[1])
"""


def check_alone(schema: Any, value: Any, times: int = 1, **more: Any) -> str:
    """What is wrong with a value, which stands `times` times in it."""
    given = {"api": api(schema, **more), "value": value, "times": times}
    return run_alone(CHECK, json.dumps(given))


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (SLOW_PATTERN, SLOW_VALUE),
        ("(x+x+)+y", "x" * 1_000),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 1_000),
        (r"^(\s*\w+\s*)*;$", "a " * 500),
    ],
)
def test_no_pattern_backtracks(pattern: str, value: str) -> None:
    problem = check_alone({"type": "string", "pattern": pattern}, value)
    assert f"must match the pattern {pattern}".replace("\\", "\\\\") in problem


def test_a_pattern_of_many_instructions_is_not_tried_on_a_long_text() -> None:
    problem = check_alone({"type": "string", "pattern": "(a?){1000}b"}, "a", 3_000_000)
    assert "too large to be checked" in problem


def patterns(count: int) -> dict[str, Any]:
    """A schema of so many patterns, each of which takes a tenth of a second to compile."""
    members = {f"p{n}": {**STRING, "pattern": rf"[\p{{L}}{n}]{{150}}"} for n in range(count)}
    return {"type": "array", "items": {"type": "object", "properties": members}}


@pytest.mark.parametrize("pattern", ["{150}", "{900}"], ids=["compiled", "too large to compile"])
def test_patterns_of_values_that_are_not_given_are_not_compiled(pattern: str) -> None:
    schema = json.loads(json.dumps(patterns(2_500)).replace("{150}", pattern))
    assert check_alone(schema, [{"other": 1}]) == "[]"


@pytest.mark.parametrize("pattern", ["{150}", "{900}"], ids=["compiled", "too large to compile"])
def test_compiling_patterns_is_counted(pattern: str) -> None:
    schema = json.loads(json.dumps(patterns(2_000)).replace("{150}", pattern))
    given = {name: "\u00e9" * 150 for name in schema["items"]["properties"]}
    assert "too large to be checked" in check_alone(schema, [given])


def nested(depth: int, width: int, leaf: Any) -> Any:
    if depth == 0:
        return leaf
    inner = {"type": "array", "items": nested(depth - 1, width, leaf)}
    return {"anyOf": [inner] * width}


@pytest.mark.parametrize("value", ["x", [["x"]], "[" * 30 + "]" * 30])
def test_alternatives_in_alternatives_are_tried_once_each(value: Any) -> None:
    """Each level would double the work, or worse: here two to the power of ten lists."""
    leaf = {"type": "string", "enum": ["y"]}
    assert "must be" in check_alone(nested(10, 2, leaf), value)


@pytest.mark.exhaustive
def test_alternatives_are_counted() -> None:
    schema = {"type": "array", "items": {"anyOf": [{"type": "boolean"}] * 1_000 + [STRING]}}
    assert "too large to be checked" in check_alone(schema, [7], 200_000)


@pytest.mark.parametrize("value", sampled(["z", 7, [1]]))
def test_a_long_list_of_values_is_not_searched_for_each_item(value: Any) -> None:
    values = [[n] for n in range(10_000)]
    schema = {"type": "array", "items": {"enum": [*values, value]}}
    assert check_alone(schema, [value], 200_000) == "[]"


def test_numbers_whose_hashes_collide_are_compared_by_their_texts() -> None:
    colliding = [n * (2**61 - 1) for n in range(1, 20_001)]
    schema = {"type": "array", "items": {"type": "integer", "enum": colliding}}
    assert check_alone(schema, colliding) == "[]"


def test_names_of_no_argument_are_not_all_compared() -> None:
    code = """
from orchestrator import ActionGroup, ReturnControl
from orchestrator.actions import Catalog
parameters = {f"parameter{n}": {"type": "string"} for n in range(400)}
functions = [{"name": "look", "parameters": parameters}]
catalog = Catalog([ActionGroup("hr", functions=functions, executor=ReturnControl())])
wrong = {f"parametre{n}" + "x" * 150: 1 for n in range(100_000)}
print(len(catalog.validate(catalog.operations[0], wrong)[1]))
"""
    assert run_alone(code) == "10"


def test_a_message_for_the_model_names_some_of_many_values() -> None:
    schema = compile_schema({"type": "string", "enum": [f"value-{n}" for n in range(5_000)]})
    with pytest.raises(Exception, match=r"must be one of value-0.*value-199, \.\.\.; not 'x'"):
        schema("x")


# Definitions


def many_paths(count: int) -> dict[str, Any]:
    return {"openapi": "3.0.0", "paths": {f"/p{n}": {"get": {}} for n in range(count)}}


@pytest.mark.exhaustive
def test_operations_of_a_document_are_counted() -> None:
    assert len(api_operations("hr", json.dumps(many_paths(500)))) == 500
    with pytest.raises(DefinitionError, match=r"has 501 paths.* at most 500 operations"):
        api_operations("hr", json.dumps(many_paths(501)))
    verbs = {verb: {} for verb in ("get", "put", "post")}
    document = {"openapi": "3.0.0", "paths": {f"/p{n}": verbs for n in range(200)}}
    with pytest.raises(DefinitionError, match=r"'hr' has more than 500 operations"):
        api_operations("hr", json.dumps(document))
    with pytest.raises(DefinitionError, match=r"comes to more than 50,000 values"):
        api_operations("hr", json.dumps(many_paths(50_001)))


def test_functions_and_their_parameters_are_counted() -> None:
    functions = [{"name": f"f{n}"} for n in range(501)]
    with pytest.raises(DefinitionError, match=r"'hr' has more than 500 operations"):
        ActionGroup("hr", functions=functions, executor=ReturnControl())
    parameters = {f"p{n}": {"type": "string"} for n in range(501)}
    with pytest.raises(DefinitionError, match=r"'hr::f' has more than 500 parameters"):
        functions = [{"name": "f", "parameters": parameters}]
        ActionGroup("hr", functions=functions, executor=ReturnControl())


def reference_chain(length: int) -> dict[str, Any]:
    return {f"r{n}": {"$ref": f"#/chain/r{n + 1}"} for n in range(length)}


def refer_often(count: int) -> dict[str, Any]:
    return {"properties": {f"p{n}": {"$ref": "#/shared"} for n in range(count)}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (api(refer_often(300), shared={"enum": [str(n) for n in range(20_000)]}), "2,000,000 char"),
        (api(refer_often(300), shared={"description": "x" * 100_000}), "2,000,000 char"),
        (api(refer_often(300), shared={"pattern": "x" * 100_000}), "2,000,000 char"),
        (api(refer_often(300), shared={"default": ["x" * 1_000] * 100}), "2,000,000 char"),
        (api(refer_often(300), shared={"properties": {"x" * 100_000: {}}}), "2,000,000 char"),
        (api({"$ref": "#/" + "x/" * 1_000}), "more than 1,000 characters"),
        (api({"$ref": "#/chain/r0"}, chain=reference_chain(1_000)), "24 levels"),
        (
            {
                **api({}, chain=reference_chain(1_000)),
                "paths": {"/x": {"get": {"parameters": [{"$ref": "#/chain/r0"}]}}},
            },
            "one of more than 24",
        ),
        (api({}, servers=[{"url": "http://{a}" + "{a}" * 600, "variables": {
            "a": {"default": "a" * 100}}}]), "more than 2,000 characters"),
    ],
)  # fmt: skip
def test_what_references_multiply_is_refused(document: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        api_operations("hr", json.dumps(document))


DEFINE = """
import json, sys
from orchestrator import DefinitionError
from orchestrator.actions.openapi import api_operations
document = eval(sys.stdin.read())
try:
    print(len(api_operations("hr", json.dumps(document))))
except DefinitionError as error:
    print(str(error)[:300])
"""


@pytest.mark.parametrize(
    "document",
    [
        # Braces that are not closed, in a path and in the address of a server.
        '{"openapi": "3.0.0", "paths": {"/" + "{" * 900_000: {"get": {}}}}',
        '{"openapi": "3.0.0", "servers": [{"url": "{" * 900_000}], "paths": {"/x": {"get": {}}}}',
        # Lists of names that are joined.
        '{"openapi": "3.0.0", "paths": {"/x": {"get": {"requestBody": {"content": '
        '{"application/json": {"schema": {"allOf": [{"required": [f"{m}-{n}" for n in '
        "range(10_000)]} for m in range(4)]}}}}}}}}",
        '{"openapi": "3.0.0", "paths": {"/x": {"get": {"parameters": [{"name": "p", "in": "query",'
        ' "schema": {"type": ["string"] * 40_000}}]}}}}',
        # A name that is compared with the right ones.
        '{"openapi": "3.0.0", "paths": {"/x": {"get" * 400_000: {}}}}',
    ],
)
def test_a_document_is_read_in_linear_time(document: str) -> None:
    run_alone(DEFINE, document)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {}}, "required": [["a"], {}]},
        {"required": True, "allOf": [{"required": ["a"]}]},
        {"required": [1], "allOf": [{"required": [[1]]}, {"required": "a"}]},
    ],
)
def test_names_that_are_none_are_passed_over(schema: Any) -> None:
    assert api_operations("hr", json.dumps(api(schema)))[0].name == "look"


# Tool servers


def tool_server(folder: Path, tools: dict[str, Any]) -> MCPServer:
    """A server whose tools are those of a lock file; it is not started."""
    lock = folder / "tools.json"
    lock.write_text(json.dumps(tools))
    return MCPServer(["missing-command"], lock_file=lock)


def fan(levels: int) -> dict[str, Any]:
    """A schema of eight references a level."""
    shared: dict[str, Any] = {f"l{levels}": {}}
    for level in range(levels):
        inner = {"$ref": f"#/$defs/l{level + 1}"}
        shared[f"l{level}"] = {"properties": {name: inner for name in "abcdefgh"}}
    return {"$defs": shared, "type": "object", **shared["l0"]}


def test_the_tools_of_a_server_share_one_bound(tmp_path: Path) -> None:
    tools = {f"t{n}": {"inputSchema": fan(4)} for n in range(100)}
    with pytest.raises(DefinitionError, match="more than 20000 parts"):
        tool_server(tmp_path, tools).operations("tools")


def test_a_tools_pattern_is_checked_or_left_to_its_server(tmp_path: Path) -> None:
    slow = {"properties": {"a": {"type": "string", "pattern": SLOW_PATTERN}}}
    ahead = {"properties": {"a": {"type": "string", "pattern": "^(?=a)b$"}}}
    server = tool_server(tmp_path, {"slow": {"inputSchema": slow}, "ahead": {"inputSchema": ahead}})
    catalog = Catalog([ActionGroup("tools", executor=server)])
    checked, unchecked = catalog.operations
    assert "must match the pattern" in catalog.validate(checked, {"a": SLOW_VALUE})[1][0]
    assert catalog.validate(unchecked, {"a": "anything"}) == ({"a": "anything"}, [])
    assert unchecked.parameters[0].schema["pattern"] == "^(?=a)b$"


# The server


class WatchedModel(ScriptedModel):
    """A scripted model that says when it has answered."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(replies, CLAUDE)
        self.answered = Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        try:
            return super().complete(request)
        finally:
            self.answered.set()


def list_agents(url: str) -> list[str]:
    with closing(boto3.client("bedrock-agent", endpoint_url=url, **ACCOUNT)) as client:
        return [one["agentName"] for one in client.list_agents()["agentSummaries"]]


def attack_server(agents: Path) -> None:
    """Defines a hostile schema, and lists the agents while the server checks a call against it."""
    model = WatchedModel([calls("GET__hr__look", {"value": SLOW_VALUE}), says("It does not fit.")])
    with running(model, agents) as runtime, ThreadPoolExecutor() as threads:
        group = payload_group({"type": "string", "pattern": SLOW_PATTERN})
        invocation = threads.submit(runtime.inline, "Look", actionGroups=[group])
        model.answered.wait()
        print(list_agents(runtime.url), invocation.result()["text"])


ATTACK = """
import sys
from pathlib import Path
agents, *places = sys.stdin.read().split("\\n")
sys.path[:0] = places
import test_16_hostile_schemas
test_16_hostile_schemas.attack_server(Path(agents))
"""


@pytest.mark.exhaustive
def test_others_are_answered_while_a_hostile_schema_is_checked(tmp_path: Path) -> None:
    write_agent(tmp_path / "vacations", definition())
    here = Path(__file__).parent
    printed = run_alone(ATTACK, f"{tmp_path}\n{here}\n{here.parent}")
    assert printed == "['vacations'] It does not fit."


def test_a_stored_agents_document_has_the_same_bounds() -> None:
    with served() as server:
        agent_id = server.create()
        group_id = server.add(agent_id, **payload_group(STRING))
        too_many = payload_group(STRING) | {"apiSchema": {"payload": json.dumps(many_paths(501))}}
        with pytest.raises(ClientError, match="at most 500 operations"):
            server.control.update_agent_action_group(
                agentId=agent_id, agentVersion="DRAFT", actionGroupId=group_id, **too_many
            )


def test_a_huge_schema_in_a_call_is_refused_before_it_is_read(tmp_path: Path) -> None:
    document = json.dumps(api(STRING)) + " " * 2_000_000
    write_agent(tmp_path / "vacations", definition())
    with running(ScriptedModel([], CLAUDE), tmp_path) as runtime:
        groups = [{**payload_group(STRING), "apiSchema": {"payload": document}}]
        with pytest.raises(ClientError, match="more than 2,000,000 characters"):
            runtime.inline("Look", actionGroups=groups)
