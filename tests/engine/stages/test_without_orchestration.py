"""ORCHESTRATION is off: the user's text goes to the model as it is, and its reply is the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from stage_support import MODELS, Handbook, agent, sound, stages
from whole_agents import INSTRUCTION, Calls, live_parts, members, streamed

from orchestrator.errors import ModelOutputError
from orchestrator.guardrails import LocalGuardrail, Pii
from orchestrator.models.base import ModelReply, Usage
from orchestrator.prompts import placeholders
from orchestrator.testing import ScriptedModel

OFF = {"ORCHESTRATION": {"promptState": "DISABLED"}}
RAW = " <thinking> I. </thinking><answer> Hi & <b>welcome</b>.</answer><function_calls> $question$"


def said(request: object) -> list[tuple[str, str]]:
    messages = request.messages  # type: ignore[attr-defined]
    return [(one["role"], "".join(block["text"] for block in one["content"])) for one in messages]


def test_every_dialect_has_a_model() -> None:
    assert set(MODELS) == set(placeholders.FAMILIES)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("streams", [False, True])
def test_texts_go_to_the_model_and_back_as_they_are(name: str, streams: bool) -> None:
    question = 'How "many" <days>? $instruction$ \n\nHuman: x'
    model = ScriptedModel([RAW, "Second."], MODELS[name], chunk=5)
    base = Handbook()
    subject = agent(
        model, prompts=OFF, action_groups=Calls().groups(ask_user=True), knowledge_bases=[base]
    )
    if streams:
        events, error = streamed(subject, question, "s-1")
        assert error is None
        shown = "".join(event.text for event in events if hasattr(event, "text"))
        assert shown == events[-1].reply.text == RAW
        trace = live_parts(events)
    else:
        reply = subject.invoke(question, "s-1")
        assert (reply.text, reply.stop_reason) == (RAW, "end_turn")
        trace = sound(reply)
    assert members(trace) == [
        "modelInvocationInput",
        "modelInvocationOutput",
        "observation FINISH",
    ]
    first = model.requests[0]
    assert (str(first.system), list(first.tools)) == ("", [])
    assert said(first) == [("user", question)]
    assert INSTRUCTION not in str(trace)
    subject.invoke("And?", "s-1")
    second = said(model.requests[1])
    assert [role for role, _ in second] == ["user", "assistant", "user"]
    assert [text for _, text in second] == [question, RAW, "And?"]


@pytest.mark.parametrize("name", MODELS)
def test_only_ones_own_stop_sequences_are_sent(name: str) -> None:
    own = {"maximumLength": 77, "stopSequences": ["END"]}
    for given, expected in (({}, None), (own, ["END"])):
        model = ScriptedModel(["Hi."], MODELS[name])
        prompts = {"ORCHESTRATION": {**OFF["ORCHESTRATION"], "inferenceConfiguration": given}}
        reply = agent(model, prompts=prompts).invoke("q", "s-1")
        assert model.requests[0].inference.get("stopSequences") == expected
        told = sound(reply)[0]["trace"]["orchestrationTrace"]["modelInvocationInput"]
        assert told["inferenceConfiguration"].get("stopSequences") == expected


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_blank_reply_is_one_in_the_history_too(text: str) -> None:
    model = ScriptedModel([text, "Second."], MODELS["tool-use"])
    subject = agent(model, prompts=OFF)
    subject.invoke("q", "s-1")
    subject.invoke("And?", "s-1")
    assert [text for _, text in said(model.requests[1])] == ["q", "(empty)", "And?"]


def test_what_was_masked_or_processed_is_told_without_tags() -> None:
    on = {"promptState": "ENABLED"}
    final = " <final_response>Welcome to <b>us</b>.</final_response>"
    model = ScriptedModel([RAW, final, "Bye.", ""], MODELS["claude-3"])
    subject = agent(model, prompts={**OFF, "POST_PROCESSING": on})
    text = subject.invoke("q", "s-1").text
    subject.invoke("And?", "s-1")
    assert [one for _, one in said(model.requests[2])] == ["q", text, "And?"]


def test_an_agent_that_was_changed_still_tells_it_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite"
    model = ScriptedModel([RAW, "Second."], MODELS["claude-3"])
    agent(model, prompts=OFF, sessions=file).invoke("q", "s-1")
    guarded = LocalGuardrail(pii=[Pii("EMAIL", "ANONYMIZE", "ANONYMIZE")])
    agent(model, prompts=OFF, sessions=file, guardrail=guarded).invoke("And?", "s-1")
    assert [text for _, text in said(model.requests[1])] == ["q", RAW, "And?"]


def test_a_call_of_the_model_is_not_carried_out() -> None:
    calls = Calls()
    use = {"toolUse": {"toolUseId": "t", "name": "vacations__get_days", "input": {"employee": "E"}}}
    model = ScriptedModel([[{"text": "Let me see."}, use]], MODELS["tool-use"])
    reply = agent(model, prompts=OFF, action_groups=calls.groups()).invoke("q", "s-1")
    assert (reply.text, calls.made) == ("Let me see.", [])


def test_pre_and_post_processing_run_around_it() -> None:
    on = {"promptState": "ENABLED"}
    model = ScriptedModel(
        ["<category>D</category>", RAW, "<final_response>Welcome.</final_response>"],
        MODELS["claude-3"],
    )
    prompts = {**OFF, "PRE_PROCESSING": on, "POST_PROCESSING": on}
    reply = agent(model, prompts=prompts).invoke("Hello", "s-1")
    assert stages(model) == ["PRE_PROCESSING", "ORCHESTRATION", "POST_PROCESSING"]
    assert reply.text == "Welcome."
    assert members(sound(reply)) == [
        "preProcessing.modelInvocationInput",
        "preProcessing.modelInvocationOutput",
        "modelInvocationInput",
        "modelInvocationOutput",
        "observation FINISH",
        "postProcessing.modelInvocationInput",
        "postProcessing.modelInvocationOutput",
    ]


def test_a_guardrail_still_reads_both_sides() -> None:
    guardrail = LocalGuardrail(pii=[Pii("EMAIL", "ANONYMIZE", "ANONYMIZE")])
    model = ScriptedModel(["Mail bob@example.com."], MODELS["claude-3"])
    reply = agent(model, prompts=OFF, guardrail=guardrail).invoke("I am ana@example.com", "s-1")
    assert said(model.requests[0]) == [("user", "I am {EMAIL}")]
    assert reply.text == "Mail {EMAIL}."


def test_a_cut_reply_says_so_and_an_empty_one_is_empty() -> None:
    cut = ModelReply([{"text": "Half"}], "max_tokens", Usage(1, 1, calls=1))
    reply = agent(ScriptedModel([cut], MODELS["claude-3"]), prompts=OFF).invoke("q", "s-1")
    assert (reply.text, reply.stop_reason) == ("Half", "max_tokens")
    full = ModelReply([], "model_context_window_exceeded", Usage(1, 1, calls=1))
    with pytest.raises(ModelOutputError, match="context window"):
        agent(ScriptedModel([full], MODELS["claude-3"]), prompts=OFF).invoke("q", "s-1")
