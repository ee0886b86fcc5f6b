"""Nothing that a reviewer cannot see may reach a model through a definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.actions import ActionGroup, ReturnControl
from orchestrator.errors import DefinitionError


def describe(text: str) -> str:
    made = ActionGroup(
        "g", functions=[{"name": "f", "description": text}], executor=ReturnControl()
    )
    return made.operations[0].description


@pytest.mark.parametrize(
    "text",
    ["Größe: 5 m²\n\tline", "مقدار می‌خواهم", "नमस्ते क्‍ष", "👩‍👩‍👧 family ❤️", "日本語", "e\u0301"],
)
def test_every_script_and_emoji_may_be_used(text: str) -> None:
    assert describe(text) == text


@pytest.mark.parametrize(
    "hidden",
    [
        *"\x00\x1b\x7f\x85\u00ad\u061c\u200b\u200d\u200e\u202e\u2028\u2060\u2066\u3164",
        *"\ufeff\uffa0\ue000\ud800\U000e0041\U000e0101\U00100000",
        "❤\ufe0f\ufe0f",
        "م\u200c\u200c",
    ],
)
def test_what_cannot_be_seen_is_refused_wherever_it_is(hidden: str) -> None:
    for text in (hidden, f"a{hidden}", f"a{hidden}b"):
        with pytest.raises(DefinitionError, match="invisible character, U"):
            describe(text)


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_printable_ascii_is_never_refused(text: str) -> None:
    assert describe(text) == text
