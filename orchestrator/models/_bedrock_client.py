"""Bedrock's client for models: the short ways of a request into its body, and of a stream out.

boto3 walks every nested value of a request twice, to validate and to serialise it: 8 ms of CPU for
a history of 200 steps. Here the body is put together from messages that were encoded once
(`EncodedMessages`), and handed over through botocore's events; endpoint, signature, retries and
errors stay botocore's.

botocore parses every event of a stream against the service model, 14 µs of CPU for each token;
`Frames` checks the same checksums and decodes the JSON. Format: AWS, "Amazon event stream encoding"
(prelude of total length, headers' length and checksum; headers; payload; checksum).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple
from zlib import crc32

from orchestrator.message import Message
from orchestrator.models._encoding import decode
from orchestrator.support.aws import Settings, Target, bound_replies, get_shared_client
from orchestrator.support.aws.failures import LOCAL_MODEL


class Connection(NamedTuple):
    """A client, and threads for asynchronous callers, as many as it has connections."""

    client: Any
    workers: ThreadPoolExecutor


class EncodedMessages(list[Message]):
    """A request's messages, with the whole request's body as JSON text."""

    __slots__ = ("body",)

    def __init__(self, messages: Sequence[Message], body: str) -> None:
        super().__init__(messages)
        self.body = body


_lock = Lock()


def connect(settings: Settings, target: Target) -> Connection:
    """The shared connection for `settings`, made at the first call."""
    client = get_shared_client(settings, target, prepare)
    with _lock:  # a cache alone may make two in two threads
        return Connection(client, _workers(client, settings.connections))


@cache
def _workers(client: Any, connections: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(connections, "orchestrator-bedrock")


def target_of(model_id: str, region: str | None, profile: str | None) -> Target:
    """A model of Bedrock, as errors describe it."""
    return Target(
        f"the model {model_id!r}",
        model_id,
        "ask for access to the model in the Bedrock console of this region, and allow "
        "bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream",
        "`aws bedrock list-foundation-models` and `list-inference-profiles` name what Bedrock has "
        "in this region",
        LOCAL_MODEL,
        region=region,
        profile=profile,
    )


def prepare(client: Any) -> None:
    """Lets `client` take `EncodedMessages`, and read streams faster and within their bounds.

    Twice changes nothing.

    The handlers stand at the events' general names, so that more specific ones, such as those of
    botocore's Stubber, see the request's plain parameters first.
    """
    bound_replies(client)
    events = client.meta.events
    events.register("before-parameter-build", _take_body, unique_id="orchestrator-take-body")
    events.register("before-call", _put_body, unique_id="orchestrator-put-body")
    events.register(
        "before-parse.bedrock-runtime.ConverseStream", _put_stream, unique_id="orchestrator-stream"
    )


def _take_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    body = getattr(params.get("messages"), "body", None)
    if body is not None:
        context["orchestrator_body"] = body
        for name in [name for name in params if name != "modelId"]:
            del params[name]


def _put_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    body = context.pop("orchestrator_body", None)
    if body is not None:
        # Half a surrogate pair has no UTF-8; the model is shown a question mark.
        params["body"] = body.encode("utf-8", "replace")
        params["headers"]["Content-Type"] = "application/json"


def _put_stream(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    if response_dict["status_code"] == 200:
        customized_response_dict["stream"] = Frames(response_dict["body"])


_PRELUDE = Struct(">III")
_CHECKSUM = Struct(">I")
_OVERHEAD = 16
_LONGEST = 24 * 1024 * 1024


class Frames:
    """The events of one response, as `{event type: JSON object}`.

    Raises, while it is read, botocore's `EventStreamError` for an exception in the stream and its
    `ParserError` for bytes that are no events.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        # Headers are the same bytes for every event of a kind.
        self._headers: dict[bytes, tuple[str, Any]] = {}

    def close(self) -> None:
        """Closes the response; the connection too, unless the response was read to its end."""
        self._raw.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        data: bytes | bytearray = b""
        for piece in self._raw.stream():
            data = _join(data, piece) if data else piece
            start = 0
            while (size := _size(data, start)) and start + size <= len(data):
                frame = bytes(data[start : start + size])
                start += size
                yield self._event(frame)
            if start:
                data = data[start:]

    def _event(self, frame: bytes) -> dict[str, Any]:
        length = int.from_bytes(frame[4:8], "big")
        if crc32(frame[:-4]) != _CHECKSUM.unpack(frame[-4:])[0] or length > len(frame) - _OVERHEAD:
            raise _build_error("an event's checksum is wrong")
        head = frame[12 : 12 + length]
        kind, headers = self._headers.get(head) or self._read_headers(head)
        payload = frame[12 + length : -4]
        if not kind:
            raise _exception(headers, payload)
        return {kind: _object(payload)}

    def _read_headers(self, head: bytes) -> tuple[str, Any]:
        from botocore.eventstream import EventStreamHeaderParser

        try:
            headers = EventStreamHeaderParser().parse(head)
        except (ValueError, KeyError, IndexError):
            raise _build_error("an event's headers cannot be read") from None
        kind = headers.get(":event-type", "") if headers.get(":message-type") == "event" else ""
        found = (kind, headers)
        if len(self._headers) < 64:
            self._headers[head] = found
        return found


def _join(data: bytes | bytearray, piece: bytes) -> bytes | bytearray:
    # A frame may come in ever so many pieces; only few are worth a copy of all for each.
    if len(data) > _SMALL and isinstance(data, bytes):
        data = bytearray(data)
    data += piece
    return data


_SMALL = 65_536


def _size(data: bytes | bytearray, start: int) -> int:
    """The size of the frame at `start`; 0 when its prelude has not come whole."""
    if len(data) - start < _PRELUDE.size:
        return 0
    size, _, checksum = _PRELUDE.unpack_from(data, start)
    if crc32(data[start : start + 8]) != checksum or not _OVERHEAD <= size <= _LONGEST:
        raise _build_error("what came is no event")
    return int(size)


def _object(payload: bytes) -> Any:
    try:
        return decode(payload) if payload else {}
    except ValueError:
        raise _build_error("an event's payload is not JSON") from None


def _exception(headers: Any, payload: bytes) -> Exception:
    from botocore.exceptions import EventStreamError

    if headers.get(":message-type") == "exception":
        error = _object(payload)
        text = error.get("message") or error.get("Message") if isinstance(error, dict) else ""
        code = headers.get(":exception-type", "")
    else:
        code, text = headers.get(":error-code", ""), headers.get(":error-message", "")
    return EventStreamError({"Error": {"Code": code, "Message": text or ""}}, "ConverseStream")


def _build_error(what: str) -> Exception:
    from botocore.eventstream import ParserError

    return ParserError(what)
