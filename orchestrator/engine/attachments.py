"""Files that the model reads itself (Bedrock: `useCase: CHAT`), in prompts and in the history.

Texts, images and documents become content blocks of the message that holds `$question$`, so that
nothing in a file can be taken for the prompt's structure. A raw text prompt has no blocks: there
the texts of files are part of the question, and encoded as it is. Later turns read which files
there were, and nothing of what was in them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.engine.input_files import CHAT, kind_of, text_in
from orchestrator.engine.plan import Plan
from orchestrator.errors import ValidationError
from orchestrator.message import Block, Message, Span, clean, to_json

_ORIGIN = "files"
_REFUSED = re.compile(r"[^0-9A-Za-z\-()\[\]]+")


def files_for(plan: Plan, files: Sequence[Mapping[str, str]]) -> dict[str, list[dict[str, str]]]:
    """What of an agent's turn gets which files: `files` its programs, `attachments` its model.

    Raises:
        ValidationError: The agent has no code interpreter, or a prompt that cannot hold a file.
    """
    shown: list[dict[str, str]] = []
    run: list[dict[str, str]] = []
    for file in files:
        member = {name: file[name] for name in ("name", "type", "bytes")}
        (shown if file["use_case"] == CHAT else run).append(member)
    if run and not _runs_programs(plan):
        raise ValidationError(
            f"the file {run[0]['name']!r} is for the code interpreter, which the agent does not "
            "have; give it the action group AMAZON.CodeInterpreter, or the file the use case "
            f"{CHAT!r}"
        )
    if shown and has_raw_text_prompt(plan):
        append_files_to_question("", shown)
    return {name: kept for name, kept in (("files", run), ("attachments", shown)) if kept}


def _runs_programs(plan: Plan) -> bool:
    return any(one.group == "codeinterpreteraction" for one in plan.catalog.operations) or any(
        _runs_programs(it.agent) for it in plan.collaborators.values() if it.agent is not None
    )


def has_raw_text_prompt(plan: Plan) -> bool:
    """Whether the prompt of an agent's loop is one raw text, without messages."""
    stage = plan.orchestration
    return stage.template.shape == "text" and stage.dialect.protocol == "text"


class Attachments:
    """The files of one turn, as blocks of its question."""

    __slots__ = ("_at", "_blocks", "_made", "_source")

    def __init__(self, files: Sequence[Mapping[str, str]]) -> None:
        self._blocks = [_block(file, number) for number, file in enumerate(files, 1)]
        self._source: Message | None = None
        self._made: Message | None = None
        self._at = 0

    def add_to(self, messages: list[Message]) -> list[Message]:
        """Puts the files into the message that holds the question; changes and returns the list.

        That message is looked for, made and encoded once a turn, unless the template makes it anew
        in every step.
        """
        if not self._blocks:
            return messages
        at = self._at
        if self._made is None or at >= len(messages) or messages[at] is not self._source:
            found = _find_question(messages)
            if found is None:
                return [*messages, _MessageWithFiles("user", self._blocks, ())]
            self._at = at = found
            self._source, self._made = messages[at], _append_blocks(messages[at], self._blocks)
        messages[at] = self._made
        return messages


class _MessageWithFiles(Message):
    """A message with files; its `json_text`, which traces show, tells only how large they are."""

    __slots__ = ()

    def _to_json(self) -> str:
        content = [_describe_block(it) for it in self["content"]]
        return to_json({"role": self["role"], "content": content})


def _describe_block(block: Block) -> Block:
    for kind in ("image", "document"):
        if kind in block:
            size = len(base64.b64decode(block[kind]["source"]["bytes"]))
            return {kind: {**block[kind], "source": {"bytes": f"({size:,} bytes)"}}}
    return block


def _append_blocks(message: Message, blocks: Sequence[Block]) -> Message:
    first = len(message["content"])
    # A message without spans is some text of which nothing is known; blocks must not change that.
    spans = message.spans and (
        *message.spans,
        *(
            Span(first + place, 0, len(block["text"]), _ORIGIN)
            for place, block in enumerate(blocks)
            if "text" in block
        ),
    )
    return _MessageWithFiles(message["role"], [*message["content"], *blocks], spans)


def _find_question(messages: Sequence[Message]) -> int | None:
    # By who wrote what, and not by looking for the question's text, which may stand twice.
    last = None
    for at in range(len(messages) - 1, -1, -1):
        if messages[at]["role"] != "user":
            continue
        origins = {span.origin for span in messages[at].spans}
        if "question" in origins:
            return at
        if last is None and "agent_scratchpad" not in origins:
            last = at
    return last


def _block(file: Mapping[str, str], number: int) -> Block:
    kind, form = kind_of(file)
    if kind == "text":
        return {"text": _text(file)}
    source = {"bytes": file["bytes"]}  # Base64, as on the wire
    if kind == "image":
        return {"image": {"format": form, "source": source}}
    # Converse's names have few characters, and must differ (AWS: `DocumentBlock`).
    stem = file["name"].rpartition(".")[0] or file["name"]
    name = f"{_REFUSED.sub(' ', stem).strip()[:150]} {number}".strip()
    return {"document": {"format": form, "name": name, "source": source}}


def _text(file: Mapping[str, str]) -> str:
    return f"The file {file['name']!r} ({file['type']}):\n\n{clean(text_in(file))}"


def text_to_check(file: Mapping[str, str]) -> str:
    """What a guardrail reads of a file: its text; nothing of images and documents."""
    return clean(text_in(file)) if kind_of(file)[0] == "text" else ""


def with_text(file: Mapping[str, str], text: str) -> dict[str, str]:
    """A file of text, with another text in it."""
    return {**file, "bytes": base64.b64encode(text.encode()).decode()}


def append_files_to_question(question: str, files: Sequence[Mapping[str, str]]) -> str:
    """The question and the texts of files, for a raw text prompt.

    Raises:
        ValidationError: A file is no text.
    """
    for file in files:
        if kind_of(file)[0] != "text":
            raise ValidationError(
                f"the agent's prompt is raw text, which cannot hold the file {file['name']!r} "
                f"({file['type']}); give it as text, or use a model with messages"
            )
    return "\n\n".join([question, *map(_text, files)])


def mention_files(messages: list[Message], files: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of a finished turn, whose question says which files came with it."""
    if not messages:
        return messages
    names = ", ".join(repr(file["name"]) for file in files)
    question = messages[0]
    content = [*question["content"], {"text": f"\n(Files that came with this: {names}.)"}]
    return [Message(question["role"], content, "conversation_history"), *messages[1:]]
