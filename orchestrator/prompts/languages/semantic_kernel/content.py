"""Makes messages of Semantic Kernel's tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_to_bytes

from orchestrator.diagnostics import Diagnostic
from orchestrator.message import AUTHOR
from orchestrator.prompts.languages.base import (
    Content,
    Media,
    MediaKind,
    RenderedMessage,
    TextContent,
    Thread,
    ToolResult,
    ToolUse,
)
from orchestrator.prompts.languages.message_dicts import (
    describe_instruction,
    find_instruction,
    parse_data_url,
)
from orchestrator.prompts.languages.semantic_kernel.tags import Element, Tags
from orchestrator.prompts.languages.values import strip_pieces
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import Source, warn
from orchestrator.support.safe_json import read_json

# The roles of messages (Semantic Kernel: `AuthorRole`).
ROLES = ("system", "user", "assistant", "tool", "developer")

# A value may choose between these: it may not become an instruction.
_GIVEN_ROLES = ("user", "assistant")
_ADDRESS = re.compile(r"(?:https?|s3)://\S+", re.IGNORECASE)
_JSON_TEXT = r'"(?:[^"\\]|\\.)*"'
_BARE = "\ue002"  # marks the token of a hole that stands outside of JSON's texts


@dataclass(frozen=True, slots=True)
class Filling:
    """A value in a hole: as text, as data, and as the messages that it may be.

    Data is messages where the author asked for that: with `{{messages history}}` and its like, in
    `<chat_history>`, or for an input that is trusted. Elsewhere it is a text.
    """

    pieces: Sequence[Piece] | None  # `None` for messages that can only stand between messages
    data: Any = None
    items: Sequence[RenderedMessage | Thread] | None = None
    name: str = ""  # of the input or the function, for errors
    placed: bool = False  # whether the author asked for its messages
    trusted: bool = False  # whether they may instruct the model


class Filler:
    """Makes messages of tags, with the holes filled."""

    def __init__(self, tags: Tags, fillings: Sequence[Filling], source: Source) -> None:
        self._tags = tags
        self._fillings = fillings
        self._source = source
        self._items: list[RenderedMessage | Thread] = []
        self._lead = False  # the first message is text before all others
        self._at = 0  # of the tag that is being read
        self._doubts: list[Diagnostic] = []

    def fill(self) -> tuple[list[RenderedMessage | Thread], list[Diagnostic]]:
        """The messages, and what is doubtful about them."""
        root = self._tags.root
        if root is None:  # Semantic Kernel sends what is no XML as one message of the user
            self._add_loose_text([self._tags.plain], "user")
            problem = self._tags.problem
            if problem is None or not self._tags.has_message_tags:
                return self._items, self._doubts
            message = f"the whole prompt is one message of the user: {problem.reason}"
            instead = "write &amp; and &lt; for these characters, and close every tag"
            place = (problem.file, problem.line, problem.column)
            return self._items, [*self._doubts, warn("broken-tags", message, instead, *place)]
        loose: list[str | Element] = []
        for child in root.children:
            if isinstance(child, str) or child.tag not in ("message", "chat_history"):
                loose.append(child)
                continue
            self._add_loose_text(loose)
            loose = []
            self._add_element(child)
        self._add_loose_text(loose)
        if self._lead and len(self._items) == 1 and isinstance(self._items[0], RenderedMessage):
            self._items[0] = replace(self._items[0], role="user")  # the prompt is one text
        return self._items, self._doubts

    def _add_element(self, element: Element) -> None:
        if element.tag == "message":
            self._items.append(self._build_message(element))
            return
        for child in element.children:
            if isinstance(child, str):
                self._add_loose_text([child], "user", placed=True)
            elif child.tag == "message":
                self._items.append(self._build_message(child))
            else:
                message = f"<{child.tag}> in <chat_history>, which has only messages"
                raise self._source.error(message, child.at)

    def check(self, element: Element) -> None:
        """Checks the roles that the author wrote, of messages anywhere but in a message."""
        for child in element.children:
            if isinstance(child, Element) and child.tag == "chat_history":
                self.check(child)
            elif isinstance(child, Element) and child.tag == "message":
                written = child.attributes.get("role", "")
                if not written or self._get_author_text(written) == written:
                    self._read_role(child)

    # Texts, and what is between messages.

    def _add_loose_text(
        self, children: Sequence[str | Element], role: str = "", *, placed: bool = False
    ) -> None:
        """Adds text between messages, which may have messages of values in it.

        Without a role it is the system's where the author begins the prompt, else the user's.
        """
        first = children[0] if children and isinstance(children[0], str) else ""
        lead = not role and not self._items and self._get_author_text(first).strip() != ""
        run: list[Piece] = []
        for part in self._parts(children):
            if isinstance(part, Filling) and self._is_thread(part, placed):
                self._add_text_message(run, lead)
                self._items += part.items or ()
                run, lead = [], False
            elif isinstance(part, Filling):
                run += self._text_of(part)
            else:
                run.append(part)
        self._add_text_message(run, lead)

    def _is_thread(self, filling: Filling, placed: bool) -> bool:
        """Whether a value between messages is messages."""
        if not filling.items:
            return filling.items is not None
        if not (placed or filling.placed):
            message = f"the value of {filling.name!r} looks like messages, and is a text here"
            name = filling.name or "..."
            instead = f"to place its messages, write {name} in <chat_history> tags"
            self._doubts.append(self._source.warn("messages-as-text", message, self._at, instead))
            return False
        found = None if filling.trusted else find_instruction(filling.items)
        if found is not None:
            name = filling.name or "messages"
            raise self._source.error(describe_instruction(name, *found), self._at)
        return True

    def _add_text_message(self, run: Sequence[Piece], lead: bool) -> None:
        pieces = strip_pieces([piece for piece in run if piece[1]])
        if "".join([text for _, text in pieces]).strip():
            self._lead = self._lead or lead
            self._items.append(
                RenderedMessage("system" if lead else "user", (TextContent(tuple(pieces)),))
            )

    def _get_author_text(self, text: str) -> str:
        return "".join([part for part in self._tags.split(text) if isinstance(part, str)])

    def _parts(self, children: Sequence[str | Element]) -> Iterator[Piece | Filling]:
        for child in children:
            text = child if isinstance(child, str) else self._tags.raw(child)
            for part in self._tags.split(text):
                yield (AUTHOR, part) if isinstance(part, str) else self._fillings[part]

    def _text_of(self, filling: Filling) -> Sequence[Piece]:
        if filling.pieces is None:
            raise self._source.error(
                "messages can only be placed between messages, not inside of one", self._at
            )
        return filling.pieces

    def _pieces(self, children: Sequence[str | Element]) -> list[Piece]:
        made: list[Piece] = []
        for part in self._parts(children):
            made += self._text_of(part) if isinstance(part, Filling) else [part]
        return made

    def _get_plain_text(self, *children: str | Element) -> str:
        return "".join([text for _, text in self._pieces(children)])

    # Tags.

    def _build_message(self, element: Element) -> RenderedMessage:
        self._at = element.at
        attributes: dict[str, Any] = dict(self._read_attributes(element))
        attributes.pop("role", None)
        content = list(self._build_content(element, attributes))
        texts = [one for one in content if isinstance(one, TextContent)]
        if texts and len(texts) == len(content):
            content = [TextContent(tuple(piece for one in texts for piece in one.pieces))]
        line, _ = self._source.place(element.at)
        return RenderedMessage(self._read_role(element), tuple(content), attributes, line)

    def _read_role(self, element: Element) -> str:
        written = element.attributes.get("role")
        if written is None:
            wanted = '<message> has no role: write <message role="user">'
            raise self._source.error(wanted, element.at)
        role = self._get_plain_text(written)
        given = role != written
        allowed = _GIVEN_ROLES if given else ROLES
        if role in allowed:
            return role
        said = "that a value gives" if given else repr(role[:40])
        message = f"the role {said} of a message is none of {', '.join(allowed)}"
        raise self._source.error(message, element.at)

    def _build_content(self, element: Element, attributes: dict[str, Any]) -> Iterator[Content]:
        for texts, tag in _split_at_tags(element, _TAGS):
            yield from self._build_text(texts, beside=element.has_child(_TAGS))
            if tag is not None:
                self._at = tag.at
                yield from self._read_tag(tag, attributes)

    def _build_text(
        self, texts: Sequence[str | Element], *, beside: bool = False
    ) -> Iterator[TextContent]:
        # Authors lay tags out in lines: space beside a tag is no text, unless a value wrote it.
        pieces = [piece for piece in self._pieces(texts) if piece[1]]
        space = all(origin == AUTHOR and text.isspace() for origin, text in pieces)
        if pieces and not (beside and space):
            yield TextContent(tuple(pieces))

    def _read_tag(self, element: Element, attributes: dict[str, Any]) -> Iterator[Content]:
        tag = element.tag
        if tag == "text":
            yield from self._build_text(element.children)
        elif tag in ("image", "audio", "binary"):
            yield self._build_media(element)
        elif tag == "file_reference":
            yield Media("file", attributes=self._read_attributes(element))
        elif tag == "function_call":
            yield self._build_tool_use(element)
        elif tag == "function_result":
            yield self._build_tool_result(element)
        elif tag == "annotation":
            before = attributes.get("annotations")
            earlier = before if isinstance(before, list) else []
            attributes["annotations"] = [*earlier, self._read_attributes(element)]
        else:
            attributes["reasoning"] = attributes.get("reasoning", "") + self._get_plain_text(
                *element.children
            )

    def _read_attributes(self, element: Element) -> dict[str, str]:
        return {name: self._get_plain_text(value) for name, value in element.attributes.items()}

    def _build_media(self, element: Element) -> Media:
        attributes = self._read_attributes(element)
        names = ("mime_type", "mimetype", "media_type")
        media_type = next(filter(None, [attributes.pop(name, "") for name in names]), "")
        written = self._get_plain_text(*element.children).strip()
        address = attributes.pop("uri", "").strip()
        data = b""
        if (written or address).startswith("data:"):
            media_type, data = self._parse_data_uri(written or address, media_type)
            address = address if written and not address.startswith("data:") else ""
        else:
            address = address or written
        if (address and not _ADDRESS.fullmatch(address)) or not (address or data):
            raise self._source.error(
                f"<{element.tag}> needs an address of http, https, s3 or data: uri=... or its text",
                element.at,
            )
        return Media(
            _get_media_kind(element.tag, media_type), address, data, media_type, attributes
        )

    def _parse_data_uri(self, uri: str, media_type: str) -> tuple[str, bytes]:
        if found := parse_data_url(uri):
            return media_type or found[0], found[1]
        head, comma, body = uri[len("data:") :].partition(",")
        if not comma or head.endswith(";base64"):
            raise self._source.error("what follows 'data:' is no Base64", self._at)
        return media_type or head.partition(";")[0], unquote_to_bytes(body)

    def _build_tool_use(self, element: Element) -> ToolUse:
        attributes = self._read_attributes(element)
        if not attributes.get("name"):
            raise self._source.error("<function_call> has no name", element.at)
        written = "".join([one for one in element.children if isinstance(one, str)])
        key = self._tags.only(written)
        if key is not None and not isinstance(self._fillings[key].data, str):
            given = self._fillings[key].data
        else:
            given = self._read_json(written, self._get_plain_text(*element.children))
        return ToolUse(attributes.get("id", ""), attributes["name"], given)

    def _read_json(self, written: str, text: str) -> Any:
        """The data that the author wrote, with values in its leaves; a text if it is no JSON."""
        if self._tags.only(written) is not None:
            return _parse_json(text)
        either = re.compile(f"{_JSON_TEXT}|{self._tags.token.pattern}", re.DOTALL)
        bare = either.sub(lambda it: it[0] if it[1] is None else f'"{_BARE}{it[0]}"', written)
        try:
            return self._fill_leaves(read_json(bare or "{}"))
        except (ValueError, RecursionError):
            return text

    def _fill_leaves(self, data: Any) -> Any:
        if isinstance(data, dict):
            return {
                self._get_plain_text(name): self._fill_leaves(one) for name, one in data.items()
            }
        if isinstance(data, list):
            return [self._fill_leaves(one) for one in data]
        if not isinstance(data, str):
            return data
        key = self._tags.only(data[1:]) if data.startswith(_BARE) else None
        if key is not None:
            value = self._fillings[key].data
            return _parse_json(value) if isinstance(value, str) else value
        return self._get_plain_text(data)

    def _build_tool_result(self, element: Element) -> ToolResult:
        attributes = self._read_attributes(element)
        content: list[TextContent | Media] = []
        for texts, tag in _split_at_tags(element, _RESULTS):
            content += self._build_text(texts, beside=element.has_child(_RESULTS))
            if tag is not None and tag.tag == "text":
                content += self._build_text(tag.children)
            elif tag is not None:
                content.append(self._build_media(tag))
        return ToolResult(attributes.get("id", ""), attributes.get("name", ""), tuple(content))


_TAGS = (
    *("text", "image", "audio", "binary", "file_reference", "function_call", "function_result"),
    *("annotation", "reasoning"),
)
_RESULTS = ("text", "image", "audio", "binary")


def _split_at_tags(
    element: Element, tags: Collection[str]
) -> Iterator[tuple[list[str | Element], Element | None]]:
    """The texts before each of these tags with the tag, then the texts behind the last one."""
    texts: list[str | Element] = []
    for child in element.children:
        if isinstance(child, Element) and child.tag in tags:
            yield texts, child
            texts = []
        else:
            texts.append(child)
    yield texts, None


def _get_media_kind(tag: str, media_type: str) -> MediaKind:
    if tag == "image" or media_type.startswith("image/"):
        return "image"
    if tag == "audio" or media_type.startswith("audio/"):
        return "audio"
    return "video" if media_type.startswith("video/") else "file"


def _parse_json(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
