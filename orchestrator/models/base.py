"""The model seam: one request in, one reply out, whole or streamed, sync or async.

A backend writes `complete`; the other three have defaults in `Model`: `stream` yields the whole
reply's text at once, `acomplete` and `astream` run the synchronous ones in a worker thread.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from operator import add
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from orchestrator.errors import DependencyFailed
from orchestrator.limits import REPLY_BYTES
from orchestrator.message import Block, Message, normalise_blocks, text_of

if TYPE_CHECKING:
    from concurrent.futures import Executor, ThreadPoolExecutor


class Usage(NamedTuple):
    """Tokens of one model call, or the sum of several."""

    input_tokens: int = 0  # tokens of the prompts, cached ones not included
    output_tokens: int = 0  # tokens of the replies
    cache_read_tokens: int = 0  # prompt tokens that came from the provider's cache
    cache_write_tokens: int = 0  # prompt tokens that were written to it
    calls: int = 0  # model calls

    @property
    def total_tokens(self) -> int:
        """All tokens together."""
        return self[0] + self[1] + self[2] + self[3]

    def plus(self, other: Usage) -> Usage:
        """The sum of both, member by member."""
        return Usage._make(map(add, self, other))


@dataclass(frozen=True, slots=True)
class OperationFormat:
    """One operation as a model has to write it."""

    name: str  # the tool name in the dialect's grammar: `GET::claims::/claims/{id}`, `hr__get_days`
    schema: Mapping[str, Any]  # JSON Schema (`type: object`) of the parameters, without `$ref`s
    reads: bool = False  # whether a call is known to change nothing
    description: str = ""  # what it does, in its author's words


class Scope(Protocol):
    """Knows what an agent is for."""

    def measure(self, text: str) -> float | None:
        """How much nearer a user's text is to what the agent is not for; `None`: not known."""

    def find_collaborator(self, text: str) -> str:
        """The collaborator whose matter a user's text certainly is; empty if that is not known."""


@dataclass(frozen=True, slots=True)
class CallFormat:
    """What a well-formed reply may look like, for backends that can constrain decoding to it."""

    protocol: str  # `"xml"` or `"tool_use"` (see `orchestrator.prompts.dialects`)
    operations: tuple[OperationFormat, ...]  # the operations that may be called
    ask_user: bool = False  # whether the model may ask the user (`user::askuser`)
    # A text that may stand for a parameter's value that the user did not give; empty when the
    # dialect has none
    unknown_value: str = ""
    excluded: frozenset[str] = frozenset()  # tool names that may not be called in this reply
    choices: tuple[str, ...] = ()  # the only texts that the reply may be; none for any
    picks: tuple[int, int] = (1, 1)  # how many of the choices it has: the fewest, and the most
    separator: str = ","  # what stands between several
    grounded: bool = False  # whether values and answers must stand in the conversation
    # The tool name and arguments of the call that the user was last asked values for
    pending: tuple[str, Mapping[str, Any]] | None = None
    unsaid: tuple[str, ...] = ()  # texts for the model that no user may read
    # Says how far a text is out of the agent's scope, if that is known; see `models/scope.py`
    scope: Scope | None = field(default=None, compare=False)

    def list_allowed(self) -> list[OperationFormat]:
        """The operations that may be called in this reply."""
        return [one for one in self.operations if one.name not in self.excluded]


@dataclass(slots=True)
class ModelRequest:
    """One model call, in Converse's terms."""

    stage: str  # the prompt type: `"ORCHESTRATION"`, `"PRE_PROCESSING"`, ...
    system: str  # the system text; empty when there is none
    # The conversation, alternating, the user first. A last message of role `"assistant"` is a
    # prefill that the reply continues. Not to be changed.
    messages: Sequence[Message]
    # Converse tool specifications (`{"toolSpec": {...}}`) for native tool use; empty when the
    # dialect writes tools into the prompt. The same object for every request of one agent, so that
    # a backend can cache what it makes of it by identity.
    tools: Sequence[Mapping[str, Any]] = ()
    # Bedrock's inference configuration: `maximumLength`, `temperature`, `topP`, `topK`,
    # `stopSequences`; absent members take the model's default
    inference: Mapping[str, Any] = field(default_factory=dict)
    # `additionalModelRequestFields` of the stage, as the provider takes them
    additional: Mapping[str, Any] = field(default_factory=dict)
    # Whether the template is raw text, for text-completion models; the one message then holds the
    # whole prompt
    raw_text: bool = False
    call_format: CallFormat | None = None  # for constrained decoding; `None` without calls
    question: str = ""  # the user's input of this turn, for backends that only classify it
    # Converse's `toolChoice`; `None` leaves the choice to the model
    tool_choice: Mapping[str, Any] | None = None
    # Seconds that are left for the whole reply, retries included; `None` for no limit. What asks
    # over a network, or works piece by piece, raises `LimitExceeded` when they are over. Two
    # requests that differ in nothing else ask the same
    seconds: float | None = field(default=None, compare=False)
    reply_bytes: int = REPLY_BYTES  # the size of the reply; see `Limits.reply_bytes`
    # How many more replies of this stage the turn may ask for; `None` for no limit
    steps_left: int | None = field(default=None, compare=False)


_INFERENCE = {
    "maxTokens": "maximumLength",
    "temperature": "temperature",
    "topP": "topP",
    "topK": "topK",
    "stopSequences": "stopSequences",
}


def map_inference(config: Mapping[str, Any]) -> dict[str, Any]:
    """Converse's `inferenceConfig` as `ModelRequest.inference`, which has other names."""
    return {ours: config[name] for name, ours in _INFERENCE.items() if config.get(name) is not None}


_ONE_CALL = Usage(calls=1)


def read_token_count(value: Any) -> int:
    """A count of tokens that a server reports; 0 for none.

    Raises:
        ValueError: It is no whole number from 0, or larger than any model's. A negative one would
            give a turn back what it has spent.
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        raise ValueError("not a number of tokens")
    return value


_MOST_TOKENS = 1_000_000_000


@dataclass(slots=True)
class ModelReply:
    """One whole reply."""

    content: list[Block]  # Converse content blocks
    # One of Converse's nine stop reasons (`end_turn`, `tool_use`, `max_tokens`, `stop_sequence`,
    # `guardrail_intervened`, `content_filtered`, `malformed_model_output`, `malformed_tool_use`,
    # `model_context_window_exceeded`)
    stop_reason: str = "end_turn"
    usage: Usage = _ONE_CALL  # tokens of this call; `calls` is 1
    stop_sequence: str | None = None  # which stop sequence ended it, if the provider says so

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


@cache
def _workers() -> ThreadPoolExecutor:
    # Not asyncio's default pool: that one has cores + 4 threads, and model calls mostly wait.
    from concurrent.futures import ThreadPoolExecutor  # it brings `logging`

    return ThreadPoolExecutor(max_workers=256, thread_name_prefix="orchestrator-model")


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_workers.cache_clear)


class Model(ABC):
    """A model that answers requests. Subclasses are safe for many threads and tasks at once.

    Attributes:
        model_id: The id that chooses the dialect and appears in traces.
    """

    model_id: str

    @abstractmethod
    def complete(self, request: ModelRequest) -> ModelReply:
        """Answers `request`.

        Raises:
            AccessDenied: There are no credentials, or they are refused.
            ThrottlingError: The model's rate limit was still reached after the retries.
            ResourceNotFound: There is no such model, or no such address.
            ValidationError: The model refuses the request.
            DependencyFailed: The model failed, is not ready, or could not be reached.
            LimitExceeded: The request's `seconds` were over.
        """

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """Yields the reply's text as it comes, piece by piece, and the whole reply at last.

        The pieces are the text blocks' texts in order; tool calls are only in the whole reply.
        Closing the iterator stops the work. A stream that breaks off raises; it never ends
        without the whole reply.
        """
        reply = self.complete(request)
        check_reply(self, reply)
        reply.content = normalise_blocks(reply.content)
        yield reply.text
        yield reply

    def count(self, request: ModelRequest) -> int | None:
        """The tokens of a request's prompt, as the model itself would count them. It may block.

        `None` when it cannot say without answering (Bedrock: CountTokens).

        Raises:
            DependencyFailed: The model failed, or one of its subclasses says why.
        """
        return None

    def _executor(self) -> Executor:
        """The threads that `acomplete` and `astream` run the synchronous methods in."""
        return _workers()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """`complete`, without blocking the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor(), _complete, self, request)

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """`stream`, without blocking the event loop.

        One thread reads the whole stream; when the iterator is closed or its task is cancelled,
        the thread stops at the next piece.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        items: asyncio.Queue[str | ModelReply | BaseException | None] = asyncio.Queue()
        stopped = Event()

        def put(item: str | ModelReply | BaseException | None) -> None:
            # Nobody listens on a closed loop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(items.put_nowait, item)

        reading = self._executor().submit(_pump, self.stream(request), put, stopped)
        try:
            while (item := await items.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            reading.cancel()


def check_reply(model: Model, reply: Any) -> None:
    """Refuses what is no reply, or has members of other types.

    Raises:
        DependencyFailed: It names the model's class, and what was expected.
    """
    if not isinstance(reply, ModelReply):
        wrong, wanted = reply, "ModelReply([{'text': ...}])"
    elif not isinstance(reply.content, list | tuple):
        wrong, wanted = reply.content, "a list of blocks as its content, such as [{'text': ...}]"
    elif not isinstance(reply.usage, tuple):
        wrong, wanted = reply.usage, "Usage(...) as its usage"
    else:
        return
    raise DependencyFailed(
        f"the model {model.model_id!r}, of the class {type(model).__name__!r}, replied with an "
        f"object of the class {type(wrong).__name__!r}; it has to reply with {wanted}",
        resource=model.model_id,
    )


def _complete(model: Model, request: ModelRequest) -> ModelReply:
    try:
        return model.complete(request)
    except StopIteration as error:  # asyncio takes none: whoever waits would wait for ever
        raise RuntimeError("StopIteration") from error


def _pump(
    stream: Iterator[str | ModelReply],
    put: Callable[[str | ModelReply | BaseException | None], None],
    stopped: Event,
) -> None:
    try:
        for item in stream:
            put(item)
            if stopped.is_set():
                break
        put(None)
    except BaseException as error:
        put(error)  # raised again in the task that reads
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()
