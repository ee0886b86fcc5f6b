"""RetrieveAndGenerate: an answer made of what a search finds (Bedrock: agents runtime).

It is the engine's turn of an agent that has one knowledge base and nothing else: the question is
searched for, and the stage KNOWLEDGE_BASE_RESPONSE_GENERATION answers from what was found.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from orchestrator.agent.agent import Agent
from orchestrator.agent.source import optimize_model
from orchestrator.engine.plan import SINGLE_KNOWLEDGE_BASE, Features, Override
from orchestrator.engine.trace.reply import Event, Reply, TurnEnd
from orchestrator.errors import ValidationError
from orchestrator.guardrails import Guardrail
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.chunks import Chunking, passages_of
from orchestrator.knowledge.documents import SUFFIXES, Raw, is_document, read_blocks
from orchestrator.models import Model
from orchestrator.models.base import map_inference
from orchestrator.prompts.placeholders import KNOWLEDGE_BASE_RESPONSE_GENERATION
from orchestrator.server.access.permissions import check_retrieval
from orchestrator.server.buckets import read_uri
from orchestrator.server.document_store import digest
from orchestrator.server.ids import now
from orchestrator.server.operations import Caller, EventStream, Handler, Request, StreamEvent
from orchestrator.server.runtime.invoke import (
    convert_citations,
    is_optimized,
    run_blocking,
    start_stream,
)
from orchestrator.server.runtime.query_rewriting import DecomposingKnowledgeBase, Rewriter
from orchestrator.server.runtime.retrieve import find_guardrail
from orchestrator.support.lru_cache import LruCache

if TYPE_CHECKING:
    from orchestrator.knowledge import KnowledgeBase
    from orchestrator.server.agents.build import AgentResources

_INTERVENED = "INTERVENED"


def operations_of_generation(resources: AgentResources) -> dict[str, Handler]:
    """RetrieveAndGenerate and RetrieveAndGenerateStream."""
    answering = GenerationAgents(resources)
    return {
        "RetrieveAndGenerate": partial(_answer, answering),
        "RetrieveAndGenerateStream": partial(_stream, answering),
    }


async def _answer(answering: GenerationAgents, request: Request) -> Mapping[str, Any]:
    agent, question, session_id = await run_blocking(_begin, answering, request)
    reply = await agent.ainvoke(question, session_id)
    result = {"output": {"text": reply.text}, "citations": _cite(reply)}
    action = _guardrail_action(agent, reply)
    return {"sessionId": session_id, **result, **({"guardrailAction": action} if action else {})}


async def _stream(answering: GenerationAgents, request: Request) -> EventStream:
    agent, question, session_id = await run_blocking(_begin, answering, request)
    events = await agent.astart(question, session_id)
    stream = await start_stream(_convert_events(agent, events))
    return EventStream(stream, {"sessionId": session_id})


def _begin(answering: GenerationAgents, request: Request) -> tuple[Agent, str, str]:
    """The agent that answers, what it is asked, and its session."""
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
    """The conversation of a session: questions and answers."""
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
) -> AsyncGenerator[StreamEvent, None]:
    async with aclosing(events):
        # The empty first item is for `start_stream`.
        yield "", {}
        async for event in events:
            # Each part comes before its citation (recorded), and where a part ends, and what it
            # cites, is known when the answer is whole.
            if isinstance(event, TurnEnd):
                for result in _final_events(agent, event.reply):
                    yield result


def _cite(reply: Reply) -> list[dict[str, Any]]:
    """Bedrock's citations; of an answer without sources one of the whole, with none (recorded)."""
    citations = convert_citations(reply)
    if citations or not reply.text:
        return citations
    span = {"start": 0, "end": len(reply.text) - 1}
    part = {"textResponsePart": {"text": reply.text, "span": span}}
    return [{"generatedResponsePart": part, "retrievedReferences": []}]


def _final_events(agent: Agent, reply: Reply) -> Iterator[StreamEvent]:
    shown = 0
    for citation in _cite(reply):
        end = citation["generatedResponsePart"]["textResponsePart"]["span"]["end"] + 1
        yield "output", {"text": reply.text[shown:end]}
        yield "citation", {"citation": citation, **citation}
        shown = end
    if rest := reply.text[shown:]:
        yield "output", {"text": rest}
    if action := _guardrail_action(agent, reply):
        yield "guardrail", {"action": action}


def _guardrail_action(agent: Agent, reply: Reply) -> str:
    """Bedrock's `guardrailAction`; empty without a guardrail."""
    if agent.plan.guardrail is None:
        return ""
    actions = [part["trace"].get("guardrailTrace", {}).get("action") for part in reply.trace]
    return _INTERVENED if _INTERVENED in actions else "NONE"


Data = Mapping[str, Any]

# No agent's id: those have ten letters and digits.
_ID = "RETRIEVE_AND_GENERATE"
_NAME = "retrieve-and-generate"
# Required of an agent; the prompts of this stage do not use it.
_INSTRUCTION = "Answer from what a search has found."
_MOST = 64
_IDLE_SECONDS = 86_400
_FORMAT = (
    "Give the answer in this form, in parts wherever its sources change: <answer><answer_part>"
    "<text>what the user reads</text><sources><source>the id in a search result's source"
    "</source></sources></answer_part></answer>"
)


class GenerationAgents:
    """Agents by what a request says of them, the last ones of them; safe for many threads."""

    def __init__(self, resources: AgentResources) -> None:
        self._resources = resources
        self._kept: LruCache[Agent] = LruCache(_MOST)

    def agent(self, request: Request) -> Agent:
        """The agent that answers a request, for its tenant."""
        kind, configuration = _read_configuration(request.params)
        caller = request.caller
        if kind == "EXTERNAL_SOURCES":
            buckets = self._resources.settings.buckets
            found = [
                it for one in configuration["sources"] for it in _references(buckets, caller, one)
            ]
            return self._build_agent(request, configuration, _SourcesBase(found[:_MOST_PASSAGES]))
        base = self._base(request, configuration)
        template = _read_template(configuration.get("generationConfiguration") or {})
        key = digest([caller.tenant, caller.allow, configuration, template])
        return self._kept.get(key, partial(self._build_agent, request, configuration, base))

    def question(self, request: Request, text: str, earlier: Sequence[tuple[str, str]]) -> str:
        """What is searched for and answered: the user's input, rewritten so that it stands alone.

        A model is asked for that where the session has earlier turns, or the request brings a
        prompt of its own for it (Bedrock: `orchestrationConfiguration`).
        """
        _, configuration = _read_configuration(request.params)
        rewriter = self._build_rewriter(request, configuration)
        if not (earlier or rewriter.has_prompt):
            return text
        generation = configuration.get("generationConfiguration") or {}
        guardrail = self._find_guardrail(request, generation)
        if guardrail is not None:
            verdict = guardrail.check(text, "INPUT")
            # The turn says so itself.
            if verdict.blocked:
                return text
            text = verdict.text if verdict.action == "INTERVENED" else text
        return rewriter.rewrite(text, earlier)

    def _build_rewriter(self, request: Request, configuration: Data) -> Rewriter:
        config = configuration.get("orchestrationConfiguration") or {}
        model = self._model(request, configuration["modelArn"], config)
        template = (config.get("promptTemplate") or {}).get("textPromptTemplate")
        return Rewriter(
            model,
            template,
            _map_inference(config),
            config.get("additionalModelRequestFields") or {},
        )

    def _base(self, request: Request, configuration: Data) -> KnowledgeBase:
        id = configuration["knowledgeBaseId"]
        retrieval = configuration.get("retrievalConfiguration")
        # A missing knowledge base is an error before any model is asked.
        base = self._resources.bases.base(request.caller, id, configuration=retrieval)
        check_retrieval(request.caller, retrieval)
        config = configuration.get("orchestrationConfiguration") or {}
        if not config.get("queryTransformationConfiguration"):
            return base
        return DecomposingKnowledgeBase(base, self._build_rewriter(request, configuration))

    def _find_guardrail(self, request: Request, generation: Data) -> Guardrail | None:
        configuration = generation.get("guardrailConfiguration")
        return find_guardrail(self._resources.guardrails, request.caller, configuration)

    def _model(self, request: Request, model_id: str, config: Data) -> Model:
        model = self._resources.models.model(request.caller, model_id)
        return optimize_model(model) if is_optimized(config) else model

    def _build_agent(self, request: Request, configuration: Data, base: KnowledgeBase) -> Agent:
        generation = configuration.get("generationConfiguration") or {}
        override = Override(
            template=_read_template(generation),
            source="textPromptTemplate",
            inference=_map_inference(generation),
            additional=generation.get("additionalModelRequestFields") or {},
        )
        guardrail = self._find_guardrail(request, generation)
        agent = Agent(
            _NAME,
            _INSTRUCTION,
            self._model(request, configuration["modelArn"], generation),
            knowledge_bases=[base],
            prompts={KNOWLEDGE_BASE_RESPONSE_GENERATION: override},
            sessions=self._resources.sessions,
            limits=self._resources.limits,
            idle_session_ttl=_IDLE_SECONDS,
            agent_id=_ID,
            features=Features(guardrail=guardrail, aws_compat=(SINGLE_KNOWLEDGE_BASE,)),
        )
        return agent.for_tenant(request.caller.tenant)


def _read_configuration(params: Data) -> tuple[str, Data]:
    config = params.get("retrieveAndGenerateConfiguration")
    if not config:
        raise ValidationError("there is no retrieveAndGenerateConfiguration")
    external = config["type"] == "EXTERNAL_SOURCES"
    member = "externalSourcesConfiguration" if external else "knowledgeBaseConfiguration"
    if member not in config:
        raise ValidationError(f"for the type {config['type']!r}, give {member}")
    return config["type"], config[member]


def _read_template(generation: Data) -> str | None:
    text: str | None = (generation.get("promptTemplate") or {}).get("textPromptTemplate")
    if text is None:
        return None
    time = f"{now():%Y-%m-%d %H:%M UTC}"
    return text.replace("$output_format_instructions$", _FORMAT).replace("$current_time$", time)


def _map_inference(config: Data) -> dict[str, Any]:
    return map_inference((config.get("inferenceConfig") or {}).get("textInferenceConfig") or {})


# Documents that come with a question (Bedrock: `externalSourcesConfiguration`)

# Bedrock: ByteContentBlob.
_MOST_SOURCE_BYTES = 10 * 1024 * 1024
_MOST_PASSAGES = 100


class _SourcesBase:
    """All passages of the documents of a request, whatever is asked for; a `KnowledgeBase`."""

    id = "external"
    description = ""

    def __init__(self, references: list[dict[str, Any]]) -> None:
        self._references = references

    def retrieve(self, query: str, configuration: Data | None = None) -> list[dict[str, Any]]:
        """The passages, in the documents' order."""
        return self._references


def _references(
    buckets: Mapping[str, Path], caller: Caller, source: Data
) -> Iterator[dict[str, Any]]:
    kind, place = source["sourceType"], source.get("s3Location")
    if kind == "S3" and place:
        uri = place["uri"]
        content = read_uri(uri, caller, buckets, _MOST_SOURCE_BYTES)
        location: dict[str, Any] = {"type": "S3", "s3Location": {"uri": uri}}
        return _passages(uri, PurePosixPath(uri).suffix.lower(), content, location)
    inline = source.get("byteContent")
    if kind == "BYTE_CONTENT" and inline:
        name, media_type = inline["identifier"], inline["contentType"].partition(";")[0].lower()
        location = {"type": "CUSTOM", "customDocumentLocation": {"id": name}}
        return _passages(name, SUFFIXES.get(media_type, ""), inline["data"], location)
    raise ValidationError(f"a source of the type {kind!r} has to come with its content")


def _passages(name: str, suffix: str, content: bytes, location: Data) -> Iterator[dict[str, Any]]:
    if len(content) > _MOST_SOURCE_BYTES:
        raise ValidationError(f"the document {name!r} has more than {_MOST_SOURCE_BYTES:,} bytes")
    file = f"document{suffix}"
    if not is_document(file):
        raise ValidationError(
            f"the document {name!r} is of no type that is read here: give Markdown, text, HTML or "
            "PDF"
        )
    try:
        blocks = read_blocks(Raw(file, content))
    except Unreadable as error:
        raise ValidationError(f"the document {name!r} cannot be read: {error}") from error
    for passage in passages_of(blocks, Chunking()):
        yield {"content": {"text": passage.whole, "type": "TEXT"}, "location": dict(location)}
