"""What the model does not allow is refused: all of it at once, in AWS's words, by its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.server.operations import Fault
from orchestrator.server.wire.requests import get_request_reader

AGENT = "ABCDEFGHIJ"
LABELS = {"agentId": AGENT, "agentAliasId": "TSTALIASID", "sessionId": "s-1"}
CREATE = ("bedrock-agent", "CreateAgent")
CONVERSE = ("bedrock-runtime", "Converse")
RETRIEVE = ("bedrock-agent-runtime", "Retrieve")


def read(
    operation: tuple[str, str],
    body: Any = None,
    labels: Any = None,
    query: str = "",
    **headers: str,
) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
    return get_request_reader(*operation).read(labels or {}, query, headers, raw)


def refused(*args: Any, **options: Any) -> str:
    with pytest.raises(Fault) as caught:
        read(*args, **options)
    assert caught.value.name == "ValidationException"
    return caught.value.message


def test_all_violations_are_told_at_once_in_awss_words() -> None:
    with pytest.raises(Fault) as caught:
        read(
            CREATE, {"agentName": "my agent", "instruction": "Short.", "idleSessionTTLInSeconds": 5}
        )
    assert caught.value.message == (
        "3 validation errors detected: Value 'my agent' at 'agentName' failed to satisfy "
        "constraint: Member must satisfy regular expression pattern: ([0-9a-zA-Z][_-]?){1,100}; "
        "Value at 'instruction' failed to satisfy constraint: Member must have length greater than "
        "or equal to 40; Value '5' at 'idleSessionTTLInSeconds' failed to satisfy constraint: "
        "Member must have value greater than or equal to 60"
    )
    fields = [it["name"] for it in caught.value.members["fieldList"]]
    assert fields == ["agentName", "instruction", "idleSessionTTLInSeconds"]


PARTS: list[tuple[Any, str]] = [
    ({}, "1 validation error detected: Value null at 'agentName' failed to satisfy constraint: "
     "Member must not be null"),
    ({"agentName": None}, "Value null at 'agentName'"),
    ({"agentName": 7}, "at 'agentName' failed to satisfy constraint: Member must be a string"),
    ({"agentName": "a" * 101}, "must satisfy regular expression pattern"),
    ({"agentName": "a", "orchestrationType": "MINE"},
     "Value 'MINE' at 'orchestrationType' failed to satisfy constraint: Member must satisfy enum "
     "value set: [CUSTOM_ORCHESTRATION, DEFAULT]"),
    ({"agentName": "a", "tags": ["x"]}, "Value at 'tags' failed to satisfy constraint: Member must "
     "be a map"),
    ({"agentName": "a", "tags": {"!~": "v"}}, "at 'tags.!~' failed"),
    ({"agentName": "a", "tags": {"k": None}}, "Value null at 'tags.k' failed"),
    ({"agentName": "a", "memoryConfiguration": {"enabledMemoryTypes": ["A"], "storageDays": 999}},
     "2 validation errors"),
    ({"agentName": "a", "memoryConfiguration": {"enabledMemoryTypes": []}}, "length greater than"),
    ({"agentName": "a", "idleSessionTTLInSeconds": 60.5}, "must be a whole number"),
    ({"agentName": "a", "idleSessionTTLInSeconds": True}, "must be a whole number"),
    ({"agentName": "a", "idleSessionTTLInSeconds": "60"}, "must be a whole number"),
    ({"agentName": "a", "guardrailConfiguration": []}, "must be a structure"),
    ({"agentName": "a", "customOrchestration": {"executor": {}}}, "exactly one of ['lambda']"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), PARTS, ids=lambda it: str(it)[:30])
def test_what_the_model_says_of_a_member(body: Any, says: str) -> None:
    assert says in refused(CREATE, body)


def test_places_in_lists_and_structures_are_spelled_as_aws_does() -> None:
    message = {"role": "user", "content": [{"text": "Hi"}]}
    body = {"messages": [message, message, {"role": "tool", "content": []}]}
    assert "Value 'tool' at 'messages.3.member.role' failed" in refused(
        CONVERSE, body, {"modelId": "m"}
    )


@pytest.mark.parametrize("stage", ["ROUTING_CLASSIFIER", "MEMORY_SUMMARIZATION"])
def test_stages_are_those_of_both_services(stage: str) -> None:
    override = {"promptConfigurations": [{"promptType": stage}]}
    inline = ("bedrock-agent-runtime", "InvokeInlineAgent")
    body = {"foundationModel": "m", "instruction": "x" * 40}
    assert read(CREATE, {"agentName": "a", "promptOverrideConfiguration": override})
    assert read(inline, {**body, "promptOverrideConfiguration": override}, {"sessionId": "s-1"})


def test_an_instruction_is_as_long_as_the_services_quota() -> None:
    told = refused(CREATE, {"agentName": "a", "instruction": "x" * 20_001})
    assert "'instruction' failed" in told and "less than or equal to 20000" in told
    instruction = "x" * 20_000  # botocore's model says 4,000
    assert read(CREATE, {"agentName": "a", "instruction": instruction})


def test_a_type_of_observations_is_none_of_parameters() -> None:
    parameter = {"type": "ACTION_GROUP_CODE_INTERPRETER"}
    schema = {"functions": [{"name": "f", "parameters": {"p": parameter}}]}
    create = ("bedrock-agent", "CreateAgentActionGroup")
    at = {"agentId": AGENT, "agentVersion": "DRAFT"}
    assert "type' failed" in refused(create, {"actionGroupName": "g", "functionSchema": schema}, at)


def test_unions_have_exactly_one_member() -> None:
    both = {"text": "x", "image": {"format": "png", "source": {"bytes": "eA=="}}}
    body = {"messages": [{"role": "user", "content": [both]}]}
    assert "messages.1.member.content.1.member" in refused(CONVERSE, body, {"modelId": "m"})


def test_sensitive_values_are_not_told() -> None:
    secret = {"S3CR3T": 1}
    body = {"retrievalQuery": {"text": secret, "type": "S3CR3T"}}
    told = refused(RETRIEVE, body, {"knowledgeBaseId": AGENT})
    assert "retrievalQuery.text" in told and "retrievalQuery.type" in told
    assert "S3CR3T" not in told


def test_long_values_and_many_violations_are_cut_short() -> None:
    tags = {f"!~{number}": "v" for number in range(80)}
    told = refused(CREATE, {"agentName": "!" * 5000, "tags": tags})
    assert told.startswith("81 validation errors detected")
    assert len(told) < 20_000 and told.endswith("; ...")


def test_what_the_model_does_not_know_is_passed_over() -> None:
    assert read(CREATE, {"agentName": "a", "flavour": "mint"}) == {"agentName": "a"}


def test_a_union_of_only_unknown_members_is_not_one() -> None:
    body = {"messages": [{"role": "user", "content": [{"hologram": {}}]}]}
    assert "exactly one of" in refused(CONVERSE, body, {"modelId": "m"})


@pytest.mark.parametrize("query", ["maxResults=0", "maxResults=x", "maxResults=1e3", "maxResults="])
def test_a_query_is_checked_as_a_body_is(query: str) -> None:
    operation = ("bedrock-agent-runtime", "ListFlowExecutions")
    labels = {"flowIdentifier": AGENT}
    assert "maxResults" in refused(operation, None, labels, query)


def test_labels_are_checked_when_they_are_decoded() -> None:
    operation = ("bedrock-agent-runtime", "InvokeAgent")
    assert read(operation, {}, {**LABELS, "sessionId": "a%3Ab"})["sessionId"] == "a:b"
    told = refused(operation, {}, {**LABELS, "sessionId": "a%2F..%2Fb", "agentId": "%00"})
    assert "Value 'a/../b' at 'sessionId'" in told and "at 'agentId'" in told


@pytest.mark.parametrize("time", ["yesterday", True, 1e300, [], "2026-13-01T00:00:00Z"])
def test_times_that_are_none_are_refused(time: Any) -> None:
    operation = ("bedrock-agent-runtime", "PutInvocationStep")
    body = {"invocationIdentifier": "0" * 8, "invocationStepTime": time, "payload": {}}
    assert "at 'invocationStepTime'" in refused(operation, body, {"sessionIdentifier": "s"})


@pytest.mark.parametrize(
    "time", [1767323045, 1767323045.0, "2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00",
             "2026-01-02T03:04:05.000000000Z", "Fri, 02 Jan 2026 03:04:05 GMT"],
)  # fmt: skip
def test_times_are_read_in_all_of_awss_forms(time: Any) -> None:
    uuid = "00000000-0000-0000-0000-000000000000"
    operation = ("bedrock-agent-runtime", "PutInvocationStep")
    payload = {"contentBlocks": [{"text": "x"}]}
    body = {"invocationIdentifier": uuid, "invocationStepTime": time, "payload": payload}
    read_time = read(operation, body, {"sessionIdentifier": uuid})["invocationStepTime"]
    assert read_time.isoformat() == "2026-01-02T03:04:05+00:00"


def test_a_payload_is_the_body_as_it_came() -> None:
    operation = ("bedrock-runtime", "InvokeModel")
    raw = b'{"not": "parsed'
    params = read(operation, raw, {"modelId": "m"}, accept="*/*", **{"content-type": "a/b"})
    assert params == {"modelId": "m", "body": raw, "accept": "*/*", "contentType": "a/b"}
