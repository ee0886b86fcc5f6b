"""What is doubtful in a Prompty file: misspelt marks of roles and members, roles in threads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ValidationError
from orchestrator.prompts.languages.message_dicts import (
    ALLOW,
    INSTRUCTING,
    describe_instruction,
    find_instruction,
)
from orchestrator.prompts.languages.prompty.front_matter import (
    FRONT_RULES,
    Places,
    is_left_reference,
)
from orchestrator.prompts.languages.prompty.markers import THREAD_LINE, Marks
from orchestrator.prompts.languages.values import value_text
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import warn
from orchestrator.support.documents import ListNode, MapNode, Node, ScalarNode, compose
from orchestrator.support.spelling import find_close

_COMMENTS = {"{#": "#}", "{%": "%}"}
_PRINTED = {"{{": "}}"}
_MEANT = re.compile(r"[^\S\n]*+(?:#[^\S\n]*+)?([A-Za-z]\w*+)[^\S\n]*+(\[[^\n]*+|:[^\S\n]*+)")
# Media are also what Markdown has them for, so they may be meant as text.
_OLD_MARKS: tuple[tuple[re.Pattern[str], str, Literal["warning", "info"]], ...] = (
    (THREAD_LINE, "thread", "warning"),
    (re.compile(r"!\[[^\[\]\n]*+\]\([^()\s]++\)"), "image", "info"),
)
_MOST_OLD_MARKS = 20
# Words that are near to roles, and begin lists in prompts.
_WORDS = frozenset(("read", "steam", "stem", "toll", "use", "used", "uses"))


def find_misspelt_marks(
    body: str, line: int, marks: Marks, others: Sequence[str], source: str | None
) -> Iterator[Diagnostic]:
    """Lines of a body that are nearly marks; their text belongs to the message before.

    `others` are roles that only the other dialect has; `line` is where the body begins.
    """
    is_data = False
    plain = _replace_tags(_replace_tags(body, _COMMENTS, ""), _PRINTED, "x")
    for at, text in enumerate(plain.split("\n")):
        if opened := marks.parse_role_line(text):
            is_data = opened[1]
            continue
        found = None if is_data else _MEANT.fullmatch(text)
        if found is None:
            continue
        doubt = _suggest_mark(found[1].lower(), found[2], marks.roles, others)
        if doubt is not None:
            message = (
                f"{text.strip()[:80]!r} is no role's mark; it is text of the message that it "
                "stands in"
            )
            column = len(text) - len(text.lstrip()) + 1
            yield warn("misspelt-mark", message, doubt, source, line + at, column)


def find_old_marks(body: str, line: int, source: str | None) -> Iterator[Diagnostic]:
    """What is more than text in the first version of Prompty only: threads and media in a body."""
    instead = "write template: {parser: {kind: prompty, options: {dialect: legacy}}}, or an input"
    for pattern, kind, severity in _OLD_MARKS:
        for found in islice(pattern.finditer(body), _MOST_OLD_MARKS):
            at = body.count("\n", 0, found.start())
            column = found.start() - body.rfind("\n", 0, found.start())
            message = f"{found[0].strip()[:80]!r} is text in the dialect v2"
            way = f"{instead} of kind {kind}"
            yield warn("old-mark", message, way, source, line + at, column, severity=severity)


def _suggest_mark(word: str, rest: str, roles: Sequence[str], others: Sequence[str]) -> str | None:
    """What may be meant, where a line is nearly a mark."""
    has_attributes = rest.startswith("[")
    if has_attributes and "=" not in rest and not rest.rstrip().endswith(":"):
        return None
    if word in roles:
        return f'write it as {word}[name="value"]: in a line of its own'
    if word in others:
        return f"the other dialect has the role {word!r}"
    if word in _WORDS:
        return None
    close = find_close(word, roles, 0.7)
    return f"did you mean '{close}:'?" if close else None


def _replace_tags(text: str, closing: Mapping[str, str], instead: str) -> str:
    """A text with `instead` for each tag; the lines of a tag become as many empty ones."""
    # An expression that looks for the end of every tag takes quadratic time where none ends.
    last = {closer: text.rfind(closer) for closer in closing.values()}
    pieces, done = [], 0
    for opened in re.finditer("|".join(map(re.escape, closing)), text):
        start, inner, closer = opened.start(), opened.end(), closing[opened[0]]
        if start < done or last[closer] < inner:  # in a tag, or none
            continue
        end = text.index(closer, inner) + len(closer)
        pieces += [text[done:start], instead, "\n" * text.count("\n", start, end)]
        done = end
    return "".join([*pieces, text[done:]])


_TOP = (
    *("name", "displayName", "description", "version", "metadata", "authors", "tags", "sample"),
    *("model", "inputs", "inputSchema", "outputs", "outputSchema", "tools", "template"),
    *("instructions", "additionalInstructions", "kind", "parameters", "base"),
)
_MODEL = (
    *("id", "provider", "apiType", "api", "connection", "options", "parameters"),
    *("configuration", "response"),
)
_OPTIONS = (
    *("temperature", "topP", "top_p", "topK", "top_k", "maxOutputTokens", "max_tokens"),
    *("stopSequences", "stop", "seed", "frequencyPenalty", "frequency_penalty"),
    *("presencePenalty", "presence_penalty", "additionalProperties", "allowMultipleToolCalls"),
    *("top_logprobs", "logprobs", "logit_bias", "max_completion_tokens", "maxTokens"),
)
_INPUT = (
    *("name", "kind", "type", "title", "description", "required", "default", "example"),
    *("sample", "enum", "enumValues", "strict", "items", "properties", "format", "nullable"),
    ALLOW,
)
_KINDS = (
    *("string", "integer", "float", "number", "boolean", "array", "object", "any"),
    *("thread", "image", "file", "audio", "video"),
)


def find_misspelt_members(front: str, source: str | None) -> Iterator[Diagnostic]:
    """Members of a front matter that are nearly those that Prompty has.

    Custom members are accepted, and so are options that only a model knows. The lines of `front`
    are those of the file.
    """
    root = compose(front, source or "", FRONT_RULES)
    found = [*_find_near(_names(root), _TOP)]
    for key, part in _members(root):
        if key.value == "model":
            found += _find_near(_names(part), _MODEL)
            for name, options in _members(part):
                if name.value in ("options", "parameters"):
                    found += _find_near(_names(options), _OPTIONS)
        elif key.value in ("inputs", "inputSchema"):
            for one in _inputs(part):
                found += _find_near(_names(one), _INPUT)
                kinds = [value for name, value in _members(one) if name.value in ("kind", "type")]
                found += _find_near(kinds, _KINDS)
    for node, close in found:
        message = f"Prompty has no {node.value[:80]!r} here"
        yield warn(
            "misspelt-member", message, f"did you mean {close!r}?", source, node.line, node.column
        )


def _members(node: Node | None) -> Iterator[tuple[ScalarNode, Node]]:
    for key, value in node.value if isinstance(node, MapNode) else ():
        if isinstance(key, ScalarNode):
            yield key, value


def _names(node: Node | None) -> list[ScalarNode]:
    return [key for key, _ in _members(node)]


def _inputs(node: Node) -> Iterator[Node]:
    """The inputs of a list, of a map by name, or of a schema's `properties`."""
    if isinstance(node, ListNode):
        yield from node.value
        return
    members = {key.value: value for key, value in _members(node)}
    properties = members.get("properties")
    if isinstance(properties, ListNode | MapNode):
        yield from _inputs(properties)
    else:
        yield from members.values()


def _find_near(nodes: Iterable[Node], known: Collection[str]) -> Iterator[tuple[ScalarNode, str]]:
    for node in nodes:
        if isinstance(node, ScalarNode) and node.value not in known and node.value[:2] != "x-":
            if close := find_close(node.value[:80], known, 0.75):
                yield node, close


_A_TOOL = "write its name, kind and parameters: {name: NAME, kind: function, parameters: [...]}"
# Members that have no effect if they are of another kind: what they are, and how they are written
_MEMBER_KINDS: tuple[tuple[tuple[str, ...], type | UnionType, str, str], ...] = (
    (("model",), Mapping | str, "a name or a map", "write model: {id: NAME}"),
    (("model", "id"), str, "a name", "write id: NAME"),
    (("model", "options"), Mapping, "a map of options", "write options: {temperature: 0}"),
    (("model", "parameters"), Mapping, "a map of options", "write parameters: {temperature: 0}"),
    (("sample",), Mapping, "a map of values", "write its values, or sample: ${file:NAME.json}"),
    (("tools",), Mapping | list, "a list or a map of tools", _A_TOOL),
)


def find_ignored_members(
    data: Mapping[str, Any], places: Places, *, legacy: bool
) -> Iterator[Diagnostic]:
    """Members of a front matter that have no effect as they are written."""
    if "inputSchema" in data and not legacy:
        message = "'inputSchema' has no effect in the dialect v2"
        instead = "write inputs:, or choose the dialect legacy"
        yield places.warn("ignored-member", message, instead, "inputSchema")
    for keys, kinds, what, instead in _MEMBER_KINDS:
        value = _find_member(data, keys)
        if value == "" or not isinstance(value, kinds | NoneType):
            yield from _warn_ignored(f"{keys[-1]!r} must be {what}", value, instead, places, *keys)
    tools = data.get("tools")
    listed = enumerate(tools) if isinstance(tools, list) else ()
    for at, tool in tools.items() if isinstance(tools, Mapping) else listed:
        if not isinstance(tool, Mapping):
            yield from _warn_ignored("a tool must be a map", tool, _A_TOOL, places, "tools", at)


def _warn_ignored(
    problem: str, value: Any, instead: str, places: Places, *keys: str | int
) -> Iterator[Diagnostic]:
    if not is_left_reference(value):  # whose variable is reported
        message = f"{problem}, and has no effect as it is"
        yield places.warn("ignored-member", message, instead, *keys)


def _find_member(data: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def find_flat_messages(
    inputs: Mapping[str, Any], pieces: Iterable[Piece], source: str | None
) -> Iterator[Diagnostic]:
    """Messages that stand in the prompt as JSON, because their input is of no kind `thread`."""
    printed = {text for _, text in pieces if text.startswith("[{")}
    for name, value in inputs.items() if printed else ():
        if _are_messages(value) and value_text(value) in printed:
            message = f"the value of {name!r} looks like messages, and is a text here"
            instead = f"to place its messages, declare {name} as an input of kind thread"
            yield warn("messages-as-text", message, instead, source)


def _are_messages(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in value
    )


_SPOKEN = ("user", "assistant", "tool", "function")


def check_thread_roles(
    name: str, value: Any, *, allowed: bool, source: str | None
) -> Iterator[Diagnostic]:
    """Roles of a thread's messages: data may instruct the model only where that is allowed.

    Raises:
        ValidationError: A role is unknown, or is one that only the author may have.
    """
    messages = value if isinstance(value, list | tuple) else ()
    if (found := find_instruction(messages)) is not None:
        if not allowed:
            raise ValidationError(describe_instruction(name, *found))
        message = f"{name}[{found[0]}] is system text that the author did not write"
        instead = f"leave {ALLOW} out: then such messages are an error"
        yield warn("instructing-thread", message, instead, source)
    for at, one in enumerate(messages):
        role = one.get("role", "user") if isinstance(one, Mapping) else "user"
        if role not in (*_SPOKEN, *INSTRUCTING):
            raise ValidationError(
                f"{name}[{at}] has the role {str(role)[:40]!r}; there are {', '.join(_SPOKEN)}"
            )
