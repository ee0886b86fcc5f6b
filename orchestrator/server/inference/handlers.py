"""The handlers of `bedrock-runtime`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.models import Model, ModelRequest
from orchestrator.models._encoding import encode
from orchestrator.server.inference.bodies import Body, parse_body
from orchestrator.server.inference.conversations import check_conversation
from orchestrator.server.inference.models import Models
from orchestrator.server.inference.requests import build_request
from orchestrator.server.inference.responses import answer, stream_answer
from orchestrator.server.operations import EventStream, Request, StreamEvent

_CONTENT = "application/json"


class Inference:
    """Answers calls of models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def converse(self, request: Request) -> Mapping[str, Any]:
        """A whole reply (Bedrock: Converse)."""
        model = await self._model(request)
        check_conversation(request.params)
        return await answer(model, build_request(request.params, model, request.caller))

    async def converse_stream(self, request: Request) -> EventStream:
        """A reply in pieces (Bedrock: ConverseStream)."""
        model = await self._model(request)
        check_conversation(request.params)
        return EventStream(
            await stream_answer(model, build_request(request.params, model, request.caller))
        )

    async def invoke_model(self, request: Request) -> Mapping[str, Any]:
        """A whole reply in the form of the body (Bedrock: InvokeModel)."""
        model = await self._model(request)
        body, asked = _read_body(request, request.params, model)
        whole = body.whole(await answer(model, asked))
        return {"body": _encode_json(whole), "contentType": _CONTENT}

    async def invoke_model_with_response_stream(self, request: Request) -> EventStream:
        """A reply in pieces of the body's form (Bedrock: InvokeModelWithResponseStream)."""
        model = await self._model(request)
        body, asked = _read_body(request, request.params, model)
        events = _chunks(body, await stream_answer(model, asked))
        await anext(events)
        return EventStream(events, {"contentType": _CONTENT})

    async def count_tokens(self, request: Request) -> Mapping[str, Any]:
        """The tokens of what Converse or InvokeModel would be sent (Bedrock: CountTokens)."""
        model = await self._model(request)
        asked_for = request.params["input"]
        if "invokeModel" in asked_for:
            params = {**asked_for["invokeModel"], "modelId": request.params["modelId"]}
            _, asked = _read_body(request, params, model)
        else:
            asked = build_request(asked_for["converse"], model, request.caller)
        found = await asyncio.to_thread(model.count, asked)
        if found is None:
            raise ValidationError(
                f"the model {request.params['modelId']!r} cannot count tokens without answering; "
                "embedded models and those of Amazon Bedrock can"
            )
        return {"inputTokens": found}

    async def _model(self, request: Request) -> Model:
        # Files and libraries may have to be read.
        find = self._models.model
        return await asyncio.to_thread(find, request.caller, request.params["modelId"])


def _read_body(
    request: Request, params: Mapping[str, Any], model: Model
) -> tuple[Body, ModelRequest]:
    """InvokeModel's body, and what it asks of the model."""
    body = parse_body(params, request.id)
    return body, build_request(body.params, model, request.caller, raw_text=body.raw_text)


def _encode_json(value: Mapping[str, Any]) -> bytes:
    return encode(value).encode("utf-8", "replace")


async def _chunks(
    body: Body, events: AsyncGenerator[StreamEvent, None]
) -> AsyncGenerator[StreamEvent, None]:
    async with aclosing(events):
        # Begun: from here on closing it closes the events.
        yield "", {}
        async for name, members in events:
            for piece in body.pieces(name, members):
                yield "chunk", {"bytes": _encode_json(piece)}
