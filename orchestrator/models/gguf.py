"""What a GGUF file says about itself: its special tokens and how its chats are written.

Only the header is read (GGUF specification, version 2 and 3). The vocabulary's special tokens
matter because a prompt must never let a *value* write one: see `ChatFormat.prompt`.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import ValidationError

# A token's id, or text without special tokens.
Piece = int | str

_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4
_WANTED = {
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.add_bos_token",
}


class _Layout(NamedTuple):
    """How a model family writes one message: tokens by name, text between them."""

    open: str
    after_role: str
    after_role_text: str
    close: str
    after_close_text: str


_LAYOUTS = {
    "ChatML": _Layout("<|im_start|>", "", "\n", "<|im_end|>", "\n"),
    "Llama 3": _Layout("<|start_header_id|>", "<|end_header_id|>", "\n\n", "<|eot_id|>", ""),
}


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Writes chats as token ids and plain text, so that no text becomes a token that steers."""

    name: str
    start: tuple[int, ...]  # the token that begins every prompt, if any
    head: int  # what precedes a role's name
    after_role: tuple[int, ...]  # what follows it, before the newline
    close: int  # what ends a message
    layout: _Layout
    special: re.Pattern[str]  # finds places in a text where a special token's name begins

    def prompt(self, turns: Iterable[tuple[str, str]]) -> list[Piece]:
        """The pieces of a whole prompt, ending where the model has to go on.

        `turns` has the role and the text of every message, the system's first. A last one of the
        assistant is left open.
        """
        pieces: list[Piece] = list(self.start)
        role = ""
        closed: list[Piece] = [self.close, *filter(None, [self.layout.after_close_text])]
        for role, text in turns:
            self._open(pieces, role, text)
            pieces.extend(closed)
        if role == "assistant":
            del pieces[-len(closed) :]
        else:
            self._open(pieces, "assistant", "")
        return pieces

    def _open(self, pieces: list[Piece], role: str, text: str) -> None:
        pieces.append(self.head)
        if self.after_role:
            pieces.append(role)
            pieces.extend(self.after_role)
            role = ""
        pieces.extend(self.cut(role + self.layout.after_role_text + text))

    def cut(self, text: str) -> list[str]:
        """`text` in pieces none of which holds a special token's name.

        The runtime turns such names into tokens wherever they stand in one piece of text; cut
        after its first character, a name is only characters. No text is added or lost.
        """
        places = [match.start() + 1 for match in self.special.finditer(text)]
        if not places:
            return [text]
        return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def chat_format(file: Path) -> ChatFormat:
    """Reads how chats are written from the GGUF file's vocabulary.

    Raises:
        ValidationError: It is not a GGUF file, or its chat format is not known.
    """
    try:
        header = _header(file)
        tokens: list[bytes] = header["tokenizer.ggml.tokens"]
        kinds: list[int] = header["tokenizer.ggml.token_type"]
    except (ValueError, KeyError, OverflowError, struct.error) as error:
        raise ValidationError(
            f"{str(file)!r} is not a GGUF language model ({error}); name a .gguf file"
        ) from error
    special = {
        token.decode("utf-8", "replace"): index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind in (_CONTROL, _USER_DEFINED) and len(token) > 1
    }
    for name, layout in _LAYOUTS.items():
        if layout.open in special and layout.close in special:
            return _format(name, layout, special, header)
    raise ValidationError(
        f"{str(file)!r} writes its chats in a format that is not known here "
        f"(known: {', '.join(_LAYOUTS)}); serve it with an OpenAI-compatible server and use "
        "'openai:<model>@<base url>'"
    )


def _format(
    name: str, layout: _Layout, special: dict[str, int], header: dict[str, Any]
) -> ChatFormat:
    names = sorted(special, key=len, reverse=True)
    begin = header.get("tokenizer.ggml.bos_token_id")
    starts = header.get("tokenizer.ggml.add_bos_token", name == "Llama 3")
    return ChatFormat(
        name=name,
        start=(int(begin),) if starts and begin is not None else (),
        head=special[layout.open],
        after_role=(special[layout.after_role],) if layout.after_role else (),
        close=special[layout.close],
        layout=layout,
        special=re.compile(f"(?=(?:{'|'.join(map(re.escape, names))}))"),
    )


class _Reader:
    """Walks through the header; every read is checked against the file's end."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def read_number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self._at)
        self._at += struct.calcsize("<" + code)
        return value

    def read_string(self) -> bytes:
        size = self.read_number("Q")
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise ValueError("the file ends early")
        return self._data[start : self._at]

    def read_value(self, wanted: bool) -> Any:
        """A type and a value of it; `None` instead of a list when it is not wanted."""
        kind = self.read_number("I")
        if kind == _STRING:
            return self.read_string()
        if kind == _ARRAY:
            return self._read_array(self.read_number("I"), self.read_number("Q"), wanted)
        if kind not in _FIXED:
            raise ValueError(f"unknown value type {kind}")
        return self.read_number(_FIXED[kind])

    def _read_array(self, kind: int, count: int, wanted: bool) -> list[Any] | None:
        # The count comes from the file, so nothing is made of it before it is compared with the
        # file's size.
        if kind in _FIXED:
            code = f"<{count}{_FIXED[kind]}"
            size = struct.calcsize(code) if count <= len(self._data) else len(self._data)
            values = struct.unpack_from(code, self._data, self._at) if wanted else ()
            self._at += size
            return list(values) if wanted else None
        if kind != _STRING:
            raise ValueError(f"unknown array type {kind}")
        return self._read_strings(count, wanted)

    def _read_strings(self, count: int, wanted: bool) -> list[bytes] | None:
        # Vocabularies have hundreds of thousands: one loop without calls of our own.
        data, at, whole = self._data, self._at, len(self._data)
        read_size = struct.Struct("<Q").unpack_from
        strings: list[bytes] = []
        for _ in range(count):
            start = at + 8
            at = start + read_size(data, at)[0]
            if at > whole:
                raise ValueError("the file ends early")
            if wanted:
                strings.append(data[start:at])
        self._at = at
        return strings if wanted else None


def _header(file: Path) -> dict[str, Any]:
    # The `gguf` package takes 11 s and 550 MB for a vocabulary of 150,000 tokens, and raises
    # IndexError on damaged files. Only four members are wanted here: 0.3 s, 80 MB.
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise ValueError("it does not begin with 'GGUF'")
        reader = _Reader(data)
        reader.read_number("I")
        version = reader.read_number("I")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version} is not known")
        reader.read_number("Q")
        found: dict[str, Any] = {}
        for _ in range(reader.read_number("Q")):
            key = reader.read_string().decode("utf-8", "replace")
            value = reader.read_value(key in _WANTED)
            if key in _WANTED:
                found[key] = value
        return found
