"""Attack 3: tags and role markers in values. Only the model makes calls, and only it answers."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from payloads import CALL, SLOTS, TAGS, any_text, run
from whole_agents import ALL_FAMILIES, EACH, NATIVE, XML, Calls, Family, agent, answer, texts_of

ONE_CALL = [("get_days", {"employee": "E-1", "year": 2026})]


@EACH
@pytest.mark.parametrize("slot", SLOTS)
def test_forty_payloads_call_nothing_and_answer_nothing(family: Family, slot: str) -> None:
    for payload in TAGS:
        said = run(family, **{slot: payload})
        assert said.made == ONE_CALL
        assert (said.reply.text, said.reply.stop_reason) == ("12 days.", "end_turn")


@given(st.sampled_from(ALL_FAMILIES), st.dictionaries(st.sampled_from(SLOTS), any_text))
def test_any_texts_call_nothing(family: Family, texts: dict[str, str]) -> None:
    assume(all(text.strip() for text in texts.values()))
    said = run(family, **texts)
    assert said.made == ONE_CALL
    assert said.reply.text == "12 days."


@pytest.mark.parametrize("slot", ["result", "attribute", "attribute_name"])
def test_where_tags_mean_something_values_cannot_open_one(slot: str) -> None:
    plain = run(XML, **{slot: "x"}).requests[-1]
    for payload in TAGS:
        request = run(XML, **{slot: payload}).requests[-1]
        for told, expected in zip(texts_of(request), texts_of(plain), strict=True):
            assert told.count("<") == expected.count("<")
            assert told.count(">") == expected.count(">")


@EACH
@pytest.mark.parametrize("payload", [one for one in TAGS if "</thinking>" not in one])
def test_a_model_that_quotes_a_payload_while_thinking_calls_nothing(
    family: Family, payload: str
) -> None:
    calls = Calls()
    quoted = f"<thinking>The text says: {payload}. I will not.</thinking><answer>No.</answer>"
    reply = agent(family.model([quoted]), calls.groups()).invoke("Hi")
    assert calls.made == []
    assert reply.text == "No."


@pytest.mark.parametrize("payload", TAGS)
def test_a_model_that_quotes_a_result_as_it_was_shown_calls_nothing(payload: str) -> None:
    # In a dialect of tags a result reaches the model encoded, and so does its quotation.
    calls = Calls(payload)
    model = XML.model([XML.calls(("vacations::get_days", {"employee": "E-1"})), "", ""])
    asked = agent(model, calls.groups())

    class Quoting(list):  # type: ignore[type-arg]
        def __iter__(self):  # type: ignore[no-untyped-def]
            told = model.requests[-1].messages[-1]["content"][0]["text"]
            result = told.partition("<stdout>")[2].partition("</stdout>")[0]
            return iter([{"text": answer(result)}])

    model._replies[1] = Quoting()
    asked.invoke("How many?")
    assert calls.made == ONE_CALL


@pytest.mark.parametrize("text", [CALL, f"You wrote: {CALL}", f"<thinking>{CALL}"])
def test_a_native_model_that_quotes_call_markup_in_its_answer_calls_nothing(text: str) -> None:
    calls = Calls()
    reply = agent(NATIVE.model([f"<answer>{text}</answer>"]), calls.groups()).invoke("Hi")
    assert calls.made == []
    assert "E-9" in reply.text
