"""RetrieveAndGenerate: an answer made of what a search finds (Bedrock: agents runtime).

It is the engine's turn of an agent that has one knowledge base and nothing else: the question is
searched for, and the stage KNOWLEDGE_BASE_RESPONSE_GENERATION answers from what was found.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.engine.trace.reply import Event, Reply, TextDelta, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.server.operations import EventStream, Handler, Request
from orchestrator.server.runtime.events import Told, convert_citations, start_stream
from orchestrator.server.runtime.generation_agents import GenerationAgents
from orchestrator.server.runtime.turns import run_blocking

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState

_INTERVENED = "INTERVENED"


def operations_of_generation(world: ServerState) -> dict[str, Handler]:
    """RetrieveAndGenerate and RetrieveAndGenerateStream."""
    answering = GenerationAgents(world)
    return {
        "RetrieveAndGenerate": partial(_answer, answering),
        "RetrieveAndGenerateStream": partial(_stream, answering),
    }


async def _answer(answering: GenerationAgents, request: Request) -> Mapping[str, Any]:
    agent, question, session_id = await run_blocking(_begin, answering, request)
    reply = await agent.ainvoke(question, session_id)
    told = {"output": {"text": reply.text}, "citations": convert_citations(reply)}
    action = _guardrail_action(agent, reply)
    return {"sessionId": session_id, **told, **({"guardrailAction": action} if action else {})}


async def _stream(answering: GenerationAgents, request: Request) -> EventStream:
    agent, question, session_id = await run_blocking(_begin, answering, request)
    events = await agent.astart(question, session_id)
    stream = await start_stream(_convert_events(agent, events))
    return EventStream(stream, {"sessionId": session_id})


def _begin(answering: GenerationAgents, request: Request) -> tuple[Agent, str, str]:
    """The agent that answers, what it is asked, and its session.

    Raises:
        ValidationError: The service has issued no such session, or a parameter is wrong.
        OrchestratorError: What the request names is not there.
        Fault: The caller may not use it.
    """
    params = request.params
    agent = answering.agent(request)
    session_id = params.get("sessionId")
    if session_id is None:
        earlier: list[tuple[str, str]] = []
        session_id = str(uuid.uuid4())
    else:
        earlier = _read_history(agent, session_id)
    question = params["input"]["text"]
    if not question.strip():
        raise ValidationError("the input has no text")
    return agent, answering.question(request, question, earlier), session_id


def _read_history(agent: Agent, session_id: str) -> list[tuple[str, str]]:
    """The conversation of a session: questions and answers.

    Raises:
        ValidationError: The caller has no such session: they are issued, and not chosen.
    """
    turns = agent.turns(session_id)
    if not turns:
        raise ValidationError(
            f"Session with Id {session_id} is not valid. Leave sessionId out to begin a session, "
            "and go on with the id that the answer holds."
        )
    begins = max((index for index, turn in enumerate(turns) if turn.new), default=0)
    return [(turn.question, turn.text) for turn in turns[begins:]]


async def _convert_events(
    agent: Agent, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Told, None]:
    async with aclosing(events):
        yield "", {}  # for `started`
        async for event in events:
            if isinstance(event, TextDelta):
                yield "output", {"text": event.text}
            elif isinstance(event, TurnEnd):
                for told in _final_events(agent, event.reply):
                    yield told


def _final_events(agent: Agent, reply: Reply) -> Iterator[Told]:
    for citation in convert_citations(reply):
        yield "citation", {"citation": citation, **citation}
    if action := _guardrail_action(agent, reply):
        yield "guardrail", {"action": action}


def _guardrail_action(agent: Agent, reply: Reply) -> str:
    """Bedrock's `guardrailAction`; empty without a guardrail."""
    if agent.plan.guardrail is None:
        return ""
    actions = [part["trace"].get("guardrailTrace", {}).get("action") for part in reply.trace]
    return _INTERVENED if _INTERVENED in actions else "NONE"
