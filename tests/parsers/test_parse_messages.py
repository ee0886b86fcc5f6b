"""Agents that work together, the code interpreter, and what Nova writes besides."""

from __future__ import annotations

from typing import Any

import pytest
from parser_helpers import actions, cut, details, final, member, reprompt, streamed

from orchestrator import parsers


def native(recipient: str, content: Any, id: str = "t-1") -> dict[str, Any]:
    values = {"recipient": recipient, "content": content}
    use = {"toolUseId": id, "name": "AgentCommunication__sendMessage", "input": values}
    return {"toolUse": use}


def written(recipient: str, content: str) -> str:
    return (
        "<function_calls><invoke><tool_name>AgentCommunication::sendMessage</tool_name>"
        f"<parameters><recipient>{recipient}</recipient><content>{content}</content></parameters>"
        "</invoke></function_calls>"
    )


def test_messages_to_agents() -> None:
    found = details(parsers.parse([native("claims", "Which?"), native("hr", "Who?", "t-2")]))
    assert found == {
        "invocationType": "AGENT_COLLABORATOR",
        "agentCollaboratorInvocations": [
            {"agentCollaboratorName": "claims", "id": "t-1", "input": {"text": "Which?"}},
            {"agentCollaboratorName": "hr", "id": "t-2", "input": {"text": "Who?"}},
        ],
    }
    found = details(parsers.parse(written("claims", "Which &lt;one&gt;?")))
    assert found["agentCollaboratorInvocations"] == [
        {"agentCollaboratorName": "claims", "input": {"text": "Which <one>?"}}
    ]


@pytest.mark.parametrize("recipient", ["User", "user", " USER "])
def test_a_message_to_the_user_is_the_answer(recipient: str) -> None:
    assert final([{"text": "<thinking>t</thinking>"}, native(recipient, "Done.")]) == "Done."
    assert final(written(recipient, "Done.")) == "Done."


def test_several_messages_to_the_user_are_one_answer() -> None:
    assert final([native("User", "One."), native("User", "Two.", "t-2")]) == "One.\n\nTwo."


def test_what_an_answer_tag_has_said_stays_before_the_message() -> None:
    blocks = [{"text": "<answer>Hello.</answer>"}, native("User", "Done.")]
    assert final(blocks) == "Hello.\n\nDone."
    reply = "<answer>Hello.</answer>" + written("User", "Done.")
    told, parsed = streamed(cut(reply, 1), "ORCHESTRATION", "xml")
    assert "".join(text for kind, text in told if kind == parsers.ANSWER) == "Hello."
    found = details(parsed)["agentFinalResponse"]
    assert found == {"responseText": "Hello.\n\nDone."}


def test_a_message_to_the_user_waits_while_others_are_called() -> None:
    parsed = parsers.parse([native("User", "A moment."), native("claims", "Which?")])
    assert details(parsed)["invocationType"] == "AGENT_COLLABORATOR"
    assert parsed.notes == ("a message to the user beside other calls was not sent",)


def test_actions_and_messages_are_both_kept() -> None:
    use = {"toolUse": {"toolUseId": "t-2", "name": "hr__days", "input": {}}}
    found = details(parsers.parse([native("claims", "Which?"), use]))
    assert found["invocationType"] == "ACTION_GROUP"
    assert found["agentCollaboratorInvocations"][0]["agentCollaboratorName"] == "claims"
    assert found["actionGroupInvocations"][0]["functionName"] == "days"


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"content": "x"}, "recipient"),
        ({"recipient": "a"}, "content"),
        ({"recipient": "a", "content": " "}, "content"),
        ({}, "recipient"),
    ],
)
def test_a_message_without_recipient_or_content(values: dict[str, str], missing: str) -> None:
    use = {"toolUseId": "t", "name": "AgentCommunication__sendMessage", "input": values}
    parsed = parsers.parse([{"toolUse": use}])
    assert parsed.code == "MISSING_PARAM"
    assert reprompt(parsed).startswith(
        f"Missing the parameter '{missing}' for AgentCommunication__"
    )


def test_a_message_may_be_an_object() -> None:
    found = details(parsers.parse([native("claims", {"id": 7})]))
    assert found["agentCollaboratorInvocations"][0]["input"] == {"text": '{"id": 7}'}


def test_code_is_an_ordinary_call() -> None:
    code = "print('a < b' & {\"c\": 1})\nfor x in y:\n    pass"
    expected = [
        {
            "actionGroupName": "codeinterpreteraction",
            "verb": "GET",
            "apiName": "execute",
            "actionGroupInput": {"code": {"value": code}},
        }
    ]
    reply = (
        "<function_calls><invoke><tool_name>get::codeinterpreteraction::execute</tool_name>"
        f"<parameters><code>{code}</code></parameters></invoke>"
    )
    assert actions(reply) == expected
    use = {"toolUseId": "t", "name": "get__codeinterpreteraction__execute", "input": {"code": code}}
    assert actions([{"toolUse": use}]) == [{"id": "t", **expected[0]}]


@pytest.mark.parametrize(
    "reply",
    [
        [{"toolUse": {"toolUseId": "t", "name": "outOfDomain", "input": {}}}],
        "<function_calls><invoke><tool_name>outOfDomain</tool_name></invoke>",
        "<function_call>outOfDomain()</function_call>",
    ],
)
def test_out_of_domain_ends_the_turn_politely(reply: Any) -> None:
    assert final(reply) == "Sorry, I am unable to assist you with this request."


def test_a_reply_that_begins_within_the_prefilled_thinking() -> None:
    reply = " The user asks.\n(2) I know.</thinking>\n<answer>Yes.</answer>"
    parsed = parsers.parse(reply, "ORCHESTRATION", "tool_use")
    assert member(parsed)["rationale"] == "The user asks.\n(2) I know."
    assert details(parsed)["agentFinalResponse"] == {"responseText": "Yes."}
    assert final("Thought: <thinking>\n(1) I know.</thinking>\n\nYes.", "tool_use") == "Yes."
    assert final("Thought: Yes.", "tool_use") == "Thought: Yes."


STRAY = "<answer>Yes,<__function=g__f> <__parameter=a>it</__parameter> is.</__function></answer>"


@pytest.mark.parametrize("seed", range(3))
def test_stray_markup_of_nova_in_an_answer_is_removed(seed: int) -> None:
    told, parsed = streamed(cut(STRAY, seed), "ORCHESTRATION", "tool_use")
    assert "".join(text for kind, text in told if kind == parsers.ANSWER) == "Yes, it is."
    assert details(parsed)["agentFinalResponse"] == {"responseText": "Yes, it is."}
    assert parsed.notes == ("markup of a call beside native tool use was removed",)


def test_stray_markup_of_nova_beside_a_native_call_is_noted() -> None:
    use = {"toolUse": {"toolUseId": "t", "name": "g__f", "input": {}}}
    parsed = parsers.parse([{"text": "I call it.<__function=g__f>"}, use], name="tool_use")
    assert [one["functionName"] for one in details(parsed)["actionGroupInvocations"]] == ["f"]
    assert parsed.notes == ("markup of a call beside native tool use was removed",)


@pytest.mark.parametrize(
    "reply",
    [
        "(1) I look.</thinking>\n<__function=days>{}</__function>",
        "<function_calls><invoke><tool_name>days</tool_name></invoke></function_calls>",
        "<function_calls>[]</function_calls><invoke>",
        "<__function=user__askuser></__function>",
    ],
)
def test_a_malformed_call_in_text_gets_nothing_of_another_grammar(reply: str) -> None:
    # Its tags would teach a model with native tools to write more of them.
    parsed = parsers.parse(reply, name="tool_use")
    told = parsed.response["orchestrationParsedResponse"]["parsingErrorDetails"]["repromptResponse"]
    assert parsed.code and "Call the tool natively" in told and "<" not in told
    told = parsers.parse(reply, name="xml").response["orchestrationParsedResponse"]
    assert "<invoke>" in told["parsingErrorDetails"]["repromptResponse"]
