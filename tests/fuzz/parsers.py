"""Model replies: any text, in any stage, for any parser, cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st
from streaming_differences import check, reply
from test_parse_properties import BLOCKS, NAMES, STAGES, TEXTS

from orchestrator import parsers

from .batch import Property


class Reply(NamedTuple):
    """A reply, and where its stream is cut."""

    text: str
    stage: str
    parser: str
    cuts: list[int]

    @property
    def pieces(self) -> list[str]:
        places = [0, *sorted({it for it in self.cuts if it < len(self.text)}), len(self.text)]
        return [self.text[start:end] for start, end in pairwise(places) if start < end]


_CUTS = st.lists(st.integers(1, 300), max_size=12) | st.just(list(range(1, 400)))
# Half of them can be minimised; the others are more varied.
_WRITTEN = st.builds(reply, st.randoms(use_true_random=False) | st.builds(Random, st.integers(0)))
_REPLIES = st.builds(Reply, _WRITTEN | TEXTS, STAGES, NAMES, _CUTS)


def _streamed_is_whole(given: Reply) -> None:
    assert check(given.text, given.stage, given.parser, iter([given.pieces])) == []


def _any_content_is_parsed(given: tuple[Any, str, str]) -> None:
    parsed = parsers.parse(*given)
    json.dumps(parsed.response)
    assert parsed.response["promptType"] == given[1]


def _explained_is_parsed(given: Reply) -> None:
    told = parsers.explain(given.text, given.stage, given.parser)
    assert "".join(piece["text"] for piece in told["pieces"]) == given.text
    parsed = parsers.parse(given.text, given.stage, given.parser)
    assert told["response"] == parsed.response


@contextmanager
def opened() -> Iterator[list[Property]]:
    """The properties of all parsers."""
    yield [
        Property("streamed", _REPLIES, _streamed_is_whole),
        Property("content", st.tuples(BLOCKS, STAGES, NAMES), _any_content_is_parsed),
        Property("explained", _REPLIES, _explained_is_parsed),
    ]
