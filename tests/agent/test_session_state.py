"""Bedrock's own objects as options: code that was written for boto3 carries over."""

from __future__ import annotations

from typing import Any

import pytest
from inline_support import called, last, plain, scripted, texts

from orchestrator import ActionGroup, Agent, ReturnControl, ValidationError
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.testing import FakeKnowledgeBase

SEARCH = "GET__x_amz_knowledgebase_KB12345678__Search"
HISTORY = [
    {"role": "user", "content": [{"text": "I am Ana."}]},
    {"role": "assistant", "content": [{"text": "Hello, Ana."}]},
]


class Look:
    """An executor that remembers the attributes that it was called with."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def call(self, call: Call, context: CallContext) -> ActionResult:
        self.seen = dict(context.session_attributes)
        return ActionResult("ok")


@pytest.mark.parametrize(
    "name", ["session_state", "sessionState", "inline_session_state", "inlineSessionState"]
)
def test_the_whole_object_is_taken(name: str) -> None:
    look = Look()
    functions = [{"name": "look", "description": "Looks."}]
    model = scripted(called("eyes__look"), "<answer>ok</answer>")
    agent = plain(model, action_groups=[ActionGroup("eyes", functions=functions, executor=look)])
    state = {
        "sessionAttributes": {"id": "e-1"},
        "promptSessionAttributes": {"today": "2026-11-21"},
        "conversationHistory": {"messages": HISTORY},
        "files": [
            {
                "name": "n.txt",
                "source": {
                    "sourceType": "BYTE_CONTENT",
                    "byteContent": {"mediaType": "text/plain", "data": b"It rains."},
                },
                "useCase": "CHAT",
            }
        ],
    }
    agent.invoke("Who am I?", "s-1", **{name: state})
    assert look.seen == {"id": "e-1"}
    assert "e-1" not in texts(model)
    for told in ("2026-11-21", "Hello, Ana.", "It rains."):
        assert told in texts(model)


def test_members_may_be_in_python_s_spelling() -> None:
    model = scripted("<answer>ok</answer>")
    state = {
        "session_attributes": {"id": "e-1"},
        "prompt_session_attributes": {"today": "2026-11-21"},
        "conversation_history": {"messages": HISTORY},
    }
    plain(model).invoke("Who am I?", "s-1", session_state=state)
    assert "Hello, Ana." in texts(model)
    assert "2026-11-21" in texts(model)


def test_an_option_wins_over_the_member_of_the_same_meaning() -> None:
    model = scripted("<answer>ok</answer>")
    plain(model).invoke(
        "Who am I?",
        "s-1",
        session_state={"promptSessionAttributes": {"a": "of the state", "b": "too"}},
        prompt_session_attributes={"a": "of the option"},
    )
    assert "of the option" in texts(model)
    assert "of the state" not in texts(model)
    assert "too" not in texts(model).replace("tools", "")


def test_results_go_on_and_the_text_is_ignored() -> None:
    model = scripted(called("eyes__look"), "<answer>ok</answer>")
    functions = [{"name": "look", "description": "Looks."}]
    group = ActionGroup("eyes", functions=functions, executor=ReturnControl())
    agent = plain(model, action_groups=[group])
    control = agent.invoke("What is there?", "s-1").return_control
    assert control is not None
    reply = agent.invoke("is ignored", "s-1", session_state=control.answer("a tree"))
    assert reply.text == "ok"
    assert "a tree" in str(last(model)[-1])
    assert "is ignored" not in texts(model)


@pytest.mark.parametrize("state", [{"invocationId": "i"}, {"returnControlInvocationResults": []}])
def test_half_of_a_result_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="results need 'invocationId' and a list"):
        plain(scripted()).invoke("Hi", "s-1", session_state=state)


def test_knowledge_bases_are_configured_for_the_turn() -> None:
    base = FakeKnowledgeBase("KB12345678", ["Rain is wet."])
    model = scripted(called(SEARCH, searchQuery="rain"), "<answer>ok</answer>")
    agent = Agent("a", "You know about rain and weather.", model, knowledge_bases=[base])
    few = {"vectorSearchConfiguration": {"numberOfResults": 1}}
    state = {
        "knowledgeBaseConfigurations": [
            {"knowledgeBaseId": "KB12345678", "retrievalConfiguration": few}
        ]
    }
    agent.invoke("Is rain wet?", "s-1", session_state=state)
    assert base.configurations == [few]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"session_state": []}, "session_state must be a mapping, not list"),
        ({"session_state": {"sessionAtributes": {}}}, "no member 'sessionAtributes'"),
        ({"session_state": {"sessionAttributes": {"a": 1}}}, "the value of 'a' is 'int'"),
        ({"session_state": {"conversationHistory": []}}, "conversationHistory must be a mapping"),
        ({"session_state": {"knowledgeBaseConfigurations": {}}}, "must be a list"),
        (
            {"session_state": {"knowledgeBaseConfigurations": [{"knowledgeBaseId": "x"}]}},
            "has a knowledgeBaseId and a retrievalConfiguration",
        ),
        (
            {"inline_session_state": {"knowledgeBaseConfigurations": []}},
            "no member 'knowledgeBaseConfigurations'",
        ),
        ({"session_state": {}, "inlineSessionState": {}}, "either session_state or inline"),
        ({"streamingConfigurations": {"applyGuardrailInterval": 0}}, "whole number from 1, not 0"),
        ({"apply_guardrail_interval": True}, "whole number from 1"),
        ({"previous_turns": -1}, "previous_turns must be a whole number from 0, not -1"),
        ({"promptCreationConfigurations": {"turns": 1}}, "no member 'turns'"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], said: str) -> None:
    model = scripted()
    with pytest.raises(ValidationError, match=said):
        plain(model).invoke("Hi", "s-1", **options)
    assert model.requests == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"enableTrace": True}, "every reply has its trace"),
        ({"trace": True}, r"unknown options \['trace'\]; there are session_attributes"),
        ({"end_session": True, "endSession": True}, "given in both spellings"),
    ],
)
def test_unknown_options_are_type_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        plain(scripted()).invoke("Hi", "s-1", **options)


def test_options_of_bedrock_s_spelling_mean_the_same() -> None:
    model = scripted("<answer>a</answer>", "<answer>b</answer>")
    agent = plain(model)
    agent.invoke("One?", "s-1", endSession=True)
    agent.invoke("Two?", "s-1", streamingConfigurations={"streamFinalResponse": True})
    assert "One?" not in texts(model)
