"""A script, as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.flows.ppe.patterns import Pattern
from orchestrator.flows.ppe.settings import Settings
from orchestrator.flows.ppe.texts import Style, Text
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument, Node


@dataclass(frozen=True, slots=True)
class Say:
    """A message."""

    place: Place  # where it is
    role: str  # the speaker's role
    text: Text  # what
    to: tuple[str, ...] = ()  # to whom, in a group chat
    private: bool = False  # whether only they may read it


@dataclass(frozen=True, slots=True)
class Separate:
    """The beginning of a new dialogue."""

    place: Place


@dataclass(frozen=True, slots=True)
class Instruction:
    """`$name: value`, or `$name(arguments)`."""

    place: Place  # where it is
    name: str  # its name, without the dollar sign
    value: Any = None  # its value, as the author wrote it; `None` for nothing
    # Its arguments in brackets; `None` without brackets
    arguments: Sequence[Argument] | None = None
    piped: bool = False  # whether it takes the result of the statement before, too


@dataclass(frozen=True, slots=True)
class If:
    """`$if` with `then` and `else`."""

    place: Place
    condition: Node | Instruction
    then: Block
    otherwise: Block


@dataclass(frozen=True, slots=True)
class While:
    """`$while` with `do`."""

    place: Place
    condition: Node | Instruction
    body: Block


@dataclass(frozen=True, slots=True)
class For:
    """`$for` with `as` and `do`."""

    place: Place  # where it is
    # What it loops over: an expression, or the author's list
    items: Node | list[Any] | dict[str, Any]
    values: tuple[str, ...]  # the names of the item
    index: str  # the name of its place, or its key
    body: Block  # what is done with each


@dataclass(frozen=True, slots=True)
class Match:
    """`$match(value)` with a block for each pattern."""

    place: Place  # where it is
    value: Node | None  # what is matched; `None` for the result of the statement before
    all: bool  # whether all branches that fit run, and not the first alone
    branches: Sequence[tuple[Pattern, Block]]  # the patterns, and their blocks


@dataclass(frozen=True, slots=True)
class Link:
    """Something that is called by its name."""

    place: Place  # where it is
    name: str  # the name
    instruction: bool  # whether it is an instruction or a function, and no script
    arguments: Sequence[Argument] = ()  # its arguments
    text: bool = False  # whether a text calls it
    value: Any = None  # an instruction's value, as the author wrote it
    declares: bool = False  # whether it is the declaration of a function


@dataclass(frozen=True, slots=True)
class Chain:
    """`-> name(arguments) -> ...`: calls with the previous result."""

    place: Place
    links: Sequence[Link]


@dataclass(frozen=True, slots=True)
class Edit:
    """`#:text` replaces a message, `#+[place:role]text` inserts one."""

    place: Place  # where it is
    replaces: bool  # whether a message is replaced
    # The place among the messages: of the message that is replaced, or before which the text is
    # inserted
    at: int
    role: str  # the role of what is inserted; empty for that of the message that is replaced
    text: Text  # the text


Statement = Say | Separate | Instruction | If | While | For | Match | Chain | Edit

Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A script that was read."""

    id: str  # how others call it
    file: str | None  # its file, if any
    front: Mapping[str, Any]  # its front matter: the author's data
    body: Block  # its statements
    calls: Sequence[Link] = ()  # the scripts and functions that it names, and where
    warnings: Sequence[tuple[Place, str]] = ()  # what is doubtful about it, and where
    settings: Settings = field(default_factory=Settings)  # what of its front matter is no data
    biases: Sequence[tuple[Place, str]] = ()  # the texts whose tokens it biases, and where
    style: Style = field(default_factory=Style)  # how its texts are written
