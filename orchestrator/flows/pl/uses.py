"""Which variables a statement of a program reads and assigns, known before it runs."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.flows.pl.nodes import (
    AgentCall,
    Block,
    Breakpoint,
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
from orchestrator.flows.pl.values import find_variable_names
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Node, parts_of


def statements_in(block: Block) -> Iterator[Statement]:
    """All statements of a block, those of blocks in it too."""
    for one in block:
        yield one
        if isinstance(one, Loop):
            yield from statements_in(one.body)
        elif isinstance(one, If):
            for branch in one.branches:
                yield from statements_in(branch.body)


def calls_in(program: Block) -> dict[str, Place]:
    """The functions that must be there before a program runs, and where each is called first.

    Those are all that it calls, besides agents that it makes. A program with a breakpoint is not
    asked for any: its caller may register them when it goes on.
    """
    if any(isinstance(it, Breakpoint) for it in statements_in(program)):
        return {}
    own = {it.target.name for it in statements_in(program) if isinstance(it, AgentCall)}
    found: dict[str, Place] = {}
    for one in statements_in(program):
        if isinstance(one, FunctionCall) and one.name not in own:
            found.setdefault(one.name, one.place)
    return found


def target_of(statement: Statement) -> Target | None:
    """Where a statement's value goes; `None` when nowhere."""
    target: Target | None = getattr(statement, "target", None)
    return target if target is not None and target.name else None


def find_assigned_names(statement: Statement) -> Iterator[str]:
    """The variable that a statement assigns itself, without the blocks in it."""
    if isinstance(statement, Loop):
        yield statement.name
    elif (target := target_of(statement)) is not None:
        yield target.name


def find_read_names(statement: Statement) -> Iterator[str]:
    """The variables that a statement reads itself, without the blocks and conditions in it."""
    match statement:
        case Prompt() | CodeBlock():
            if not (isinstance(statement, CodeBlock) and statement.kind == "json"):
                yield from find_variable_names(statement.text)
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
        yield from find_variable_names(node.value)
    elif node.kind == "path":
        yield str(node.value[0][0])
    for part in parts_of(node):
        yield from names_in_node(part)
