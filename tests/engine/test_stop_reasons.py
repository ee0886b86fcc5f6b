"""What the user gets for each of Converse's stop reasons."""

from __future__ import annotations

import pytest
from botocore_shapes import service
from trace_turns import stopped
from whole_agents import BOTH, Calls, Family, agent, answer, members, outcome, streamed

from orchestrator import ModelOutputError, TextDelta
from orchestrator.models.base import ModelReply

REFUSED = "Sorry, I am unable to assist you with this request."
CUT = "The first half of"


def test_converse_has_no_other_stop_reasons() -> None:
    known = {
        *("end_turn", "tool_use", "max_tokens", "stop_sequence", "guardrail_intervened"),
        *("content_filtered", "malformed_model_output", "malformed_tool_use"),
        "model_context_window_exceeded",
    }
    assert set(service("bedrock-runtime").shape_for("StopReason").enum) == known


@BOTH
@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "tool_use"])
def test_the_usual_ones_give_the_answer(family: Family, reason: str) -> None:
    # A stop sequence has cut the closing tag.
    reply = agent(family.model([stopped(reason, "<answer>All of it")])).invoke("Hi")
    assert (reply.text, reply.stop_reason) == ("All of it", "end_turn")


@BOTH
@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "tool_use"])
def test_a_call_is_a_call_whatever_usual_reason_is_given(family: Family, reason: str) -> None:
    calls = Calls()
    called = family.calls(("vacations::get_days", {"employee": "E-1"}))
    content = called if isinstance(called, list) else [{"text": called}]
    model = family.model([ModelReply(content, reason), answer("12.")])
    assert agent(model, calls.groups()).invoke("Hi").text == "12."
    assert len(calls.made) == 1


@BOTH
def test_max_tokens_gives_what_there_is_of_the_answer_and_says_so(family: Family) -> None:
    reply = agent(family.model([stopped("max_tokens", f"<answer>{CUT}")])).invoke("Hi")
    assert (reply.text, reply.stop_reason) == (CUT, "max_tokens")
    assert members(reply.trace)[-1] == "observation FINISH"


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "<thinking>It seems",
        "",
        "<thinking>x</thinking><function_calls><invoke><tool_name>vacations::book</tool_name>"
        "<parameters><employee>E-1</employee><days>1",
    ],
)
def test_max_tokens_before_the_answer_is_an_error_and_carries_nothing_out(
    family: Family, text: str
) -> None:
    calls = Calls()
    asked = agent(family.model([stopped("max_tokens", text), answer("Hi.")]), calls.groups())
    with pytest.raises(
        ModelOutputError, match="`maximumLength` before its answer: raise"
    ) as caught:
        asked.invoke("Book", "s-1")
    assert caught.value.code == "max_tokens"
    assert calls.made == []
    assert members(caught.value.reply.trace)[-1] == "failureTrace"  # type: ignore[union-attr]
    assert asked.invoke("Hi", "s-1").text == "Hi."


def test_max_tokens_in_a_native_call_carries_nothing_out() -> None:
    from whole_agents import NATIVE

    calls = Calls()
    content = NATIVE.calls(("vacations::book", {"employee": "E-1", "days": 1}))
    asked = agent(NATIVE.model([ModelReply(content, "max_tokens")]), calls.groups())
    with pytest.raises(ModelOutputError, match="maximumLength"):
        asked.invoke("Book")
    assert calls.made == []


@BOTH
def test_a_guardrail_speaks_in_its_own_words(family: Family) -> None:
    reply = agent(family.model([stopped("guardrail_intervened", "Not here.")])).invoke("Hi")
    assert (reply.text, reply.stop_reason) == ("Not here.", "guardrail_intervened")


@BOTH
@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_what_was_filtered_away_is_a_refusal(family: Family, reason: str) -> None:
    reply = agent(family.model([stopped(reason)])).invoke("Hi")
    assert (reply.text, reply.stop_reason) == (REFUSED, reason)


@BOTH
@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<thinking>He asks", REFUSED),
        ("<thinking>He asks.</thinking>Not here.", "Not here."),
        ("<thinking>He asks.</thinking><answer>Not here.</answer>", "Not here."),
        ("<answer>Half of", "Half of"),
        ("<function_calls><invoke><tool_name>vacations::", REFUSED),
    ],
)
def test_a_refusal_reads_like_an_answer_and_like_its_stream(
    said: str, text: str, family: Family, reason: str
) -> None:
    for chunk in (1, 5, 100):
        asked = agent(family.model([stopped(reason, said)], chunk=chunk), Calls().groups())
        events, error = streamed(asked, "Hi")
        assert error is None
        assert events[-1].reply.text == text
        assert "".join(one.text for one in events if isinstance(one, TextDelta)) == text


@BOTH
@pytest.mark.parametrize("stage", ["PRE_PROCESSING", "POST_PROCESSING"])
def test_a_refusal_of_the_other_stages_has_no_tags(family: Family, stage: str) -> None:
    draft = [answer("12.")] if stage == "POST_PROCESSING" else []
    model = family.model([*draft, stopped("content_filtered", "<thinking>He asks")])
    reply = agent(model, prompts={stage: {"promptState": "ENABLED"}}).invoke("Hi")
    assert (reply.text, reply.stop_reason) == (REFUSED, "content_filtered")


@BOTH
@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_what_was_filtered_is_not_told_in_the_next_turn(family: Family, reason: str) -> None:
    model = family.model([stopped(reason, "half a secret"), answer("Hi.")])
    asked = agent(model)
    asked.invoke("something bad", "s-1")
    asked.invoke("Hello", "s-1")
    assert [message["content"][0]["text"] for message in model.requests[1].messages] == ["Hello"]


@BOTH
@pytest.mark.parametrize("reason", ["malformed_tool_use", "malformed_model_output"])
def test_a_malformed_reply_is_asked_for_again(family: Family, reason: str) -> None:
    model = family.model([stopped(reason, "<function_calls><inv"), answer("Again.")])
    reply = agent(model, Calls().groups()).invoke("Hi")
    assert (reply.text, reply.stop_reason) == ("Again.", "end_turn")
    assert "malformed" in str(model.requests[1].messages[-1])
    assert "observation REPROMPT" in members(reply.trace)


@BOTH
def test_malformed_for_ever_ends_the_turn(family: Family) -> None:
    model = family.model([stopped("malformed_tool_use")] * 9)
    reply = outcome(agent(model, Calls().groups()), "Hi")
    assert reply.stop_reason == "malformed_tool_use"
    assert reply.text == ""


@BOTH
def test_a_full_context_window_is_an_error_that_says_so(family: Family) -> None:
    model = family.model([stopped("model_context_window_exceeded", f"<answer>{CUT}")])
    with pytest.raises(ModelOutputError, match="no longer fits the model's context") as caught:
        agent(model).invoke("Hi")
    assert caught.value.code == "model_context_window_exceeded"
    assert "observation FINISH" not in members(caught.value.reply.trace)  # type: ignore[union-attr]


@BOTH
@pytest.mark.parametrize("stage", ["PRE_PROCESSING", "POST_PROCESSING"])
@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_filters_in_the_other_stages_refuse_too(family: Family, stage: str, reason: str) -> None:
    script = [stopped(reason, "Not here.")]
    if stage == "POST_PROCESSING":
        script.insert(0, answer("The draft."))  # type: ignore[arg-type]
    asked = agent(family.model(script), prompts={stage: {"promptState": "ENABLED"}})
    reply = asked.invoke("Hi")
    assert (reply.text, reply.stop_reason) == ("Not here.", reason)


@BOTH
@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_cut_post_processing_keeps_the_draft(family: Family, reason: str) -> None:
    script = [answer("The draft."), stopped(reason, "<final_response>The dr")]
    asked = agent(family.model(script), prompts={"POST_PROCESSING": {"promptState": "ENABLED"}})
    assert asked.invoke("Hi").text == "The draft."


@BOTH
def test_a_cut_pre_processing_is_an_error_not_a_verdict(family: Family) -> None:
    script = [stopped("max_tokens", "<thinking>The user"), answer("Hi.")]
    asked = agent(family.model(script), prompts={"PRE_PROCESSING": {"promptState": "ENABLED"}})
    with pytest.raises(ModelOutputError, match="maximumLength"):
        asked.invoke("Hi")
