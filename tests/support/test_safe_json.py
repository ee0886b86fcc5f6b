"""JSON that others wrote, read as `json` reads it, but in bounded steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.support import safe_json
from orchestrator.support.safe_json import MOST_JSON_LEVELS, MOST_VALUES, TooManyValues, load_json

_CHARACTERS = ["é".encode(), "€".encode(), "😀".encode(), b"\xf0", b"\x9f", b"\x80"]
_TEXTS = st.text(st.sampled_from('a"\\/\b\n\té€😀\ud83d\ude00{}[]:, '), max_size=40)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner),
    max_leaves=20,
)


@pytest.fixture(autouse=True, scope="module")
def all_is_long() -> Any:
    """Every text of some characters counts as long, and parts are short."""
    import re

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safe_json, "LARGE", 0)
        patch.setattr(safe_json, "_LONG", 3)
        few = safe_json._PART.pattern.replace(b"{1,100}", b"{1,2}").replace(b"{0,1000}", b"{0,2}")
        patch.setattr(safe_json, "_PART", re.compile(few, re.DOTALL))
        yield


def check_reading(body: bytes) -> None:
    """It reads what `json` reads of the body as UTF-8, and refuses what that refuses."""
    try:
        expected = json.loads(body.decode())
    except UnicodeDecodeError:
        with pytest.raises(ValueError):
            load_json(body)
    except ValueError:
        with pytest.raises(json.JSONDecodeError):
            load_json(body)
    else:
        assert load_json(body) == expected


@given(_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_it_reads_what_json_reads(value: Any, ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    check_reading(text.encode("utf-8", "surrogatepass"))


_PIECES = st.sampled_from(
    [*(bytes([one]) for one in b'"\\u0dD8aC[]{}:, 1n\n'), b"\\ud83d", b"\\uDe00", *_CHARACTERS]
)


@given(st.lists(_PIECES, max_size=30).map(b"".join))
def test_it_refuses_what_json_refuses(body: bytes) -> None:
    check_reading(body)
    check_reading(b'["%s"]' % body)


def test_long_names_stay_names() -> None:
    text = '{"a long name" : "a long text", "another": ["long texts", "and more"]}'
    assert load_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_of_javascript_are_refused(constant: str) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        load_json(f'["a long text", {constant}]'.encode())


@pytest.mark.parametrize("one", ["[]", '""', "{}", "1", '{"a":1}'])
def test_too_many_values_are_refused(one: str) -> None:
    with pytest.raises(TooManyValues, match="more than 200,000 values"):
        load_json(f"[{','.join([one] * MOST_VALUES)}]".encode())


def test_signs_in_texts_do_not_count() -> None:
    value = [",[{:" * MOST_VALUES]
    assert load_json(json.dumps(value).encode()) == value


def test_texts_without_signs_between_them_are_refused_soon() -> None:
    with pytest.raises(TooManyValues):
        load_json(b'""' * (MOST_VALUES + 2))


def test_a_long_text_may_be_as_deep_as_others() -> None:
    levels = MOST_JSON_LEVELS
    body = b"[" * levels + b'"a long text"' + b"]" * levels
    assert load_json(body) == json.loads(body)


@pytest.mark.parametrize("number", ["-12", "1.5e3", "1e400", "-0.0", "0", "9" * 4000])
def test_numbers_are_those_that_json_reads(number: str) -> None:
    value = load_json(f'[{number}, "a long text"]'.encode())
    assert repr(value) == repr(json.loads(f'[{number}, "a long text"]'))
