"""What `explain` says of a reply."""

from __future__ import annotations

from orchestrator import parsers


def test_pieces_have_kinds_and_offsets() -> None:
    reply = "<thinking>t</thinking> so <answer>Yes.</answer> end"
    told = parsers.explain(reply, "ORCHESTRATION", "xml")
    assert [(piece["kind"], piece["text"]) for piece in told["pieces"]] == [
        ("tag", "<thinking>"),
        ("thinking", "t"),
        ("tag", "</thinking>"),
        ("outside", " so "),
        ("tag", "<answer>"),
        ("answer", "Yes."),
        ("tag", "</answer>"),
        ("ignored", " end"),
    ]
    for piece in told["pieces"]:
        assert reply[piece["start"] : piece["end"]] == piece["text"]
    assert (told["code"], told["reprompt"], told["notes"]) == ("", "", [])
    assert told["response"] == parsers.parse(reply, "ORCHESTRATION", "xml").response


def test_a_mistake_is_reported_with_its_code_and_the_text_for_the_model() -> None:
    told = parsers.explain("<function_calls><invoke><tool_name>x</tool_name>")
    assert told["code"] == "BAD_PARTS"
    assert told["reprompt"].startswith("406: ")
    assert told["raw"] == "<invoke><tool_name>x</tool_name>"


def test_the_grammar_of_the_calls_is_reported() -> None:
    use = {"toolUse": {"toolUseId": "t", "name": "a__b", "input": {}}}
    for reply, grammar in [
        ("<answer>Yes.", ""),
        ([use], "tool_use"),
        ("<function_calls><invoke><tool_name>a::b</tool_name>", "xml"),
        ("<function_call>a::b()", "function_call"),
        ("<fnCall>a::b()", "fncall"),
        ("<fnCall><invoke><tool_name>a::b</tool_name>", "fncall"),
    ]:
        told = parsers.explain(reply)
        assert (told["grammar"], told["code"], told["parser"]) == (grammar, "", "auto")


def test_native_calls_are_listed_after_the_text() -> None:
    use = {"toolUseId": "t", "name": "a__b", "input": {}}
    told = parsers.explain([{"text": "<thinking>t</thinking>"}, {"toolUse": use}])
    assert told["pieces"][-1] == {"kind": "toolUse", "text": "a__b"}
    assert "".join(piece["text"] for piece in told["pieces"][:-1]) == "<thinking>t</thinking>"


def test_blocks_of_a_recorded_raw_response_are_understood() -> None:
    blocks = [
        {"type": "text", "text": "<thinking>t</thinking>", "id": None, "name": None},
        {"type": "tool_use", "text": None, "id": "toolu_1", "name": "a__b", "input": {"n": 1}},
    ]
    told = parsers.explain(blocks)
    (action,) = told["response"]["orchestrationParsedResponse"]["responseDetails"][
        "actionGroupInvocations"
    ]
    assert (action["id"], action["functionName"]) == ("toolu_1", "b")


def test_a_tag_cut_off_at_the_end_is_shown() -> None:
    told = parsers.explain("<answer>Yes.</ans")
    assert told["pieces"][-1] == {"kind": "tag", "start": 12, "end": 17, "text": "</ans"}
