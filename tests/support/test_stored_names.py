"""Any name can be kept by a database of another program, and comes back."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.support.stored_names import escape_name, unescape_name

NAMES = st.text(st.characters() | st.sampled_from("\\\0\ud800\udfff0d"), max_size=12)


@given(NAMES, NAMES)
def test_any_name_comes_back_and_a_beginning_stays_one(name: str, rest: str) -> None:
    text = escape_name(name)
    assert unescape_name(text) == name
    assert "\0" not in text and text.encode().decode() == text
    assert escape_name(name + rest).startswith(text)


@given(NAMES, NAMES)
def test_two_names_are_kept_as_two(one: str, other: str) -> None:
    assert (escape_name(one) == escape_name(other)) == (one == other)
