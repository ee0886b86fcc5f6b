"""What handlers return, as sloppily as they do, and what it is taken for."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.actions import ActionGroup, ReturnControl
from orchestrator.actions.lambda_contract import read_response

FUNCTION = ActionGroup("hr", functions=[{"name": "days"}], executor=ReturnControl()).operations[0]
API = ActionGroup(
    "claims",
    api_schema={"openapi": "3.0.0", "paths": {"/claims": {"get": {"operationId": "list"}}}},
    executor=ReturnControl(),
).operations[0]


def function(body: Any, **changes: Any) -> dict[str, Any]:
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": "hr",
            "function": "days",
            "functionResponse": {"responseBody": {"TEXT": {"body": body}}, **changes},
        },
    }


def api(body: Any, **changes: Any) -> dict[str, Any]:
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": "claims",
            "apiPath": "/claims",
            "httpMethod": "GET",
            "httpStatusCode": 200,
            "responseBody": {"application/json": {"body": body}},
            **changes,
        },
    }


def without(response: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in response.items() if name != key}


def test_a_correct_response_needs_no_note() -> None:
    read = read_response(function("5 days"), FUNCTION)
    assert (read.text, read.state, read.notes, read.http_status) == ("5 days", "", (), None)
    read = read_response(api('{"a": 1}'), API)
    assert (read.text, read.state, read.notes, read.http_status) == ('{"a": 1}', "", (), 200)
    assert read.session_attributes is None and read.prompt_session_attributes is None


@pytest.mark.parametrize(
    ("returned", "text", "note"),
    [
        (without(function("x"), "messageVersion"), "x", "`messageVersion` is missing"),
        ({**function("x"), "messageVersion": 2}, "x", "`messageVersion` is 2, not '1.0'"),
        (
            function("{'days': 5, 'left': Decimal('2')}"),
            "{'days': 5, 'left': Decimal('2')}",
            "looks like Python's text",
        ),
        (function("[Decimal('5')]"), "[Decimal('5')]", "looks like Python's text"),
        (function({"größe": Decimal(5)}), '{"größe": 5}', "the body is a dict, not a text"),
        (function([1, None]), "[1, null]", "the body is a list"),
        (function(None), "", "the body is empty"),
        (function({1, 2}), "[1, 2]", "the body is a set"),
        (function({(1, 2): 3}), "{(1, 2): 3}", "no JSON form"),
        ("plain", "plain", "returned a bare str"),
        (["a"], '["a"]', "returned a bare list"),
        ({"days": 5}, '{"days": 5}', "returned a bare dict"),
        (None, "", "the handler returned nothing"),
        (5, "5", "returned a bare int"),
        (json.dumps(function("x")), "x", "the response is JSON text"),
        ("{broken", "{broken", "returned a bare str"),
        (function("x")["response"], "x", "not inside `response`"),
        ({"responseBody": {"TEXT": {"body": "x"}}}, "x", "not inside `response`"),
        ({"messageVersion": "1.0", "response": "x"}, "x", "`response` is not an object"),
        ({"messageVersion": "1.0", "response": {}}, "", "`responseBody` is missing"),
        (
            {"messageVersion": "1.0", "response": {"functionResponse": "x"}},
            "x",
            "`functionResponse` is not an object",
        ),
        (
            {"messageVersion": "1.0", "response": {"responseBody": {"body": "x"}}},
            "x",
            "no content type",
        ),
        (
            {"messageVersion": "1.0", "response": {"responseBody": "x"}},
            "x",
            "`responseBody` is a str",
        ),
        (
            {"messageVersion": "1.0", "response": {"responseBody": {"text": {"body": "x"}}}},
            "x",
            "the content type is 'text', not 'TEXT'",
        ),
        (
            {"messageVersion": "1.0", "response": {"responseBody": {"TEXT": "x"}}},
            "x",
            "`body` is missing",
        ),
        (
            {
                "messageVersion": "1.0",
                "response": {**function("x")["response"], "actionGroup": "other"},
            },
            "x",
            "`actionGroup` is 'other', not 'hr'",
        ),
        (
            {"messageVersion": "1.0", "response": {**function("x")["response"], "function": None}},
            "x",
            "`function` is None, not 'days'",
        ),
        (
            function("x", responseState="reprompt"),
            "x",
            "`responseState` is 'reprompt', not 'REPROMPT'",
        ),
        (
            function("x", responseState="SUCCESS"),
            "x",
            "`responseState` is 'SUCCESS', not REPROMPT or FAILURE; ignored",
        ),
        (function("x", responseState=["FAILURE"]), "x", "ignored"),
        ({**function("x"), "sessionAttributes": [1]}, "x", "`sessionAttributes` is not an object"),
    ],
)
def test_what_was_needed_to_understand_it_is_noted(returned: Any, text: str, note: str) -> None:
    read = read_response(returned, FUNCTION)
    assert read.text == text
    assert any(note in one for one in read.notes), read.notes


@pytest.mark.parametrize("state", ["REPROMPT", "FAILURE"])
def test_states_are_passed_on(state: str) -> None:
    read = read_response(function("Ask for the year.", responseState=state), FUNCTION)
    assert (read.state, read.text, read.notes) == (state, "Ask for the year.", ())


def test_attributes_are_passed_on_as_texts() -> None:
    returned = {
        **function("x"),
        "sessionAttributes": {"a": "1", "n": 5, "flag": True, "none": None, "list": [1]},
        "promptSessionAttributes": {},
    }
    read = read_response(returned, FUNCTION)
    assert read.session_attributes == {"a": "1", "n": "5", "flag": "true", "list": "[1]"}
    assert read.prompt_session_attributes == {}
    assert read.notes == ("`sessionAttributes` has values that are not texts; made into texts",)


@pytest.mark.parametrize(
    ("status", "read_as", "note"),
    [
        (200, 200, None),
        (404, 404, "the HTTP status is 404"),
        ("500", 500, "the HTTP status is 500"),
        ("ok", None, "`httpStatusCode` is 'ok', not a number"),
        (True, None, "not a number"),
    ],
)
def test_an_http_status_stays_and_the_body_goes_to_the_model(
    status: Any, read_as: int | None, note: str | None
) -> None:
    read = read_response(api("no such claim", httpStatusCode=status), API)
    assert (read.text, read.state, read.http_status) == ("no such claim", "", read_as)
    assert read.notes == () if note is None else any(note in one for one in read.notes)


def test_api_gateways_form_is_understood() -> None:
    read = read_response({"statusCode": 201, "body": '{"id": 1}'}, API)
    assert (read.text, read.http_status) == ('{"id": 1}', 201)
    assert "API Gateway" in read.notes[0]


def test_the_verb_may_be_in_lower_case() -> None:
    assert read_response(api("x", httpMethod="get"), API).notes == ()
    assert read_response(api("x", httpMethod="POST", apiPath="/x"), API).notes == (
        "`apiPath` is '/x', not '/claims'",
        "`httpMethod` is 'POST', not 'GET'",
    )


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        raise RuntimeError("no")


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize("make", [Hostile, circular, lambda: {1: Hostile()}, lambda: b"\xff"])
def test_hostile_values_are_taken_for_something(make: Any) -> None:
    for place in (
        make(),
        function(make()),
        function("x", responseState=make()),
        {**function("x"), "sessionAttributes": {"a": make()}},
        {**function("x"), "messageVersion": make()},
        {"response": {"function": make()}},
    ):
        read = read_response(place, FUNCTION)
        assert isinstance(read.text, str) and read.notes


def test_a_value_nested_too_deeply_is_taken_for_something() -> None:
    assert read_response(function(deep()), FUNCTION).notes
    assert read_response(deep(), FUNCTION).notes
    assert read_response("{" * 100_000, FUNCTION).notes


keys = st.sampled_from(
    [
        "messageVersion",
        "response",
        "functionResponse",
        "responseBody",
        "TEXT",
        "application/json",
        "body",
        "responseState",
        "sessionAttributes",
        "httpStatusCode",
        "statusCode",
        "actionGroup",
    ]
)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(keys | st.text(max_size=2) | st.integers(), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(anything, st.sampled_from([FUNCTION, API]))
def test_any_return_value_becomes_a_result(returned: Any, operation: Any) -> None:
    for value in (returned, function(returned), api(returned)):
        read = read_response(value, operation)
        assert isinstance(read.text, str)
        assert read.state in ("", "REPROMPT", "FAILURE")
        for attributes in (read.session_attributes, read.prompt_session_attributes):
            assert attributes is None or all(type(v) is str for v in attributes.values())


CONFIGURED = {"vectorSearchConfiguration": {"numberOfResults": 2}}


def test_configurations_of_later_searches_are_read() -> None:
    pair = {"knowledgeBaseId": "KB12345678", "retrievalConfiguration": CONFIGURED}
    read = read_response({**function("5"), "knowledgeBasesConfiguration": [pair]}, FUNCTION)
    assert read.knowledge_bases == {"KB12345678": CONFIGURED}
    assert (read.text, read.notes) == ("5", ())


@pytest.mark.parametrize(
    "given",
    [
        *("few", {"KB12345678": CONFIGURED}, [CONFIGURED], [{"knowledgeBaseId": "KB12345678"}]),
        [{"knowledgeBaseId": 1, "retrievalConfiguration": CONFIGURED}],
        [{"knowledgeBaseId": "KB12345678", "retrievalConfiguration": {"n": Decimal(2)}}],
        [{"knowledgeBaseId": "KB12345678", "retrievalConfiguration": {"n": "x" * 100_000}}],
    ],
)
def test_configurations_that_are_none_are_noted(given: Any) -> None:
    read = read_response({**function("5"), "knowledgeBasesConfiguration": given}, FUNCTION)
    assert (read.text, read.knowledge_bases) == ("5", None)
    assert "knowledgeBasesConfiguration" in read.notes[0]
