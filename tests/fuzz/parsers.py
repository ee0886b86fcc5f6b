"""Model replies: any text, in any stage, for any parser, cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import strategies as st
from parser_helpers import streamed
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
_REPLIES = st.builds(Reply, TEXTS, STAGES, NAMES, _CUTS)


def _said(told: list[tuple[str, str]]) -> dict[str, str]:
    kinds = (parsers.THINKING, parsers.ANSWER, parsers.CALL)
    return {kind: "".join([piece for one, piece in told if one == kind]) for kind in kinds}


def _streamed_is_whole(reply: Reply) -> None:
    whole = parsers.parse(reply.text, reply.stage, reply.parser)
    told, parsed = streamed(reply.pieces, reply.stage, reply.parser)
    at_once, again = streamed([reply.text] if reply.text else [], reply.stage, reply.parser)
    assert parsed == whole == again
    assert _said(told) == _said(at_once)


def _any_content_is_parsed(given: tuple[Any, str, str]) -> None:
    parsed = parsers.parse(*given)
    json.dumps(parsed.response)
    assert parsed.response["promptType"] == given[1]


def _explained_is_parsed(reply: Reply) -> None:
    told = parsers.explain(reply.text, reply.stage, reply.parser)
    assert "".join(piece["text"] for piece in told["pieces"]) == reply.text
    parsed = parsers.parse(reply.text, reply.stage, reply.parser)
    assert told["response"] == parsed.response


@contextmanager
def opened() -> Iterator[list[Property]]:
    """The properties of all parsers."""
    yield [
        Property("streamed", _REPLIES, _streamed_is_whole),
        Property("content", st.tuples(BLOCKS, STAGES, NAMES), _any_content_is_parsed),
        Property("explained", _REPLIES, _explained_is_parsed),
    ]
