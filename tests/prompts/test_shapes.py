"""The shapes that published Bedrock templates have."""

import pytest

from orchestrator.errors import TemplateError
from orchestrator.prompts import compile_template, load_dialect
from orchestrator.prompts.steps import step_messages

from .conftest import BODY, compiled

VALUES = {"instruction": "Be kind.", "question": "Why?"}


def plain(bound, scratchpad=()):
    return [
        (message["role"], [block["text"] for block in message["content"]])
        for message in bound.messages(scratchpad)
    ]


@pytest.mark.parametrize(
    "content",
    ["$question$", [{"type": "text", "text": "$question$"}], [{"text": "$question$"}]],
    ids=["string", "anthropic blocks", "converse blocks"],
)
def test_a_messages_body_may_write_content_in_three_ways(content, native):
    body = {"system": "$instruction$", "messages": [{"role": "user", "content": content}]}
    template = compiled(body, native)
    bound = template.bind(VALUES)
    assert template.shape == "messages"
    assert bound.system == "Be kind."
    assert plain(bound) == [("user", ["Why?"])]
    assert not bound.raw_text


def test_system_may_be_a_list_of_blocks_or_absent(native):
    listed = {**BODY, "system": [{"text": "One $instruction$"}, {"text": "two"}]}
    assert compiled(listed, native).bind(VALUES).system == "One Be kind.\ntwo"
    without = {"messages": BODY["messages"]}
    assert compiled(without, native).bind(VALUES).system == ""


def test_raw_line_breaks_inside_strings_are_accepted_with_a_diagnostic(native):
    text = '{"system": "one\n\ttwo", "messages": [{"role": "user", "content": "\n$question$"}]}'
    template = compiled(text, native)
    assert template.bind(VALUES).system == "one\n\ttwo"
    note = next(d for d in template.diagnostics if d.code == "raw-line-breaks")
    assert (note.severity, note.line, note.column) == ("info", 1, 16)
    assert note.message.startswith("3 raw line breaks")


def test_strict_refuses_raw_line_breaks_with_their_place(native):
    with pytest.raises(TemplateError, match="raw line break") as caught:
        compiled('{"system": "one\ntwo"}', native, strict=True)
    assert (caught.value.line, caught.value.column) == (1, 16)


def test_raw_text_for_a_knowledge_base_is_the_system_text_and_the_query_the_message(native):
    text = "Only from these:\n$search_results$"
    template = compiled(text, native, "KNOWLEDGE_BASE_RESPONSE_GENERATION")
    bound = template.bind({"search_results": "<r>", "query": "Why?"})
    assert template.shape == "text"
    assert bound.system == "Only from these:\n<r>"
    assert plain(bound) == [("user", ["Why?"])]


def test_raw_text_that_holds_the_query_is_one_message(native):
    text = "$search_results$ Question: $query$"
    template = compiled(text, native, "KNOWLEDGE_BASE_RESPONSE_GENERATION")
    bound = template.bind({"search_results": "R", "query": "Why?"})
    assert (bound.system, plain(bound)) == ("", [("user", ["R Question: Why?"])])


@pytest.mark.parametrize("stage", ["ORCHESTRATION", "PRE_PROCESSING", "POST_PROCESSING"])
def test_raw_text_where_the_dialect_needs_json_fails_as_on_the_service(stage, xml):
    text = "\n Human: $question$"
    with pytest.raises(TemplateError) as caught:
        compile_template(text, stage=stage, dialect=xml, source="t.txt")
    assert f"the {stage} prompt type has failed validation: Invalid JSON" in caught.value.reason
    assert caught.value.place == "t.txt:2:2"


def test_raw_text_of_a_text_dialect_is_one_raw_prompt(tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "dialect.yaml").write_text("protocol: text\nparser: xml\n")
    (folder / "conversation_history.j2").write_text(
        "{% for m in messages %}[{{ m.role }}] {{ m.content[0].text }}\n{% endfor %}"
    )
    (folder / "agent_scratchpad.j2").write_text(
        "{% for m in messages %}|{{ m.content[0].text }}{% endfor %}"
    )
    (folder / "function_results.j2").write_text("{% for r in results %}{{ r.text }}{% endfor %}")
    old = load_dialect("old", tmp_path)
    template = compiled("$conversation_history$Human: $question$\nDo:$agent_scratchpad$", old)
    history = [old.question_message("a < b"), old.answer_message([{"text": "<answer>c"}])]
    bound = template.bind({"question": "Why?"}, history)
    head = "[user] a &lt; b\n[assistant] c\nHuman: Why?\nDo:"
    assert bound.raw_text
    assert plain(bound) == [("user", [head])]
    result = {"id": "1", "name": "f", "text": "30", "error": False}
    step = step_messages(old, [{"text": "call"}], [result])
    assert plain(bound, step) == [("user", [head + "|call|30"])]
    assert plain(bound) == [("user", [head])]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"system": "x"}, "no 'messages'"),
        ({"messages": []}, "is empty"),
        ({"messages": {}}, "'messages' must be a list"),
        ({"messages": ["x"]}, "a message must be a JSON object"),
        ({"messages": [{"role": "system", "content": "x"}]}, "'role' must be"),
        ({"messages": [{"content": "x"}]}, "'role' must be"),
        ({"messages": [{"role": "user"}]}, "needs 'content'"),
        ({"messages": [{"role": "user", "content": 5}]}, "'content' must be a list"),
        ({"messages": [{"role": "user", "content": [{"image": {}}]}]}, "text blocks only"),
        ({"messages": [{"role": "user", "content": [{"text": 1}]}]}, "text blocks only"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "surrogate"),
        ({**BODY, "system": "$agent_scratchpad$"}, "content of an assistant message"),
    ],
)
def test_an_impossible_structure_is_an_error_with_its_place(body, reason, native):
    with pytest.raises(TemplateError, match=reason) as caught:
        compiled(body, native)
    assert caught.value.line == 1
    assert caught.value.column >= 1


@pytest.mark.parametrize("text", ["", " \n", "x" * 100_001])
def test_an_empty_or_too_long_template_is_refused(text, native):
    with pytest.raises(TemplateError, match="1 to 100,000"):
        compile_template(text, stage="KNOWLEDGE_BASE_RESPONSE_GENERATION", dialect=native)


def test_an_unknown_stage_is_refused(native):
    with pytest.raises(TemplateError, match="unknown stage 'ORCHESTRATE'"):
        compile_template("{}", stage="ORCHESTRATE", dialect=native)
