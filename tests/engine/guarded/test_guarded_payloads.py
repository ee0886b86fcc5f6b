"""Agents share what the guardrail let through, and nothing that it did not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from guarded_support import MASK, SECRET, Watching, prompt_texts, sound
from whole_agents import BOTH, INSTRUCTION, Family, answer, streamed

from orchestrator import Agent, Collaborator, Reply
from orchestrator.engine.plan import Features
from orchestrator.testing import ScriptedModel

SHARE = '<br:share_payload id="r"/>'


def sends(to: str, content: str) -> tuple[str, dict[str, str]]:
    return "AgentCommunication::sendMessage", {"recipient": to, "content": content}


def member(name: str, model: ScriptedModel) -> Any:
    return Collaborator(Agent(name, INSTRUCTION, model), f"Knows {name}.").as_member()


def team(family: Family, payload: str) -> tuple[Agent, ScriptedModel]:
    source = family.model([answer(f'Rows: <br:payload id="r">{payload}</br:payload>')])
    reader = family.model([answer("Read.")])
    script = [
        family.calls(sends("source", "Give.")),
        family.calls(sends("reader", f"Use {SHARE}")),
        answer("Done."),
    ]
    features = Features(
        guardrail=Watching(),
        guard_results=True,
        collaborators=[member("source", source), member("reader", reader)],
    )
    return Agent("boss", INSTRUCTION, family.model(script), features=features), reader


def asked(one: Agent) -> Reply:
    return one.invoke("q", "s-1")


def asked_in_a_task(one: Agent) -> Reply:
    return asyncio.run(one.ainvoke("q", "s-1"))


def asked_as_stream(one: Agent) -> Reply:
    events, error = streamed(one, "q", "s-1")
    assert error is None
    reply: Reply = events[-1].reply
    return reply


WAYS = pytest.mark.parametrize("ask", [asked, asked_in_a_task, asked_as_stream])


@BOTH
@WAYS
def test_a_payload_is_shared_as_it_was_masked(
    family: Family, ask: Callable[[Agent], Reply]
) -> None:
    boss, reader = team(family, f"mail {SECRET}")
    assert ask(boss).text == "Done."
    assert SECRET not in prompt_texts(reader)
    assert f"Use mail {MASK}" in prompt_texts(reader)


@BOTH
@WAYS
def test_a_blocked_answer_shares_nothing(family: Family, ask: Callable[[Agent], Reply]) -> None:
    boss, reader = team(family, "a bomb")
    sound(ask(boss))
    assert "bomb" not in prompt_texts(reader)
    assert "share_payload" in prompt_texts(reader)


@BOTH
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_a_shared_secret_is_masked_as_it_streams(family: Family, chunk: int) -> None:
    source = family.model([answer(f'<br:payload id="r">mail {SECRET}</br:payload>')])
    script = [family.calls(sends("source", "Give.")), answer(f"See {SHARE} there.")]
    guardrail = Watching()
    boss = Agent(
        "boss",
        INSTRUCTION,
        ScriptedModel(script, family.model_id, chunk=chunk),
        collaborators=[Collaborator(Agent("source", INSTRUCTION, source), "Knows rows.")],
        guardrail=guardrail,
    )
    events, error = streamed(boss, "q", "s-1")
    shown = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    assert (error, shown) == (None, f"See mail {MASK} there.")
    assert events[-1].reply.text == shown
    # The whole answer was checked once, with what it shares.
    assert [text for text, _ in guardrail.asked].count(f"See mail {SECRET} there.") == 1
