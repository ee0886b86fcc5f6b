"""A model whose replies are written beforehand, for tests and for `"scripted:<file.jsonl>"`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from orchestrator.errors import ModelOutputError, ResourceNotFound, ValidationError
from orchestrator.message import Block, normalise_blocks, text_of
from orchestrator.models.base import Model, ModelReply, ModelRequest, Usage
from orchestrator.support.safe_json import read_json

# A text, Converse content blocks, a whole reply, or an exception to raise.
Scripted = str | Sequence[Block] | ModelReply | Exception


class ScriptedModel(Model):
    """Answers with scripted replies, one a request, in order.

    Attributes:
        requests: What was asked, in order.
    """

    def __init__(
        self, replies: Sequence[Scripted], model_id: str = "scripted", *, chunk: int = 0
    ) -> None:
        """Takes the replies in order; `model_id` chooses the dialect.

        A streamed reply comes in pieces of `chunk` characters; 0 streams each text whole.
        """
        self.model_id = model_id
        self.requests: list[ModelRequest] = []
        self._replies = list(replies)
        self._chunk = chunk
        self._lock = Lock()

    @classmethod
    def from_file(cls, path: str | Path, model_id: str = "scripted") -> ScriptedModel:
        """Reads one JSON reply a line: a text, or a list of content blocks.

        Raises:
            ResourceNotFound: There is no such file.
            ValidationError: A line is neither of the two.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
            raise ResourceNotFound(f"the script {str(path)!r} cannot be read: {cause}") from error
        numbered = enumerate(lines, 1)
        return cls([_read(line, path, at) for at, line in numbered if line.strip()], model_id)

    def complete(self, request: ModelRequest) -> ModelReply:
        """The next reply.

        Raises:
            ModelOutputError: The script has no reply left.
        """
        with self._lock:
            index = len(self.requests)
            self.requests.append(request)
        if index >= len(self._replies):
            count = len(self._replies)
            raise ModelOutputError(
                f"the script of {self.model_id!r} has {count} repl{'y' if count == 1 else 'ies'} "
                f"and was asked for reply {index + 1} (stage {request.stage}); add one, or check "
                "the turn",
                code="SCRIPT_ENDED",
            )
        reply = self._replies[index]
        if isinstance(reply, Exception):
            raise reply
        return _reply(reply)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The next reply; never waits."""
        return self.complete(request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """The next reply, in pieces of `chunk` characters."""
        reply = self.complete(request)
        reply.content = normalise_blocks(reply.content)
        text, size = reply.text, self._chunk or max(len(reply.text), 1)
        for start in range(0, len(text), size):
            yield text[start : start + size]
        yield reply


def _read(line: str, path: str | Path, number: int) -> Scripted:
    try:
        item = read_json(line)
    except (ValueError, RecursionError):
        item = None
    if isinstance(item, str):
        return item
    if isinstance(item, list) and len(blocks := normalise_blocks(item)) == len(item):
        return blocks
    raise ValidationError(
        f"line {number} of the script {str(path)!r} is not a reply: write a JSON text, or a list "
        'of content blocks such as [{"text": "..."}]'
    )


def _reply(item: str | Sequence[Block] | ModelReply) -> ModelReply:
    # Some four characters a token, so that budgets can be tried without a model.
    if isinstance(item, ModelReply):
        return item
    content: list[Any] = [{"text": item}] if isinstance(item, str) else list(item)
    stop = "tool_use" if any("toolUse" in block for block in content) else "end_turn"
    tokens = max(len(text_of(content)) // 4, 1)
    return ModelReply(content, stop, Usage(output_tokens=tokens, calls=1))


def build_model(rest: str, folder: Path) -> ScriptedModel:
    """The model of a spec `scripted:<file>` or `scripted:<file>@<model id>`."""
    file = file_of_spec(rest, folder)
    if file == rest:
        return ScriptedModel.from_file(folder / file)
    model_id = rest.removeprefix(f"{file}@")
    if not model_id:
        raise ValidationError(
            f"'scripted:{rest}' names no model after the @: write "
            "'scripted:<file.jsonl>@<model id>'"
        )
    return ScriptedModel.from_file(folder / file, model_id)


def file_of_spec(rest: str, folder: Path) -> str:
    """The file that a spec `scripted:<rest>` names."""
    file, at, _ = rest.rpartition("@")
    # A path may have an @, too.
    return rest if not at or (folder / rest).exists() else file
