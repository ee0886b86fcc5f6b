from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import pytest
from gbnf import Grammar
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from orchestrator.models.base import CallFormat, OperationFormat
from orchestrator.models.forced_text import ForcedText
from orchestrator.models.grammar import build_introduction, continuation_grammar, grammar_of
from orchestrator.models.grounds import Grounds

TOKEN = re.compile(r" ?(?:[^\W_]+|[^\w\s]+|_+)|\s")
SAID = Grounds(("What about claim-857 and claim-9, Élena “Petrova”?",), now="claim-857, claim-9")
ID = {"type": "string", "description": "Id of the claim, for example claim-857."}
DAY = {"type": "string", "description": "First day as YYYY-MM-DD, for example 2027-06-14."}


def operation(name: str, required: tuple[str, ...] = (), **properties: Any) -> OperationFormat:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return OperationFormat(name, schema)


OPERATIONS = (
    operation("claims__get", ("id",), id=ID, deep={"type": "boolean"}),
    operation("claims__list", status={"type": "string", "enum": ["open", 'clo"sed\n']}),
    operation("claims__pay", ("id", "amount"), id=ID, amount={"type": "number"}),
    operation("days__plan", ("start", "note"), start=DAY, note={"type": "string"}),
    operation("tags__set", ("tags",), tags={"type": "array"}, count={"type": "integer"}),
    operation("ping"),
)
FORM = CallFormat("tool_use", OPERATIONS, unknown_value="?")
CHOICES = CallFormat("xml", (), choices=("green", "grey", "red"), picks=(1, 2))


def call(name: str, **arguments: Any) -> str:
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


CALLS = [
    call("claims__get", id="claim-857"),
    call("claims__get", id="?", deep=True),
    call("claims__list"),
    call("claims__list", status='clo"sed\n'),
    call("claims__pay", id="claim-9", amount=-3.5),
    call("days__plan", start="?", note="Élena asks"),
    call("tags__set", tags=["a", {"b": [1, None]}], count=2),
    call("ping"),
]


def split(text: str, grammar: str, sizes: Sequence[int] = (99,)) -> list[tuple[bool, str]]:
    """A reply as it comes about: what is forced, and what is decoded, in tokens of these sizes."""
    ahead, parts, at = ForcedText(grammar), [], 0
    for size in cycle(sizes):
        forced = ahead.force()
        assert text.startswith(forced, at), f"{forced!r} is forced, and {text[at:]!r} comes"
        if forced:
            parts.append((True, forced))
        at += len(forced)
        assert ahead.is_whole or Grammar(ahead.write_rest()).accepts(text[at:])
        if at == len(text):
            return parts
        token = TOKEN.match(text, at)
        assert token is not None
        piece = token[0][:size]
        parts.append((False, piece))
        at += len(piece)
        ahead.accept(piece)
    raise AssertionError


@given(
    st.sampled_from([*CALLS, "A claim < 5 is no <b>.", "Ja: „gut“."]),
    st.lists(st.integers(1, 30), min_size=1),
)
@example(CALLS[1], [1])
@example(CALLS[3], [1])
def test_nothing_is_forced_that_a_reply_can_do_without(text: str, sizes: list[int]) -> None:
    split(text, grammar_of(FORM, SAID), sizes)


def decoded(parts: list[tuple[bool, str]]) -> list[str]:
    return [piece for is_forced, piece in parts if not is_forced]


def test_a_call_is_decoded_where_it_has_a_choice() -> None:
    parts = split(CALLS[0], grammar_of(FORM, SAID, must_call=True))
    assert parts == snapshot(
        [
            (
                True,
                """\
<tool_call>
{"name":\
""",
            ),
            (False, ' "'),
            (False, "claims"),
            (False, "__"),
            (False, "get"),
            (True, '", "arguments": {"id":'),
            (False, ' "'),
            (False, "claim"),
            (False, "-"),
            (False, "857"),
            (False, '"}}'),
            (
                True,
                """\

</tool_call>\
""",
            ),
        ]
    )
    # The function, the id rather than "?", which id, and no option after it.
    assert decoded(parts) == snapshot(
        [' "', "claims", "__", "get", ' "', "claim", "-", "857", '"}}']
    )


def test_the_word_before_a_choice_is_decoded_with_it() -> None:
    grammar = 'root ::= "it is gre" ( "en" | "y" ) " and {" ( "}" | "1}" )\n'
    parts = split("it is green and {1}", grammar)
    assert parts == snapshot(
        [
            (True, "it is"),
            (False, " green"),
            (True, " and"),
            (False, " {"),
            (False, "1"),
            (True, "}"),
        ]
    )


def test_one_token_decides_a_choice() -> None:
    assert split("red", grammar_of(CHOICES), [1]) == [(False, "r"), (True, "ed")]


def test_the_pending_call_waits_only_for_its_values() -> None:
    pending = ("claims__get", {"id": "?", "deep": True})
    form = CallFormat("tool_use", OPERATIONS, unknown_value="?", pending=pending)
    text = call("claims__get", id="claim-9", deep=True)
    assert decoded(split(text, continuation_grammar(form, SAID))) == snapshot(
        [' "', "claim", "-", "9"]
    )
    unfilled = call("claims__get", id="?", deep=True)
    assert split(unfilled, continuation_grammar(form, Grounds())) == [(True, unfilled)]


def test_the_opening_of_a_sentence_is_forced() -> None:
    ahead = ForcedText(build_introduction("I can help with "))
    assert (ahead.force(), ahead.is_whole) == ("I can help with", False)
    ahead.accept(" claims.")
    assert (ahead.force(), ahead.is_whole) == ("", True)


def test_what_is_short_is_left_to_the_model() -> None:
    ahead = ForcedText('root ::= "a bc " ( "d" | "e" ) "fg"\n')
    assert ahead.force(5) == ""
    assert ahead.force(4) == "a bc"
    ahead.accept(" d")
    assert (ahead.force(10), ahead.is_whole) == ("fg", True)  # it ends the reply


def test_nothing_is_forced_after_what_the_grammar_refuses() -> None:
    ahead = ForcedText('root ::= "abc"\n')
    ahead.accept("x")
    assert (ahead.force(), ahead.is_whole) == ("", False)
    with pytest.raises(ValueError, match="none of the grammar"):
        ahead.write_rest()


def test_a_grammar_with_too_many_ways_forces_nothing() -> None:
    words = " | ".join(f'"{number:05}"' for number in range(2000))
    ahead = ForcedText(f"root ::= ( {words} )\n")
    assert (ahead.force(), ahead.is_whole) == ("", False)
    ahead = ForcedText(f'root ::= "those" ( {words} )\n')
    assert (ahead.force(), ahead.is_whole) == ("", False)
    # Where that comes later, what was forced stays, and the rest can be written.
    ahead = ForcedText(f'root ::= "one of those: " [a-z] ( {words} )\n')
    assert ahead.force() == "one of those:"
    assert Grammar(ahead.write_rest()).accepts(" a01999")
    ahead.accept(" a")
    assert ahead.force() == ""
