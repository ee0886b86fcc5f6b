"""Row 16: replies to scripts that are made to cost hours when they are checked.

The schema is the script's, and the reply is a model's. What may never end runs in a process of its
own, which is given a minute.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

import pytest
from left_out import sampled

from orchestrator.flows.code import parse_code_result
from orchestrator.flows.ppe.output import read_output
from orchestrator.flows.tree import ScriptError

READ = """
import json, sys
from orchestrator.flows.ppe.output import read_output
from orchestrator.flows.tree import ScriptError
format, schema, reply = json.load(sys.stdin)
try:
    read_output(eval(reply), format, schema)
    print("it fits")
except ScriptError as error:
    print(error.message[:300])
"""


def read_alone(schema: Any, reply: str, format: str = "json") -> str:
    """What is wrong with a reply, which is given as an expression of Python."""
    done = subprocess.run(
        [sys.executable, "-c", READ],
        input=json.dumps([format, schema, reply]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def doubled(levels: int) -> dict[str, Any]:
    """A schema of a few lines that asks the same question two to the power of `levels` times."""
    definitions: dict[str, Any] = {"a0": {"type": "string"}}
    for level in range(1, levels):
        definitions[f"a{level}"] = {"anyOf": [{"$ref": f"#/$defs/a{level - 1}"}] * 2}
    return {"$defs": definitions, "$ref": f"#/$defs/a{levels - 1}"}


LOTS = "is too large to be checked"


@pytest.mark.parametrize(
    ("schema", "reply", "answer"),
    sampled([
        ({"pattern": "^(a+)+$"}, "json.dumps('a' * 40 + 'b')", "does not match"),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
         "json.dumps({'a' * 40 + 'b': 1})", "Additional properties are not allowed"),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, "json.dumps({'a' * 40 + 'b': 1})", "not match"),
        ({"pattern": "(a?){1000}b"}, "json.dumps('a' * 10_000_000)", LOTS),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema",
          "properties": {"a": {"pattern": "^(a+)+$"}}, "allOf": [{"$ref": "#/properties/a"}]},
         "json.dumps('a' * 40 + 'b')", "does not match"),
        ({"uniqueItems": True}, "json.dumps([{'a': n} for n in range(60_000)])", "it fits"),
        (doubled(40), "'1'", LOTS),
        ({"anyOf": [{"type": "string"}] * 5_000}, "json.dumps(['x' * 1_000_000])", LOTS),
        ({"anyOf": [{"properties": {"a": False}}] * 5_000}, "json.dumps({'a': 'x' * 1_000_000})",
         LOTS),
        ({"items": {"enum": [[n] for n in range(20_000)]}},
         "json.dumps([[19_999]] * 20_000)", "it fits"),
        ({"items": {"properties": {f"p{n}": {} for n in range(20_000)}}},
         "json.dumps([{}] * 100_000)", LOTS),
        ({"$ref": "#"}, "'1'", "the schema is wrong: RecursionError"),
        (None, "'```' + ' ' * 300_000", "no JSON"),
    ], every=3),
    ids=["pattern", "names", "propertyNames", "instructions", "dialect", "unique", "doubled",
         "messages", "false", "enum", "properties", "circle", "fence"],
)  # fmt: skip
def test_a_reply_is_checked_in_bounded_time(schema: Any, reply: str, answer: str) -> None:
    assert answer in read_alone(schema, reply)


def test_aliases_in_a_reply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ScriptError, match="aliases are not understood here"):
        read_output("\n".join(lines), "yaml", {"type": "object"})


def test_references_of_a_schema_are_not_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        with pytest.raises(ScriptError, match="the schema is wrong"):
            read_output("1", "json", {"$ref": f"http://127.0.0.1:{port}/schema"})
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("reply", ["[" * 150 + "]" * 150, '{"a":' * 150 + "1" + "}" * 150])
def test_a_deep_reply_is_refused(reply: str) -> None:
    with pytest.raises(ScriptError, match="nested deeper than 100 levels"):
        read_output(reply, "json", {"type": ["array", "object"]})


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_deep_value_in_a_line_of_a_reply_is_text(opening: str) -> None:
    deep = opening * 100_000
    assert read_output(f"a: {deep}", "nobj", None) == {"a": deep}


@pytest.mark.parametrize("printed", ["[" * 100_000, "{", "9" * 5_000])
def test_a_program_cannot_forge_a_value_that_is_none(printed: str) -> None:
    assert parse_code_result(f"1\n\x1evalue:{printed}") == (False, None)


@pytest.mark.parametrize(
    ("value", "unique"),
    [
        ([1, True, "1", [1], {"a": 1}, None], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([n * (2**61 - 1) for n in range(20_000)], True),
    ],
)
def test_unique_items_are_json_schemas(value: Any, unique: bool) -> None:
    try:
        read_output(json.dumps(value), "json", {"uniqueItems": True})
        fits = True
    except ScriptError as error:
        fits = "non-unique" not in error.message
    assert fits is unique
