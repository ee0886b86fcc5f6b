"""Attack 16: a few bytes in a team's messages that stand for very many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_agents import NATIVE, answer

from orchestrator import Agent, Collaborator, Limits
from orchestrator.engine.payloads import Payloads, ReadableStream, expand_payloads, readable
from orchestrator.testing import ScriptedModel

MOST = Limits().result_bytes
SHARE = '<br:share_payload id="p"/>'


def send(*messages: str) -> Any:
    name = "AgentCommunication__sendMessage"
    return NATIVE.calls(*((name, {"recipient": "c", "content": text}) for text in messages))


def team(payload: str, *script: Any) -> tuple[Agent, ScriptedModel, ScriptedModel]:
    told = f'<br:payload id="p">{payload}</br:payload>'
    below = NATIVE.model([answer(told), *[answer("ok")] * 9])
    boss = NATIVE.model([send("make"), *script])
    agent = Agent("b", "x", boss, collaborators=[Collaborator(Agent("c", "x", below), "It.")])
    return agent, boss, below


@pytest.mark.parametrize("many", [2, 3000])
def test_a_message_that_would_grow_is_sent_back(many: int) -> None:
    agent, boss, below = team("x" * (MOST - 9), send("See " + SHARE * many), send("See " + SHARE),
                              answer("Done."))  # fmt: skip
    assert agent.invoke("Go!", "s-1").text == "Done."
    assert "'error'" in str(boss.requests[2].messages[-1])
    assert f"more than {MOST} bytes. Refer to fewer" in boss.requests[2].messages[-1].json_text
    assert below.requests[1].messages[-1]["content"][0]["text"] == "See " + "x" * (MOST - 9)
    assert max(len(str(one.messages)) for one in below.requests) < 3 * MOST


@pytest.mark.parametrize("payload", ["x" * (MOST + 1), "\u00e4" * (MOST // 2 + 1)])
def test_a_payload_that_is_too_long_is_not_shared(payload: str) -> None:
    agent, boss, _ = team(payload, answer(SHARE))
    assert agent.invoke("Go!", "s-1").text == SHARE
    assert "payload 'p' is too long to be shared." in boss.requests[1].messages[-1].json_text


def test_an_answer_does_not_grow_either() -> None:
    agent, _, _ = team("x" * 150_000, answer(SHARE * 3000))
    assert agent.invoke("Go!", "s-1").text == "x" * 150_000 + SHARE * 2999


def test_messages_that_no_limit_allows_are_not_made_first() -> None:
    agent, _, below = team("x" * 150_000, send(*[SHARE] * 3000))
    with pytest.raises(Exception, match="limit of 50 action calls"):
        agent.invoke("Go!", "s-1")
    assert len(below.requests) == 1


def test_only_so_many_payloads_are_kept() -> None:
    kept = Payloads(100)
    text = "".join(f'<br:payload id="{n}">{n}</br:payload>' for n in range(500))
    notes = kept.take(text, "a").split("\n")
    assert (kept.get("99"), kept.get("100"), len(notes)) == ("99", None, 100)
    assert notes[0] == "The payload '100' is one too many to be shared."
    assert kept.take('<br:payload id="7">new</br:payload>', "a") == ""
    assert kept.get("7") == "new"


TAGS = [SHARE, '<br:share_payload id="q"/>', "<br:payload id='x'>", "</br:payload>", "<b"]
texts = st.lists(st.sampled_from(TAGS) | st.text(max_size=4), max_size=12).map("".join)


@given(texts, st.integers(0, 30), st.integers(1, 9), st.booleans())
def test_a_stream_has_the_same_bound(text: str, most: int, step: int, tags: bool) -> None:
    payloads = Payloads(most)
    payloads.take(
        '<br:payload id="p">12345</br:payload><br:payload id="q">\u00e41</br:payload>', "a"
    )
    whole = (expand_payloads if tags else readable)(text, payloads)
    stream = ReadableStream(payloads, tags=tags)
    pieces = [stream.feed(text[at : at + step]) for at in range(0, len(text), step)]
    assert "".join(pieces) + stream.finish() == whole
    assert len(whole) <= len(text) + most
