"""Record what a model answers, and answer from the record: tests and evaluations without a model.

A recording is a JSONL file, one model call a line: a hash of the request, the request itself, and
the whole reply with the pieces it was streamed in. It holds prompts and replies, so it is as
confidential as the conversations it was made of; it never holds credentials or session attributes,
which are no part of a request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path
from threading import Lock
from typing import Any

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models._encoding import decode_object, encode
from orchestrator.models.base import Model, ModelReply, ModelRequest, Usage, read_token_count
from orchestrator.support.private_files import make_private_folder, open_private

_DIFF_LINES = 60


def _canonicalise(request: ModelRequest) -> dict[str, Any]:
    # What decides the reply. Ids of tool calls are numbered: the same conversation with the same
    # model has others the next time.
    ids: dict[str, str] = {}
    messages = [
        {"role": one["role"], "content": [_number_call(block, ids) for block in one["content"]]}
        for one in request.messages
    ]
    return {
        "stage": request.stage,
        "system": str(request.system),
        "messages": messages,
        "tools": list(request.tools),
        "inference": dict(request.inference),
        "additional": dict(request.additional),
        **({"tool_choice": dict(request.tool_choice)} if request.tool_choice else {}),
    }


def _number_call(block: Mapping[str, Any], ids: dict[str, str]) -> Mapping[str, Any]:
    for kind in ("toolUse", "toolResult"):
        if kind in block:
            found = block[kind].get("toolUseId", "")
            number = ids.setdefault(found, f"#{len(ids) + 1}")
            return {kind: {**block[kind], "toolUseId": number}}
    return block


def _key(canonical: Mapping[str, Any]) -> str:
    # Written and read again, so that bytes and tuples have one form.
    text = json.dumps(json.loads(encode(canonical)), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


_MEMBERS = {"key", "model_id", "request", "reply"}
_REQUEST_MEMBERS = _canonicalise(ModelRequest("", "", ())).keys()


def request_key(request: ModelRequest) -> str:
    """The hash that `request` is recorded under."""
    return _key(_canonicalise(request))


class RecordingModel(Model):
    """Asks another model and appends every whole reply to a file.

    Replies that fail, or that the caller breaks off, are not recorded. Threads and tasks may share
    one recording.
    """

    def __init__(self, model: Model, path: str | Path) -> None:
        """Records the replies of `model`, whose id and so dialect this model has too.

        The file is appended to; it is made, with its folder, at the first reply. Nobody but its
        owner may read it.
        """
        self.model_id = model.model_id
        self._model = model
        self._path = Path(path)
        self._lock = Lock()

    def count(self, request: ModelRequest) -> int | None:
        """What the model counts; it is not recorded."""
        return self._model.count(request)

    def complete(self, request: ModelRequest) -> ModelReply:
        """The model's reply, recorded."""
        reply = self._model.complete(request)
        self._append(request, reply, [])
        return reply

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The model's reply, recorded."""
        reply = await self._model.acomplete(request)
        self._append(request, reply, [])
        return reply

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """The model's stream, recorded when it is whole."""
        pieces: list[str] = []
        stream = self._model.stream(request)
        try:
            for item in stream:
                self._take(request, item, pieces)
                yield item
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """The model's stream, recorded when it is whole."""
        pieces: list[str] = []
        stream = self._model.astream(request)
        try:
            async for item in stream:
                self._take(request, item, pieces)
                yield item
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _take(self, request: ModelRequest, item: str | ModelReply, pieces: list[str]) -> None:
        if isinstance(item, str):
            pieces.append(item)
        else:
            self._append(request, item, pieces)

    def _append(self, request: ModelRequest, reply: ModelReply, pieces: list[str]) -> None:
        canonical = _canonicalise(request)
        answered = {
            "content": reply.content,
            "stop_reason": reply.stop_reason,
            "usage": list(reply.usage),
        }
        if reply.stop_sequence is not None:
            answered["stop_sequence"] = reply.stop_sequence
        record = {
            "key": _key(canonical),
            "model_id": self.model_id,
            "request": canonical,
            "reply": answered,
            "pieces": pieces,
        }
        line = (encode(record) + "\n").encode("utf-8", "replace")
        with self._lock:
            make_private_folder(self._path.parent)
            with open_private(self._path, "ab", buffering=0) as file:
                file.write(line)


class ReplayModel(Model):
    """Answers from what `RecordingModel` wrote.

    Requests that were recorded several times are answered in that order, and then from the first
    on again. A request that was not recorded raises `ResourceNotFound` with the difference to the
    nearest one that was: the prompt has changed since, so its reply would prove nothing.

    Attributes:
        model_id: The recorded model's id, so that the dialect is the same.
    """

    def __init__(self, path: str | Path, model_id: str | None = None) -> None:
        """Reads the recording.

        Args:
            path: The file.
            model_id: Which model's replies of a recording of several; there need be none of it.

        Raises:
            ResourceNotFound: There is no such file.
            ValidationError: It is not a recording, or one of several models and none was chosen.
        """
        self._path = Path(path)
        self._lock = Lock()
        records = _load(self._path)
        self._models = _list_models(records)
        if model_id is None and len(self._models) != 1:
            raise ValidationError(
                f"the recording {str(path)!r} has to be of one model, and is of "
                f"{', '.join(map(repr, self._models)) or 'none'}; record each model into its own "
                "file, or replay them with `orchestrator chat --replay`"
            )
        self.model_id = self._models[0] if model_id is None else model_id
        self._records = [record for record in records if record["model_id"] == self.model_id]
        self._by_key: dict[str, list[dict[str, Any]]] = {}
        for record in self._records:
            self._by_key.setdefault(record["key"], []).append(record)
        self._asked: dict[str, int] = {}

    def complete(self, request: ModelRequest) -> ModelReply:
        """The recorded reply."""
        return _reply(self._next(request))

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The recorded reply; never waits."""
        return self.complete(request)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """The recorded reply, in the recorded pieces."""
        record = self._next(request)
        reply = _reply(record)
        yield from record.get("pieces") or ([reply.text] if reply.text else [])
        yield reply

    def _next(self, request: ModelRequest) -> dict[str, Any]:
        canonical = _canonicalise(request)
        key = _key(canonical)
        records = self._by_key.get(key)
        if records is None:
            raise ResourceNotFound(self._explain_miss(canonical, request.question))
        with self._lock:
            count = self._asked.get(key, 0)
            self._asked[key] = count + 1
        return records[count % len(records)]

    def _explain_miss(self, canonical: Mapping[str, Any], question: str) -> str:
        if not self._records:
            return (
                f"the recording {str(self._path)!r} has no reply of the model {self.model_id!r}, "
                f"only of {', '.join(map(repr, self._models)) or 'none'}; record it again"
            )
        lines = _to_lines(canonical)
        same = [r for r in self._records if r["request"]["stage"] == canonical["stage"]]
        if not same:
            stages = sorted({record["request"]["stage"] for record in self._records})
            return (
                f"the recording {str(self._path)!r} has no request of the stage "
                f"{canonical['stage']!r}, only of {', '.join(stages)}; record it again"
            )
        wanted = set(lines)

        def likeness(record: Mapping[str, Any]) -> float:
            found = set(_to_lines(record["request"]))
            return len(found & wanted) / max(len(found | wanted), 1)

        nearest = max(same, key=likeness)
        recorded = f"recorded (record {self._records.index(nearest) + 1})"
        before = _to_lines(nearest["request"])
        diff = list(unified_diff(before, lines, recorded, "asked", lineterm="", n=2))
        shown = [line if len(line) <= 500 else line[:500] + "…" for line in diff[:_DIFF_LINES]]
        if len(diff) > _DIFF_LINES:
            shown.append(f"… {len(diff) - _DIFF_LINES} more lines")
        asked = f" of the question {_quote_line(question)}" if question else ""
        head = (
            f"the recording {str(self._path)!r} has no reply to this {canonical['stage']} prompt"
            f"{asked}, which differs from the nearest recorded one; if the change is meant, record "
            f"it again. The first difference: {_describe_first_difference(before, lines)}:"
        )
        return "\n".join([head, *shown])


def _describe_first_difference(recorded: Sequence[str], asked: Sequence[str]) -> str:
    for before, now in zip_longest(recorded, asked):
        if before != now:
            return f"{_quote_line(before)} was recorded, and {_quote_line(now)} asked"
    return "it is in line ends, or in the choice of a tool"


def _quote_line(line: str | None) -> str:
    if line is None:
        return "nothing more"
    return repr(line if len(line) <= 100 else f"{line[:100]}…")


def list_recorded_models(path: str | Path) -> list[str]:
    """The ids of the models whose replies a recording has; raises as `ReplayModel` does."""
    return _list_models(_load(Path(path)))


def _list_models(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({record["model_id"] for record in records})


def _reply(record: Mapping[str, Any]) -> ModelReply:
    reply = record["reply"]
    usage = Usage(*map(read_token_count, reply["usage"]))
    stopped = reply.get("stop_sequence")
    return ModelReply(list(reply["content"]), reply["stop_reason"], usage, stopped)


def _load(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ResourceNotFound(
            f"the recording {str(path)!r} cannot be read: {error.strerror}"
        ) from error
    return [_read(line, f"{path}:{at}") for at, line in enumerate(lines, 1) if line.strip()]


def _read(line: str, place: str) -> dict[str, Any]:
    try:
        record = decode_object(line.encode("utf-8", "surrogatepass"))
        if record.keys() >= _MEMBERS and record["request"].keys() >= _REQUEST_MEMBERS:
            _reply(record)
            return record
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ValidationError(
        f"{place}: this line is no record of a model call; RecordingModel writes them"
    )


def _to_lines(request: Mapping[str, Any]) -> list[str]:
    # The conversation is last: what was asked then is the end of one that was cut short.
    lines = [f"[stage] {request['stage']}"]
    for name in ("inference", "additional", "tools"):
        if request[name]:
            lines.append(f"[{name}]")
            lines += json.dumps(request[name], indent=1, sort_keys=True).splitlines()
    lines += ["[system]", *request["system"].splitlines()]
    for message in request["messages"]:
        lines.append(f"[{message['role']}]")
        for block in message["content"]:
            if "text" in block:
                lines += block["text"].splitlines()
            else:
                lines += json.dumps(block, indent=1, sort_keys=True).splitlines()
    return lines


def build_model(rest: str, folder: Path) -> ReplayModel:
    """The model of a spec `replay:<rest>`."""
    return ReplayModel(folder / rest)


def file_of_spec(rest: str, folder: Path) -> str:
    """The file that a spec `replay:<rest>` names."""
    return rest
