"""Requests that are made to cost the server more than they cost their sender, or to confuse it."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

import pytest
from left_out import sampled

from orchestrator.server.operations import Fault, Request
from orchestrator.server.wire.api import Api, HttpResponse
from orchestrator.server.wire.requests import get_request_reader
from orchestrator.server.wire.shapes import SERVICES, service_model
from orchestrator.server.wire.values import compile_pattern

RETRIEVE = "/knowledgebases/ABCDEFGHIJ/retrieve"
CONVERSE = "/model/m/converse"


class Door:
    """The wire with two handlers that remember what reached them."""

    def __init__(self) -> None:
        self.reached: list[dict[str, Any]] = []
        self._api = Api(
            {
                "bedrock-agent-runtime": {"Retrieve": self._retrieve},
                "bedrock-runtime": {"Converse": self._retrieve},
            }
        )

    def _retrieve(self, request: Request) -> dict[str, Any]:
        self.reached.append(request.params)
        return {"retrievalResults": []}

    def post(self, body: bytes, path: str = RETRIEVE, query: str = "") -> HttpResponse:
        return asyncio.run(self._api.answer("POST", path, query, {}, body))

    def refused(self, body: bytes, path: str = RETRIEVE, query: str = "") -> str:
        answer = self.post(body, path, query)
        assert answer.status == 400 and not self.reached
        return answer.headers["x-amzn-ErrorType"]


def query(text: str) -> bytes:
    return b'{"retrievalQuery": {"text": ' + text.encode() + b"}}"


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"retrievalQuery": {"text": "x"}, "u": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"{",
        b'{"retrievalQuery": NaN}',
        b'{"retrievalQuery": Infinity}',
        b'{"retrievalQuery": ' + b"9" * 10_000 + b"}",
        b"{'retrievalQuery': {}}",
        b"[]",
        b'"text"',
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        '{"retrievalQuery": {"text": "x"}}'.encode("utf-16"),
        b'{"retrievalQuery": {"text": "\xc0\xaf"}}',
    ],
    ids=lambda body: str(body[:25]),
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert Door().refused(body) == "SerializationException"


@pytest.mark.parametrize("value", ["[]", '""', "{}", "0"])
def test_bodies_of_millions_of_values_are_refused(value: str) -> None:
    body = query('"x"')[:-1] + b', "u": [' + f"{value},".encode() * 3_000_000 + b"0]}"
    door = Door()
    answer = door.post(body)
    assert answer.status == 400 and not door.reached
    assert b"more than 200,000 JSON values" in answer.body


def test_a_text_of_millions_of_characters_is_read() -> None:
    door = Door()
    door.post(query('"x"')[:-1] + b', "u": ' + json.dumps('[{:"\\,😀' * 400_000).encode() + b"}")
    assert door.reached == [{"knowledgeBaseId": "ABCDEFGHIJ", "retrievalQuery": {"text": "x"}}]


def converse_with_image(data: str) -> bytes:
    image = {"image": {"format": "png", "source": {"bytes": data}}}
    return json.dumps({"messages": [{"role": "user", "content": [image]}]}).encode()


@pytest.mark.parametrize("size", [262_142, 262_143, 262_144, 262_145, 786_432, 3_000_001])
def test_large_bytes_are_read(size: int) -> None:
    door, data = Door(), bytes(range(256)) * 12_000
    door.post(converse_with_image(b64encode(data[:size]).decode()), CONVERSE)
    (params,) = door.reached
    (block,) = params["messages"][0]["content"]
    assert block["image"]["source"]["bytes"] == data[:size]


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        (262_142, "A="),
        (262_140, "AA=="),
        (500_000, "===="),
        (300_000, "!"),
        (300_000, "\n"),
        (300_000, "é"),
        (0, "="),
        (999_997, "A=A"),
        (999_999, "A=="),
        (1_000_000, "="),
    ],
)
def test_large_bytes_that_are_not_in_base64_are_refused(at: int, wrong: str) -> None:
    data = "A" * at + wrong + "A" * (1_000_000 - at - len(wrong))
    assert Door().refused(converse_with_image(data), CONVERSE) == "ValidationException"


@pytest.mark.parametrize("text", ['"\\ud800"', '"a\\udfffb"', "1", "[]", "true", "{}"])
def test_texts_that_are_none_are_refused(text: str) -> None:
    assert Door().refused(query(text)) == "ValidationException"


def converse(member: str, value: str) -> bytes:
    body = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}], member: "VALUE"}
    return json.dumps(body).replace('"VALUE"', value).encode()


@pytest.mark.parametrize(
    "value",
    [
        '{"a":' * 150 + "1" + "}" * 150,
        '{"a": 1e999}',
        '{"a": [-1e999]}',
        '{"a": "\\ud800"}',
        '{"\\ud800": 1}',
    ],
    ids=["deep", "infinite", "minus infinite", "half a pair", "half a pair in a key"],
)
def test_documents_are_bounded(value: str) -> None:
    door = Door()
    assert door.refused(converse("additionalModelRequestFields", value), CONVERSE) == (
        "ValidationException"
    )


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 400, '"NaN"', '"0.5"', "true"])
def test_numbers_are_finite_numbers(number: str) -> None:
    body = converse("inferenceConfig", f'{{"temperature": {number}}}')
    assert Door().refused(body, CONVERSE) == "ValidationException"


@pytest.mark.parametrize("number", ["2147483648", "-2147483649", "1e3", "1.0", "9" * 400])
def test_whole_numbers_are_as_large_as_javas(number: str) -> None:
    body = converse("inferenceConfig", f'{{"maxTokens": {number}}}')
    assert Door().refused(body, CONVERSE) == "ValidationException"


def test_of_a_key_told_twice_the_checked_one_is_the_used_one() -> None:
    door = Door()
    door.post(b'{"retrievalQuery": 1, "retrievalQuery": {"text": "x"}}')
    assert door.reached == [
        {"knowledgeBaseId": "ABCDEFGHIJ", "retrievalQuery": {"text": "x"}},
    ]
    assert Door().refused(b'{"retrievalQuery": {"text": "x"}, "retrievalQuery": 1}')


@pytest.mark.parametrize(
    ("levels", "name"),
    [(20, ""), (50, "ValidationException"), (5000, "SerializationException")],
)
def test_filters_within_filters_are_bounded(levels: int, name: str) -> None:
    one = '{"equals": {"key": "k", "value": 1}}'
    inner = f'{{"andAll": [{one}, ' * levels + one + "]}" * levels
    search = f'{{"vectorSearchConfiguration": {{"filter": {inner}}}}}'
    body = f'{{"retrievalQuery": {{"text": "x"}}, "retrievalConfiguration": {search}}}'.encode()
    if name:
        assert Door().refused(body) == name
    else:
        assert Door().post(body).status == 200


def test_too_many_fields_of_a_query_are_refused() -> None:
    fields = "&".join(f"f{number}=1" for number in range(1001))
    with pytest.raises(Fault, match="1000 fields"):
        get_request_reader("bedrock-agent-runtime", "GetAgentMemory").read(
            {"agentId": "A", "agentAliasId": "B"}, fields, {}, b""
        )


@pytest.mark.parametrize("text", ["%", "%zz", "%ff", "a%2", "%c0%af", "%ed%a0%80"])
def test_bad_escapes_are_refused_in_paths_and_queries(text: str) -> None:
    path = f"/knowledgebases/{text}/retrieve"
    assert Door().refused(query('"x"'), path) == "SerializationException"
    with pytest.raises(Fault, match="query string"):
        get_request_reader("bedrock-agent-runtime", "GetAgentMemory").read(
            {"agentId": "A", "agentAliasId": "B"}, f"memoryId={text}", {}, b""
        )


@pytest.mark.parametrize(
    "label", ["..", "%2e%2e", "%2e%2e%2f", "A%2F..%2FB", "%00", "a%0d%0ab", "A;B"]
)
def test_labels_never_lead_elsewhere(label: str) -> None:
    """They reach their own operation, and its pattern refuses them; they are never normalised."""
    assert Door().refused(query('"x"'), f"/knowledgebases/{label}/retrieve") == (
        "ValidationException"
    )


def _patterns() -> dict[str, int]:
    """Every pattern, and the longest text that is matched against it."""
    found: dict[str, int] = {}
    for service in SERVICES:
        model = service_model(service)
        for name in model.shape_names:
            limits = model.shape_for(name).metadata
            if "pattern" in limits:
                longest = limits.get("max", 1_000_000)
                found[limits["pattern"]] = max(found.get(limits["pattern"], 0), longest)
    return found


@pytest.mark.parametrize("pattern", sampled(sorted(_patterns())))
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """A pattern that goes wrong does not fail here: it hangs."""
    matches, longest = compile_pattern(pattern), min(_patterns()[pattern], 1_000_000)
    for start in ("", "arn:aws:bedrock:us-east-1:000000000000:", "s3://", "A", "arn:aws"):
        for piece in ("a", "0", "-", "_", ".", ":", "/", "a-", "a.", ":1", "a_", "*", " ", "\n"):
            text = (start + piece * (longest // len(piece)))[: longest - 1]
            matches(f"{text}!")
            matches(f"{text}\0")


@pytest.mark.parametrize("pattern", sorted(_patterns()))
def test_every_pattern_can_be_matched_in_python(pattern: str) -> None:
    assert compile_pattern(pattern)("\x00\x01" * 5) == (pattern in _ANYTHING)


_ANYTHING = {".*", "^[\\s\\S]*$", "[\\s\\S]*", "[\\s\\S]+", "^[\\s\\S]+$", "\\S*", "^\\S*$",
             ".*\\.*", "^(?!\\s*$).+", ".+", ".*\\S.*", "[\\S\\s]+"}  # fmt: skip
