"""Custom parsers: a function or a Lambda that follows Bedrock's parser contract.

The function gets the event that Bedrock's parser Lambda gets, and returns its object (AWS: "Write
a custom parser Lambda function"), so a parser that was written for Bedrock plugs in unchanged:

```python
parse = parser_function("parser.py:lambda_handler", folder)
make = lambda_parser(parse, "ORCHESTRATION", agent, tool_use=True)
parsed = make().finish(reply_blocks)
```

`invokeModelRawResponse` is the reply's text where the model writes its calls as text. Where tools
are native it is a JSON text that is both of what Bedrock gives, so that parsers for Claude and for
Nova find what they look for: Converse's members (`output.message`, `stopReason`) and those of
Anthropic's Messages (`role`, `content`, `stop_reason`). The stop reason is `tool_use` when the
reply calls tools, else `end_turn`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from orchestrator.actions.handler_files import HANDLER, handler_file
from orchestrator.actions.handlers import LambdaFunction, LambdaHandler
from orchestrator.actions.lambda_environment import LambdaContext
from orchestrator.errors import (
    DefinitionError,
    DependencyFailed,
    OrchestratorError,
    ValidationError,
)
from orchestrator.message import Block
from orchestrator.parsers import STAGES, Parsed, Parser
from orchestrator.parsers.parser_response import WrongShape, read_response
from orchestrator.parsers.scanner import Piece
from orchestrator.support.signatures import CallShape
from orchestrator.support.user_code import describe_exception, is_own_failure

# A parser: Bedrock's event to Bedrock's object.
ParserFunction = Callable[[dict[str, Any]], Any]


def lambda_parser(
    function: ParserFunction, stage: str, agent: Mapping[str, str], *, tool_use: bool
) -> Callable[[], Parser]:
    """Makes a custom parser for each reply of a stage.

    `function` takes Bedrock's event, as what `parser_function` returns does; `agent` has `name`,
    `id`, `alias` and `version`; `tool_use` says whether the stage's model calls tools natively.

    Raises:
        ValidationError: There is no such stage.
    """
    if stage not in STAGES:
        raise ValidationError(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
    # AWS: the parser's event has exactly these members of `agent`.
    identity = {name: agent.get(name, "") for name in ("name", "id", "alias", "version")}
    return lambda: LambdaParser(function, stage, identity, tool_use)


class LambdaParser:
    """Has one reply parsed by somebody else's function, when it is whole: nothing streams."""

    __slots__ = ("_agent", "_fed", "_function", "_stage", "_tool_use", "pieces")

    blocking: ClassVar[bool] = True

    def __init__(
        self, function: ParserFunction, stage: str, agent: Mapping[str, str], tool_use: bool
    ) -> None:
        self._function = function
        self._stage = stage
        self._agent = agent
        self._tool_use = tool_use
        self._fed: list[str] = []
        # The reply's text as one piece: only the function knows what is what.
        self.pieces: list[Piece] = []

    def feed(self, text: str) -> Sequence[tuple[str, str]]:
        """Takes the next piece of the reply's text; nothing is known of it yet."""
        self._fed.append(text)
        return ()

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Calls the function, and may wait for it.

        Raises:
            DependencyFailed: The function raised, or returned something else than the contract's
                object; the message names the function, the stage and the member.
        """
        texts = self._fed or [_text_of(block) for block in blocks]
        text = "".join(texts)
        self.pieces = [("outside", 0, len(text))] if text else []
        raw = _raw(blocks or [{"text": text}]) if self._tool_use else text
        event = {
            "messageVersion": "1.0",
            "agent": dict(self._agent),
            "invokeModelRawResponse": raw,
            "promptType": self._stage,
            "overrideType": "OUTPUT_PARSER",
        }
        returned = call_function(self._function, event, self._build_failure)
        try:
            return read_response(returned, self._stage)
        except WrongShape as error:
            raise self._build_failure(
                f"returned an object that is not the contract's: {error}"
            ) from None

    def _build_failure(self, what: str) -> DependencyFailed:
        name = _name_of(self._function)
        return DependencyFailed(f"the parser {name!r} of stage {self._stage} {what}", resource=name)


def call_function(
    function: ParserFunction,
    event: dict[str, Any],
    build_failure: Callable[[str], DependencyFailed],
) -> Any:
    """What a function of `parser_function` returns, of any event.

    Raises:
        OrchestratorError: The function raised it. Of anything else it is what `build_failure` makes
            of the end of a message, which says what was raised, and where.
    """
    try:
        return function(event)
    except OrchestratorError:
        raise
    except BaseException as error:
        if not is_own_failure(error):
            raise
        find_place = getattr(function, "place", None)
        place = find_place(error) if find_place is not None else ""
        raise build_failure(describe_exception(error, place)) from error


def _name_of(function: Any) -> str:
    name = getattr(function, "name", None) or getattr(function, "__qualname__", None)
    return str(name or type(function).__name__)


def _text_of(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def _raw(blocks: Sequence[Any]) -> str:
    shown = [block for block in blocks if isinstance(block, dict)]
    # Bedrock gives native replies as the text of a JSON message, with its `stop_reason` (recorded).
    stop = "tool_use" if any(block.get("toolUse") for block in shown) else "end_turn"
    reply = {
        "output": {"message": {"role": "assistant", "content": shown}},
        "stopReason": stop,
        "type": "message",
        "role": "assistant",
        "content": [made for block in shown if (made := _anthropic(block))],
        "stop_reason": stop,
    }
    # The bytes of a thought that a provider keeps secret are nothing that a parser could read.
    return json.dumps(reply, default=lambda value: None)


def _anthropic(block: Block) -> dict[str, Any] | None:
    use = block.get("toolUse")
    if isinstance(use, dict):
        return {
            "type": "tool_use",
            "id": use.get("toolUseId"),
            "name": use.get("name"),
            "input": use.get("input"),
        }
    return {"type": "text", "text": _text_of(block)} if "text" in block else None


def parser_function(
    spec: str | Callable[..., Any], folder: str | Path | None = None, *, what: str = "parser"
) -> ParserFunction:
    """The parser that `overrideLambda` names, or another function of an event.

    Args:
        spec: A function of the event, or of the event and a Lambda context; the ARN of a Lambda;
            or a handler file, `parser.py` or `parser.py:function` (else `lambda_handler`).
        folder: The folder that a file must be in, after links are resolved; without one a file
            may be anywhere, relative to the current folder.
        what: What it is, for messages.

    Raises:
        DefinitionError: There is no such file or function, the file is outside the folder or has
            a syntax error, the function takes other arguments, or the text is none of these.
    """
    shape = CallShape(what, HANDLER.parameters, optional=1)
    if callable(spec):
        return _Handler(_name_of(spec), LambdaFunction(spec, shape=shape))
    if not isinstance(spec, str):
        raise DefinitionError(
            f"the {what} is a function, an ARN or a file, not {type(spec).__name__}"
        )
    if spec.startswith("arn:"):
        return _Arn(spec)
    start, _, function = spec.partition(".py:")
    file = handler_file(
        f"{start}.py" if function else spec,
        folder,
        what,
        f"; give '{what}.py', '{what}.py:function' or the ARN of a Lambda function",
    )
    function = function or "lambda_handler"
    return _Handler(f"{file.name}:{function}", LambdaHandler(file, function, shape=shape))


class _Handler:
    def __init__(self, name: str, handler: LambdaFunction) -> None:
        self.name = name
        self.place = handler.place
        self._handler = handler

    def __call__(self, event: dict[str, Any]) -> Any:
        about = LambdaContext(self.name, str(uuid4()), None)
        return self._handler.invoke(event, about)


class _Arn:
    def __init__(self, arn: str) -> None:
        from orchestrator.actions.lambda_arn import LambdaArn

        self._lambda = LambdaArn(arn)
        self.name = self._lambda.name

    def __call__(self, event: dict[str, Any]) -> Any:
        return self._lambda.invoke(event)
