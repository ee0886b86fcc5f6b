"""A supervisor's guardrail reads what the user is shown, also when another agent has written it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from guarded_support import BLOCKED, MASK, SECRET, Watching, kinds, prompt_texts, sound
from whole_agents import BOTH, INSTRUCTION, Family, answer, live_parts, streamed

from orchestrator import Agent, Collaborator
from orchestrator.testing import ScriptedModel


def shown(events: list[Any]) -> str:
    return "".join(event.text for event in events if type(event).__name__ == "TextDelta")


def routed(family: Family, said: str, chunk: int, inner: Any = None) -> Agent:
    member = Agent(
        "payroll", INSTRUCTION, ScriptedModel([answer(said)], family.model_id, chunk=chunk),
        guardrail=inner,
    )  # fmt: skip
    return Agent(
        "boss",
        "You lead.",
        family.model(["<a>payroll</a>"]),
        collaborators=[Collaborator(member, "Knows payments.")],
        collaboration="SUPERVISOR_ROUTER",
        guardrail=Watching(),
    )


@BOTH
@pytest.mark.parametrize("chunk", [1, 6, 40])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        (f"Soon. {SECRET} knows. " * 8, (f"Soon. {MASK} knows. " * 8).strip()),
        ("Soon. " * 30 + "A bomb.", BLOCKED),
    ],
)
def test_a_routed_answer_streams_as_it_may_be_read(
    family: Family, chunk: int, said: str, text: str
) -> None:
    events, error = streamed(routed(family, said, chunk), "Who knows?", "s-1")
    assert error is None
    assert events[-1].reply.text == text
    assert SECRET not in shown(events) and "bomb" not in shown(events)
    assert shown(events).endswith(text)
    assert kinds(live_parts(events)) == kinds(sound(events[-1].reply))

    async def in_a_task() -> list[Any]:
        subject = routed(family, said, chunk)
        return [event async for event in subject.astream("Who knows?", "s-1")]

    told = shown(asyncio.run(in_a_task()))
    assert SECRET not in told and "bomb" not in told and told.endswith(text)


@BOTH
def test_both_guardrails_read_a_routed_answer(family: Family) -> None:
    inner = Watching()
    events, error = streamed(routed(family, f"Ask {SECRET}.", 3, inner), "Who?", "s-1")
    assert error is None
    assert (shown(events), inner.asked[0]) == (f"Ask {MASK}.", ("Who?", "INPUT"))


@BOTH
def test_what_a_team_s_guardrail_masked_is_masked_for_the_team(family: Family) -> None:
    member_model = family.model([answer("Paid.")])
    member = Agent("payroll", INSTRUCTION, member_model)
    sends = ("AgentCommunication::sendMessage", {"recipient": "payroll", "content": "Paid?"})
    model = family.model([answer("Noted."), family.calls(sends), answer("Yes.")])
    subject = Agent(
        "boss",
        "You lead.",
        model,
        collaborators=[Collaborator(member, "Pays.", relay_conversation_history=True)],
        guardrail=Watching(),
    )
    subject.invoke(f"I am {SECRET}", "s-1")
    subject.invoke("Am I paid?", "s-1")
    assert SECRET not in prompt_texts(member_model) and MASK in prompt_texts(member_model)
