"""What is doubtful in a script that can be read: found without running it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from orchestrator.flows.ppe.built_in import BUILT_IN
from orchestrator.flows.ppe.data import map_of
from orchestrator.flows.ppe.json_schemas import describe_schema_mistake
from orchestrator.flows.ppe.library import Library
from orchestrator.flows.ppe.lint_literals import find_literals
from orchestrator.flows.ppe.listeners import EVENTS
from orchestrator.flows.ppe.nodes import (
    Block,
    For,
    Instruction,
    Link,
    Match,
    Say,
    Script,
    Statement,
    While,
)
from orchestrator.flows.ppe.output import inputs_of
from orchestrator.flows.ppe.parameters import OF_CALL, PARAMETERS
from orchestrator.flows.ppe.roles import (
    ROLES,
    find_unknown_roles,
    suggest_instruction,
    suggest_name,
)
from orchestrator.flows.ppe.scope import ALL
from orchestrator.flows.ppe.settings import KEYS
from orchestrator.flows.ppe.text_scanner import Substitution
from orchestrator.flows.ppe.uses import Uses, blocks_in, conditions_in, statements_in
from orchestrator.flows.steps import Finding, Place
from orchestrator.flows.tree import Node, parts_of
from orchestrator.prompts.languages.base import first_uses

Findings = Iterator[Finding]

# A comment of YAML
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#[^\n]*", re.M)
_ENDS = ("ret", "abort", "break", "continue")
_GIVEN = "--tool NAME=FILE:FUNCTION gives it"
_MODEL_SETTINGS = frozenset(
    "continueOnLengthLimit formatStringStrategy maxRetry memoized naturalOutput response_format "
    "stream".split()
)


def findings(text: str, script: Script, library: Library) -> Findings:
    """What may not do what was meant, with its place and the way out.

    A script's functions are registered, and its arguments passed, when it runs. So a name that may
    be one of them is reported as information, and not as a mistake.
    """
    uses = Uses(script)
    for place, message in script.warnings:
        yield "warning", "doubtful", place, message, ""
    yield from _calls(script, library)
    yield from _roles(script, library)
    yield from _speakers(text, script)
    yield from _names(text, script, uses)
    yield from _keys(text, script, uses)
    yield from _parameters(text, script, uses)
    yield from _block(script.body, in_loop=False)
    for statement in statements_in(script.body):
        yield from _events(statement)
        yield from _matches(statement, uses)
    yield from _choices(script, uses)
    yield from find_literals(script, library)


# What is called


def _calls(script: Script, library: Library) -> Findings:
    message: set[str] = set()
    for link in script.calls:
        if link.name in message or link.name in script.settings.imports:
            continue
        message.add(link.name)
        found = _instruction(link) if link.instruction else _script(link, library)
        if found is not None:
            yield found


def _instruction(link: Link) -> Finding | None:
    name = link.name
    if name in BUILT_IN:
        return None
    close = suggest_instruction(name, BUILT_IN)
    if close:
        message = f"there is no instruction ${name}, unless a function of that name is registered"
        return "warning", "unknown-instruction", link.place, message, close
    message = f"${name} is a function, which is to be registered"
    return "info", "function", link.place, message, _GIVEN


def _script(link: Link, library: Library) -> Finding | None:
    name = link.name
    if library.has(name) or (name in BUILT_IN and not link.text):
        return None
    close = suggest_name(name, library.ids)
    message = (
        f"there is no script {name!r} beside this one: it is a function, which is to be registered"
    )
    if close:
        return "warning", "unknown-script", link.place, message, close
    return "info", "function", link.place, message, _GIVEN


def _roles(script: Script, library: Library) -> Findings:
    for role, id in script.settings.roles.items():
        if not library.has(id):
            message = f"the role {role!r} is the script {id!r}, which is not beside this one"
            way = suggest_name(id, library.ids) or "put it there"
            yield "error", "unknown-role", Place(1), message, way


def _speakers(text: str, script: Script) -> Findings:
    lines = text.split("\n")
    for place, role, close in find_unknown_roles(script, statements_in(script.body)):
        near = (place.line, place.line - 1)  # a block's text begins below its role
        at = next((it for it in near if role in "".join(lines[it - 1 : it])), 0)
        where = Place(at, lines[at - 1].index(role) + 1, place.statement) if at else place
        message = f"there is no role {role!r}: no model knows it"
        severity: Literal["error", "warning"] = "error" if close else "warning"
        yield severity, "unknown-role", where, message, close or f"there is {', '.join(ROLES)}"


# Names


def _names(text: str, script: Script, uses: Uses) -> Findings:
    declared = [one.name for one in inputs_of(script.front.get("input"))]
    yield from _inputs(text, script)
    unknown = {one.name: one.place for one in reversed(uses.read) if one.name not in uses.given}
    places = first_uses(text, unknown)
    for name, place in unknown.items():
        line, column = places.get(name, (place.line, place.column))
        where = Place(line, column, place.statement)
        known = [one for one in uses.given if one.rstrip("s") != name.rstrip("s")]
        close = suggest_name(name, known)
        if close:
            message = f"{name!r} gets no value in the script, unless it is an argument"
            yield "warning", "undefined", where, message, close
        else:
            message = f"{name!r} is an argument: the script itself gives it no value"
            yield "info", "argument", where, message, "name it in 'input'" if declared else ""


def _inputs(text: str, script: Script) -> Findings:
    for one in inputs_of(script.front.get("input")):
        if one.hidden:
            continue
        kind = (one.schema or {}).get("type")
        has = one.default if one.default is not None else script.front.get(one.name)
        about = [
            "required" if one.required else "",
            f"of type {kind}" if isinstance(kind, str) else "",
            f"by itself {str(has)[:60]!r}" if has is not None else "",
            "what a text without a name is" if one.index == 0 else "",
        ]
        message = ", ".join(filter(None, about))
        yield (
            "info",
            "argument",
            _place_of_input(text, one.name),
            f"{one.name!r} is an argument" + (f": {message}" if message else ""),
            "",
        )


def _place_of_input(text: str, name: str) -> Place:
    """Where `input` of the front matter declares a name."""
    plain = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    found = re.search(
        rf"^input:[^\n]*(?:\n(?:[ \t-][^\n]*|(?=\n)))*?\b(?P<at>{re.escape(name)})\b", plain, re.M
    )
    if found is None:
        return _place_of(text, "input")
    at = found.start("at")
    begins = text.rfind("\n", 0, at) + 1
    line = text[begins:].partition("\n")[0]
    return Place(text.count("\n", 0, at) + 1, at - begins + 1, line.strip())


def _keys(text: str, script: Script, uses: Uses) -> Findings:
    """Keys of the front matter that mean nothing, and that nothing reads."""
    front = script.front
    inputs = {one.name for one in inputs_of(front.get("input"))}
    # Everything is read, or a script that inherits may read it.
    inherits = bool(uses.names & ALL or front.get("type"))
    read = uses.names | front.keys() if inherits else uses.names
    for key in front:
        if key in KEYS or key in inputs or (key in read and not inherits):
            continue
        close = suggest_name(key, KEYS)
        place = _place_of(text, key)
        if close and key not in uses.names:
            message = f"the front matter's key {key!r} means nothing, and nothing reads it"
            yield "warning", "unknown-key", place, message, close
        elif key not in read:
            yield "info", "unused", place, f"nothing reads {key!r} of the front matter", ""


def _place_of(text: str, key: str) -> Place:
    found = re.search(rf"^([ \t]*[\"']?){re.escape(key)}[\"']?[ \t]*:", text, re.M)
    if found is None:
        return Place(1)
    line = text.count("\n", 0, found.start()) + 1
    return Place(line, len(found[1]) + 1, found[0].strip())


def _parameters(text: str, script: Script, uses: Uses) -> Findings:
    """A schema that is none, and model parameters that are not known, and so are not sent."""
    output = script.front.get("output")
    if isinstance(output, dict) and (wrong := describe_schema_mistake(output)):
        yield "warning", "wrong-schema", _place_of(text, "output"), f"'output': {wrong}", ""
    known = (*PARAMETERS, *OF_CALL, *_MODEL_SETTINGS)
    named = [(name, _place_of(text, name)) for name in map_of(script.front.get("parameters"))]
    named += [(one.name, hole.place) for hole in uses.holes for one in hole.parameters]
    for name, place in named:
        if name not in known:
            message = f"the model parameter {name!r} is not known, and is not sent"
            yield "warning", "unknown-parameter", place, message, suggest_name(name, known)


# The order of statements


def _block(block: Block, *, in_loop: bool) -> Findings:
    for at, statement in enumerate(block):
        if isinstance(statement, Instruction) and statement.name in _ENDS:
            if statement.name in ("break", "continue") and not in_loop:
                message = f"${statement.name} is in no loop"
                yield "error", "no-loop", statement.place, message, "put it below $for or $while"
            if at + 1 < len(block):
                message = f"this is never reached: ${statement.name} is before it"
                yield "warning", "unreachable", block[at + 1].place, message, "remove it"
                return
        within = in_loop or isinstance(statement, For | While)
        for inner in blocks_in(statement):
            yield from _block(inner, in_loop=within)


def _events(statement: Statement) -> Findings:
    if isinstance(statement, Instruction) and statement.name in ("on", "once"):
        event = str(map_of(statement.value).get("event", ""))
        close = suggest_name(event, EVENTS)
        if event and event not in EVENTS and close:
            message = f"the event {event!r} is sent by $emit alone"
            yield "warning", "unknown-event", statement.place, message, close


def _matches(statement: Statement, uses: Uses) -> Findings:
    if not isinstance(statement, Match):
        return
    kinds = [pattern.kind for pattern, _ in statement.branches]
    if "any" in kinds[:-1] and not statement.all:
        message = "branches below `_` are never reached: it fits everything"
        yield "warning", "unreachable", statement.place, message, "put `_` last"
    hole = _hole_of(statement.value, uses.holes)
    if hole is None or hole.choice is None:
        return
    compared = [one.value for one, _ in statement.branches if one.kind == "equal"]
    yield from _impossible(compared, hole, statement.place)
    left = [one for one in hole.choice.distinct_items if one not in compared]
    if left and all(kind == "equal" for kind in kinds):
        message = f"no branch is for {', '.join(map(repr, left))}, which [[{hole.name}]] may be"
        yield "warning", "unused-choice", statement.place, message, "add one, or `_`"


# Choices


def _choices(script: Script, uses: Uses) -> Findings:
    for statement in statements_in(script.body):
        for node in conditions_in(statement):
            for hole, text in _find_comparisons(node, uses.holes):
                yield from _impossible([text], hole, statement.place)
    body = script.body
    last = body[-1] if body else None
    ends = list(last.text.substitutions) if isinstance(last, Say) else []
    for hole in uses.holes:
        for item in hole.choice.distinct_items if hole.choice is not None else ():
            if "{{" in item or "{%" in item:
                message = f"{item!r} is a choice as it is written: choices are constants"
                way = "write its text, or have $match or $if choose among messages"
                yield "warning", "constant-choice", hole.place, message, way
        read = uses.names & {*hole.names, *ALL, RESULT}
        if hole.choice is not None and not read and hole not in ends:
            message = f"{hole.name!r} is chosen, and nothing reads it"
            yield "info", "unused-choice", hole.place, message, ""


RESULT = "LatestResult"


def _impossible(texts: Iterable[Any], hole: Substitution, place: Place) -> Findings:
    """Texts that a choice is compared with, and never is."""
    if hole.choice is None:
        return
    known = hole.choice.distinct_items
    for text in texts:
        if (
            hole.choice.most == 1
            and isinstance(text, str)
            and hole.choice.text([text]) not in (hole.choice.text([one]) for one in known)
        ):
            message = f"[[{hole.name}]] is never {text!r}"
            way = suggest_name(text, known)
            yield "warning", "impossible", place, message, way or f"there is {', '.join(known)}"


def _find_comparisons(node: Node, holes: list[Substitution]) -> Iterator[tuple[Substitution, str]]:
    if node.kind == "compared":
        for sign, *both in zip(node.value, node.parts, node.parts[1:], strict=False):
            for one, other in (both, reversed(both)):
                hole = _hole_of(one, holes)
                if sign[0] in "=!" and hole is not None and other.kind == "text":
                    yield hole, other.value
    for part in parts_of(node):
        yield from _find_comparisons(part, holes)


def _hole_of(node: Node | None, holes: list[Substitution]) -> Substitution | None:
    """The only choice that an expression names."""
    if node is None or node.kind not in ("name", "member"):
        return None
    if node.kind == "member" and node.parts[0].value not in ALL:
        return None
    found = [one for one in holes if one.name == node.value]
    return found[0] if len(found) == 1 and found[0].choice is not None else None
