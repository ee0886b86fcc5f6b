"""Where a parameter may lie, by models of our own: no operation of the services has it all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.model import ServiceModel
from hypothesis import given
from hypothesis import strategies as st
from shape_values import parsed, sent

from orchestrator.server.operations import Fault
from orchestrator.server.wire.faults import WrongOutput
from orchestrator.server.wire.requests import RequestReader
from orchestrator.server.wire.responses import ResponseWriter

WHERE = {
    "when": ("Time", "header", "x-when"),
    "count": ("Count", "header", "x-count"),
    "share": ("Share", "header", "x-share"),
    "loud": ("Flag", "header", "x-loud"),
    "words": ("Words", "header", "x-words"),
    "numbers": ("Counts", "header", "x-numbers"),
    "about": ("Map", "headers", "x-about-"),
    "policy": ("Text", "header", "x-policy"),
    "since": ("Time", "querystring", "since"),
    "kinds": ("Words", "querystring", "kind"),
    "ratio": ("Share", "querystring", "ratio"),
    "quiet": ("Flag", "querystring", "quiet"),
    "others": ("Map", "querystring", "others"),
    "page": ("Count", "uri", "page"),
}


def _members() -> dict[str, Any]:
    told: dict[str, Any] = {
        name: {"shape": shape, "location": where, "locationName": wire}
        for name, (shape, where, wire) in WHERE.items()
    }
    told["policy"]["jsonvalue"] = True
    return told


SHAPES: dict[str, Any] = {
    "In": {"type": "structure", "members": {**_members(), "body": {"shape": "Part"}}},
    "Text": {"type": "string"},
    "Flag": {"type": "boolean"},
    "Count": {"type": "integer"},
    "Share": {"type": "double"},
    "Time": {"type": "timestamp"},
    "Words": {"type": "list", "member": {"shape": "Text"}},
    "Counts": {"type": "list", "member": {"shape": "Count"}},
    "Map": {"type": "map", "key": {"shape": "Text"}, "value": {"shape": "Text"}},
    "Part": {"type": "structure", "members": {"at": {"shape": "Time", "locationName": "AT"}}},
    "Sent": {
        "type": "structure",
        "payload": "body",
        "required": ["body"],
        "members": {"body": {"shape": "Part"}},
    },
    "SentText": {"type": "structure", "payload": "body", "members": {"body": {"shape": "Text"}}},
    "Out": {
        "type": "structure",
        "required": ["loud"],
        "members": {
            "loud": {"shape": "Flag", "location": "header", "locationName": "x-loud"},
            "when": {"shape": "Time", "location": "header", "locationName": "x-when"},
            "words": {"shape": "Text", "location": "header", "locationName": "x-words"},
            "at": {"shape": "Time", "locationName": "AT"},
        },
    },
}


def operation(name: str, given: str, told: str = "Out") -> Any:
    http = {"method": "POST", "requestUri": "/things/{page}" if given == "In" else "/things"}
    made = {"name": name, "http": http, "input": {"shape": given}, "output": {"shape": told}}
    model = {
        "metadata": {"protocol": "rest-json", "serviceId": "x", "endpointPrefix": "x"},
        "operations": {name: made},
        "shapes": SHAPES,
    }
    return ServiceModel(model, f"things-{given}-{told}").operation_model(name)


ASK = operation("Ask", "In")
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
WORD = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='\\"'),
               min_size=1, max_size=6)  # fmt: skip
SECONDS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)).map(
    lambda it: it.replace(microsecond=0)
)
COUNTS = st.integers(-(2**31), 2**31 - 1)
SHARES = st.floats(allow_nan=False, allow_infinity=False)
ASKED = st.fixed_dictionaries(
    {"page": COUNTS},
    optional={
        "when": SECONDS,
        "count": COUNTS,
        "share": SHARES,
        "loud": st.booleans(),
        "words": st.lists(WORD, min_size=1, max_size=3),
        "numbers": st.lists(COUNTS, min_size=1, max_size=3),
        "about": st.dictionaries(st.sampled_from(["a", "b-c"]), WORD, min_size=1),
        "policy": TEXT,
        "since": SECONDS,
        "kinds": st.lists(TEXT, min_size=1, max_size=3),
        "ratio": SHARES,
        "quiet": st.booleans(),
        "others": st.dictionaries(st.sampled_from(["x", "y z", "\u00fc"]), TEXT, min_size=1),
        "body": st.fixed_dictionaries({}, optional={"at": SECONDS}),
    },
)


@given(params=ASKED)
def test_parameters_are_read_from_where_botocore_puts_them(params: dict[str, Any]) -> None:
    _, path, query, headers, body = sent(ASK, params)
    read = RequestReader(ASK).read({"page": path.rpartition("/")[2]}, query, headers, body)
    assert read == params


@pytest.mark.parametrize("given", ["Sent", "SentText"])
@pytest.mark.parametrize("time", [None, datetime(2026, 1, 2, tzinfo=UTC)])
def test_one_member_may_be_the_whole_body(given: str, time: Any) -> None:
    model = operation("Send", given)
    params = {"body": {"at": time} if time else {}} if given == "Sent" else {"body": "th\u00e9re"}
    _, _, query, headers, body = sent(model, params)
    assert RequestReader(model).read({}, query, headers, body) == params


def test_a_body_that_is_missing_is_told() -> None:
    with pytest.raises(Fault, match="Value null at 'body'"):
        RequestReader(operation("Send", "Sent")).read({}, "", {}, b"")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x-when", "later"),
        ("x-count", "many"),
        ("x-count", "1" * 30),
        ("x-share", "1e999"),
        ("x-share", "nan"),
        ("x-loud", "yes"),
        ("x-numbers", "1,b"),
    ],
)
def test_headers_of_the_wrong_kind_are_told_by_their_member(name: str, text: str) -> None:
    member = next(told for told, (_, _, wire) in WHERE.items() if wire == name)
    with pytest.raises(Fault, match=f"at '{member}") as caught:
        RequestReader(ASK).read({"page": "1"}, "", {name: text}, b"")
    assert caught.value.name == "ValidationException"


def test_a_header_that_is_no_json_is_refused() -> None:
    with pytest.raises(Fault, match="base64"):
        RequestReader(ASK).read({"page": "1"}, "", {"x-policy": "{}"}, b"")


def test_answers_tell_members_in_headers_as_botocore_reads_them() -> None:
    output = {
        "loud": False,
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "words": "a, b",
        "at": datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC),
    }
    answer = ResponseWriter(ASK).answer(output)
    assert answer.headers["x-when"] == "Fri, 02 Jan 2026 03:04:05 GMT"
    assert answer.body == b'{"AT":1767323045.5}'
    assert parsed(ASK, answer.status, answer.headers, answer.body) == output


@pytest.mark.parametrize("output", [{}, {"loud": "yes"}, {"loud": True, "when": 5}])
def test_headers_of_an_answer_are_checked(output: dict[str, Any]) -> None:
    with pytest.raises(WrongOutput):
        ResponseWriter(ASK).answer(output)


@pytest.mark.parametrize(
    ("told", "output", "body"),
    [
        ("Sent", {"body": {"at": datetime(2026, 1, 2, tzinfo=UTC)}}, b'{"AT":1767312000.0}'),
        ("SentText", {"body": "th\u00e9re"}, "th\u00e9re".encode()),
        ("SentText", {}, b""),
    ],
)
def test_one_member_may_be_the_whole_answer(told: str, output: Any, body: bytes) -> None:
    assert ResponseWriter(operation("Send", "Sent", told)).answer(output).body == body


def test_a_whole_answer_has_no_members_beside_it() -> None:
    model = operation("Send", "Sent", "Sent")
    for output in ({}, {"body": {}, "other": 1}, {"body": []}):
        with pytest.raises(WrongOutput):
            ResponseWriter(model).answer(output)
