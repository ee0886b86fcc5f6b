"""Custom orchestration in Python: a generator function that decides what a turn does.

```python
def orchestrate(turn):
    reply = yield turn.model(turn.question, tools=True)
    while reply.calls:
        results = yield turn.tools(reply)
        reply = yield turn.model([*reply.asked, reply.message, results.message], tools=True)
    return reply.text
```

It may do anything that is the same whenever it is run with the same: it is run again from its
beginning, and sent what the journal has, to go on after a return of control or a crash. So it must
not ask the clock, chance or a server; what acts on the world is an action.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from orchestrator.engine.effects import Effect
from orchestrator.engine.results import Answer, Result
from orchestrator.errors import (
    DefinitionError,
    DependencyFailed,
    OrchestratorError,
    ValidationError,
)
from orchestrator.flows.custom.converse_request import (
    ContractError,
    ConverseRequest,
    plain_content,
    read_messages,
)
from orchestrator.flows.custom.operations import ToolResult, Work
from orchestrator.message import Block, Message, clean, text_of
from orchestrator.support.signatures import CallShape
from orchestrator.support.user_code import describe_exception, is_own_failure, place_in_function

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn

T = TypeVar("T")

Messages = str | Sequence[Mapping[str, Any]]
"""A text that the user says, or messages in Converse's shape."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model replied.

    Attributes:
        content: Its content blocks, in Converse's shape.
        stop_reason: One of Converse's stop reasons.
        asked: The messages that it was asked with, without those of earlier turns.
    """

    content: list[Block]
    stop_reason: str
    asked: Sequence[Message] = field(repr=False)

    @property
    def text(self) -> str:
        """Its text blocks, joined."""
        return text_of(self.content)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tools that it calls: `toolUseId`, `name` and `input` of each."""
        return [block["toolUse"] for block in self.content if "toolUse" in block]

    @property
    def message(self) -> Message:
        """The reply as a message, to go on with."""
        return Message("assistant", self.content)


@dataclass(frozen=True, slots=True)
class ToolResults(Sequence[ToolResult]):
    """The results of tool calls, in their order."""

    results: Sequence[ToolResult]

    def __getitem__(self, index: Any) -> Any:
        """The results at `index`."""
        return self.results[index]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.results)

    @property
    def message(self) -> Message:
        """The results as a user's message, to go on with after the reply that called the tools."""
        return Message("user", [result.block for result in self.results])


@dataclass(frozen=True, slots=True)
class Checked:
    """The guardrail's verdict on a text.

    Attributes:
        text: The text, as far as it may stand: whole, with masks, or a blocked message.
        blocked: Whether nothing of it may stand.
        intervened: Whether the guardrail changed it.
    """

    text: str
    blocked: bool = False
    intervened: bool = False


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """What an orchestration yields; it is sent the answer.

    `reply = yield turn.model(...)` and `reply = yield from turn.model(...)` do the same; type
    checkers know the answer's type of the second.
    """

    _do: Callable[[Work], Generator[Effect, Any, T | Result]]

    def __iter__(self) -> Generator[Request[Any], Any, T]:
        """Yields itself, and returns its answer."""
        answer: T = yield self
        return answer


class CustomTurn:
    """The turn, as an orchestration in Python sees it.

    Attributes:
        question: The user's input, as the guardrail lets it be read.
        instruction: The agent's instruction.
        tool_specs: Converse's specifications of all that the agent can call.
    """

    __slots__ = ("_turn", "instruction", "question", "tool_specs")

    def __init__(self, turn: Turn, tool_specs: Sequence[Mapping[str, Any]]) -> None:
        self._turn = turn
        self.question = turn.question
        self.instruction = turn.plan.instruction
        self.tool_specs = tool_specs

    @property
    def prompt_session_attributes(self) -> Mapping[str, str]:
        """Prompt session attributes, as the last action left them."""
        return dict(self._turn.prompt_attributes)

    @property
    def summaries(self) -> Sequence[Mapping[str, Any]]:
        """What is remembered of earlier sessions, newest first: `text` and more."""
        return list(self._turn.start.summaries)

    def model(
        self,
        messages: Messages,
        *,
        system: str | None = None,
        tools: bool | Sequence[Mapping[str, Any]] = False,
        inference: Mapping[str, Any] | None = None,
        history: bool = True,
        live: bool = False,
        model_id: str = "",
    ) -> Request[ModelAnswer]:
        """Asks a model.

        Args:
            messages: A text, or messages in Converse's shape; `Message`s do. The user's
                files for the model are put beside the question, where it is a message unchanged.
            system: The system text; the agent's instruction when `None`.
            tools: Whether the model may call the agent's tools; or the ones that it may call, such
                as some of `tool_specs`.
            inference: Bedrock's inference configuration; by default that of ORCHESTRATION, without
                its stop sequences.
            history: Whether the session's earlier turns go ahead of the messages.
            live: Whether the user may read the reply while it streams: only for the answer.
            model_id: The model of another stage of the agent; the loop's own when empty.

        Raises:
            ValidationError: The messages are not in Converse's shape.
        """
        try:
            asked = read_messages(
                [self._build_user_message(messages)]
                if isinstance(messages, str)
                else list(messages)
            )
        except (ContractError, TypeError) as error:
            raise ValidationError(f"turn.model: {error}") from None
        request = ConverseRequest(
            asked,
            clean(self.instruction if system is None else system),
            self.tool_specs if tools is True else tools or (),
            self._inference() if inference is None else inference,
            model_id=model_id,
        )

        def do(work: Work) -> Generator[Effect, Any, ModelAnswer]:
            record = yield from work.model(request, past=history, live=live)
            return ModelAnswer(plain_content(record["content"]), record["stop"], asked)

        return Request(do)

    def _build_user_message(self, text: str) -> Message:
        # Files that came with the question go where it is.
        origin = "question" if text == self.question else ()
        return Message("user", [{"text": clean(text)}], origin)

    def _inference(self) -> dict[str, Any]:
        usual = self._turn.plan.orchestration.inference
        return {name: value for name, value in usual.items() if name != "stopSequences"}

    def tools(self, calls: ModelAnswer | Sequence[Mapping[str, Any]]) -> Request[ToolResults]:
        """Carries out tool calls, several at the same time.

        A call that is wrong has a result that says so. The turn may end here: when a call waits
        for the caller or asks the user.

        Args:
            calls: A model's reply, or other calls: `name` (`group::function`, or as in
                `tool_specs`), `input`, and `toolUseId` if the model gave one.

        Raises:
            ValidationError: A call has no name.
        """
        requested = calls.calls if isinstance(calls, ModelAnswer) else calls
        uses = [_use(one, at) for at, one in enumerate(requested)]

        def do(work: Work) -> Generator[Effect, Any, ToolResults | Result]:
            done = yield from work.call(uses)
            return ToolResults(done) if isinstance(done, list) else done

        return Request(do)

    def guard(self, text: str, source: Literal["INPUT", "OUTPUT"] = "INPUT") -> Request[Checked]:
        """Has the agent's guardrail check a text.

        The user's input and the answer are checked in any case.
        """

        def do(work: Work) -> Generator[Effect, Any, Checked]:
            record = yield from work.check(clean(text), source)
            intervened = record["action"] == "INTERVENED"
            shown = record["text"] if intervened else clean(text)
            return Checked(shown, record["blocked"], intervened)

        return Request(do)

    def trace(self, text: str) -> Request[None]:
        """Puts a text into the trace (Bedrock: `customOrchestrationTrace`)."""

        def do(work: Work) -> Generator[Effect, Any, None]:
            record = {"event": "TRACE", "text": "", "trace": clean(text)}
            yield from work.turn.orchestrate("TRACE", lambda _: record)

        return Request(do)

    def ask_user(self, question: str) -> Answer:
        """To be returned: ends the turn with a question, which the next turn answers."""
        return Answer(question, "ask_user")


Orchestrator = Callable[[CustomTurn], "Generator[Request[Any], Any, str | Answer] | str | Answer"]
"""An orchestration in Python: it returns the answer."""


_ORCHESTRATION = CallShape("orchestration", ("turn",))


class PythonOrchestration:
    """A generator function as an orchestration. Serves many turns at once.

    Attributes:
        name: The function's name, for errors.
    """

    def __init__(self, function: Orchestrator) -> None:
        """Checks that the function can be called with a turn.

        Raises:
            DefinitionError: It is asynchronous, or takes other arguments than the turn.
        """
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(
                f"the orchestration {function.__qualname__!r} is asynchronous; write a plain "
                "generator function: it waits for nothing, the engine does"
            )
        _ORCHESTRATION.check(function)
        self.name: str = getattr(function, "__qualname__", type(function).__name__)
        self._function = function

    def __repr__(self) -> str:
        return f"PythonOrchestration({self.name!r})"

    def run(self, turn: Turn) -> Generator[Effect, Any, Result]:
        """The turn; see `Orchestration.run`.

        Raises:
            DependencyFailed: The function raised, or yielded or returned something else.
        """
        work = Work(turn, self.name)
        generator = self._start(CustomTurn(turn, work.tools))
        answer: Any = None
        try:
            while True:
                try:
                    asked = generator.send(answer)
                except StopIteration as stop:
                    return self._to_answer(stop.value)
                except OrchestratorError:
                    raise
                except BaseException as error:
                    if not is_own_failure(error):
                        raise
                    place = place_in_function(error, self._function)
                    raise self._build_failure(describe_exception(error, place)) from error
                if not isinstance(asked, Request):
                    raise self._build_failure(
                        f"yielded a {type(asked).__name__}; yield what turn.model, turn.tools, "
                        "turn.guard or turn.trace returns"
                    )
                answer = yield from asked._do(work)
                if isinstance(answer, Result):
                    return answer
        # The function's own `finally` blocks run now, and not when memory is freed.
        finally:
            generator.close()

    def _start(self, turn: CustomTurn) -> Generator[Any, Any, Any]:
        # A function that yields nothing may be a plain one.
        returned = self._function(turn)
        return (yield from returned) if inspect.isgenerator(returned) else returned

    def _to_answer(self, returned: Any) -> Answer:
        if isinstance(returned, str):
            return Answer(clean(returned))
        if isinstance(returned, Answer):
            return returned
        raise self._build_failure(
            f"returned a {type(returned).__name__}; return the answer's text, or turn.ask_user(...)"
        )

    def _build_failure(self, what: str) -> DependencyFailed:
        return DependencyFailed(f"the orchestration {self.name!r} {what}", resource=self.name)


def _use(call: Any, at: int) -> dict[str, Any]:
    name = call.get("name") if isinstance(call, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ValidationError("turn.tools: a call is {'name': ..., 'input': {...}}")
    id = call.get("toolUseId") or f"own-{at + 1}"
    return {"toolUseId": str(id), "name": name, "input": clean(dict(call.get("input") or {}))}
