"""Good inputs, a little spoilt: most of a mutated input gets far into the code that reads it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

ODD = (
    *("", " ", "\n", "\t", "\r\n", "\0", "\x1b", "\ufeff", "\ud800", "\u202e", "é", "漢", "𝒳"),
    *("{", "}", "[", "]", "(", ")", "<", ">", '"', "'", "`", "\\", "$", "#", "%", "&", "*", "|"),
    *("{{", "}}", "{%", "%}", "<!--", "]]>", "</", "-->", "---\n", "...", "%2e%2e", "../", "://"),
    *("null", "true", "NaN", "1e999", "-0", "9" * 30, "0x10", "1_000", "!!python/object:os", "<<"),
    *("$ref", "__class__", "constructor", "a" * 300, "&a [*a, *a]", "  ", ": ", "- ", ", "),
)
"""Pieces that some reader gives a meaning to."""

LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**31, -(2**63), 10**30, 0.5, 1e300, float("inf"), float("nan")])
    | st.sampled_from(ODD)
    | st.text(max_size=6)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ODD), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def texts(
    draw: st.DrawFn, good: Sequence[str], pieces: Sequence[str] = (), most: int = 100_000
) -> str:
    """One of `good` with up to five places cut out, doubled, moved or overwritten."""
    text = draw(st.sampled_from(good))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from((0, 1, 2, 5, 20, 200))))
        piece = draw(st.sampled_from((*pieces, *ODD)) | st.text(max_size=4) | st.none())
        if piece is None:  # the text's own, from elsewhere, sometimes over and over
            place = draw(st.integers(0, len(text)))
            piece = text[place : place + (end - start or 40)] * draw(st.sampled_from((1, 1, 2, 50)))
        text = (text[:start] + piece + text[end:])[:most]
    return text


@st.composite
def trees(draw: st.DrawFn, good: Sequence[Any], most: int = 4) -> Any:
    """One of `good` with some of its nodes taken out, doubled, renamed or of another type."""
    root = [copy.deepcopy(draw(st.sampled_from(good)))]
    for _ in range(draw(st.integers(0, most))):
        _spoil(draw, *_node(draw, root))
    return root[0]


def _node(draw: st.DrawFn, root: list[Any]) -> tuple[Any, Any]:
    """A container, and the key or index of one of its nodes; at any depth."""
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [root]
    while waiting:
        here = waiting.pop()
        for key in here if isinstance(here, dict) else range(len(here)):
            places.append((here, key))
            if isinstance(here[key], dict | list):
                waiting.append(here[key])
    return draw(st.sampled_from(places)) if len(places) > 1 else (root, 0)


def _spoil(draw: st.DrawFn, here: Any, key: Any) -> None:
    how = draw(st.sampled_from(("replace", "replace", "delete", "rename", "nest", "text")))
    if how == "delete" and isinstance(here, dict):
        del here[key]
    elif how == "rename" and isinstance(here, dict):
        here[draw(st.sampled_from((*ODD, *map(str, here))))] = here.pop(key)
    elif how == "nest":
        here[key] = draw(st.sampled_from(([here[key]], {"a": here[key]}, [here[key]] * 40)))
    elif how == "text" and isinstance(here[key], str):
        here[key] = draw(texts([here[key]]))
    else:
        here[key] = draw(JSON)
