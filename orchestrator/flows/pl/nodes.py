"""A program of the workflow language, as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument, Node


@dataclass(frozen=True, slots=True)
class Target:
    """Where a statement's value goes."""

    name: str  # the variable; empty to discard it
    append: bool = False  # whether it is appended (`>>`)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text for the model."""

    place: Place
    text: str
    target: Target


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`@name(arguments) -> target`."""

    place: Place
    name: str
    arguments: Sequence[Argument]
    target: Target


@dataclass(frozen=True, slots=True)
class AgentCall:
    """`@agent(type=..., task=..., roles=..., tools=...) -> name`."""

    place: Place
    arguments: Sequence[Argument]
    target: Target


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """`@code(...)`: JSON data, Python, or words that a model makes Python of."""

    place: Place  # the statement
    kind: Literal["json", "python", "words"]  # which of them
    text: str  # what stands in the brackets, without its fence
    data: object  # the data, of `json`
    target: Target  # where its value goes
    begins: Place = field(default_factory=lambda: Place(1))  # the line that its text begins in


@dataclass(frozen=True, slots=True)
class Judge:
    """`@condition_judge(content, [classes]) -> target`."""

    place: Place
    content: Node
    classes: Node
    target: Target


@dataclass(frozen=True, slots=True)
class Exit:
    """`@exit(msg="...")`."""

    place: Place
    message: Node | None


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """`@(bp)`, or `(bp)`."""

    place: Place


@dataclass(frozen=True, slots=True)
class Loop:
    """`FOR $name in items:` and what stands in it."""

    place: Place  # the statement
    name: str  # its variable
    items: Node  # what it goes through
    body: Block  # what stands in it
    # How many items it says to run at the same time (`PARALLEL 4`): 0 for as many as may, `None`
    # where it says nothing
    parallel: int | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of an `IF`; the last one may have no condition."""

    place: Place
    condition: Node | None
    body: Block


@dataclass(frozen=True, slots=True)
class If:
    """`IF`, `elif`, `else`, `END`."""

    place: Place
    branches: Sequence[Branch]


Statement = Prompt | FunctionCall | AgentCall | CodeBlock | Judge | Exit | Breakpoint | Loop | If

Block = tuple[Statement, ...]
