"""OpenAPI documents as action groups."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import Agent
from orchestrator.actions import ActionGroup, Operation, ReturnControl
from orchestrator.actions.openapi import api_operations
from orchestrator.errors import DefinitionError
from orchestrator.testing import ScriptedModel

CLAIMS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Claims", "version": "1"},
    "paths": {
        "/claims/{claimId}": {
            "parameters": [{"$ref": "#/components/parameters/ClaimId"}],
            "get": {
                "operationId": "getClaim",
                "description": "One claim.",
                "parameters": [
                    {
                        "name": "view",
                        "in": "query",
                        "description": "How much.",
                        "schema": {"type": "string", "enum": ["short", "full"], "nullable": True},
                    },
                    {"name": "X-Trace", "in": "header", "schema": {"type": "boolean"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"$ref": "https://example.com/never-fetched.json"}},
            },
            "put": {
                "summary": "Change it.",
                "x-requireConfirmation": "ENABLED",
                "requestBody": {"$ref": "#/components/requestBodies/Change"},
            },
        },
    },
    "components": {
        "parameters": {
            "ClaimId": {
                "name": "claimId",
                "in": "path",
                "required": True,
                "description": "Its id.",
                "schema": {"type": "string"},
            }
        },
        "requestBodies": {
            "Change": {
                "content": {
                    "text/plain": {"schema": {"type": "string"}},
                    "application/json": {
                        "schema": {
                            "allOf": [
                                {"$ref": "#/components/schemas/Base"},
                                {
                                    "required": ["note"],
                                    "properties": {
                                        "note": {"type": ["string", "null"], "description": "Why."}
                                    },
                                },
                            ]
                        }
                    },
                }
            }
        },
        "schemas": {
            "Base": {
                "type": "object",
                "required": ["amount"],
                "properties": {
                    "amount": {"$ref": "#/components/schemas/Money", "description": "How much."},
                    "made": {"type": "string", "readOnly": True},
                },
            },
            "Money": {
                "oneOf": [
                    {"type": "number", "exclusiveMinimum": True, "minimum": 0, "example": 3},
                    {"type": "null"},
                ]
            },
        },
    },
}


def operations(source: Any) -> tuple[Operation, ...]:
    return ActionGroup("claims", api_schema=source, executor=ReturnControl()).operations


def changed(*path: Any, to: Any) -> dict[str, Any]:
    made = copy.deepcopy(CLAIMS)
    node = made
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    return made


def test_operations_are_read_with_their_references() -> None:
    get, put = operations(CLAIMS)
    assert (get.verb, get.path, get.name, get.description) == (
        "GET",
        "/claims/{claimId}",
        "getClaim",
        "One claim.",
    )
    assert (get.tool_use_name, get.xml_name) == (
        "GET__claims__getClaim",
        "GET::claims::/claims/{claimId}",
    )
    assert [(p.name, p.location, p.required, p.type) for p in get.parameters] == [
        ("claimId", "path", True, "string"),
        ("view", "query", False, "string"),
        ("X-Trace", "header", False, "boolean"),
    ]
    assert get.schema["properties"]["view"] == {
        "type": "string",
        "enum": ["short", "full"],
        "description": "How much.",
    }
    assert (get.idempotent, get.require_confirmation, get.content_type) == (True, False, "")
    assert (put.name, put.description) == ("put_claims_claimId", "Change it.")
    assert (put.idempotent, put.require_confirmation, put.content_type) == (
        False,
        True,
        "application/json",
    )
    assert put.schema == {
        "type": "object",
        "properties": {
            "claimId": {"type": "string", "description": "Its id."},
            "amount": {"type": "number", "exclusiveMinimum": 0, "description": "How much."},
            "note": {"type": "string", "description": "Why."},
        },
        "required": ["claimId", "amount", "note"],
        "additionalProperties": False,
    }
    assert list(put.schema["properties"]) == ["claimId", "amount", "note"]


def test_mapping_json_text_yaml_text_and_file_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "openapi.yaml"
    file.write_text(yaml.safe_dump(CLAIMS, sort_keys=False), encoding="utf-8")
    read = [operations(source) for source in (CLAIMS, json.dumps(CLAIMS), file.read_text(), file)]
    assert all(one == read[0] for one in read)


def test_openapi_3_1_and_an_unquoted_version_are_read() -> None:
    assert operations(changed("openapi", to="3.1.0")) == operations(CLAIMS)
    assert operations(changed("openapi", to=3.0)) == operations(CLAIMS)


def test_yaml_scalars_are_those_of_yaml_1_2() -> None:
    text = """
openapi: 3.0.0
paths:
  /a:
    get:
      parameters:
        - {name: answer, in: query, schema: {type: string, enum: [yes, no, 2027-01-31]}}
"""
    assert operations(text)[0].parameters[0].schema["enum"] == ["yes", "no", "2027-01-31"]


def test_a_form_body_is_taken_when_there_is_no_json() -> None:
    content = {
        "application/x-www-form-urlencoded": {
            "schema": {"properties": {"note": {"type": "string"}}}
        }
    }
    made = operations(changed("components", "requestBodies", "Change", "content", to=content))[1]
    assert (made.content_type, made.parameters[-1].name) == (
        "application/x-www-form-urlencoded",
        "note",
    )


def test_an_operation_may_override_a_shared_parameter() -> None:
    own = {"name": "claimId", "in": "path", "required": True, "schema": {"type": "integer"}}
    made = operations(changed("paths", "/claims/{claimId}", "get", "parameters", to=[own]))[0]
    assert [p.type for p in made.parameters] == ["integer"]


def test_an_operation_id_with_other_characters_is_cleaned() -> None:
    path = ("paths", "/claims/{claimId}", "get", "operationId")
    assert operations(changed(*path, to="claims.get one"))[0].name == "claims_get_one"


GET = ("paths", "/claims/{claimId}", "get")
VIEW = (*GET, "parameters", 0, "schema")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            changed(*VIEW, to={"$ref": "https://example.com/x.json"}),
            "'https://example.com/x.json' leads out of the document",
        ),
        (changed(*VIEW, to={"$ref": "file:///etc/passwd"}), "leads out"),
        (changed(*VIEW, to={"$ref": "other.yaml#/X"}), "leads out"),
        (
            changed(*VIEW, to={"$ref": "#/components/schemas/Nowhere"}),
            "'#/components/schemas/Nowhere' leads nowhere",
        ),
        (changed(*VIEW, to={"$ref": "#/components/schemas/Base/required/7"}), "leads nowhere"),
        (
            changed(
                "components",
                "schemas",
                "Money",
                to={"properties": {"x": {"$ref": "#/components/schemas/Base"}}},
            ),
            r"recursive \(#/components/schemas/Base -> .*/Money -> .*/schemas/Base\)",
        ),
        (
            changed(
                "components",
                "parameters",
                "ClaimId",
                to={"$ref": "#/components/parameters/ClaimId"},
            ),
            "recursive",
        ),
        (
            changed(*VIEW, to={"type": "strng"}),
            "type 'strng' is unknown.*did you mean 'string'.*get > parameters > 0 > schema",
        ),
        (changed(*VIEW, to={"enum": "a"}), "`enum` must be a list"),
        (changed(*VIEW, to={"type": "string", "enum": ["a\u200b"]}), r"U\+200B"),
        (changed(*VIEW, to={"properties": {"a\u2060": {}}}), r"U\+2060"),
        (changed(*VIEW, to="string"), "a schema must be an object, not 'string'"),
        (changed(*GET, "description", to="a\u202eb"), r"U\+202E"),
        (changed(*GET, "parameters", 0, "in", to="cookie"), "'view' has `in: cookie`"),
        (changed(*GET, "parameters", 0, "in", to=["query"]), "has `in: "),
        (changed(*GET, "parameters", 0, "name", to="a b"), "parameter name 'a b' is not possible"),
        (
            changed(*GET, "parameters", 1, "name", to="claimId"),
            "'claimId' is used in the path and in the header",
        ),
        (changed(*GET, "parameters", to={}), "`parameters` must be a list"),
        (
            changed(*GET, "x-requireConfirmation", to="yes"),
            "`x-requireConfirmation` must be ENABLED or DISABLED, not 'yes'",
        ),
        (changed(*GET, to=None), "an operation must be an object"),
        (
            changed("paths", "/claims/{claimId}", "gett", to={}),
            "'gett' is not an HTTP verb; did you mean 'get'",
        ),
        (changed("paths", "/claims/{id}", to={}), "are the same but for the names in braces"),
        (changed("paths", "claims", to={}), "must begin with '/'"),
        (
            changed("paths", "/x/{y}", to={"get": {}}),
            r"the path has \{y\}, but there is no parameter 'y'",
        ),
        (
            changed("paths", "/x", to={"get": {"operationId": "getClaim"}}),
            "GET /claims/{claimId} and GET /x have the same name 'getClaim'",
        ),
        (changed("paths", to={}), "`paths` of the document is empty"),
        (changed("openapi", to="2.0"), "`openapi` is '2.0'"),
        ({"swagger": "2.0"}, "there is no `openapi`"),
        (
            changed("components", "requestBodies", "Change", "content", to={"text/csv": {}}),
            r"content types \['text/csv'\]",
        ),
        (
            changed(
                "components",
                "requestBodies",
                "Change",
                "content",
                "application/json",
                "schema",
                to={"type": "array"},
            ),
            "must be one object",
        ),
        ("[1, 2]", "must be an OpenAPI document"),
        ("", "must be an OpenAPI document"),
        ("claims/openapi.yaml", "and `paths`; for the one in a file give a Path"),
        ("a: [", "1:5: this is not YAML"),
        ("a: &x [*x]", "1:8: aliases are not understood here; repeat the value"),
        ('{"a": 1,}', "1:9: this is not JSON: a member's name in double quotes is missing"),
        ('{"a": 1, "a": 2}', "1:10: 'a' is given twice"),
        ("a: 1\na: 2", "2:1: 'a' is given twice, first in line 1"),
        ("[" * 100_000, "1:102: this is nested deeper than 100 levels"),
    ],
)
def test_mistakes_are_named_with_their_place(document: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        operations(document)


def test_an_error_in_a_file_has_its_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "openapi.yaml"
    file.write_text(
        "openapi: 3.0.0\npaths:\n  /a:\n    get:\n      parameters:\n"
        "        - name: x\n          in: query\n          schema: {type: strng}\n",
        encoding="utf-8",
    )
    with pytest.raises(DefinitionError) as caught:
        operations(file)
    assert (caught.value.file, caught.value.line, caught.value.column) == (str(file), 8, 11)
    with pytest.raises(DefinitionError, match="cannot be read: No such file"):
        operations(tmp_path / "none.yaml")


def test_a_reference_bomb_is_refused_quickly() -> None:
    schemas: dict[str, Any] = {"S0": {"type": "string"}}
    for n in range(1, 20):
        ref = {"$ref": f"#/components/schemas/S{n - 1}"}
        schemas[f"S{n}"] = {"properties": {key: ref for key in "abcdefghij"}}
    bomb = changed("components", "schemas", to=schemas)
    bomb["paths"]["/claims/{claimId}"]["put"] = {}
    bomb["paths"]["/claims/{claimId}"]["get"]["parameters"][0]["schema"] = {
        "$ref": "#/components/schemas/S19"
    }
    with pytest.raises(DefinitionError, match=r"more than .* parts|levels deep"):
        operations(bomb)


def test_aliases_of_a_file_are_bounded_and_others_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 {type: string}"]
    for n in range(1, 30):
        pairs = ", ".join(f"{key}: *a{n - 1}" for key in "abcdefghij")
        lines.append(f"a{n}: &a{n} {{properties: {{{pairs}}}}}")
    lines += [
        "openapi: 3.0.0",
        "paths: {/x: {get: {parameters: [{name: x, in: query, schema: *a29}]}}}",
    ]
    file = tmp_path / "openapi.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"comes to more than 50,000 values"):
        operations(file)
    with pytest.raises(DefinitionError, match="aliases are not understood here"):
        operations("\n".join(lines))
    file.write_text("a: &x [*x]", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"1:8: the alias .x is inside of its own value"):
        operations(file)


def test_a_deep_schema_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"items": deep}
    with pytest.raises(DefinitionError, match="levels deep"):
        operations(changed(*VIEW, to=deep))


def test_a_property_may_be_called_ref() -> None:
    made = operations(changed(*VIEW, to={"properties": {"$ref": {"type": "string"}}}))[0]
    assert made.parameters[1].schema["properties"] == {"$ref": {"type": "string"}}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "enum",
                    "$ref",
                    "anyOf",
                    "allOf",
                    "required",
                    "schema",
                    "in",
                    "name",
                    "get",
                    "parameters",
                    "/x",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    json_values,
    st.sampled_from(
        [
            VIEW,
            GET,
            ("paths",),
            ("components", "schemas", "Base"),
            ("paths", "/claims/{claimId}", "put", "requestBody"),
        ]
    ),
)
def test_any_document_is_read_or_refused(value: Any, path: tuple[Any, ...]) -> None:
    try:
        made = operations(changed(*path, to=value))
    except DefinitionError:
        return
    json.dumps([one.schema for one in made])


def returning(responses: Any) -> Any:
    item = {"get": {"operationId": "f", "responses": responses}}
    schemas = {"Docs": {"type": "array", "description": "The names."}, "Loop": {"$ref": "#/x"}}
    document = {"openapi": "3.0.0", "paths": {"/a": item}, "components": {"schemas": schemas}}
    document["components"]["responses"] = {"Ok": {"description": "All of it."}}
    return api_operations("g", document)[0].returns


def answers(schema: Any, **more: Any) -> Any:
    return {"content": {"application/json": {"schema": schema}}, **more}


DOCS = {"$ref": "#/components/schemas/Docs"}


@pytest.mark.parametrize(
    ("responses", "returns"),
    [
        (None, None),
        ({"404": {"description": "None."}}, None),
        ({"404": {}, "200": {"description": " Found. "}}, ("object", "Found.")),
        ({200: answers(DOCS)}, ("array", "The names.")),
        ({"2XX": answers(DOCS, description="Found.")}, ("array", "Found.")),
        ({"default": {"$ref": "#/components/responses/Ok"}}, ("object", "All of it.")),
        # What is wrong there changes nothing about calls.
        ({"200": answers({"type": ["a"]}, description=7)}, None),
        ({"200": {"$ref": "#/nowhere"}}, None),
        ({"200": answers({"$ref": "http://x/y"})}, None),
        ({"200": "fine"}, None),
        ({"200": answers({"type": "integer"})}, ("integer", "")),
        ([], None),
    ],
)
def test_an_operation_says_what_a_successful_call_returns(responses: Any, returns: Any) -> None:
    assert returning(responses) == returns


def test_models_that_read_their_tools_in_the_prompt_read_what_calls_return() -> None:
    for model, shown in (
        (
            "anthropic.claude-3-sonnet-20240229-v1:0",
            "</parameters>\n<returns>\n<output>\n<type>array</type>\n<description>1 &lt; 2"
            "</description>\n</output>\n</returns>\n</tool_description>",
        ),
        ("anthropic.claude-v2", "<returns>array: 1 &lt; 2</returns>\n</function>"),
    ):
        item = {
            "get": {"operationId": "f", "responses": {"200": answers(DOCS, description="1 < 2")}}
        }
        schemas = {"Docs": {"type": "array"}}
        document = {"openapi": "3.0.0", "paths": {"/a": item}, "components": {"schemas": schemas}}
        group = ActionGroup("g", api_schema=document, executor=ReturnControl())
        one = Agent("x", "You do things.", ScriptedModel([], model), action_groups=[group])
        prompt = one.render("ORCHESTRATION", "Do it.")
        assert shown in str(prompt.system) + prompt.messages[0]["content"][0]["text"]


def test_a_hidden_character_in_a_response_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a description"):
        returning({"200": {"description": "Fou\u200bnd."}})
