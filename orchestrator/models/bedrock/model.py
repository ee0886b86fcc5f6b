"""Models of Amazon Bedrock.

Requests go through Converse and ConverseStream, over connections of this process with botocore's
credentials, signatures and retries (`direct`), or through boto3 itself where a client was
given or something is not covered. Raw-text prompts for text-completion models go through
InvokeModel and boto3. Both are imported at the first request.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed, ResourceNotFound, ValidationError
from orchestrator.message import text_of
from orchestrator.models import _converse as converse
from orchestrator.models._bounds import ModelReplyBounds
from orchestrator.models._encoding import build_interrupted_error, decode_object, encode
from orchestrator.models.base import Model, ModelReply, ModelRequest, Usage, read_token_count
from orchestrator.models.bedrock import text as text_models
from orchestrator.models.bedrock.client import (
    Connection,
    EncodedMessages,
    connect,
    prepare,
    target_of,
)
from orchestrator.models.bedrock.frames import FrameReader
from orchestrator.support.aws import (
    Settings,
    body_of,
    get_safe_message,
    keep_sent_credentials,
    region_of,
    translate_errors,
    use_bounds,
)
from orchestrator.support.logs import get_logger
from orchestrator.support.spelling import find_close

if TYPE_CHECKING:
    from orchestrator.models.bedrock.direct import Service

_LATENCIES = ("standard", "optimized")
_log = get_logger(__name__)


class BedrockModel(Model):
    """A foundation model, inference profile or other model ARN of Amazon Bedrock.

    `topK` has no place in Converse: it is sent to Anthropic and Nova models as their additional
    field, and to no others. `topP` 1 cuts nothing off and is left out beside a temperature, since
    newer Anthropic models refuse both together. Models that take no sampling parameters at all
    say so at the first request, which is then repeated without them, as are all later ones.
    """

    def __init__(
        self,
        model_id: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        client: Any = None,
        max_concurrency: int = 256,
        connect_timeout: float = 10.0,
        read_timeout: float = 300.0,
        max_attempts: int = 5,
        deadline: float = 600.0,
        latency: str = "standard",
        prompt_cache: bool = False,
    ) -> None:
        """Makes the model; nothing is imported, read or sent yet.

        Models with equal options share one boto3 client.

        Args:
            model_id: A model id, an inference profile id, or an ARN.
            region: AWS region; by default the ARN's, else the environment's or profile's.
            profile: Profile of AWS's configuration files.
            endpoint_url: Another address than the region's, for gateways and tests.
            client: A `bedrock-runtime` client to use instead; the other options then do nothing.
            max_concurrency: Connections at once, and threads for asynchronous callers.
            connect_timeout: Seconds to wait for a connection.
            read_timeout: Seconds to wait for the next bytes. botocore's own 60 cut long answers.
            max_attempts: Tries of one request, with botocore's standard retries and backoff.
            deadline: Seconds after which a failed try is not repeated.
            latency: `optimized` has the service answer on faster hardware, where it offers that
                for the model and the region (Bedrock: `performanceConfig`); else `standard`.
            prompt_cache: Whether Bedrock keeps the tools, the system text and the conversation for
                five minutes, where the model can (Bedrock: `cachePoint`). Later requests that
                begin with the same read them for a tenth of the price; writing them costs a
                quarter more with Anthropic's models. `Usage` has both counts.

        Raises:
            ValidationError: There is no such `latency`.
        """
        if latency not in _LATENCIES:
            raise ValidationError(f"latency is {latency!r}; it is 'standard' or 'optimized'")
        self.model_id = model_id
        self._target = target_of(model_id, region or region_of(model_id), profile)
        self._settings = Settings(
            "bedrock-runtime",
            region or region_of(model_id),
            profile,
            endpoint_url,
            max_concurrency,
            connect_timeout,
            read_timeout,
            max_attempts,
            deadline,
            validated=False,
        )
        self._client = client
        self._optimized = latency == "optimized"
        self._cached = converse.find_cached_parts(model_id) if prompt_cache else frozenset()
        self._connection: Connection | None = None
        self._shape = text_models.shape_of(model_id)
        self._refused: frozenset[str] = frozenset()
        self._tools: tuple[Any, str] = ((), "")
        if client is not None:
            prepare(client)

    def complete(self, request: ModelRequest) -> ModelReply:
        """Answers `request`; see `Model.complete`."""
        with translate_errors(self._target):
            if request.raw_text and self._shape is not None:
                return self._complete_text(request, self._shape)
            response = self._converse("converse", request, self._bounds(request, stream=False))
        return self._read(response)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """Answers `request` piece by piece; closing the iterator closes the connection."""
        with translate_errors(self._target):
            if request.raw_text and self._shape is not None:
                yield from self._stream_text(request, self._shape)
                return
            pieces, bounds = converse.Pieces(), self._bounds(request, stream=True)
            events = self._converse("converse_stream", request, bounds)["stream"]
            try:
                with keep_sent_credentials(), _translate_errors(self.model_id):
                    for event in events:
                        text = pieces.take(event)
                        if text:
                            yield text
            finally:
                events.close()
            reply = self._finish(pieces)
        yield reply

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """`complete`, on the event loop itself where boto3 is not needed."""
        service = await self._find_service(request)
        if service is None:
            return await super().acomplete(request)
        with translate_errors(self._target):
            bounds = self._bounds(request, stream=False)
            response = await self._aconverse(service, "converse", request, bounds)
        return self._read(response)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """`stream`, on the event loop itself where boto3 is not needed."""
        service = await self._find_service(request)
        if service is None:
            async with aclosing(super().astream(request)) as items:  # type: ignore[type-var]
                async for item in items:
                    yield item
            return
        with translate_errors(self._target):
            pieces, bounds = converse.Pieces(), self._bounds(request, stream=True)
            response = await self._aconverse(service, "converse_stream", request, bounds)
            body = response["stream"]
            frames = FrameReader(body.request_id)
            try:
                with keep_sent_credentials(), _translate_errors(self.model_id):
                    while data := await body.read():
                        for event in frames.feed(data):
                            text = pieces.take(event)
                            if text:
                                yield text
            finally:
                body.close()
            reply = self._finish(pieces)
        yield reply

    def count(self, request: ModelRequest) -> int:
        """The tokens of a request's prompt, as Bedrock counts them: for some models only."""
        counted: dict[str, Any]
        if request.raw_text and self._shape is not None:
            counted = {"invokeModel": {"body": self._text_members(request, self._shape)["body"]}}
        else:
            members = self._converse_members(request, self._refused)
            members.pop("inferenceConfig", None)
            members.pop("additionalModelResponseFieldPaths", None)
            counted = {"converse": {**members, "messages": list(request.messages)}}
        with translate_errors(self._target):
            bounds = self._bounds(request, stream=False)
            response = self._call("count_tokens", bounds, input=counted)
        with _translate_errors(self.model_id):
            return read_token_count(response["inputTokens"])

    def _read(self, response: Mapping[str, Any]) -> ModelReply:
        with _translate_errors(self.model_id):
            message = response["output"]["message"]
            return ModelReply(
                converse.reply_content(message.get("content", ())),
                response.get("stopReason", "end_turn"),
                converse.usage_of(response.get("usage", {})),
                converse.stop_sequence_of(response),
            )

    def _finish(self, pieces: converse.Pieces) -> ModelReply:
        if not pieces.stop_reason:
            raise build_interrupted_error(self.model_id)
        with _translate_errors(self.model_id):
            return pieces.reply()

    def _bounds(self, request: ModelRequest, *, stream: bool) -> ModelReplyBounds:
        return ModelReplyBounds(self.model_id, request, stream=stream)

    def _executor(self) -> Executor:
        return super()._executor() if self._client is not None else self._get_connection().workers

    def _get_connection(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._settings, self._target)
        return self._connection

    def _get_service(self) -> Service | None:
        if self._client is not None:
            return None
        service = self._get_connection().service
        return None if service is None or service.is_bypassed() else service

    async def _find_service(self, request: ModelRequest) -> Service | None:
        if self._client is not None or (request.raw_text and self._shape is not None):
            return None
        if self._connection is None:
            # Reading AWS's descriptions of its services takes a while, and credentials may be
            # asked for.
            import asyncio

            loop = asyncio.get_running_loop()
            with translate_errors(self._target):
                await loop.run_in_executor(super()._executor(), self._get_connection)
        return self._get_service()

    def _call(self, operation: str, bounds: ModelReplyBounds, **members: Any) -> Any:
        client = self._client if self._client is not None else self._get_connection().client
        with _translate_errors(self.model_id), use_bounds(bounds):
            return getattr(client, operation)(modelId=self.model_id, **members)

    # Converse

    def _converse(self, operation: str, request: ModelRequest, bounds: ModelReplyBounds) -> Any:
        from botocore.exceptions import ClientError

        service = self._get_service()
        while True:
            refused = self._refused
            members = self._encode_members(request, refused)
            try:
                if service is None:
                    return self._call(operation, bounds, **members)
                with _translate_errors(self.model_id):
                    body = members["messages"].to_bytes()
                    return service.call(operation, self.model_id, body, bounds)
            except ClientError as error:
                if not self._leave_out(error, refused):
                    raise

    async def _aconverse(
        self, service: Service, operation: str, request: ModelRequest, bounds: ModelReplyBounds
    ) -> Any:
        from botocore.exceptions import ClientError

        while True:
            refused = self._refused
            members = self._encode_members(request, refused)
            try:
                with _translate_errors(self.model_id):
                    body = members["messages"].to_bytes()
                    return await service.acall(operation, self.model_id, body, bounds)
            except ClientError as error:
                if not self._leave_out(error, refused):
                    raise

    def _leave_out(self, error: Any, refused: frozenset[str]) -> bool:
        # Whether a refusal names parameters that are left out from now on.
        found = _find_refused_parameters(error) - refused
        if not self._cached:
            found -= {_CACHE_POINTS}
        if found:
            self._refused |= found
            _log.info("%s takes no %s", self.model_id, ", ".join(sorted(found)))
        return bool(found)

    def _converse_members(self, request: ModelRequest, refused: frozenset[str]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if request.system.strip():
            members["system"] = [{"text": request.system}]
        inference, additional = _parameters(self.model_id, request, refused)
        if inference:
            members["inferenceConfig"] = inference
        if additional:
            members["additionalModelRequestFields"] = additional
        if "anthropic." in self.model_id and inference.get("stopSequences"):
            members["additionalModelResponseFieldPaths"] = ["/stop_sequence"]  # for traces
        if request.tools:
            members["toolConfig"] = {"tools": request.tools}
            if request.tool_choice:
                members["toolConfig"]["toolChoice"] = request.tool_choice
        return members

    def _encode_members(self, request: ModelRequest, refused: frozenset[str]) -> dict[str, Any]:
        members = self._converse_members(request, refused)
        if self._optimized:
            members["performanceConfig"] = {"latency": "optimized"}
        cached = frozenset() if _CACHE_POINTS in refused else self._cached
        if "system" in cached and "system" in members:
            members["system"].append(converse.CACHE_POINT)
        plain = encode({name: it for name, it in members.items() if name != "toolConfig"})[1:-1]
        encoded = [plain] if plain else []
        if request.tools:
            tools = self._encode_tools(request.tools)
            if "toolConfig" in cached:
                tools = converse.add_cache_point(tools)
            if request.tool_choice:
                tools = f'{tools[:-1]},"toolChoice":{encode(request.tool_choice)}}}'
            encoded.append(f'"toolConfig":{tools}')
        messages = converse.encode_messages(request.messages, cached="messages" in cached)
        encoded.append(f'"messages":{messages}')
        members["messages"] = EncodedMessages(request.messages, f"{{{','.join(encoded)}}}")
        return members

    def _encode_tools(self, tools: Sequence[Mapping[str, Any]]) -> str:
        cached, text = self._tools
        if cached is not tools:
            text = converse.encode_tools(tools)
            self._tools = (tools, text)
        return text

    # Text completion

    def _text_members(self, request: ModelRequest, shape: text_models.TextShape) -> dict[str, Any]:
        prompt = "".join(text_of(message["content"]) for message in request.messages)
        body = encode({**request.additional, **shape.body(prompt, request.inference)})
        members = {"body": body.encode("utf-8", "replace")}
        return {**members, "performanceConfigLatency": "optimized"} if self._optimized else members

    def _complete_text(self, request: ModelRequest, shape: text_models.TextShape) -> ModelReply:
        bounds = self._bounds(request, stream=False)
        response = self._call("invoke_model", bounds, **self._text_members(request, shape))
        with _translate_errors(self.model_id):
            reply = shape.read(decode_object(body_of(response["body"], request.reply_bytes)))
            headers = response["ResponseMetadata"]["HTTPHeaders"]
            usage = Usage(
                read_token_count(int(headers.get("x-amzn-bedrock-input-token-count", 0))),
                read_token_count(int(headers.get("x-amzn-bedrock-output-token-count", 0))),
                calls=1,
            )
            return ModelReply([{"text": reply.text}], reply.stop_reason or "end_turn", usage)

    def _stream_text(
        self, request: ModelRequest, shape: text_models.TextShape
    ) -> Iterator[str | ModelReply]:
        members = self._text_members(request, shape)
        bounds = self._bounds(request, stream=True)
        events = self._call("invoke_model_with_response_stream", bounds, **members)["body"]
        texts: list[str] = []
        stop_reason, usage = "", Usage(calls=1)
        try:
            with keep_sent_credentials(), _translate_errors(self.model_id):
                for event in events:
                    chunk = decode_object(event["chunk"]["bytes"])
                    piece = shape.read(chunk)
                    stop_reason = piece.stop_reason or stop_reason
                    usage = text_models.metrics_of(chunk) or usage
                    texts.append(piece.text)
                    if piece.text:
                        yield piece.text
        finally:
            events.close()
        if not stop_reason:
            raise build_interrupted_error(self.model_id)
        yield ModelReply([{"text": "".join(texts)}], stop_reason, usage)


@contextmanager
def _translate_errors(model_id: str) -> Iterator[None]:
    # The code here and botocore trust the shape of answers; gateways may send others.
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except (
        *(AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError),
        RecursionError,  # botocore's own reading of deep JSON
    ) as error:
        if isinstance(error, BotoCoreError):
            raise
        raise DependencyFailed(
            f"the model {model_id!r} answered with something that is no answer of Bedrock's API; "
            "check the endpoint",
            resource=model_id,
        ) from None


_CACHE_POINTS = "cache points"
_SAMPLING = frozenset({"temperature", "topP", "topK"})
_NAMES = {
    "maximumLength": "maxTokens",
    "temperature": "temperature",
    "topP": "topP",
    "stopSequences": "stopSequences",
}


def _parameters(
    model_id: str, request: ModelRequest, refused: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    # `inferenceConfig` and `additionalModelRequestFields`: Converse knows no topK (AWS: "Inference
    # request parameters and response fields for foundation models").
    values, additional = request.inference, dict(request.additional)
    anthropic = "anthropic." in model_id
    thinking = additional.get("thinking") or additional.get("reasoning_config") or {}
    if anthropic and thinking.get("type", "disabled") != "disabled":
        refused = _SAMPLING  # Anthropic: thinking goes with none of them
    inference = {
        name: values[ours]
        for ours, name in _NAMES.items()
        if ours not in refused and values.get(ours) not in (None, [], ())
    }
    if not inference.get("maxTokens", 1):
        del inference["maxTokens"]
    if anthropic and inference.get("topP") == 1 and "temperature" in inference:
        del inference["topP"]
    top_k = values.get("topK")
    if top_k is not None and "topK" not in refused:
        if anthropic:
            additional.setdefault("top_k", top_k)
        elif "amazon.nova" in model_id:
            own = additional.get("inferenceConfig", {})
            additional["inferenceConfig"] = {"topK": top_k, **own}
    return inference, additional


_UNKNOWN_PARAMETER = re.compile(
    r"(?:temperature|top_?[pk])\W{1,3}(?:is|are) (?:deprecated|not supported)", re.IGNORECASE
)


def _find_refused_parameters(error: Any) -> frozenset[str]:
    """The inference parameters that a refusal of Bedrock says to leave out."""
    text = get_safe_message(error)
    if "prompt caching" in text or "cachePoint" in text:
        return frozenset({_CACHE_POINTS})
    if "cannot both be specified" in text:
        return frozenset({"topP"})
    return _SAMPLING if _UNKNOWN_PARAMETER.search(text) else frozenset()


_VENDORS = (
    *("ai21", "amazon", "anthropic", "cohere", "deepseek", "google", "luma", "meta", "minimax"),
    *("mistral", "moonshot", "nvidia", "openai", "qwen", "stability", "twelvelabs", "writer"),
)
_MODEL_ID = re.compile(
    r"(?:(?P<area>us|us-gov|eu|apac|jp|au|ca|sa|me|af|il|mx|global)\.)?"
    # No vendor's models are called like "4.1" or "gguf": those are names of other providers.
    r"(?P<vendor>[a-z0-9-]+)\.(?!gguf$|jsonl$)[a-zA-Z][a-zA-Z0-9.:_-]*"
)
_ARN = re.compile(r"arn:aws[a-z-]*:(?:bedrock|sagemaker):[a-z0-9-]*:[0-9]*:\S+")


def build_model(spec: str, folder: Path) -> BedrockModel | None:
    """The model of a model id, inference profile id or ARN; `None` for other texts.

    An unknown vendor is accepted, because Bedrock gets new ones; a misspelt one is not.

    Raises:
        ResourceNotFound: The vendor is misspelt.
    """
    if _ARN.fullmatch(spec):
        return BedrockModel(spec)
    match = _MODEL_ID.fullmatch(spec)
    if match is None:
        return None
    vendor = match["vendor"]
    close = find_close(vendor, _VENDORS, 0.8)
    if vendor not in _VENDORS and close:
        meant = spec.replace(vendor, close, 1)
        raise ResourceNotFound(f"there is no model {spec!r}: did you mean {meant!r}?")
    return BedrockModel(spec)
