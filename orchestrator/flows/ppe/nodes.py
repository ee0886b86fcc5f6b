"""A script, as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.flows.expressions import Argument, Node
from orchestrator.flows.ppe.texts import Text
from orchestrator.flows.steps import Place

__all__ = [
    "Block",
    "Chain",
    "Edit",
    "For",
    "If",
    "Instruction",
    "Link",
    "Match",
    "Say",
    "Script",
    "Separate",
    "Statement",
    "While",
]


@dataclass(frozen=True, slots=True)
class Say:
    """A message.

    Attributes:
        place: Where it is.
        role: Who says it.
        text: What.
    """

    place: Place
    role: str
    text: Text


@dataclass(frozen=True, slots=True)
class Separate:
    """The beginning of a new dialogue."""

    place: Place


@dataclass(frozen=True, slots=True)
class Instruction:
    """`$name: value`, or `$name(arguments)`.

    Attributes:
        place: Where it is.
        name: Its name, without the dollar sign.
        value: What it is given, as the author wrote it; `None` for nothing.
        arguments: Its arguments in brackets; `None` without brackets.
    """

    place: Place
    name: str
    value: Any = None
    arguments: Sequence[Argument] | None = None


@dataclass(frozen=True, slots=True)
class If:
    """`$if` with `then` and `else`."""

    place: Place
    condition: Node
    then: Block
    otherwise: Block


@dataclass(frozen=True, slots=True)
class While:
    """`$while` with `do`."""

    place: Place
    condition: Node
    body: Block


@dataclass(frozen=True, slots=True)
class For:
    """`$for` with `as` and `do`.

    Attributes:
        place: Where it is.
        items: What it loops over: an expression, or the author's list.
        value: The name of the item.
        index: The name of its place.
        body: What is done with each.
    """

    place: Place
    items: Node | list[Any]
    value: str
    index: str
    body: Block


@dataclass(frozen=True, slots=True)
class Match:
    """`$match(value)` with a block for each pattern."""

    place: Place
    value: Node
    all: bool
    branches: Sequence[tuple[str, Block]]


@dataclass(frozen=True, slots=True)
class Link:
    """One target of a chain: a script, or an instruction."""

    place: Place
    name: str
    instruction: bool
    arguments: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Chain:
    """`-> name(arguments) -> ...`: calls with the previous result."""

    place: Place
    links: Sequence[Link]


@dataclass(frozen=True, slots=True)
class Edit:
    """`#:text` replaces the last message, `#+[place:role]text` inserts one.

    Attributes:
        place: Where it is.
        at: The place among the messages; `None` to replace the last one.
        role: The role of what is inserted; empty for that of the message that is replaced.
        text: The text.
    """

    place: Place
    at: int | None
    role: str
    text: Text


Statement = Say | Separate | Instruction | If | While | For | Match | Chain | Edit

Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A script that was read.

    Attributes:
        id: How others call it.
        file: Its file, if any.
        front: Its front matter: the author's data.
        body: Its statements.
        calls: The scripts and functions that it names, and where.
        warnings: What is doubtful about it, and where.
    """

    id: str
    file: str | None
    front: Mapping[str, Any]
    body: Block
    calls: Sequence[Link] = ()
    warnings: Sequence[tuple[Place, str]] = ()
