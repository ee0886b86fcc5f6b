"""The trace of a team's turn: its order, its depth, its names; by all four ways of asking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore_shapes import parsed_by_botocore, problems
from crew import ANSWER, BOOKED, ONE_AT_A_TIME, PLAN, QUESTION, crew
from trace_lines import find_problems, trace_lines

from orchestrator import Agent, Reply, TextDelta, TracePart, TurnEnd

Part = dict[str, Any]


def invoked(agent: Agent, **asked: Any) -> tuple[list[Part], Reply]:
    reply = agent.invoke(**asked)
    return reply.trace, reply


def ainvoked(agent: Agent, **asked: Any) -> tuple[list[Part], Reply]:
    reply = asyncio.run(agent.ainvoke(**asked))
    return reply.trace, reply


def of_events(events: list[Any]) -> tuple[list[Part], Reply]:
    assert isinstance(events[-1], TurnEnd)
    return [it.part for it in events if isinstance(it, TracePart)], events[-1].reply


def streamed(agent: Agent, **asked: Any) -> tuple[list[Part], Reply]:
    return of_events(list(agent.stream(**asked)))


def astreamed(agent: Agent, **asked: Any) -> tuple[list[Part], Reply]:
    async def events() -> list[Any]:
        return [event async for event in agent.astream(**asked)]

    return of_events(asyncio.run(events()))


WAYS = pytest.mark.parametrize("way", [invoked, ainvoked, streamed, astreamed])
Way = Callable[..., tuple[list[Part], Reply]]

FIRST = [
    "1 boss 0 modelInvocationInput ORCHESTRATION",
    "1 boss 0 modelInvocationOutput",
    "1 boss 0 rationale",
    "1 boss 0 invocationInput AGENT_COLLABORATOR claims:TEXT:A pipe burst. Open a claim.",
    "1 boss 0 invocationInput AGENT_COLLABORATOR billing:TEXT:Credit the customer 40.",
    "2 claims 0 modelInvocationInput ORCHESTRATION",
    "2 claims 0 modelInvocationOutput",
    "2 claims 0 rationale",
    "2 claims 0 invocationInput ACTION_GROUP LAMBDA:open_claim",
    "2 claims 0 observation ACTION_GROUP open_claim done for claims",
    "2 claims 1 modelInvocationInput ORCHESTRATION",
    "2 claims 1 modelInvocationOutput",
    "2 claims 1 observation FINISH Claim C-1 is open.",
    "1 boss 0 observation AGENT_COLLABORATOR claims:TEXT:Claim C-1 is open.",
    "2 billing 0 modelInvocationInput ORCHESTRATION",
    "2 billing 0 modelInvocationOutput",
    "2 billing 0 rationale",
    "2 billing 0 invocationInput ACTION_GROUP LAMBDA:credit",
    "2 billing 0 observation ACTION_GROUP credit done for billing",
    "2 billing 1 modelInvocationInput ORCHESTRATION",
    "2 billing 1 modelInvocationOutput",
    "2 billing 1 observation FINISH Credited 40.",
    "1 boss 0 observation AGENT_COLLABORATOR billing:TEXT:Credited 40.",
    "1 boss 1 modelInvocationInput ORCHESTRATION",
    "1 boss 1 modelInvocationOutput",
    "1 boss 1 rationale",
    "1 boss 1 invocationInput AGENT_COLLABORATOR visits:TEXT:Send a plumber on Monday.",
    "2 visits 0 modelInvocationInput ORCHESTRATION",
    "2 visits 0 modelInvocationOutput",
    "2 visits 0 rationale",
    "2 visits 0 invocationInput ACTION_GROUP RETURN_CONTROL:book",
    "1 boss 1 observation AGENT_COLLABORATOR visits:RETURN_CONTROL:",
]
SECOND = [
    "1 boss 1 invocationInput AGENT_COLLABORATOR visits:RETURN_CONTROL:",
    "2 visits 0 observation ACTION_GROUP booked",
    "2 visits 1 modelInvocationInput ORCHESTRATION",
    "2 visits 1 modelInvocationOutput",
    "2 visits 1 observation FINISH A plumber comes on Monday.",
    "1 boss 1 observation AGENT_COLLABORATOR visits:TEXT:A plumber comes on Monday.",
    "1 boss 2 modelInvocationInput ORCHESTRATION",
    "1 boss 2 modelInvocationOutput",
    "1 boss 2 rationale",
    "1 boss 2 invocationInput AGENT_COLLABORATOR claims:TEXT:Note the visit on Monday.",
    "2 claims 0 modelInvocationInput ORCHESTRATION",
    "2 claims 0 modelInvocationOutput",
    "2 claims 0 rationale",
    "2 claims 0 invocationInput ACTION_GROUP LAMBDA:note",
    "2 claims 0 observation ACTION_GROUP note done for claims",
    "2 claims 1 modelInvocationInput ORCHESTRATION",
    "2 claims 1 modelInvocationOutput",
    "2 claims 1 observation FINISH Noted.",
    "1 boss 2 observation AGENT_COLLABORATOR claims:TEXT:Noted.",
    "1 boss 3 modelInvocationInput ORCHESTRATION",
    "1 boss 3 modelInvocationOutput",
    "1 boss 3 rationale",
    f"1 boss 3 observation FINISH {ANSWER}",
]
"""What follows the caller's results; nothing of what it was told before."""


@WAYS
def test_the_order_is_bedrocks_by_every_way_of_asking(way: Way, tmp_path: Path) -> None:
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    trace, reply = way(agent, question=QUESTION, session_id="s-1")
    assert (trace_lines(trace), find_problems(trace)) == (FIRST, [])
    control = reply.return_control
    assert control is not None and reply.stop_reason == "return_control"
    trace, reply = way(agent, session_id="s-1", results=control.answer(BOOKED))
    assert (trace_lines(trace), find_problems(trace)) == (SECOND, [])
    assert (reply.text, reply.stop_reason) == (ANSWER, "end_turn")
    # Read later, the two halves are one, without the hand-over between them.
    (turn,) = agent.turns("s-1")
    assert trace_lines(turn.trace) == [*FIRST[:-1], *SECOND[1:]]


@WAYS
def test_at_the_same_time_nothing_is_told_twice_or_lost(way: Way, tmp_path: Path) -> None:
    agent = crew(tmp_path)
    trace, _ = way(agent, question=QUESTION, session_id="s-1")
    assert sorted(trace_lines(trace)) == sorted(FIRST)
    for who in ("claims", "billing", "visits"):
        own = [line for line in trace_lines(trace) if line.startswith(f"2 {who}")]
        assert own == [line for line in FIRST if line.startswith(f"2 {who}")]
    assert trace_lines(agent.turns("s-1")[0].trace) == FIRST


def test_a_part_says_whose_it_is(tmp_path: Path) -> None:
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    trace = agent.invoke(QUESTION, "s-1").trace
    members = agent.plan.collaborators
    requests: dict[str, set[str]] = {}
    for part in trace:
        name = part.get("collaboratorName", "")
        member = members[name].agent if name else None
        plan = member or agent.plan
        chain = [agent.plan.alias_arn, *([member.alias_arn] if member else [])]
        assert part["callerChain"] == [{"agentAliasArn": arn} for arn in chain]
        assert (part["agentId"], part["agentVersion"]) == (plan.agent_id, "DRAFT")
        assert (part["sessionId"] == "s-1") is (member is None)
        inner = next(iter(part["trace"]["orchestrationTrace"].values()))
        requests.setdefault(name, set()).add(inner["traceId"][:36])
    # Every agent has a request of its own, in a session of its own.
    assert all(len(ids) == 1 for ids in requests.values())
    assert len(set.union(*requests.values())) == len(requests) == 4
    assert len({part["sessionId"] for part in trace}) == 4


def test_the_hand_over_names_the_collaborator_and_its_agent(tmp_path: Path) -> None:
    agent = crew(tmp_path)
    reply = agent.invoke(QUESTION, "s-1")
    visits = agent.plan.collaborators["visits"].agent
    assert reply.return_control is not None and visits is not None
    (handed_over,) = reply.return_control.invocation_inputs
    assert handed_over == {
        "functionInvocationInput": {
            "actionGroup": "calendar",
            "function": "book",
            "parameters": [{"name": "day", "type": "string", "value": "Monday"}],
            "actionInvocationType": "RESULT",
            "agentId": visits.agent_id,
            "collaboratorName": "visits",
        }
    }
    payload = {
        "invocationId": reply.return_control.invocation_id,
        "invocationInputs": [handed_over],
    }
    assert problems(payload, "ReturnControlPayload") == []
    output = reply.trace[-1]["trace"]["orchestrationTrace"]["observation"]
    told_of = output["agentCollaboratorInvocationOutput"]["output"]
    assert told_of == {"type": "RETURN_CONTROL", "returnControlPayload": payload}


def test_boto3_reads_every_part(tmp_path: Path) -> None:
    agent = crew(tmp_path)
    for part in agent.invoke(QUESTION, "s-1").trace:
        read = parsed_by_botocore(part)
        assert read["agentId"] == part["agentId"]
        assert read.get("collaboratorName") == part.get("collaboratorName")


def test_what_the_team_spent_is_counted_once(tmp_path: Path) -> None:
    agent = crew(tmp_path, limits=ONE_AT_A_TIME)
    first = agent.invoke(QUESTION, "s-1")
    control = first.return_control
    assert control is not None
    second = agent.invoke(session_id="s-1", results=control.answer(BOOKED))
    assert (first.usage.calls, second.usage.calls) == (7, 5)
    assert first.usage.input_tokens + second.usage.input_tokens == 12 * 10
    # A reply that is read late says what it said.
    assert (trace_lines(first.trace), trace_lines(second.trace)) == (FIRST, SECOND)


@pytest.mark.parametrize("way", [streamed, astreamed])
def test_only_the_supervisors_words_are_the_answer(way: Way, tmp_path: Path) -> None:
    plan = {**PLAN, "boss": {QUESTION: [[("billing", "Credit.")], "It is credited."]}}
    agent = crew(tmp_path, plan=plan)
    events: list[Any] = []
    if way is streamed:
        events = list(agent.stream(QUESTION, "s-1"))
    else:

        async def gather() -> None:
            events.extend([event async for event in agent.astream(QUESTION, "s-1")])

        asyncio.run(gather())
    assert "".join(it.text for it in events if isinstance(it, TextDelta)) == "It is credited."
