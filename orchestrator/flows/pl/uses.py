"""Which variables a statement of a program reads and assigns, known before it runs."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.flows.expressions import Node, parts_of
from orchestrator.flows.pl.nodes import (
    AgentCall,
    Block,
    CodeBlock,
    Exit,
    FunctionCall,
    If,
    Judge,
    Loop,
    Prompt,
    Statement,
    Target,
)
from orchestrator.flows.pl.values import names_used

__all__ = ["assigned", "names_in_node", "read_by", "statements_in", "target_of"]


def statements_in(block: Block) -> Iterator[Statement]:
    """All statements of a block, those of blocks in it too."""
    for one in block:
        yield one
        if isinstance(one, Loop):
            yield from statements_in(one.body)
        elif isinstance(one, If):
            for branch in one.branches:
                yield from statements_in(branch.body)


def target_of(statement: Statement) -> Target | None:
    """Where a statement's value goes; `None` when nowhere."""
    target: Target | None = getattr(statement, "target", None)
    return target if target is not None and target.name else None


def assigned(statement: Statement) -> Iterator[str]:
    """The variable that a statement assigns itself, without the blocks in it."""
    if isinstance(statement, Loop):
        yield statement.name
    elif (target := target_of(statement)) is not None:
        yield target.name


def read_by(statement: Statement) -> Iterator[str]:
    """The variables that a statement reads itself, without the blocks and conditions in it."""
    match statement:
        case Prompt() | CodeBlock():
            if not (isinstance(statement, CodeBlock) and statement.kind == "json"):
                yield from names_used(statement.text)
        case FunctionCall() | AgentCall():
            for argument in statement.arguments:
                yield from names_in_node(argument.node)
        case Judge():
            yield from names_in_node(statement.content)
            yield from names_in_node(statement.classes)
        case Exit():
            yield from names_in_node(statement.message)
        case Loop():
            yield from names_in_node(statement.items)


def names_in_node(node: Node | None) -> Iterator[str]:
    """The variables that an expression reads."""
    if node is None:
        return
    if node.kind == "text":
        yield from names_used(node.value)
    elif node.kind == "path":
        yield str(node.value[0][0])
    for part in parts_of(node):
        yield from names_in_node(part)
