"""The catalog: finding what a model means, and describing what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import botocore.validate
import pytest
from action_support import context
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.actions import USER_INPUT, ActionGroup, Call, Catalog, ReturnControl
from orchestrator.actions.lambda_contract import call_parameters
from orchestrator.errors import DefinitionError

CLAIMS = {
    "openapi": "3.0.0",
    "paths": {
        "/claims": {"get": {"operationId": "listClaims", "description": "All claims."}},
        "/claims/{claimId}": {
            "get": {
                "operationId": "getClaim",
                "parameters": [
                    {
                        "name": "claimId",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string"},
                    },
                    {
                        "name": "view",
                        "in": "query",
                        "description": "How much.",
                        "schema": {"enum": ["short", "full"]},
                    },
                ],
            }
        },
        "/reminders": {
            "post": {
                "operationId": "send",
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["to"],
                                "properties": {
                                    "to": {"type": "array", "items": {"type": "string"}},
                                    "options": {"properties": {"urgent": {"type": "boolean"}}},
                                },
                            }
                        }
                    }
                },
            }
        },
    },
}


def build() -> Catalog:
    return Catalog(
        [
            ActionGroup("claims", api_schema=CLAIMS, executor=ReturnControl()),
            ActionGroup(
                "hr",
                functions=[
                    {"name": "send"},
                    {
                        "name": "getDays",
                        "parameters": {"year": {"type": "integer", "required": True}},
                    },
                ],
                executor=ReturnControl(),
            ),
            ActionGroup("HR2", functions=[{"name": "GetDays"}], executor=ReturnControl()),
            ActionGroup("UserInput", signature=USER_INPUT),
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("claims", "getClaim", "GET"), "GET::claims::/claims/{claimId}"),
        (("claims", "/claims/{claimId}", "GET"), "GET::claims::/claims/{claimId}"),
        (("claims", "", "GET", "/claims/{claimId}"), "GET::claims::/claims/{claimId}"),
        (("claims", "getClaim", "GET", "/claims/{claimId}"), "GET::claims::/claims/{claimId}"),
        (("claims", "getClaim"), "GET::claims::/claims/{claimId}"),
        (("claims", "claims", "get"), "GET::claims::/claims"),
        (("CLAIMS", "getclaim", "Get"), "GET::claims::/claims/{claimId}"),
        (("GET__claims__listClaims",), "GET::claims::/claims"),
        (("GET::claims::/claims",), "GET::claims::/claims"),
        (("", "listClaims"), "GET::claims::/claims"),
        (("hr", "send"), "hr::send"),
        (("hr__send",), "hr::send"),
        (("Hr", "SEND"), "hr::send"),
        (("claims", "send"), "POST::claims::/reminders"),
        (("", "getDays"), None),  # two groups have it, in other letters
        (("", "send"), None),  # two groups have it
        (("claims", "getClaim", "POST"), None),
        (("hr", "listClaims"), None),
        (("", ""), None),
    ],
)
def test_find_understands_what_can_only_mean_one_operation(
    arguments: tuple[str, ...], found: str | None
) -> None:
    operation = build().find(*arguments)
    assert (operation.xml_name if operation else None) == found


@given(st.text(), st.text(), st.text(), st.text())
def test_find_never_raises(group: str, name: str, verb: str, path: str) -> None:
    operation = build().find(group, name, verb, path)
    assert operation is None or operation.xml_name


def test_what_is_unknown_comes_with_close_matches() -> None:
    made = build()
    assert made.unknown("hr__getDay").startswith(
        "hr__getDay is not a valid function. Did you mean hr__getDays"
    )
    assert "Did you mean GET::claims::/claims or" in made.unknown("GET::claims::/claim")
    assert made.unknown("zzz") == (
        "zzz is not a valid function. Please only use the functions you have been provided with."
    )


def test_tool_specs_are_converses_and_built_once() -> None:
    made = build()
    assert made.tool_specs() is made.tool_specs(True)
    names = [spec["toolSpec"]["name"] for spec in made.tool_specs(False)]
    assert names == [
        "GET__claims__listClaims",
        "GET__claims__getClaim",
        "POST__claims__send",
        "hr__send",
        "hr__getDays",
        "HR2__GetDays",
    ]
    ask = made.tool_specs(True)[-1]["toolSpec"]
    assert (ask["name"], ask["inputSchema"]["json"]["required"]) == ("user__askuser", ["question"])
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    report = botocore.validate.ParamValidator().validate(
        {"tools": list(made.tool_specs(True))}, model.shape_for("ToolConfiguration")
    )
    assert not report.has_errors(), report.generate_report()
    json.dumps(made.tool_specs(True))


def test_a_tool_name_too_long_for_converse_is_shortened_and_still_found() -> None:
    group = "g" * 40
    made = Catalog(
        [
            ActionGroup(
                group, functions=[{"name": "f" * 40}, {"name": "f" * 41}], executor=ReturnControl()
            ),
            ActionGroup("h" * 90, functions=[{"name": "x"}], executor=ReturnControl()),
        ]
    )
    names = [spec["toolSpec"]["name"] for spec in made.tool_specs(False)]
    assert len(set(names)) == 3 and all(len(name) == 64 for name in names)
    for operation, name in zip(made.operations, names, strict=True):
        assert operation.tool_use_name == name
        assert made.find(name) is operation
        assert made.find(*name.split("__", 1)) is operation


def test_descriptions_for_the_tools_partial() -> None:
    made = build().descriptions("xml")
    assert [one["name"] for one in made][-2:] == ["HR2::GetDays", "user::askuser"]
    assert made[1]["parameters"] == [
        {"name": "claimId", "type": "string", "description": "", "required": True},
        {
            "name": "view",
            "type": "string",
            "description": "How much. One of: short, full.",
            "required": False,
        },
    ]
    assert made[2]["parameters"][1]["description"] == (
        'As JSON: {"properties": {"urgent": {"type": "boolean"}}, "type": "object"}'
    )
    native = build().descriptions("tool_use", ask_user=False)
    assert (native[0]["name"], native[-1]["name"]) == ("GET__claims__listClaims", "HR2__GetDays")


def test_parameters_have_bedrocks_form() -> None:
    made = build()
    get = made.find("claims", "getClaim")
    send = made.find("claims", "send")
    days = made.find("hr", "getDays")
    assert get and send and days
    assert call_parameters(Call("1", get, {"view": "full", "claimId": "c-1"})) == (
        [
            {"name": "claimId", "type": "string", "value": "c-1"},
            {"name": "view", "type": "string", "value": "full"},
        ],
        None,
    )
    assert call_parameters(Call("2", send, {"to": ["é"], "options": {"urgent": True}})) == (
        [],
        {
            "content": {
                "application/json": {
                    "properties": [
                        {"name": "to", "type": "array", "value": '["é"]'},
                        {"name": "options", "type": "object", "value": '{"urgent": true}'},
                    ]
                }
            }
        },
    )
    assert call_parameters(Call("3", days, {"year": 2027})) == (
        [{"name": "year", "type": "integer", "value": "2027"}],
        None,
    )


def test_parameters_of_the_recorded_calls() -> None:
    golden = Path(__file__).resolve().parents[2] / "../shared/golden"
    if not golden.is_dir():
        pytest.skip("no recordings here")
    number = {"type": "number", "required": True}
    made = Catalog(
        [
            ActionGroup(
                "action_group_quick_start_6gq19",
                functions=[{"name": "add_two_numbers", "parameters": {"n1": number, "n2": number}}],
                executor=ReturnControl(),
            )
        ]
    )
    recording = json.loads((golden / "tool_calls_with_input_params.json").read_text())
    traces = [
        event["payload"].get("trace", {}).get("orchestrationTrace", {})
        for event in recording["events"]
    ]
    recorded = next(
        trace["invocationInput"]["actionGroupInvocationInput"]
        for trace in traces
        if "invocationInput" in trace
    )
    operation = made.find("action_group_quick_start_6gq19", "add_two_numbers")
    assert operation is not None
    values, problems = made.validate(operation, {"n1": 10, "n2": 20})
    assert problems == []
    assert call_parameters(Call("1", operation, values))[0] == recorded["parameters"]


def test_an_equal_operation_of_another_catalog_is_understood() -> None:
    first, second = build(), build()
    operation = first.operations[1]
    assert second.waits(operation) == "RESULT"
    assert second.validate(operation, {"claimId": "1"}) == ({"claimId": "1"}, [])
    stranger = ActionGroup("x", functions=[{"name": "y"}], executor=ReturnControl()).operations[0]
    with pytest.raises(DefinitionError, match="no operation 'x::y'"):
        second.executor(stranger)


def test_confirmation_and_context_are_plain_values() -> None:
    assert context().seconds is None
    made: Any = ReturnControl()
    assert repr(made) == "ReturnControl()"
