"""However a reply is cut while it streams, it means the same."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming_differences import check, choose_parser, reply, run, ways_to_cut

from orchestrator import parsers


@given(seed=st.integers(0, 10**9))
def test_a_reply_that_streams_means_what_it_means_whole(seed: int) -> None:
    for number in range(20):
        rng = random.Random(seed + number)
        text = reply(rng)
        stage, name = choose_parser(rng)
        assert check(text, stage, name, ways_to_cut(text, rng)) == [], (stage, name, text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(4))
def test_many_replies_that_stream_mean_what_they_mean_whole(seed: int) -> None:
    assert run(seed, 10_000).examples == []


HARD = [
    '<function_call>mail::note(text=<invoke name="mail::wipe">)</function_call>',
    '<fnCall><invoke name="g::f"><a x="1">\'</a></invoke></fnCall>',
    f'<function_call {"x" * 255}=">g::f(a="1")</function_call>',
    f'<function_call>g::f(a=<b {"=" * 256}"c", d="</function_call>")',
    "<function_call>g::f(\n )<function_call>g::f2()</function_call>",
    "<function_calls><invoke><tool_name>g::f</tool_name><a>]]><![CDATA[</invoke>]]]></a></invoke>",
    "<answer>a <function_calls> <invoke",
    '<invoke name="g::f">{"a": "</invoke>", \'b\': "\\""}</invoke>',
    "<__function=g__f ><__parameter=a>]</__parameter><__parameter=b",
]


@pytest.mark.parametrize("text", HARD)
@pytest.mark.parametrize("name", parsers.NAMES)
def test_every_two_cuts_of_hard_replies_give_the_same(text: str, name: str) -> None:
    size = len(text)
    edges = ((0, one, two, size) for one in range(size) for two in (one, one + 1, one + 5))
    cuts = ([text[start:end] for start, end in pairwise(one)] for one in edges)
    assert check(text, "ORCHESTRATION", name, cuts) == []
