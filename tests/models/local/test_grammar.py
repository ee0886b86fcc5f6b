from __future__ import annotations

import json
from typing import Any

import pytest
from gbnf import Grammar
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.models.base import CallFormat, OperationFormat
from orchestrator.models.grammar import grammar_of, look_ups
from orchestrator.models.grounds import Grounds


def operation(name: str, required: tuple[str, ...] = (), **properties: Any) -> OperationFormat:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return OperationFormat(name, schema)


ID = {"type": "string", "description": "Id of the claim, for example claim-857."}
NAME = {"type": "string", "description": "The policy holder."}
DAY = {"type": "string", "description": "First day as YYYY-MM-DD, for example 2027-06-14."}
OPERATIONS = (
    operation("claims__list", status={"type": "string", "enum": ["open", 'clo"sed']}, holder=NAME),
    operation("claims__get", ("id",), id=ID, deep={"type": "boolean"}),
    operation("claims__pay", ("id", "amount"), id=ID, amount={"type": "number"}),
    operation("days__plan", ("start", "note"), start=DAY, note={"type": "string"}),
    operation("tags__set", ("tags",), tags={"type": "array"}, count={"type": "integer"}),
)


def form(**changes: Any) -> CallFormat:
    given: dict[str, Any] = {"operations": OPERATIONS, "unknown_value": "?", **changes}
    return CallFormat("tool_use", **given)


def call(name: str, **arguments: Any) -> str:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def accepts(text: str, *conversation: str, **changes: Any) -> bool:
    return Grammar(grammar_of(form(**changes), said_by_user(*conversation))).accepts(text)


def said_by_user(*texts: str) -> Grounds:
    return Grounds(texts, now=texts[-1] if texts else "")


@pytest.mark.parametrize(
    "text",
    [
        "Claim claim-857 is open.",
        "5 < 6, and <b>bold</b> is not allowed"[:5] + "6",
        call("claims__list"),
        call("claims__list", status="open"),
        call("claims__list", status='clo"sed', holder="Élena Petrova"),
        call("claims__get", id="claim-857"),
        call("claims__get", id="claim-857", deep=True),
        call("claims__pay", id="claim-857", amount=-3.5),
        call("tags__set", tags=["a", {"b": [1, None]}], count=2),
    ],
)
def test_well_formed_replies_are_accepted(text: str) -> None:
    assert accepts(text, "What about claim-857?")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " leading space",
        "<answer>marked</answer>",
        "Let me see. " + call("claims__list"),
        call("claims__list") + call("claims__list"),
        call("claims__delete", id="claim-857"),
        call("claims__get"),
        call("claims__get", deep=True),
        call("claims__get", deep=True, id="claim-857"),
        call("claims__get", id="claim-857", other=1),
        call("claims__get", id="claim-857", deep="yes"),
        call("claims__list", status="lost"),
        call("claims__pay", id="claim-857", amount="3"),
        call("tags__set", tags="a"),
        call("claims__get", id="claim-857")[:-3],
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    assert not accepts(text, "What about claim-857?")


def test_ids_are_copied_whole_or_unknown() -> None:
    said = "Is claim-857 open, or number 12?"
    assert accepts(call("claims__get", id="claim-857"), said)
    assert accepts(call("claims__get", id="claim-12"), said)
    assert accepts(call("claims__get", id="?"), said)
    for made_up in ("857", "claim-123", "claim-8", "claim-8577", "my claim"):
        assert not accepts(call("claims__get", id=made_up), said), made_up


def test_without_anything_to_copy_an_id_is_only_unknown() -> None:
    assert accepts(call("claims__get", id="?"), "Send my reminder")
    assert not accepts(call("claims__get", id="claim-857"), "Send my reminder")


def test_days_come_from_the_conversation() -> None:
    said = "From 10 May to 2027-05-14, please."
    for day in ("2027-05-10", "2027-05-14", "?"):
        assert accepts(call("days__plan", start=day, note="x"), said), day
    for day in ("2027-05-11", "2027-13-10", "tomorrow"):
        assert not accepts(call("days__plan", start=day, note="x"), said), day
    assert not accepts(call("days__plan", start="2027-05-10", note="x"), "next week")


def test_dates_and_counts_are_no_ids() -> None:
    said = "From 2027-05-10, I have 2 days and 25 hours left."
    returned = ("V-16 has 25 days", "claim-16")
    grounds = Grounds((said,), returned, now=said)
    grammar = Grammar(grammar_of(form(), grounds))
    assert grammar.accepts(call("claims__get", id="claim-16"))
    for made_up in ("claim-2", "claim-25", "claim-2027-05-10", "claim-10", "V-16"):
        assert not grammar.accepts(call("claims__get", id=made_up)), made_up
    assert grammar.accepts(call("days__plan", start="2027-05-10", note="x"))
    for made_up in ("2027-05-16", "2027-05-25", "2027-05-02", "2027-06-10"):
        assert not grammar.accepts(call("days__plan", start=made_up, note="x")), made_up


def test_an_id_of_another_form_can_still_be_given() -> None:
    assert accepts(call("claims__get", id="BA456"), "It is BA456")
    assert not accepts(call("claims__get", id="BA456"), "It is BA456", "or claim-7, rather")


@pytest.mark.parametrize(
    "said", ["claim 214", "Claim-214", "CLAIM214", "214", "214 please", "理赔214", "Schaden 214"]
)
def test_an_id_may_be_said_in_other_ways(said: str) -> None:
    assert accepts(call("claims__get", id="claim-214"), said)


@pytest.mark.parametrize(
    "said",
    ["8 to 12 March", "8. bis 12. März", "3月8日到3月12日", "8.3. - 12.3.", "the 8th, the 12th"],
)
def test_days_are_known_in_other_languages(said: str) -> None:
    for day in ("2027-03-08", "2027-03-12"):
        assert accepts(call("days__plan", start=day, note="x"), said), day
    assert not accepts(call("days__plan", start="2027-03-27", note="x"), said)


def test_free_text_may_say_anything_but_made_up_numbers() -> None:
    said = "Tell them that room 5 is free."
    assert accepts(call("days__plan", start="?", note='Room 5, "free"!'), said)
    assert not accepts(call("days__plan", start="?", note="Room 6"), said)


def test_without_an_unknown_value_nothing_is_grounded() -> None:
    assert accepts(call("claims__get", id="claim-1"), "hello", unknown_value="")


def test_excluded_operations_and_questions_to_the_user_are_left_out() -> None:
    excluded = frozenset(one.name for one in OPERATIONS if one.name != "claims__list")
    assert accepts(call("claims__list"), excluded=excluded)
    assert not accepts(call("claims__get", id="?"), excluded=excluded)
    everything = frozenset(one.name for one in OPERATIONS)
    assert accepts("Only words are left.", excluded=everything)
    assert not accepts(call("claims__list"), excluded=everything)
    assert not accepts(call("user__askuser", question="Which?"), ask_user=True)


def test_http_verbs_are_left_out_of_names() -> None:
    form_ = form(operations=(operation("POST__claims__send"), operation("GET__all")))
    grammar = Grammar(grammar_of(form_))
    assert grammar.accepts(call("claims__send")) and grammar.accepts(call("GET__all"))
    assert not grammar.accepts(call("POST__claims__send"))


def test_a_call_can_be_asked_for() -> None:
    grammar = Grammar(grammar_of(form(), must_call=True))
    assert grammar.accepts(call("claims__list"))
    assert not grammar.accepts("Hello!")


def test_an_id_that_is_lacking_can_be_looked_up() -> None:
    found = look_ups(form(), "claims__get", {"id": "?"})
    assert found is not None
    grammar = Grammar(grammar_of(found, said_by_user("Mira Holt's claim"), must_call=True))
    assert grammar.accepts(call("claims__list", holder="Mira Holt"))
    assert not grammar.accepts(call("claims__get", id="?"))
    assert not grammar.accepts(call("days__plan", start="?", note="x"))


def test_nothing_is_looked_up_without_need_or_means() -> None:
    assert look_ups(form(), "claims__get", {"id": "claim-857"}) is None
    assert look_ups(form(), "days__plan", {"start": "?", "note": "x"}) is None
    assert look_ups(form(), "claims__gone", {"id": "?"}) is None
    assert look_ups(form(operations=OPERATIONS[1:4]), "claims__get", {"id": "?"}) is None


def test_a_grammar_is_made_once_for_the_same_operations() -> None:
    first = grammar_of(form(unknown_value=""))
    assert grammar_of(form(unknown_value="")) is not None
    assert grammar_of(form(unknown_value="")).splitlines()[0] == first.splitlines()[0]
    assert grammar_of(form(excluded=frozenset({"claims__list"}))) != grammar_of(form())


_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<"), min_size=1)
_names = st.text("abcdefgh_", min_size=1, max_size=8)
_types = {
    "string": _texts,
    "integer": st.integers(-(10**15), 10**15),
    "boolean": st.booleans(),
    "array": st.lists(st.one_of(_texts, st.integers(-99, 99), st.booleans(), st.none())),
    "object": st.dictionaries(_texts, _texts, max_size=3),
}


@st.composite
def _operation_and_call(draw: st.DrawFn) -> tuple[OperationFormat, dict[str, Any], str]:
    kinds = draw(st.dictionaries(_names, st.sampled_from(sorted(_types)), max_size=4))
    required = draw(st.sets(st.sampled_from(sorted(kinds)))) if kinds else set()
    named = operation(
        draw(_names), tuple(sorted(required)), **{name: {"type": kinds[name]} for name in kinds}
    )
    arguments = {
        name: draw(_types[kind])
        for name, kind in kinds.items()
        if name in required or draw(st.booleans())
    }
    return named, arguments, draw(st.sampled_from([*kinds, "other"]))


@given(_operation_and_call())
def test_the_grammar_accepts_exactly_the_calls_of_an_operation(
    drawn: tuple[OperationFormat, dict[str, Any], str],
) -> None:
    named, arguments, name = drawn
    grammar = Grammar(grammar_of(CallFormat("tool_use", (named,))))
    assert grammar.accepts(call(named.name, **arguments))
    changed = dict(arguments)
    if changed.pop(name, None) is None:
        changed = {**arguments, "zzz": 1}
        assert not grammar.accepts(call(named.name, **changed))
    else:
        assert grammar.accepts(call(named.name, **changed)) == (
            name not in named.schema["required"]
        )


@given(st.lists(_texts, max_size=4), _texts)
def test_no_conversation_breaks_the_grammar(conversation: list[str], value: str) -> None:
    grammar = Grammar(grammar_of(form(), said_by_user(*conversation)))
    assert grammar.accepts(call("claims__get", id="?"))
    accepted = grammar.accepts(call("claims__get", id=value))
    if accepted and value != "?":
        digits = "".join(char for char in value if char.isascii() and char.isdigit())
        assert digits and any(digit in text for text in conversation for digit in digits)


def test_several_of_very_many_choices() -> None:
    items = tuple(f"item {number}" for number in range(3000))
    grammar = Grammar(grammar_of(form(choices=items, picks=(2, 3), unknown_value="")))
    assert grammar.accepts("item 7,item 2999")
    assert not grammar.accepts("item 7")
    assert not grammar.accepts("item 7,item 8,item 9,item 10")
    assert not grammar.accepts("item 7,item 3000")


@given(
    st.integers(1, 4),
    st.integers(0, 3),
    st.lists(st.sampled_from(["red", "blue", "a, b", "x"]), max_size=5),
)
def test_several_choices_are_different_ones_in_their_order(
    fewest: int, more: int, said: list[str]
) -> None:
    items = ("red", "blue", "a, b", "red", "x")
    known = ["red", "blue", "a, b", "x"]
    most = min(fewest + more, 4)
    right = said == [one for one in known if one in said] and fewest <= len(said) <= most
    made = form(choices=items, picks=(fewest, most), separator=" + ", unknown_value="")
    if most > 1:
        assert Grammar(grammar_of(made)).accepts(" + ".join(said)) == right
    else:
        assert Grammar(grammar_of(made)).accepts("+".join(said)) == (len(said) == 1)
