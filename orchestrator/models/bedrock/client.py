"""Bedrock's client for models: the short ways of a request into its body, and of a stream out.

boto3 walks every nested value of a request twice, to validate and to serialise it: 8 ms of CPU for
a history of 200 steps. Here the body is put together from messages that were encoded once
(`EncodedMessages`), and handed over through botocore's events; endpoint, signature, retries and
errors stay botocore's.

botocore parses every event of a stream against the service model, 14 µs of CPU for each token;
`Frames` only decodes the JSON.

That is the way through boto3, for a client that was given, and wherever `direct` does not
know all that a client would do. Else a connection has a `Service`, and needs the client no more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.message import Message
from orchestrator.models.bedrock.frames import Frames
from orchestrator.support.aws import Settings, Target, bound_replies, get_shared_client
from orchestrator.support.aws.failures import LOCAL_MODEL
from orchestrator.support.forks import ForkSafeLock

if TYPE_CHECKING:
    from orchestrator.models.bedrock.direct import Service


class Connection(NamedTuple):
    """A client, and threads for asynchronous callers, as many as it has connections."""

    client: Any
    connections: int
    service: Service | None  # the way without the client, where it is known

    @property
    def workers(self) -> ThreadPoolExecutor:
        """The threads, which all connections of the client share."""
        with _lock:  # a cache alone may make two in two threads
            return _workers(self.client, self.connections)


class EncodedMessages(list[Message]):
    """A request's messages, with the whole request's body as JSON text."""

    __slots__ = ("body",)

    def __init__(self, messages: Sequence[Message], body: str) -> None:
        super().__init__(messages)
        self.body = body

    def to_bytes(self) -> bytes:
        """The body as it is sent."""
        # Half a surrogate pair has no UTF-8; the model is shown a question mark.
        return self.body.encode("utf-8", "replace")


_lock = ForkSafeLock()
_services: dict[Any, Service | None] = {}


def connect(settings: Settings, target: Target) -> Connection:
    """The shared connection for `settings`, made at the first call."""
    client = get_shared_client(settings, target, _prepare_own)
    return Connection(client, settings.connections, _services.get(client))


@cache
def _workers(client: Any, connections: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(connections, "orchestrator-bedrock")


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_workers.cache_clear)


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


def _prepare_own(client: Any) -> None:
    from orchestrator.models.bedrock.learn import learn

    prepare(client)
    _services[client] = learn(client)


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
    messages = params.get("messages")
    if isinstance(messages, EncodedMessages):
        context["orchestrator_body"] = messages.to_bytes()
        for name in [name for name in params if name != "modelId"]:
            del params[name]


def _put_body(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    body = context.pop("orchestrator_body", None)
    if body is not None:
        params["body"] = body
        params["headers"]["Content-Type"] = "application/json"


def _put_stream(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    if response_dict["status_code"] == 200:
        request_id = response_dict["headers"].get("x-amzn-requestid", "")
        customized_response_dict["stream"] = Frames(response_dict["body"], request_id)
