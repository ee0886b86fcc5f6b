"""Bedrock's function schemas."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.actions import USER_INPUT, ActionGroup, Catalog, ReturnControl
from orchestrator.errors import DefinitionError


def group(*functions: Any, **changes: Any) -> ActionGroup:
    made = {"name": "hr", "executor": ReturnControl(), "functions": list(functions), **changes}
    return ActionGroup(**made)


def with_parameter(**parameter: Any) -> dict[str, Any]:
    return {"name": "f", "parameters": {"days": parameter}}


def test_a_function_becomes_an_operation() -> None:
    made = group(
        {
            "name": "request_vacation",
            "description": "Requests.",
            "parameters": {
                "start": {"type": "string", "description": "First day.", "required": True},
                "days": {"type": "array"},
            },
            "requireConfirmation": "ENABLED",
        }
    ).operations[0]
    assert (made.xml_name, made.tool_use_name) == ("hr::request_vacation", "hr__request_vacation")
    assert made.require_confirmation and made.verb == ""
    assert made.schema == {
        "type": "object",
        "properties": {
            "start": {"type": "string", "description": "First day."},
            "days": {"type": "array"},
        },
        "required": ["start"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            with_parameter(type="int"),
            "parameter 'days' of .*'hr::f' has the type 'int'.*, array; did you mean 'integer'",
        ),
        (with_parameter(type="object"), "has the type 'object'"),
        (with_parameter(), "has the type None"),
        (
            with_parameter(type="string", requried=True),
            "unknown member 'requried'.*did you mean 'required'",
        ),
        (with_parameter(type="string", required="yes"), "true or false, not 'yes'"),
        (
            with_parameter(type="string", description="a\u200bb"),
            r"U\+200B \(ZERO WIDTH SPACE\), at position 1",
        ),
        ({"name": "f", "parameters": ["days"]}, "must map names to parameters"),
        (
            {"name": "f", "parameters": {"my days": {"type": "string"}}},
            "'my days' is not possible.*try 'my_days'",
        ),
        (
            {"name": "f", "requireConfirmation": "ENABLE"},
            "must be ENABLED or DISABLED, not 'ENABLE'",
        ),
        ({"name": "get days"}, "function name 'get days' is not possible.*try 'get_days'"),
        ({"description": "x"}, "function name None"),
        ({"name": "f", "description": 5}, "must be a text, not int"),
        ("f", "must be an object with a `name`, not str"),
    ],
)
def test_mistakes_are_named(function: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        group(function)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "my group"}, "action group name 'my group' is not possible.*try 'my_group'"),
        ({"name": "a" * 101}, "is not possible"),
        ({"functions": None}, "needs exactly one of .* it has none"),
        ({"signature": USER_INPUT}, "it has functions and signature"),
        ({"functions": []}, "has no functions"),
        ({"functions": [{"name": "f"}, {"name": "f"}]}, "two functions 'f'"),
        ({"executor": None}, "'hr' has no executor"),
        ({"executor": print}, "is a builtin_function_or_method without `call"),
        ({"state": "ON"}, "the state 'ON'"),
        (
            {"functions": None, "executor": None, "signature": "AMAZON.Userinput"},
            "did you mean 'AMAZON.UserInput'",
        ),
        ({"functions": None, "signature": USER_INPUT}, "takes no executor"),
        ({"description": "a\u202eb"}, "RIGHT-TO-LEFT OVERRIDE"),
    ],
)
def test_a_wrong_group_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        group(**{"functions": [{"name": "f"}], **changes})


def test_groups_of_one_agent_have_different_names_and_none_of_bedrocks_own() -> None:
    with pytest.raises(DefinitionError, match="two action groups 'hr'"):
        Catalog([group({"name": "a"}), group({"name": "b"})])
    with pytest.raises(DefinitionError, match="reserved"):
        Catalog([group({"name": "Search"}, name="x_amz_knowledgebase_KB12345678")])
    with pytest.raises(DefinitionError, match="'user__askuser' is not unique"):
        Catalog([group({"name": "askuser"}, name="user")])


def test_a_disabled_group_is_not_in_the_catalog() -> None:
    made = Catalog(
        [
            group({"name": "a"}, state="DISABLED"),
            ActionGroup("UserInput", signature=USER_INPUT, state="DISABLED"),
        ]
    )
    assert (made.operations, made.ask_user) == ((), False)
