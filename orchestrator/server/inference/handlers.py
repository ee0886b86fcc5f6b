"""The handlers of `bedrock-runtime`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.models import Model, ModelRequest
from orchestrator.models._encoding import encode
from orchestrator.server.guardrails.store import GuardrailStore
from orchestrator.server.inference.bodies import (
    Body,
    parse_body,
    read_guardrail_config,
    render_guardrail,
)
from orchestrator.server.inference.conversations import check_conversation
from orchestrator.server.inference.guarding import GuardedCall, begin_guarded, stream_blocked
from orchestrator.server.inference.models import Models
from orchestrator.server.inference.requests import build_request
from orchestrator.server.inference.responses import answer, stream_answer
from orchestrator.server.operations import Caller, EventStream, Request, StreamEvent
from orchestrator.server.prompt_management.converse import fill_params
from orchestrator.server.prompt_management.store import PromptStore

_CONTENT = "application/json"


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a model."""

    model: Model
    params: Mapping[str, Any]  # Converse's
    caller: Caller
    guarded: GuardedCall | None = None  # what a guardrail does about it
    raw_text: bool = False  # whether its one message holds the whole prompt

    def build_request(self, params: Mapping[str, Any]) -> ModelRequest:
        """What Converse's parameters ask of the model."""
        return build_request(params, self.model, self.caller, raw_text=self.raw_text)


class Inference:
    """Answers calls of models."""

    def __init__(self, models: Models, prompts: PromptStore, guardrails: GuardrailStore) -> None:
        self._models = models
        self._prompts = prompts
        self._guardrails = guardrails

    async def converse(self, request: Request) -> Mapping[str, Any]:
        """A whole reply (Bedrock: Converse)."""
        return await _answer(await asyncio.to_thread(self._read_params, request))

    async def converse_stream(self, request: Request) -> EventStream:
        """A reply in pieces (Bedrock: ConverseStream)."""
        return EventStream(await _stream(await asyncio.to_thread(self._read_params, request)))

    async def invoke_model(self, request: Request) -> Mapping[str, Any]:
        """A whole reply in the form of the body (Bedrock: InvokeModel)."""
        body, call = await asyncio.to_thread(self._read_body, request)
        output = await _answer(call)
        whole = {**body.whole(output), **render_guardrail(call.guarded, output)}
        return {"body": _encode_json(whole), "contentType": _CONTENT}

    async def invoke_model_with_response_stream(self, request: Request) -> EventStream:
        """A reply in pieces of the body's form (Bedrock: InvokeModelWithResponseStream)."""
        body, call = await asyncio.to_thread(self._read_body, request)
        events = _chunks(body, await _stream(call), call.guarded)
        await anext(events)
        return EventStream(events, {"contentType": _CONTENT})

    async def count_tokens(self, request: Request) -> Mapping[str, Any]:
        """The tokens of what Converse or InvokeModel would be sent (Bedrock: CountTokens)."""
        model = await asyncio.to_thread(self._find_model, request)
        asked_for = request.params["input"]
        if "invokeModel" in asked_for:
            params = {**asked_for["invokeModel"], "modelId": request.params["modelId"]}
            body = parse_body(params, request.id)
            asked = build_request(body.params, model, request.caller, raw_text=body.raw_text)
        else:
            asked = build_request(asked_for["converse"], model, request.caller)
        found = await asyncio.to_thread(model.count, asked)
        if found is None:
            raise ValidationError(
                f"the model {request.params['modelId']!r} cannot count tokens without answering; "
                "embedded models and those of Amazon Bedrock can"
            )
        return {"inputTokens": found}

    # Both block: files and libraries may have to be read.

    def _read_params(self, request: Request) -> _Call:
        """Converse's call, with what a stored prompt says."""
        caller = request.caller
        params = fill_params(self._prompts, caller, request.params)
        check_conversation(params)
        guarded = begin_guarded(self._guardrails, caller, params.pop("guardrailConfig", None))
        return _Call(self._models.model(caller, params["modelId"]), params, caller, guarded)

    def _read_body(self, request: Request) -> tuple[Body, _Call]:
        """InvokeModel's body and its call, under the guardrail that the headers name."""
        caller = request.caller
        model = self._find_model(request)
        body = parse_body(request.params, request.id)
        guarded = begin_guarded(self._guardrails, caller, read_guardrail_config(request.params))
        return body, _Call(model, body.params, caller, guarded, body.raw_text)

    def _find_model(self, request: Request) -> Model:
        model_id = request.params["modelId"]
        if self._prompts.is_own_arn(model_id):
            raise ValidationError(
                f"{model_id!r} is a prompt, which Converse and ConverseStream use"
            )
        return self._models.model(request.caller, model_id)


async def _answer(call: _Call) -> dict[str, Any]:
    """Converse's output, within what a guardrail lets through."""
    if call.guarded is None:
        return await answer(call.model, call.build_request(call.params))
    params, message = await call.guarded.guard_input(call.params)
    request = call.build_request(params)
    if message is not None:
        return call.guarded.block(message)
    return await call.guarded.guard_answer(await answer(call.model, request))


async def _stream(call: _Call) -> AsyncGenerator[StreamEvent, None]:
    """The events of ConverseStream, within what a guardrail lets through; they have begun."""
    if call.guarded is None:
        return await stream_answer(call.model, call.build_request(call.params))
    params, message = await call.guarded.guard_input(call.params)
    request = call.build_request(params)
    if message is not None:
        events = stream_blocked(call.guarded.block(message))
    else:
        events = call.guarded.guard_events(await stream_answer(call.model, request))
    await anext(events)
    return events


def _encode_json(value: Mapping[str, Any]) -> bytes:
    return encode(value).encode("utf-8", "replace")


async def _chunks(
    body: Body, events: AsyncGenerator[StreamEvent, None], guarded: GuardedCall | None
) -> AsyncGenerator[StreamEvent, None]:
    async with aclosing(events):
        # Begun: from here on closing it closes the events.
        yield "", {}
        async for name, members in events:
            pieces = list(body.pieces(name, members))
            if name == "metadata" and pieces:
                pieces[-1] = {**pieces[-1], **render_guardrail(guarded, members)}
            for piece in pieces:
                yield "chunk", {"bytes": _encode_json(piece)}
