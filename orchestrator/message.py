"""Messages in Converse's shape, and who wrote which part of them.

A message is a plain `dict` (`{"role": ..., "content": [block, ...]}`) so that it can be sent,
encoded and compared without conversion. `Message` adds two things beside the dict: the spans of
provenance, and the JSON encoding, made at most once. A message is never changed after it is made;
histories are lists that share their messages.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from orchestrator.support.safe_json import json_or

_SCALARS = (int, float, bool)


def make_json_encoder(
    default: Callable[[Any], Any] | None = None,
    separators: tuple[str, str] = (", ", ": "),
    *,
    ensure_ascii: bool = False,
) -> Callable[[Any], str]:
    """A function that encodes JSON values as text, on request with nothing but ASCII in it.

    `default` makes JSON values of others. A value that contains itself is a `RecursionError`.
    """
    # `JSONEncoder.encode` makes its C encoder anew for every text, which costs as much as most of
    # the texts themselves; this makes it once, where there is one.
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, check_circular=False, default=default, separators=separators
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    pieces: Callable[[Any, int], Iterable[str]] = make(
        None,
        encoder.default,
        json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring,
        None,
        encoder.key_separator,
        encoder.item_separator,
        encoder.sort_keys,
        encoder.skipkeys,
        encoder.allow_nan,
    )
    return lambda value: "".join(pieces(value, 0))


to_json = make_json_encoder()
"""Encodes JSON values as text; `json.dumps` would make a new encoder for every call."""

text_to_json: Callable[[str], str] = json.encoder.encode_basestring
"""Encodes one text as JSON, as `to_json` does."""

Block = dict[str, Any]
"""One Converse content block: `text`, `toolUse`, `toolResult`, `reasoningContent`."""


def content_to_json(content: Sequence[Block]) -> str:
    """Encodes a message's content, as `to_json` does; quickly when it is one text, as most is."""
    if len(content) == 1 and len(content[0]) == 1 and "text" in content[0]:
        return f'[{{"text": {text_to_json(content[0]["text"])}}}]'
    return to_json(content)


AUTHOR = "template"
"""The origin of text that the template's author wrote; any other origin is a placeholder's name."""


class Span(NamedTuple):
    """A piece of a message's text and where it came from."""

    block: int  # index of the content block that holds the text
    start: int  # first character of the piece in the block's text
    end: int  # one past the last character
    origin: str  # `"template"`, or the name of the placeholder that the piece was filled from


class Text(str):
    """A text with spans of provenance (all of them have `block == 0`)."""

    __slots__ = ("_encoded", "_spans")
    _encoded: str
    _spans: tuple[Span, ...] | Callable[[], tuple[Span, ...]]

    @classmethod
    def of(cls, text: str, spans: tuple[Span, ...] | Callable[[], tuple[Span, ...]]) -> Text:
        """`text` with `spans`, or with a function that computes them when they are read."""
        made = cls(text)
        made._spans = spans
        return made

    @property
    def spans(self) -> tuple[Span, ...]:
        """Which placeholder each piece of the text came from; computed when first read."""
        spans = getattr(self, "_spans", ())
        if callable(spans):
            spans = self._spans = spans()
        return spans

    @property
    def json_text(self) -> str:
        """The text as JSON; made when first read, then kept."""
        try:
            return self._encoded
        except AttributeError:
            self._encoded = text_to_json(self)
            return self._encoded


class Message(dict[str, Any]):
    """One message: `role` is `"user"` or `"assistant"`, `content` a list of Converse blocks.

    Its spans are given, or computed when they are read: by a function, or for a message whose
    whole text has one origin, from that origin's name.
    """

    # Most messages are never encoded, or in one of the two forms: neither is made before.
    __slots__ = ("_encoded", "_spans", "_wire")
    _encoded: str | None
    _wire: tuple[Callable[[Message], str], str] | None

    def __init__(
        self,
        role: str,
        content: Sequence[Block],
        spans: tuple[Span, ...] | Callable[[], tuple[Span, ...]] | str = (),
    ) -> None:
        self["role"] = role
        self["content"] = content
        self._spans = spans
        self._encoded = self._wire = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Which placeholder each piece of the text came from; computed when first read."""
        spans = self._spans
        if isinstance(spans, str):
            spans = self._spans = _whole(self["content"], spans)
        elif callable(spans):
            spans = self._spans = spans()
        return spans

    @property
    def json_text(self) -> str:
        """The message as JSON text; made when first read, then kept."""
        encoded = self._encoded
        if encoded is None:
            encoded = self._encoded = self._to_json()
        return encoded

    def _to_json(self) -> str:
        content = content_to_json(self["content"])
        return f'{{"role": {text_to_json(self["role"])}, "content": {content}}}'

    def encode_with(self, encode: Callable[[Message], str]) -> str:
        """The message as `encode` writes it, for backends with a wire format of their own.

        Made at the first call and kept until another `encode` asks: within a session one backend
        asks, and asks at every step.
        """
        kept = self._wire
        if kept is None or kept[0] is not encode:
            kept = self._wire = (encode, encode(self))
        return kept[1]


def _whole(content: Sequence[Block], origin: str) -> tuple[Span, ...]:
    return tuple(
        Span(index, 0, len(block["text"]), origin)
        for index, block in enumerate(content)
        if block.get("text")
    )


def text_of(content: Sequence[Block]) -> str:
    """The text blocks of `content`, joined."""
    return "".join([block["text"] for block in content if "text" in block])


def clean(value: Any) -> Any:
    """A text, or JSON value, without halves of surrogate pairs: nothing can encode them.

    Two halves that belong together become their character, a lone one becomes U+FFFD.
    """
    if isinstance(value, str):
        return value if value.isascii() else _clean_text(value)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def _clean_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def normalise_blocks(content: Any) -> list[Block]:
    """The blocks of a reply that have Converse's shape, as all later code expects.

    Halves of surrogate pairs go; a tool call without an id, or with that of another, gets a new
    one; input that is JSON text becomes its value. A call whose name or input cannot be used stays,
    so that the parser reports it to the model; any other block of a wrong type is left out.
    """
    return split_blocks(content)[0]


def split_blocks(content: Any) -> tuple[list[Block], str, list[dict[str, Any]]]:
    """The blocks of a reply, as `normalise_blocks` gives them, their text, and their tool uses."""
    if type(content) is list:
        # Nearly every reply is right as it is: texts, and at most one call.
        text = ""
        uses: list[dict[str, Any]] = []
        for block in content:
            if type(block) is not dict or len(block) != 1:
                break
            if "text" in block:
                piece = block["text"]
                if type(piece) is not str or not piece.isascii():
                    break
                text += piece
            elif uses or not _usual_call(block.get("toolUse")):
                break
            else:
                uses.append(block["toolUse"])
        else:
            return content, text, uses
    blocks = _repair_blocks(content)
    return blocks, text_of(blocks), [block["toolUse"] for block in blocks if "toolUse" in block]


def _repair_blocks(content: Any) -> list[Block]:
    blocks: list[Block] = []
    taken: set[str] = set()
    for block in content if isinstance(content, list | tuple) else ():
        if not isinstance(block, dict):
            continue
        if "toolUse" in block:
            blocks.append({"toolUse": _tool_use(clean(block["toolUse"]), taken)})
        elif "text" in block:
            text = block["text"]
            if isinstance(text, str):
                blocks.append(block if text.isascii() else clean(block))
        elif _fits(block):
            blocks.append(clean(block))
    return blocks


def _usual_call(use: Any) -> bool:
    if type(use) is not dict or len(use) != 3:
        return False
    try:
        id, name, values = use["toolUseId"], use["name"], use["input"]
    except KeyError:
        return False
    if not id or type(id) is not str or type(name) is not str or type(values) is not dict:
        return False
    if not name.isascii():
        return False
    for key, value in values.items():
        if type(key) is not str or not key.isascii():
            return False
        if not (value.isascii() if type(value) is str else type(value) in _SCALARS):
            return False
    return True


def _tool_use(use: Any, taken: set[str]) -> dict[str, Any]:
    use = use if isinstance(use, dict) else {}
    id, name, values = use.get("toolUseId"), use.get("name"), use.get("input")
    if not isinstance(id, str) or not id:
        id = f"{id or 'call'}-{len(taken) + 1}"
    while id in taken:
        id += f"-{len(taken) + 1}"
    taken.add(id)
    if isinstance(values, str):
        values = _read_input(values)
    return {
        "toolUseId": id,
        "name": name if isinstance(name, str) else "",
        "input": {} if values is None else values,
    }


def _read_input(text: str) -> Any:
    # Some servers give the input as JSON text.
    return clean(json_or(text, text)) if text.strip() else {}


def _fits(block: Block) -> bool:
    if not all(isinstance(value, dict) for value in block.values()):
        return False
    reasoning = block.get("reasoningContent", {}).get("reasoningText")
    return reasoning is None or (
        isinstance(reasoning, dict) and isinstance(reasoning.get("text"), str)
    )
