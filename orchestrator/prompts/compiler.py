"""Compiles a template's text to its messages and leaves, and finds what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError
from orchestrator.prompts.bound_prompt import HISTORY, SCRATCHPAD
from orchestrator.prompts.jsonbody import Body, Node, parse, source_offsets
from orchestrator.prompts.languages import MAX_TEMPLATE_CHARS, language_of
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    MEMORY_SUMMARIZATION,
    ORCHESTRATION,
    PLACEHOLDERS,
    POST_PROCESSING,
    PRE_PROCESSING,
    ROUTING_CLASSIFIER,
    STAGES,
    lookup,
    names,
)
from orchestrator.prompts.source import Source, warn
from orchestrator.prompts.template import Leaf, Slot, Template, Use, find_anchor, insert_history
from orchestrator.support.spelling import find_close

if TYPE_CHECKING:
    from orchestrator.prompts.dialect import Dialect
    from orchestrator.prompts.languages.base import Input

_RAW_TEXT_STAGES = (KNOWLEDGE_BASE_RESPONSE_GENERATION, ROUTING_CLASSIFIER)
_BODY = '{"system": "...", "messages": [{"role": "user", "content": "..."}]}'
_SILENT_MEMBERS = ("system", "messages", "anthropic_version", "schemaVersion")


def compile_template(
    text: str,
    *,
    stage: str,
    dialect: Dialect,
    source: str | None = None,
    strict: bool = False,
    language: str | None = None,
) -> Template:
    """Compiles a template.

    Args:
        text: The template. A text that begins with `{` is a JSON body: `system` and `messages` as
            Anthropic's Messages or Converse write them. Anything else is raw text.
        stage: The prompt type, such as `ORCHESTRATION`.
        dialect: What the model understands.
        source: The file it came from, for messages.
        strict: Refuse what Bedrock's API may refuse: raw line breaks inside JSON strings.
        language: `bedrock`, or another language that it is written in; by default what the ending
            of `source` says (`orchestrator.prompts.languages`).

    Raises:
        TemplateError: The template is broken, with the line and column.
    """
    if stage not in STAGES:
        raise TemplateError(f"unknown stage {stage!r}; use one of {', '.join(STAGES)}", file=source)
    if not text.strip() or len(text) > MAX_TEMPLATE_CHARS:
        limit = f"1 to {MAX_TEMPLATE_CHARS:,}"
        raise TemplateError(
            f"the {stage} template has {len(text):,} characters; a template has {limit}",
            file=source,
        )
    language = language or (language_of(source) if source else None) or "bedrock"
    if language != "bedrock":
        from orchestrator.prompts.languages.stage import compile_document

        return compile_document(text, language, stage=stage, dialect=dialect, source=source)
    compiler = _Compiler(text, stage, dialect, source)
    if text.lstrip().startswith("{"):
        return compiler.messages(parse(text, strict=strict, source=source))
    return compiler.raw_text()


def lint_template(
    text: str,
    *,
    stage: str,
    dialect: Dialect,
    source: str | None = None,
    strict: bool = False,
    language: str | None = None,
) -> tuple[Diagnostic, ...]:
    """Every finding about a template; one that is broken is a finding, too.

    The arguments are those of `compile_template`.
    """
    try:
        template = compile_template(
            text, stage=stage, dialect=dialect, source=source, strict=strict, language=language
        )
    except TemplateError as error:
        place = (error.file, error.line, error.column)
        return (warn("broken-template", error.reason, "", *place, severity="error"),)
    return template.diagnostics


class _Compiler:
    def __init__(self, text: str, stage: str, dialect: Dialect, source: str | None) -> None:
        self.text, self.stage, self.dialect = text, stage, dialect
        self.source = Source(text, source)
        self.uses: list[Use] = []
        self.found: list[Diagnostic] = []

    def messages(self, body: Body) -> Template:
        members: dict[str, Node] = body.root.value
        if "messages" not in members:
            raise self.error(body.root, f"no 'messages'; the body is {_BODY}")
        self.found += self._find_body_doubts(body)
        system = self._system(members["system"]) if "system" in members else None
        if system and SCRATCHPAD in system.names:
            message = "$agent_scratchpad$ in 'system'; make it the content of an assistant message"
            raise self.error(members["system"], message)
        items = self._list(members["messages"], "'messages'")
        if not items:
            message = "'messages' is empty; it needs the user's message"
            raise self.error(members["messages"], message)
        slots = [self._slot(item) for item in items]
        self._check_history_order(items, slots)
        leaves = [leaf for slot in slots for leaf in slot.leaves] + ([system] if system else [])
        if not any(HISTORY in leaf.names for leaf in leaves):
            insert_history(slots, self.stage)
        return self._template("messages", system, slots)

    def raw_text(self) -> Template:
        self._check_raw_text_allowed()
        # The model continues where the text ends, so a file's last line break is no part of it.
        text = self.text.rstrip("\r\n")
        leaf = Leaf(text, self.stage, self.dialect.family)
        self._record(leaf, [use.offset for use in leaf.uses])
        query_apart = (
            self.stage == KNOWLEDGE_BASE_RESPONSE_GENERATION
            and self.dialect.protocol != "text"
            and "query" not in leaf.names
        )
        # Recorded: the template is then the system text, and the query is the message.
        if query_apart:
            query = Leaf("$query$", self.stage, self.dialect.family)
            return self._template("text", leaf, [Slot("user", (query,))])
        if self.stage == ORCHESTRATION and HISTORY not in leaf.names:
            shown = f"${HISTORY}$"
            message = f"no {shown}: earlier turns would not reach the model"
            self.found.append(
                self.source.warn("missing-placeholder", message, 0, f"put {shown} in")
            )
        return self._template("text", None, [Slot("user", (leaf,))])

    def _template(self, shape: str, system: Leaf | None, slots: list[Slot]) -> Template:
        self.found += _inspect(self.source, self.stage, self.uses)
        return Template(
            self.stage,
            self.dialect,
            system,
            slots,
            shape=shape,
            text=self.text,
            source=self.source.file,
            placeholders=tuple(self.uses),
            diagnostics=tuple(self.found),
        )

    def _check_raw_text_allowed(self) -> None:
        if self.dialect.protocol == "text" or self.stage in _RAW_TEXT_STAGES:
            return
        start = len(self.text) - len(self.text.lstrip())
        raise self.source.error(
            f"the template for the {self.stage} prompt type has failed validation: Invalid JSON in "
            f"the prompt: expected a JSON body {_BODY}, as the dialect {self.dialect.name!r} needs "
            f"it, found {self.text[start : start + 24]!r}",
            start,
        )

    def _system(self, node: Node) -> Leaf:
        if node.kind == "string":
            return self._leaf(node)
        texts = [self._text_block(item) for item in self._list(node, "'system'")]
        joined = "\n".join(self._leaf(text).text for text in texts)
        return Leaf(joined, self.stage, self.dialect.family)

    def _slot(self, node: Node) -> Slot:
        members = self._object(node, "a message")
        role = members.get("role")
        if role is None or role.value not in ("user", "assistant"):
            where = role or node
            raise self.error(where, "a message's 'role' must be 'user' or 'assistant'")
        if "content" not in members:
            raise self.error(node, "a message needs 'content'")
        content = members["content"]
        if content.kind == "string":
            texts = [content]
        else:
            texts = [self._text_block(item) for item in self._list(content, "'content'")]
        leaves = tuple(self._leaf(text) for text in texts)
        return _slot(str(role.value), tuple(leaf for leaf in leaves if leaf.text))

    def _text_block(self, node: Node) -> Node:
        members = self._object(node, "a content block")
        text = members.get("text")
        if text is None or text.kind != "string":
            raise self.error(node, 'a template has text blocks only: {"text": "..."}')
        return text

    def _leaf(self, node: Node) -> Leaf:
        leaf = Leaf(node.value, self.stage, self.dialect.family)
        offsets = [use.offset for use in leaf.uses]
        self._record(leaf, list(source_offsets(self.text, node, offsets)))
        try:
            leaf.text.encode()
        except UnicodeEncodeError:
            message = "half of a surrogate pair (\\ud800 to \\udfff) in a text"
            raise self.error(node, message) from None
        return leaf

    def _record(self, leaf: Leaf, offsets: Iterable[int]) -> None:
        for use, offset in zip(leaf.uses, offsets, strict=True):
            line, column = self.source.place(offset)
            self.uses.append(use._replace(line=line, column=column))

    def _check_history_order(self, items: list[Node], slots: list[Slot]) -> None:
        steps = find_anchor(slots, SCRATCHPAD)
        for item, slot in zip(items[steps:], slots[steps:], strict=True):
            if slot.anchor == HISTORY:
                message = (
                    "$conversation_history$ after $agent_scratchpad$; earlier turns come first: "
                    "put it before the user's message"
                )
                raise self.error(item, message)

    def _find_body_doubts(self, body: Body) -> Iterator[Diagnostic]:
        warn = self.source.warn
        if body.raw_controls:
            count = len(body.raw_controls)
            yield warn(
                "raw-line-breaks",
                f"{count} raw line breaks or control characters inside JSON strings",
                body.raw_controls[0],
                "fine here; Bedrock's API may refuse them: write \\n",
                severity="info",
            )
        for offset, name in body.repeated:
            yield warn("repeated-member", f"{name!r} occurs twice; the last counts", offset)
        for name, node in body.root.value.items():
            if name not in _SILENT_MEMBERS:
                yield warn(
                    "ignored-member",
                    f"{name!r} has no effect in a template",
                    node.start,
                    "inference settings belong into the stage's inferenceConfiguration",
                )

    def _list(self, node: Node, what: str) -> list[Node]:
        if node.kind != "array":
            raise self.error(node, f"{what} must be a list, or a text where one is allowed")
        items: list[Node] = node.value
        return items

    def _object(self, node: Node, what: str) -> dict[str, Node]:
        if node.kind != "object":
            raise self.error(node, f"{what} must be a JSON object")
        members: dict[str, Node] = node.value
        return members

    def error(self, node: Node, message: str) -> TemplateError:
        return self.source.error(f"the {self.stage} template: {message}", node.start)


def _slot(role: str, leaves: tuple[Leaf, ...]) -> Slot:
    filled = [leaf for leaf in leaves if leaf.text.strip()]
    if len(filled) == 1 and filled[0].only in (HISTORY, SCRATCHPAD):
        return Slot(role, anchor=filled[0].only)
    return Slot(role, leaves).fill_fixed({})


_Severity = Literal["error", "warning", "info"]

_NEEDED: dict[str, tuple[tuple[str, _Severity, str], ...]] = {
    PRE_PROCESSING: (("question", "error", "the model would not see the user's input"),),
    ORCHESTRATION: (
        ("question", "error", "the model would not see the user's input"),
        ("instruction", "warning", "the agent's instruction would not reach the model"),
        ("agent_scratchpad", "warning", "it marks where the turn's steps go; they go last"),
    ),
    KNOWLEDGE_BASE_RESPONSE_GENERATION: (
        ("search_results", "error", "the model would not see what was found"),
    ),
    POST_PROCESSING: (("latest_response", "error", "the model would not see the answer"),),
    MEMORY_SUMMARIZATION: (("conversation", "error", "the model would not see the conversation"),),
    ROUTING_CLASSIFIER: (
        ("last_user_request", "error", "the model would not see the user's input"),
        ("reachable_agents", "warning", "the model would not know whom to choose"),
    ),
}
_INSTEAD = {
    "instruction": ("model_instruction", "model_instructions"),
    "agent_scratchpad": ("bot_response",),
    "last_user_request": ("conversation",),
}
_ANCHORS = ("agent_scratchpad", "conversation_history")
# Comparing names takes time: a hostile template could have thousands of unknown ones.
_MAX_SUGGESTIONS = 100
_LOOSE = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_]*)\}|\$([A-Za-z][A-Za-z0-9_]*)(\$?)")


def _inspect(source: Source, stage: str, uses: Sequence[Use]) -> Iterator[Diagnostic]:
    """Checks what looks like a placeholder in a template."""
    seen: set[str] = set()
    for use in uses:
        if finding := _check_use(use, stage, seen):
            severity, code, message, instead = finding
            place = (source.file, use.line, use.column)
            yield warn(code, message, instead, *place, severity=severity)
        seen.add(use.name)
    yield from _find_misspelt(source, stage)
    yield from _find_missing({use.name for use in uses}, stage, source.file, "$")


def inspect_inputs(
    inputs: Sequence[Input], stage: str, uses: Sequence[Use], source: str | None
) -> Iterator[Diagnostic]:
    """Checks the inputs of a template in another language than Bedrock's."""
    own = {one.name for one in inputs if one.default is not None}
    for use in uses:
        if use.literal and use.name not in own:
            message = f"the input {use.name!r} is not a placeholder of {stage}; it is empty"
            near = find_close(use.name, names(stage), 0.7)
            instead = f"did you mean {near!r}?" if near else "give it a default, or remove it"
            yield warn("unknown-placeholder", message, instead, source, use.line, use.column)
    yield from _find_missing({use.name for use in uses}, stage, source, "")


def _find_missing(
    used: set[str], stage: str, source: str | None, mark: str
) -> Iterator[Diagnostic]:
    for name, severity, reason in _NEEDED.get(stage, ()):
        if used.isdisjoint((name, *_INSTEAD.get(name, ()))):
            shown = f"{mark}{name}{mark}"
            message = f"the {stage} template has no {shown}: {reason}"
            suggestion = f"put {shown} where it belongs"
            yield warn("missing-placeholder", message, suggestion, source, severity=severity)


def _check_use(use: Use, stage: str, seen: set[str]) -> tuple[_Severity, str, str, str] | None:
    shown = f"${use.name}$"
    if use.status == "unknown":
        stays = f"{shown} is not a placeholder of {stage}; it stays in the text as it is"
        if len(seen) >= _MAX_SUGGESTIONS:
            return "warning", "unknown-placeholder", stays, ""
        near = find_close(use.name, names(stage), 0.7)
        instead = (
            f"did you mean ${near}$?" if near else "remove it; as a text write it in upper case"
        )
        return "warning", "unknown-placeholder", stays, instead
    if use.name in _ANCHORS and use.name in seen:
        return "warning", "repeated-anchor", f"{shown} occurs twice", "keep one of them"
    if use.literal:
        stages = sorted({row.stage for row in PLACEHOLDERS if row.name == use.name and row.stage})
        where = f"it belongs to {', '.join(stages)}" if stages else "it has no stage"
        stays = f"{shown} has no meaning in {stage} and stays in the text as it is: {where}"
        return "warning", "unsupported-placeholder", stays, "remove it"
    row = lookup(use.name, stage)
    if row is not None and not row.filled:
        empty = f"nothing fills {shown} here; it becomes the empty text"
        return "info", "unfilled-placeholder", empty, ""
    return None


def _find_misspelt(source: Source, stage: str) -> Iterator[Diagnostic]:
    # `${question}`, `$question` and `$QUESTION$` are text to Bedrock; few authors mean that.
    for found in _LOOSE.finditer(source.text):
        name = found[1] or found[2]
        well_written = found[3] and name.islower()
        if well_written or lookup(name.lower(), stage) is None:
            continue
        message = f"{found[0]} is not a placeholder; it stays in the text as it is"
        instead = f"write ${name.lower()}$"
        yield source.warn("misspelt-placeholder", message, found.start(), instead)
