"""Bedrock's client for models, and the short way of a request into its body.

boto3 walks every nested value of a request twice, to validate and to serialise it: 8 ms of CPU for
a history of 200 steps. Here the body is put together from messages that were encoded once
(`Encoded`), and handed over through botocore's events; endpoint, signature, retries and errors stay
botocore's.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

from orchestrator.message import Message
from orchestrator.models._bedrock_frames import Frames
from orchestrator.support.aws import Settings, Target, get_shared_client


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


_workers: dict[Any, ThreadPoolExecutor] = {}
_lock = Lock()


def connect(settings: Settings, target: Target) -> Connection:
    """The shared connection for `settings`, made at the first call.

    Raises:
        AccessDenied: There are no credentials or no region; nothing was sent.
    """
    client = get_shared_client(settings, target, prepare)
    with _lock:
        workers = _workers.get(client)
        if workers is None:
            workers = ThreadPoolExecutor(settings.connections, "orchestrator-bedrock")
            _workers[client] = workers
    return Connection(client, workers)


def target_of(model_id: str) -> Target:
    """A model of Bedrock, as errors describe it."""
    return Target(
        f"the model {model_id!r}",
        model_id,
        "ask for access to the model in the Bedrock console of this region, and allow "
        "bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream",
        "`aws bedrock list-foundation-models` and `list-inference-profiles` name what Bedrock has "
        "in this region",
        "the model 'local'",
    )


def prepare(client: Any) -> None:
    """Lets `client` take `Encoded` messages and read streams faster; twice changes nothing.

    The handlers stand at the events' general names, so that more specific ones, such as those of
    botocore's Stubber, see the request's plain parameters first.
    """
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
