"""What a parser of one's own may return, in all six stages, and how a mistake is named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import parsers
from orchestrator.actions.parser_lambda import lambda_parser
from orchestrator.errors import DependencyFailed
from orchestrator.parsers.parser_response import WrongShape, read_response

ORCHESTRATION = "orchestrationParsedResponse"


def read(member: dict[str, Any], stage: str = "ORCHESTRATION", version: str = "1.0") -> Any:
    found = read_response({"messageVersion": version, "promptType": stage, **member}, stage)
    (name,) = (name for name in found.response if name.endswith("Response"))
    return found.response[name]


def details(**members: Any) -> dict[str, Any]:
    return {ORCHESTRATION: {"rationale": "t", "responseDetails": members}}


ACTION = {"actionGroupName": "g", "functionName": "f", "actionGroupInput": {"a": {"value": "1"}}}
SEARCH = {"knowledgeBaseId": "K", "searchQuery": {"value": "q"}, "id": "t-1"}
SEND = {"agentCollaboratorName": "helper", "input": {"text": "Hi."}}


@pytest.mark.parametrize(
    ("kind", "member", "one"),
    [
        ("ACTION_GROUP", "actionGroupInvocation", ACTION),
        ("KNOWLEDGE_BASE", "agentKnowledgeBase", SEARCH),
        ("AGENT_COLLABORATOR", "agentCollaboratorInvocation", SEND),
    ],
)
def test_single_members_and_lists_are_one(kind: str, member: str, one: dict[str, Any]) -> None:
    expected = {"invocationType": kind, f"{member}s": [one]}
    single = details(invocationType=kind, **{member: one})
    assert read(single)["responseDetails"] == expected
    several = details(invocationType=kind, **{f"{member}s": [one], member: None})
    assert read(several, version="2.0")["responseDetails"] == expected


def test_members_may_be_null_and_values_plain() -> None:
    action = {
        "actionGroupName": "g",
        "apiName": "/x",
        "verb": "post",
        "functionName": None,
        "actionGroupInput": {"a": 1, "b": {"value": [1]}, "c": {"value": 1, "type": "x"}},
    }
    found = read(
        {
            ORCHESTRATION: {
                "rationale": None,
                "parsingErrorDetails": None,
                "responseDetails": {
                    "invocationType": "ACTION_GROUP_CODE_INTERPRETER",
                    "actionGroupInvocation": action,
                    "agentAskUser": None,
                },
            }
        }
    )
    assert found == {
        "rationale": "",
        "responseDetails": {
            "invocationType": "ACTION_GROUP",
            "actionGroupInvocations": [
                {
                    "actionGroupName": "g",
                    "verb": "POST",
                    "apiName": "/x",
                    "actionGroupInput": {
                        "a": {"value": 1},
                        "b": {"value": [1]},
                        "c": {"value": {"value": 1, "type": "x"}},
                    },
                }
            ],
        },
    }


def test_a_search_may_give_its_query_as_a_text() -> None:
    search = {"knowledgeBaseId": "K", "searchQuery": "q"}
    found = read(details(invocationType="KNOWLEDGE_BASE", agentKnowledgeBase=search))
    assert found["responseDetails"]["agentKnowledgeBases"] == [
        {"knowledgeBaseId": "K", "searchQuery": {"value": "q"}}
    ]


def test_the_other_stages() -> None:
    parts = {"generatedResponseParts": [{"text": "x", "references": [{"sourceId": "s"}]}]}
    for stage, member, value in [
        ("PRE_PROCESSING", "preProcessing", {"isValidInput": False, "rationale": "r"}),
        ("KNOWLEDGE_BASE_RESPONSE_GENERATION", "knowledgeBaseResponseGeneration", {
            "generatedResponse": parts
        }),
        ("POST_PROCESSING", "postProcessing", {"responseText": "x", "citations": parts}),
        ("MEMORY_SUMMARIZATION", "memorySummarization", {
            "topicwiseSummaries": [{"topic": "t", "summary": "s"}]
        }),
        ("ROUTING_CLASSIFIER", "routingClassifier", {"responseDetails": {"type": "LAST_AGENT"}}),
        ("ROUTING_CLASSIFIER", "routingClassifier", {
            "responseDetails": {"type": "AGENT", "agentCollaboratorInvocation": SEND}
        }),
    ]:  # fmt: skip
        assert read({f"{member}ParsedResponse": value}, stage) == value


def test_an_unclear_route_asks_for_another_choice() -> None:
    stage = "ROUTING_CLASSIFIER"
    member = {"parsingErrorDetails": {"repromptResponse": "Name an agent."}}
    found = read_response({"routingClassifierParsedResponse": member}, stage)
    assert found.code == "CUSTOM_PARSER"
    assert found.response["routingClassifierParsedResponse"] == {
        **member,
        "responseDetails": {"type": "UNDECIDED"},
    }
    assert found.notes == (
        "the parser's object has no messageVersion",
        "the parser understood no choice: the model is to choose again",
    )


def test_nothing_generated_has_a_code() -> None:
    stage = "KNOWLEDGE_BASE_RESPONSE_GENERATION"
    member = {"generatedResponse": {"generatedResponseParts": []}}
    found = read_response({"knowledgeBaseResponseGenerationParsedResponse": member}, stage)
    assert found.code == "EMPTY"
    member = {"postProcessingParsedResponse": {"responseText": ""}}
    assert read_response(member, "POST_PROCESSING").code == "EMPTY"


def test_halves_of_characters_do_not_get_through() -> None:
    final = {"responseText": "a\ud800"}
    found = read(details(invocationType="FINISH", agentFinalResponse=final))
    assert found["responseDetails"]["agentFinalResponse"] == {"responseText": "a\ufffd"}


SELF: list[Any] = []
SELF.append(SELF)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "what the parser returns must be an object, not null"),
        ([1], "what the parser returns must be an object, not a list"),
        ([], "what the parser returns must be an object, not an empty list"),
        ("{", "the text is no JSON object"),
        (b"\xff", "the text is no JSON object"),
        ("[" * 100_000, "the text is no JSON object"),
        ({"a": Decimal(1)}, "the object cannot become JSON"),
        ({"a": float("nan")}, "the object cannot become JSON"),
        ({"a": SELF}, "the object cannot become JSON"),
        ({}, "'orchestrationParsedResponse' is missing: it must be an object"),
        ({"messageVersion": "3.0"}, "'messageVersion' must be '1.0' or '2.0', not this text"),
        ({"promptType": "POST_PROCESSING"}, "'promptType' must be 'ORCHESTRATION'"),
        ({ORCHESTRATION: {}}, "'orchestrationParsedResponse.responseDetails' is missing"),
        ({ORCHESTRATION: {"rationale": 1}}, "rationale' must be a text, not a int"),
        (
            {ORCHESTRATION: {"parsingErrorDetails": {"a": 1}}},
            "'orchestrationParsedResponse.parsingErrorDetails.repromptResponse' is missing",
        ),
        (details(), "responseDetails.invocationType' is missing: it must be 'ASK_USER' or"),
        (details(invocationType="FINISH"), "responseDetails.agentFinalResponse' is missing"),
        (
            details(invocationType="FINISH", agentFinalResponse={}),
            "agentFinalResponse.responseText' is missing: it must be a text",
        ),
        (
            details(invocationType="ASK_USER", agentAskUser={"responseText": " "}),
            "agentAskUser.responseText' must be a text",
        ),
        (
            details(invocationType="ACTION_GROUP", actionGroupInvocations=[]),
            "actionGroupInvocations' must be a list with at least one object, not an empty list",
        ),
        (
            details(invocationType="KNOWLEDGE_BASE"),
            "agentKnowledgeBases' is missing: it must be a list with at least one object",
        ),
        (
            details(invocationType="ACTION_GROUP", actionGroupInvocations={}),
            "actionGroupInvocations' must be a list, not an object",
        ),
        (
            details(invocationType="ACTION_GROUP", actionGroupInvocations=[7]),
            "actionGroupInvocations[0]' must be an object, not a int",
        ),
        (
            details(
                invocationType="ACTION_GROUP",
                actionGroupInvocation={"actionGroupName": "g", "apiName": "/x"},
            ),
            "actionGroupInvocation.verb' is missing: it must be a text",
        ),
        (
            details(
                invocationType="KNOWLEDGE_BASE",
                agentKnowledgeBases=[SEARCH, {"knowledgeBaseId": "K"}],
            ),
            "agentKnowledgeBases[1].searchQuery' is missing: it must be an object",
        ),
        (
            details(
                invocationType="FINISH",
                agentFinalResponse={"responseText": "x", "citations": "secret"},
            ),
            "agentFinalResponse.citations' must be an object, not this text",
        ),
    ],
)
def test_a_mistake_is_named_by_its_member(returned: Any, message: str) -> None:
    make = lambda_parser(lambda event: returned, "ORCHESTRATION", {}, tool_use=False)
    with pytest.raises(DependencyFailed) as caught:
        make().finish([{"text": "hi"}])
    assert message in str(caught.value)
    assert "of stage ORCHESTRATION" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("stage", "member", "message"),
    [
        ("PRE_PROCESSING", {"preProcessingParsedResponse": {}}, "isValidInput' is missing"),
        (
            "PRE_PROCESSING",
            {"preProcessingParsedResponse": {"isValidInput": "yes"}},
            "isValidInput' must be true or false, not this text",
        ),
        ("MEMORY_SUMMARIZATION", {"memorySummarizationParsedResponse": {}}, "topicwiseSummaries'"),
        (
            "ROUTING_CLASSIFIER",
            {"routingClassifierParsedResponse": {"responseDetails": {"type": "AGENT"}}},
            "agentCollaboratorInvocation' is missing",
        ),
        ("POST_PROCESSING", {"postProcessingParsedResponse": {}}, "responseText' is missing"),
        (
            "KNOWLEDGE_BASE_RESPONSE_GENERATION",
            {"knowledgeBaseResponseGenerationParsedResponse": {"generatedResponse": [1]}},
            "generatedResponse' must be an object, not a list",
        ),
    ],
)
def test_mistakes_of_the_other_stages(stage: str, member: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongShape) as caught:
        read_response(member, stage)
    assert message in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "rationale", "responseDetails", "invocationType", "agentAskUser", "responseText", "id",
        "actionGroupInvocation", "actionGroupInvocations", "actionGroupName", "functionName",
        "actionGroupInput", "agentKnowledgeBases", "knowledgeBaseId", "searchQuery", "value",
        "agentFinalResponse", "citations", "generatedResponseParts", "text", "references",
        "parsingErrorDetails", "repromptResponse", "type", "topicwiseSummaries", "isValidInput",
    ]
)  # fmt: skip
KINDS = st.sampled_from(
    ["FINISH", "ASK_USER", "ACTION_GROUP", "KNOWLEDGE_BASE", "AGENT_COLLABORATOR", "AGENT"]
)
MEMBERS = st.recursive(
    JSON | KINDS,
    lambda inner: st.dictionaries(NAMES, inner, max_size=5) | st.lists(inner, max_size=2),
    max_leaves=12,
)


@given(stage=st.sampled_from(parsers.STAGES), members=st.lists(MEMBERS, min_size=6, max_size=6))
def test_any_object_is_understood_or_named(stage: str, members: list[Any]) -> None:
    names = [
        "preProcessing", "orchestration", "routingClassifier", "knowledgeBaseResponseGeneration",
        "postProcessing", "memorySummarization",
    ]  # fmt: skip
    returned = {f"{name}ParsedResponse": one for name, one in zip(names, members, strict=True)}
    try:
        found = read_response(returned, stage)
    except WrongShape:
        return
    assert found.response["promptType"] == stage
    # What was understood is understood again, as the same.
    assert read_response(found.response, stage).response == found.response
