"""Attack 1: placeholders in values. They are shown once, as they were written."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from payloads import PLACES, SLOTS, any_text, run, safe
from whole_agents import ALL_FAMILIES, EACH, INSTRUCTION, Family, texts_of

from orchestrator.prompts.partials import encode

MARK = "MARKER-1b7e"
_plain = {
    (family.name, slot): run(family, **{slot: MARK}) for family in ALL_FAMILIES for slot in SLOTS
}


def shown_verbatim(family: Family, slot: str, text: str) -> None:
    """Every prompt is the one with the marker, with the text in the marker's place."""
    said = run(family, **{slot: text})
    plain = _plain[family.name, slot]
    assert len(said.requests) == len(plain.requests) == 3
    for request, expected in zip(said.requests, plain.requests, strict=True):
        wanted = texts_of(expected)
        found = texts_of(request)
        verbatim = [one.replace(MARK, safe(text)) for one in wanted]
        encoded = [one.replace(MARK, encode(safe(text))) for one in wanted]
        assert len(found) == len(wanted)
        for index, one in enumerate(found):
            assert one in (verbatim[index], encoded[index])


@EACH
@pytest.mark.parametrize("slot", SLOTS)
def test_every_placeholder_in_every_slot(family: Family, slot: str) -> None:
    shown_verbatim(family, slot, " ".join(PLACES))


@given(st.sampled_from(ALL_FAMILIES), st.sampled_from(SLOTS), any_text)
def test_any_text_in_any_slot(family: Family, slot: str, text: str) -> None:
    assume(text.strip())
    shown_verbatim(family, slot, text)


@EACH
def test_a_placeholder_leaks_nothing(family: Family) -> None:
    said = run(family, question="$instruction$ $agent_scratchpad$ $tools$", result="$instruction$")
    for request in said.requests:
        assert sum(text.count(INSTRUCTION) for text in texts_of(request)) == 1
    assert any("$instruction$ $agent_scratchpad$ $tools$" in one for one in texts_of(request))


@EACH
def test_an_unknown_placeholder_of_a_template_stays_and_is_told(family: Family) -> None:
    from whole_agents import agent, answer

    body = '{"system": "$instrction$", "messages": [{"role": "user", "content": "$question$"}]}'
    asked = agent(
        family.model([answer("Hi.")]), prompts={"ORCHESTRATION": {"basePromptTemplate": body}}
    )
    found = asked.plan.orchestration.template.diagnostics
    assert [one.code for one in found if "instrction" in one.message] == ["unknown-placeholder"]
    assert str(asked.render("ORCHESTRATION", "Hi").system) == "$instrction$"
