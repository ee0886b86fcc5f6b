"""Placeholders that stand for messages: where they go and what they cost."""

import json

import pytest

from orchestrator.errors import TemplateError
from orchestrator.message import Message
from orchestrator.prompts import Dialect
from orchestrator.prompts.steps import step_messages

from .conftest import BODY, compiled

HISTORY = [Message("user", [{"text": "q1"}]), Message("assistant", [{"text": "a1"}])]
STEP = [Message("assistant", [{"text": "call"}]), Message("user", [{"text": "result"}])]


def texts(messages) -> list[str]:
    return [
        message["role"][0] + ":" + "|".join(block["text"] for block in message["content"])
        for message in messages
    ]


def bound(messages, dialect: Dialect, history=HISTORY, stage="ORCHESTRATION"):
    template = compiled({"messages": messages}, dialect, stage)
    return template.bind({"question": "Q", "latest_response": "L"}, history)


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    "anchor", ["$agent_scratchpad$", "\n $agent_scratchpad$\n", [{"text": "$agent_scratchpad$"}]]
)
def test_the_scratchpad_takes_the_place_of_its_message(anchor, native):
    made = bound([user("$question$"), assistant(anchor)], native)
    assert texts(made.messages()) == ["u:q1", "a:a1", "u:Q"]
    assert texts(made.messages(STEP)) == ["u:q1", "a:a1", "u:Q", "a:call", "u:result"]


def test_a_prefill_stays_last(native):
    body = [user("$question$"), assistant("$agent_scratchpad$"), assistant("Thought: (1)")]
    made = bound(body, native, ())
    assert texts(made.messages()) == ["u:Q", "a:Thought: (1)"]
    assert texts(made.messages(STEP)) == ["u:Q", "a:call", "u:result", "a:Thought: (1)"]


def test_without_an_anchor_the_scratchpad_goes_before_the_prefill(native):
    made = bound([user("$question$"), assistant("So")], native, ())
    assert texts(made.messages(STEP)) == ["u:Q", "a:call", "u:result", "a:So"]


def test_neighbours_of_one_role_are_merged_and_keep_their_spans(native):
    body = [user("$question$"), assistant("$agent_scratchpad$"), user("Go on.")]
    made = bound(body, native, ())
    assert texts(made.messages()) == ["u:Q|Go on."]
    assert texts(made.messages(STEP)) == ["u:Q", "a:call", "u:result|Go on."]
    assert [(span.block, span.origin) for span in made.messages()[0].spans] == [
        (0, "question"),
        (1, "template"),
    ]


@pytest.mark.parametrize("stage", ["ORCHESTRATION", "PRE_PROCESSING"])
def test_without_an_anchor_history_goes_before_the_question(stage, native):
    body = [user("Be brief."), assistant("I will."), user("Now: $question$")]
    expected = ["u:Be brief.", "a:I will.", "u:q1", "a:a1", "u:Now: Q"]
    assert texts(bound(body, native, stage=stage).messages()) == expected


def test_an_explicit_history_anchor_wins(native):
    body = [user("$conversation_history$"), user("Rule."), assistant("Yes."), user("$question$")]
    made = bound(body, native)
    assert texts(made.messages()) == ["u:q1", "a:a1", "u:Rule.", "a:Yes.", "u:Q"]


def test_history_is_never_dropped(native):
    steps = assistant("$agent_scratchpad$")
    late = [user("$question$"), steps, user("$conversation_history$")]
    with pytest.raises(
        TemplateError, match=r"<text>:1:\d+: .*after \$agent_scratchpad\$"
    ) as caught:
        bound(late, native)
    assert caught.value.column == json.dumps({"messages": late}).index(json.dumps(late[2])) + 1
    made = bound([user("Begin."), steps, user("$question$")], native)
    assert texts(made.messages(STEP)) == [
        "u:Begin.|q1",
        "a:a1|call",
        "u:result|Q",
    ]
    made = bound([user("$question$"), assistant("$conversation_history$")], native)
    assert texts(made.messages()) == ["u:Q|q1", "a:a1"]


def test_post_processing_has_no_history_unless_it_asks(native):
    made = bound([user("$latest_response$")], native, stage="POST_PROCESSING")
    assert texts(made.messages()) == ["u:L"]


def test_history_inside_a_text_is_written_out(native):
    made = bound([user("Before: $conversation_history$ Now: $question$")], native)
    expected = "Before: <user>\nq1\n</user>\n<assistant>\na1\n</assistant>\n Now: Q"
    assert texts(made.messages()) == ["u:" + expected]


def test_history_inside_a_text_tells_answers_without_tags_and_steps_as_they_were(native):
    use = {"toolUse": {"toolUseId": "t", "name": "g__f", "input": {}}}
    reply = [{"text": "<thinking>hm</thinking>"}, use]
    result = {"id": "t", "name": "g__f", "text": "<b>", "error": False}
    last = native.answer_message([{"text": "<thinking>so</thinking><answer>1 < 2"}])
    turn = [native.question_message("<q>"), *step_messages(native, reply, [result]), last]
    asked, answered = "<user>\n&lt;q&gt;\n</user>\n", "<assistant>\n1 &lt; 2\n</assistant>\n"
    for stage, steps in (
        ("PRE_PROCESSING", ""),
        (
            "ORCHESTRATION",
            "<assistant>\n<thinking>hm</thinking>\n<call><name>g__f</name><arguments>{}</arguments>"
            "</call>\n</assistant>\n<user>\n<result>&lt;b&gt;</result>\n</user>\n",
        ),
    ):
        made = bound([user("$conversation_history$|")], native, turn, stage)
        assert texts(made.messages())[-1].partition("|")[0] == f"u:{asked}{steps}{answered}"


def test_a_scratchpad_inside_a_text_is_written_out_anew_each_step(native):
    made = bound([user("$question$"), assistant("Log: $agent_scratchpad$")], native, ())
    use = {"toolUse": {"toolUseId": "t", "name": "g__f", "input": {"n": "<1>"}}}
    result = {"id": "t", "name": "g__f", "text": "a & b", "error": False}
    step = step_messages(native, [use], [result])
    assert texts(made.messages()) == ["u:Q", "a:Log: "]
    assert texts(made.messages(step)) == [
        "u:Q",
        'a:Log: <assistant>\n<call><name>g__f</name><arguments>{"n": "&lt;1&gt;"}</arguments>'
        "</call>\n</assistant>\n<user>\n<result>a &amp; b</result>\n</user>\n",
    ]
    assert texts(made.messages()) == ["u:Q", "a:Log: "]


def test_only_the_loop_sees_native_calls_of_earlier_turns(native):
    use = {"toolUse": {"toolUseId": "t", "name": "g__f", "input": {}}}
    result = {"id": "t", "name": "g__f", "text": "30", "error": False}
    step = step_messages(native, [{"text": "<thinking>x</thinking>"}, use], [result])
    history = [HISTORY[0], *step, HISTORY[1]]
    body = [user("$question$")]
    assert bound(body, native, history).messages()[:4] == history
    made = bound(body, native, history, stage="PRE_PROCESSING").messages()
    assert texts(made) == ["u:q1", "a:<thinking>x</thinking>|a1", "u:Q"]
    assert [span.origin for span in made[1].spans] == ["conversation_history"]


def test_messages_are_shared_and_never_made_again(native):
    made = compiled(BODY, native).bind({"question": "Q"}, HISTORY)
    first, second = made.messages(STEP), made.messages([*STEP, *STEP])
    for one, other in zip(first, second, strict=False):
        assert one is other
    assert first[:2] == HISTORY
    assert first[0] is HISTORY[0]
    assert first[3] is STEP[0]


def test_a_fixed_message_is_the_same_in_every_turn(native):
    template = compiled({"messages": [user("$question$"), assistant("So")]}, native)
    one, other = template.bind({"question": "1"}), template.bind({"question": "2"})
    assert one.messages()[-1] is other.messages()[-1]


def test_the_history_may_stand_in_two_places(native):
    body = [user("$conversation_history$"), assistant("Hm."), user("$conversation_history$")]
    made = bound([*body, assistant("So."), user("$question$")], native)
    assert texts(made.messages()) == ["u:q1", "a:a1|Hm.", "u:q1", "a:a1|So.", "u:Q"]
