"""SUPERVISOR_ROUTER: a classifier sends what one agent can see to straight to that agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from crew import SPENT, Actor
from teams import agent, model_of
from trace_lines import find_problems, trace_lines

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    LimitExceeded,
    Limits,
    ReturnControl,
    SQLiteStore,
    TextDelta,
)
from orchestrator.errors import ThrottlingError
from orchestrator.models import ModelReply, ModelRequest

DO = [{"name": "do", "description": "Does it."}]


class Router(Actor):
    """A supervisor's model: `choices` answer its classifier, the plan its loop."""

    def __init__(self, choices: Sequence[str], plan: dict[str, Any]) -> None:
        super().__init__("boss", plan)
        self.choices = list(choices)
        self.classified: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        if request.stage != "ROUTING_CLASSIFIER":
            return super().complete(request)
        self.classified.append(request)
        return ModelReply([{"text": self.choices[len(self.classified) - 1]}], "end_turn", SPENT)

    def prompt(self) -> str:
        """What its classifier was asked last."""
        request = self.classified[-1]
        return str(request.system) + str([message["content"] for message in request.messages])


def team(*choices: str, **options: Any) -> Agent:
    bills = agent(
        "bills",
        {
            "bill": ["Your bill is 12."],
            "whose": [{"user__askuser": {"question": "Which year?"}}],
            "2026": ["It was 40 in 2026."],
            "Pay": [{"till__do": {}}, "It is paid."],
        },
        action_groups=[
            ActionGroup("till", functions=DO, executor=ReturnControl()),
            ActionGroup("UserInput", signature="AMAZON.UserInput"),
        ],
    )
    claims = agent("claims", {"claim": ["The claim is open."], "fails": [ThrottlingError("slow")]})
    plan = {
        "Hello": ["Hello, I am the boss."],
        "both": [[("bills", "Tell the bill."), ("claims", "Tell the claim.")], "Both told."],
    }
    members = [Collaborator(bills, "Bills."), Collaborator(claims, "Claims.")]
    options.setdefault("sessions", None)
    return Agent(
        "boss",
        "You lead.",
        Router(choices, plan),
        collaborators=members,
        collaboration="SUPERVISOR_ROUTER",
        **options,
    )


def router(boss: Agent) -> Router:
    model = model_of(boss)
    assert isinstance(model, Router)
    return model


ROUTED = [
    "1 boss routing-0 routingClassifier.modelInvocationInput ROUTING_CLASSIFIER",
    "1 boss routing-0 routingClassifier.modelInvocationOutput",
    "1 boss routing-0 routingClassifier.invocationInput AGENT_COLLABORATOR "
    "bills:TEXT:What is my bill?",
    "2 bills 0 modelInvocationInput ORCHESTRATION",
    "2 bills 0 modelInvocationOutput",
    "2 bills 0 observation FINISH Your bill is 12.",
    "1 boss routing-0 routingClassifier.observation AGENT_COLLABORATOR bills:TEXT:Your bill is 12.",
    "1 boss routing-0 routingClassifier.observation FINISH Your bill is 12.",
]


def asking(boss: Agent, question: str) -> list[Any]:
    async def gathered() -> list[Any]:
        return [event async for event in boss.astream(question, "s-4")]

    return [
        lambda: boss.invoke(question, "s-1"),
        lambda: asyncio.run(boss.ainvoke(question, "s-2")),
        lambda: list(boss.stream(question, "s-3"))[-1].reply,
        lambda: asyncio.run(gathered())[-1].reply,
    ]


@pytest.mark.parametrize("way", range(4))
def test_the_chosen_agent_answers_the_user_itself(way: int) -> None:
    boss = team("<a>bills</a>")
    reply = asking(boss, "What is my bill?")[way]()
    assert (reply.text, reply.stop_reason) == ("Your bill is 12.", "end_turn")
    assert (trace_lines(reply.trace), find_problems(reply.trace)) == (ROUTED, [])
    assert router(boss).requests == []  # the supervisor's own loop was not needed
    assert "What is my bill?" in router(boss).prompt()


def test_a_stream_tells_the_same_and_the_agents_words_as_they_come() -> None:
    boss = team("<a>bills</a>")
    events = list(boss.stream("What is my bill?", "s-1"))
    assert trace_lines(it.part for it in events if hasattr(it, "part")) == ROUTED
    assert [it.text for it in events if isinstance(it, TextDelta)] == ["Your bill is 12."]
    assert trace_lines(boss.turns("s-1")[0].trace) == ROUTED


@pytest.mark.parametrize(
    "choice",
    [
        "<a>undecidable</a>",
        "<a>nobody</a>",
        "<a>BILLS AND CLAIMS</a>",
        "I would say bills.",
        "",
        "<a>keep_previous_agent</a>",  # there is none yet
        "<a></a>",
        "<a>undecidable",
    ],
)
def test_what_is_no_choice_leaves_it_to_the_supervisor(choice: str) -> None:
    boss = team(choice)
    reply = boss.invoke("Hello!", "s-1")
    assert reply.text == "Hello, I am the boss."
    assert find_problems(reply.trace) == []
    lines = trace_lines(reply.trace)
    assert lines[:3] == [*ROUTED[:2], "1 boss 0 modelInvocationInput ORCHESTRATION"]
    assert lines == trace_lines(boss.turns("s-1")[0].trace)


def test_the_supervisor_may_still_ask_several() -> None:
    boss = team("<a>undecidable</a>")
    reply = boss.invoke("Tell me both.", "s-1")
    assert reply.text == "Both told."
    assert {line.split()[1] for line in trace_lines(reply.trace)} == {"boss", "bills", "claims"}


@pytest.mark.parametrize("restart", [False, True])
def test_an_agent_that_asks_the_user_gets_the_answer(restart: bool, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    boss = team("<a>bills</a>", "<a>keep_previous_agent</a>", sessions=store)
    asks = boss.invoke("And whose is this?", "s-1")
    assert (asks.text, asks.stop_reason) == ("Which year?", "ask_user")
    assert find_problems(asks.trace) == []
    if restart:
        boss = team("<a>keep_previous_agent</a>", sessions=store)
    reply = boss.invoke("2026, I think.", "s-1")
    assert (reply.text, reply.stop_reason) == ("It was 40 in 2026.", "end_turn")
    # The classifier knew who had asked, and the agent what it had asked.
    assert "bills" in router(boss).prompt() and "Which year?" in router(boss).prompt()
    bills = boss.plan.collaborators["bills"].agent
    assert bills is not None
    texts = [
        block["text"]
        for message in bills.orchestration.model.requests[-1].messages  # type: ignore[attr-defined]
        for block in message["content"]
        if "text" in block
    ]
    assert "<answer>Which year?</answer>" in texts and texts.count("2026, I think.") == 1


def test_the_supervisor_knows_what_an_agent_answered_for_it() -> None:
    boss = team("<a>bills</a>", "<a>undecidable</a>")
    boss.invoke("What is my bill?", "s-1")
    boss.invoke("Hello!", "s-1")
    texts = [
        block["text"]
        for message in router(boss).requests[-1].messages
        for block in message["content"]
        if "text" in block
    ]
    assert texts[:2] == ["What is my bill?", "<answer>Your bill is 12.</answer>"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_routed_agent_hands_its_calls_over(restart: bool, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    boss = team("<a>bills</a>", sessions=store)
    first = boss.invoke("Pay it.", "s-1")
    control = first.return_control
    assert control is not None
    (call,) = control.invocation_inputs
    assert call["functionInvocationInput"]["collaboratorName"] == "bills"
    assert trace_lines(first.trace)[-1] == (
        "1 boss routing-0 routingClassifier.observation AGENT_COLLABORATOR bills:RETURN_CONTROL:"
    )
    if restart:
        boss = team(sessions=store)  # its classifier would have nothing to say
    second = boss.invoke(session_id="s-1", results=control.answer("paid"))
    assert second.text == "It is paid."
    assert find_problems(first.trace) == find_problems(second.trace) == []
    lines = trace_lines(second.trace)
    assert lines[0].endswith("AGENT_COLLABORATOR bills:RETURN_CONTROL:")
    assert lines[-1] == "1 boss routing-0 routingClassifier.observation FINISH It is paid."


def test_a_routed_agents_failure_is_the_turns() -> None:
    boss = team("<a>claims</a>")
    with pytest.raises(ThrottlingError, match="slow") as failed:
        boss.invoke("This fails.", "s-1")
    reply = failed.value.reply
    assert reply is not None and find_problems(reply.trace) == []
    lines = trace_lines(reply.trace)
    assert lines[-2:] == ["2 claims failureTrace", "1 boss failureTrace"]
    assert trace_lines(boss.turns("s-1")[0].trace) == lines


def test_the_classifier_spends_of_the_same_budget() -> None:
    boss = team("<a>bills</a>", limits=Limits(model_calls=1))
    with pytest.raises(LimitExceeded):
        boss.invoke("What is my bill?", "s-1")
    bills = boss.plan.collaborators["bills"].agent
    assert bills is not None
    assert bills.orchestration.model.requests == []  # type: ignore[attr-defined]
