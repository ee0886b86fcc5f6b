"""Finished steps and turns, as the model sees them again; the recordings show how."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.prompts.steps import step_messages, tidy

GOLDEN = Path(__file__).resolve().parents[2] / "../shared/golden"


def replies(name):
    path = GOLDEN / f"{name}.json"
    if not path.exists():
        pytest.skip("the recordings are not here")
    for event in json.loads(path.read_text())["events"]:
        trace = event["payload"].get("trace", {}).get("orchestrationTrace", {})
        if output := trace.get("modelInvocationOutput"):
            blocks = json.loads(output["rawResponse"]["content"])["content"]
            yield [
                {"text": block["text"]}
                if block["type"] == "text"
                else {
                    "toolUse": {
                        "toolUseId": block["id"],
                        "name": block["name"],
                        "input": block["input"],
                    }
                }
                for block in blocks
            ]


def test_a_recorded_step_is_replayed_as_recorded(native):
    call, answer = replies("tool_calls_with_input_params")
    use = call[1]["toolUse"]
    result = {"id": use["toolUseId"], "name": use["name"], "text": "30", "error": False}
    thought = (
        '<thinking>To find the sum of 10 and 20, I can use the "action_group_quick_start_6gq19'
        "__add_two_numbers\" function. This function takes two parameters: n1 and n2. I'll use 10 "
        "for n1 and 20 for n2.</thinking>"
    )
    assert step_messages(native, call, [result]) == [
        {"role": "assistant", "content": [{"text": thought}, call[1]]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "30"}]}}
            ],
        },
    ]
    text = (
        "<thinking>The function has returned the result of adding 10 and 20, which is 30. I'll now "
        "provide the answer to the user.</thinking><answer>The sum of 10 and 20 is 30.</answer>"
    )
    assert native.answer_message(answer) == {"role": "assistant", "content": [{"text": text}]}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain", "plain"),
        (" \n", ""),
        ("<thinking>\n a \n</thinking>\n\nb ", "<thinking>a</thinking>b"),
        ("a\n</thinking>\n<answer>\nb", "<thinking>a</thinking><answer>b</answer>"),
        ("<answer> b </answer> c", "<answer>b</answer> c"),
        ("<answer>a</answer> <answer> b", "<answer>a</answer><answer>b</answer>"),
        (
            "<thinking>a</thinking>\n<function_calls>\n<invoke>\n<tool_name>g::f</tool_name>\n",
            "<thinking>a</thinking><function_calls>\n<invoke>\n<tool_name>g::f</tool_name>\n"
            "</invoke>\n</function_calls>",
        ),
        (
            "<function_calls><invoke>1</invoke><invoke>2</invoke>",
            "<function_calls><invoke>1</invoke><invoke>2</invoke>\n</function_calls>",
        ),
        ("<function_calls></function_calls>", "<function_calls></function_calls>"),
        ('<function_call>g::f(a="1")', '<function_call>g::f(a="1")</function_call>'),
        ("<fnCall><invoke>1", "<fnCall><invoke>1\n</invoke>\n</fnCall>"),
        ("<fnCall><invoke>1</invoke></fnCall>", "<fnCall><invoke>1</invoke></fnCall>"),
    ],
)
def test_replies_are_tidied(written, shown):
    assert tidy(written) == shown


@given(
    st.lists(
        st.sampled_from(
            "<thinking> </thinking> <answer> </answer> <function_calls> </function_calls> "
            "<invoke> </invoke> a b \n".split(" ")
        )
    ).map("".join)
)
def test_tidying_keeps_every_word_in_order(text):
    def words(of):
        return re.sub(r"<[^>]*>|\s", "", of)

    assert words(tidy(text)) == words(text)


def test_the_xml_scratchpad_is_as_recorded(xml):
    call = "<thinking>\nI need it.\n</thinking>\n<function_calls>\n<invoke>\n"
    call += "<tool_name>g::f</tool_name>"
    results = [
        {"id": "1", "name": "g::f", "text": "a < b", "error": False},
        {"id": "2", "name": "g::h", "text": "406: wrong", "error": True},
    ]
    said, told = step_messages(xml, [{"text": call}], results)
    assert said["content"] == [
        {
            "text": "<thinking>I need it.</thinking><function_calls>\n<invoke>\n"
            "<tool_name>g::f</tool_name>\n</invoke>\n</function_calls>"
        }
    ]
    assert told["content"][0]["text"].split("\n") == [
        "<function_results>",
        "<result>",
        "<tool_name>g::f</tool_name>",
        "<stdout>a &lt; b</stdout>",
        "</result>",
        "<error>",
        "<tool_name>g::h</tool_name>",
        "<stdout>406: wrong</stdout>",
        "</error>",
        "</function_results>",
    ]
    assert [span.origin for span in told.spans] == ["agent_scratchpad"]


def test_the_text_of_a_partial_keeps_its_tags_in_a_result(xml):
    found = xml.partial("search_results", results=[{"content": "a < b", "source": "k1"}])
    result = {"id": "1", "name": "kb", "text": found, "error": False, "markup": True}
    _, told = step_messages(xml, [{"text": "x"}], [result])
    text = told["content"][0]["text"]
    assert "<search_result>\n<content>\na &lt; b\n</content>" in text


def test_native_steps_stay_balanced(native):
    def use(name):
        return {"toolUse": {"toolUseId": name, "name": "g__f", "input": {}}}

    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    results = [
        {"id": "b", "name": "g__f", "text": "no such thing", "error": True},
        {"id": "gone", "name": "g__f", "text": "format", "error": True},
    ]
    content = [thought, {"text": " \n"}, use("a"), use("b")]
    said, told = step_messages(native, content, results)
    assert said["content"] == [thought, use("b")]
    assert told["content"] == [
        {
            "toolResult": {
                "toolUseId": "b",
                "content": [{"text": "no such thing"}],
                "status": "error",
            }
        },
        {"text": "format"},
    ]
    assert [span.block for span in told.spans] == [1]


def test_roles_alternate_after_a_reply_without_anything(native, xml):
    result = {"id": "x", "name": "", "text": "say something", "error": True}
    for dialect in (native, xml):
        said, told = step_messages(dialect, [{"text": "\n"}], [result])
        assert said == {"role": "assistant", "content": [{"text": "(empty)"}]}
        assert told["role"] == "user"


def test_a_question_to_the_user_stays_in_the_history(native):
    ask = {"toolUse": {"toolUseId": "t", "name": "user__askuser", "input": {"question": "Which? "}}}
    message = native.answer_message([{"text": "<thinking>\nhm\n</thinking>"}, ask])
    assert message["content"] == [
        {"text": "<thinking>hm</thinking>"},
        {"text": "<answer>Which?</answer>"},
    ]
