"""A script, as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.flows.ppe.patterns import Pattern
from orchestrator.flows.ppe.settings import Settings
from orchestrator.flows.ppe.texts import Text
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument, Node


@dataclass(frozen=True, slots=True)
class Say:
    """A message.

    Attributes:
        place: Where it is.
        role: Who says it.
        text: What.
        to: To whom, in a group chat.
        private: Whether only they may read it.
    """

    place: Place
    role: str
    text: Text
    to: tuple[str, ...] = ()
    private: bool = False


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
        piped: Whether it takes the result of the statement before, too.
    """

    place: Place
    name: str
    value: Any = None
    arguments: Sequence[Argument] | None = None
    piped: bool = False


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
    """`$for` with `as` and `do`.

    Attributes:
        place: Where it is.
        items: What it loops over: an expression, or the author's list.
        values: The names of the item.
        index: The name of its place, or its key.
        body: What is done with each.
    """

    place: Place
    items: Node | list[Any] | dict[str, Any]
    values: tuple[str, ...]
    index: str
    body: Block


@dataclass(frozen=True, slots=True)
class Match:
    """`$match(value)` with a block for each pattern.

    Attributes:
        place: Where it is.
        value: What is matched; `None` for the result of the statement before.
        all: Whether all branches that fit run, and not the first alone.
        branches: The patterns, and their blocks.
    """

    place: Place
    value: Node | None
    all: bool
    branches: Sequence[tuple[Pattern, Block]]


@dataclass(frozen=True, slots=True)
class Link:
    """Something that is called by its name.

    Attributes:
        place: Where it is.
        name: The name.
        instruction: Whether it is an instruction or a function, and no script.
        arguments: What it is given.
        text: Whether a text calls it.
    """

    place: Place
    name: str
    instruction: bool
    arguments: Sequence[Argument] = ()
    text: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """`-> name(arguments) -> ...`: calls with the previous result."""

    place: Place
    links: Sequence[Link]


@dataclass(frozen=True, slots=True)
class Edit:
    """`#:text` replaces a message, `#+[place:role]text` inserts one.

    Attributes:
        place: Where it is.
        replaces: Whether a message is replaced.
        at: The place among the messages: of the message that is replaced, or before which the
            text is inserted.
        role: The role of what is inserted; empty for that of the message that is replaced.
        text: The text.
    """

    place: Place
    replaces: bool
    at: int
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
        settings: What of its front matter is no data.
        biases: The texts whose tokens it biases, and where.
    """

    id: str
    file: str | None
    front: Mapping[str, Any]
    body: Block
    calls: Sequence[Link] = ()
    warnings: Sequence[tuple[Place, str]] = ()
    settings: Settings = field(default_factory=Settings)
    biases: Sequence[tuple[Place, str]] = ()
