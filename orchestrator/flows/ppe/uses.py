"""The names that a script reads, and those that it gives values to: found without running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.errors import FlowError
from orchestrator.flows.expressions import parse_expression, unwrap_templates
from orchestrator.flows.ppe.control_flow import MATCHED
from orchestrator.flows.ppe.data import Author, author_texts, map_of
from orchestrator.flows.ppe.group_chat import RESPONSE
from orchestrator.flows.ppe.nodes import (
    Block,
    Chain,
    Edit,
    For,
    If,
    Instruction,
    Match,
    Say,
    Script,
    Statement,
    While,
)
from orchestrator.flows.ppe.output import inputs_of
from orchestrator.flows.ppe.patterns import find_pattern_names
from orchestrator.flows.ppe.scope import ALL, FOLDER, find_read_names
from orchestrator.flows.ppe.text_scanner import Inline, Substitution
from orchestrator.flows.ppe.texts import Text, compile_text, has_tags
from orchestrator.flows.ppe.thinking import THINKING
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument, Node, ScriptError, path_of

_ALWAYS = (*ALL, FOLDER, "LatestResult", RESPONSE, "output", THINKING)
_OF_LISTENERS = ("event", "arg1", "args")
_SETS = ("set", "prompt", "AI")


class Read(NamedTuple):
    """A name that is read."""

    name: str  # the name
    place: Place  # the text, or the statement, that reads it


class Uses:
    """What a script reads and sets."""

    def __init__(self, script: Script) -> None:
        front = script.front
        inputs = (one.name for one in inputs_of(front.get("input")))
        # The names that it gives values to
        self.given = dict.fromkeys((*_ALWAYS, *front, *inputs, *map_of(front.get("prompt"))))
        self.holes: list[Substitution] = []  # what the model fills
        self.read: list[Read] = list(_of_data(front))  # the names that it reads, in order
        for statement in statements_in(script.body):
            self.given |= dict.fromkeys(_find_assigned_names(statement))
            self.read += self._read_by(statement)
        for hole in self.holes:
            self.given |= dict.fromkeys(hole.names)

    @property
    def names(self) -> frozenset[str]:
        """All names that it reads."""
        return frozenset(one.name for one in self.read)

    def _read_by(self, statement: Statement) -> Iterator[Read]:
        place = statement.place
        match statement:
            case Say() | Edit():
                yield from self._of_text(statement.text)
            case Instruction():
                yield from _of_data(statement.value, statement.name)
                yield from _of_arguments(statement.arguments or (), place)
            case Chain():
                for link in statement.links:  # `content` is the result before
                    read = _of_arguments(link.arguments, place)
                    yield from (one for one in read if one.name != "content")
            case _:
                for node in conditions_in(statement):
                    yield from (Read(name, place) for name in sorted(find_read_names(node)))
                if isinstance(statement, For) and not isinstance(statement.items, Node):
                    yield from _of_data(statement.items)
                if isinstance(statement, If | While):
                    condition = statement.condition
                    if isinstance(condition, Instruction):
                        yield from _of_data(condition.value, condition.name)

    def _of_text(self, text: Text) -> Iterator[Read]:
        for part in text.parts:
            names = part.template.names - part.inlines.keys() if part.template else ()
            yield from (Read(name, text.place) for name in sorted(names))
            for inline in part.inlines.values():
                yield from self._of_inline(inline)
            if part.substitution is not None:
                self.holes.append(part.substitution)
                for one in part.substitution.parameters:
                    for name in sorted(find_read_names(one.node)):
                        yield Read(name, part.substitution.place)

    def _of_inline(self, inline: Inline) -> Iterator[Read]:
        if inline.kind == "regex":
            if not inline.bare:  # without brackets it may have been no expression
                yield Read(inline.name, inline.place)
            return
        alone = len(inline.arguments) == 1 and not inline.arguments[0].name
        if alone and inline.arguments[0].node.kind not in ("compared", "text", "value", "items"):
            # Such as a file's name, which is a text when it is no variable.
            names = find_read_names(inline.arguments[0].node)
            if not names & self.given.keys():
                return
        yield from _of_arguments(inline.arguments, inline.place)


def _of_arguments(arguments: Sequence[Argument], place: Place) -> Iterator[Read]:
    for one in arguments:
        if one.node.kind != "name":  # a bare word that is no variable is a text
            yield from (Read(name, place) for name in sorted(find_read_names(one.node)))


def _of_data(value: Any, instruction: str = "") -> Iterator[Read]:
    """What the author's templates and expressions in data read."""
    for text in author_texts(value):
        for name in _of_author(text, instruction):
            yield Read(name, text.place)


def _of_author(text: Author, instruction: str) -> Iterable[str]:
    if instruction and text.startswith("?="):
        try:
            return sorted(
                find_read_names(parse_expression(unwrap_templates(text[2:]))) - set(_OF_LISTENERS)
            )
        except ScriptError:
            return ()
    if not has_tags(text):
        return ()
    try:
        made = compile_text(str(text), text.place, None, holes=not instruction)
    except FlowError:  # a description may have anything
        return ()
    names = {name for part in made.parts if part.template for name in part.template.names}
    for inline in made.inlines if instruction else ():
        for one in _of_arguments(inline.arguments, inline.place):
            names.add(one.name)
    return sorted(one for one in names if not one.startswith("inline_"))


def _find_assigned_names(statement: Statement) -> Iterator[str]:
    if isinstance(statement, For):
        yield from (*statement.values, statement.index)
    elif isinstance(statement, Match):
        yield MATCHED
        for pattern, _ in statement.branches:
            yield from find_pattern_names(pattern)
    elif isinstance(statement, Instruction):
        if statement.name in _SETS and isinstance(statement.value, Mapping):
            yield from (str((path_of(name) or (name,))[0]) for name in statement.value)
        if statement.name in _SETS:
            yield from (one.name for one in statement.arguments or () if one.name)
        data = statement.value.get("data") if isinstance(statement.value, Mapping) else None
        if statement.name == "format" and isinstance(data, Mapping):
            yield from map(str, data)


def blocks_in(statement: Statement) -> Iterator[Block]:
    """The blocks of statements in one."""
    if isinstance(statement, If):
        yield statement.then
        yield statement.otherwise
    elif isinstance(statement, While | For):
        yield statement.body
    elif isinstance(statement, Match):
        yield from (body for _, body in statement.branches)


def statements_in(block: Block) -> Iterator[Statement]:
    """All statements of a block, and of the blocks in it."""
    for one in block:
        yield one
        for inner in blocks_in(one):
            yield from statements_in(inner)


def conditions_in(statement: Statement) -> Iterator[Node]:
    """The expressions of a statement that decides or repeats."""
    found: Any = None
    if isinstance(statement, If | While):
        found = statement.condition
    elif isinstance(statement, For):
        found = statement.items
    elif isinstance(statement, Match):
        found = statement.value
    if isinstance(found, Node):
        yield found


def arguments_of(script: Script) -> tuple[list[str], frozenset[str] | None]:
    """The arguments that a script wants, and all names that it accepts.

    The latter are `None` where it reads everything (`this`, `prompt`).
    """
    uses = Uses(script)
    declared = [one.name for one in inputs_of(script.front.get("input"))]
    wanted = dict.fromkeys((*declared, *(it.name for it in uses.read if it.name not in uses.given)))
    if uses.names & ALL:
        return list(wanted), None
    # A bare word of a call is a text, unless there is such a variable: so it may be one.
    words = {
        name
        for link in script.calls
        for one in link.arguments
        for name in find_read_names(one.node)
    }
    texts = [it.text for it in statements_in(script.body) if isinstance(it, Say | Edit)]
    searched = {it.name for text in texts for it in text.inlines if it.kind == "regex"}
    return list(wanted), frozenset({*uses.given, *uses.names, *words, *searched})
