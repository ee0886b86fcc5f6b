"""YAML or JSON text → plain data, and the place of every value and member name in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NoReturn

from orchestrator.definition.positions import Node, combine_findings
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError

__all__ = ["MAX_BYTES", "Document", "Reader", "decode", "parse"]

MAX_BYTES = 2_000_000
"""Size of a definition's file; long templates and schemas can have files of their own."""

MAX_DEPTH = 50
MAX_NODES = 100_000


@dataclass(frozen=True, slots=True)
class Document:
    """A text that was read.

    Attributes:
        data: Its value: mappings, lists, texts, numbers, truth values and nulls.
        root: The places.
    """

    data: Any
    root: Node


def decode(content: bytes, file: str, *, limit: int = MAX_BYTES) -> str:
    """The text of a file; its lines end with line feeds, wherever it was written.

    Raises:
        DefinitionError: It is too large, or is not UTF-8.
    """
    if len(content) > limit:
        raise DefinitionError(f"the file is larger than {limit:,} bytes; split it", file=file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8", "replace")
        raise DefinitionError(
            f"byte 0x{error.object[error.start]:02X} is not UTF-8; save the file as UTF-8",
            file=file,
            line=before.count("\n") + 1,
            column=len(before) - (before.rfind("\n") + 1) + 1,
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse(text: str, file: str) -> Document:
    """Reads JSON when the file is called `*.json`, else YAML.

    Raises:
        DefinitionError: The text is no such document, names a member twice, or is too deep.
    """
    from orchestrator.definition.json_text import JsonReader
    from orchestrator.definition.yaml_text import YamlReader

    reader = JsonReader(text, file) if file.endswith(".json") else YamlReader(text, file)
    document = reader.read()
    if reader.findings:
        raise combine_findings(reader.findings)
    return document


class Reader(ABC):
    """What both readers share: the bounds, and the checks of names and texts."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.nodes = 0
        self.findings: list[Diagnostic] = []

    def fail(self, message: str, line: int, column: int) -> NoReturn:
        """Gives up: what follows cannot be read."""
        raise DefinitionError(message, file=self.file, line=line, column=column)

    def report(self, code: str, message: str, line: int, column: int) -> None:
        """Notes a mistake after which the reading goes on."""
        self.findings.append(
            Diagnostic(
                severity="error",
                code=code,
                message=message,
                file=self.file,
                line=line,
                column=column,
            )
        )

    def enter(self, depth: int, line: int, column: int) -> None:
        """Counts one value in, wherever it is written: an alias counts each time."""
        self.nodes += 1
        if depth > MAX_DEPTH:
            self.fail(f"this is nested deeper than {MAX_DEPTH} levels", line, column)
        if self.nodes > MAX_NODES:
            self.fail(f"the file comes to more than {MAX_NODES:,} values", line, column)

    def put(self, data: dict[str, Any], name: str, value: Any, inner: Node, node: Node) -> None:
        """Adds one member, unless the name was there already."""
        if name in data:
            there = node.children[name].key or (node.line, node.column)
            self.report(
                "duplicate-member",
                f"{name!r} is given twice, first in line {there[0]}; remove one",
                *(inner.key or (inner.line, inner.column)),
            )
            return
        data[name] = value
        node.children[name] = inner

    def join_surrogates(self, value: str, line: int, column: int) -> str:
        """A text, with the surrogate pairs of UTF-16 escapes joined."""
        try:
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.fail("the text holds half of a surrogate pair", line, column)

    @abstractmethod
    def read(self) -> Document:
        """Reads the whole text."""
