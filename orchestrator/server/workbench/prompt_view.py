"""A prompt as blocks of coloured pieces, which a browser lays out only where they are seen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.engine.rendered_prompt import Prompt
from orchestrator.message import AUTHOR, Span
from orchestrator.prompts import Template

# A block of about this many characters has its own layout; larger ones are slower, smaller ones
# make more of them.
_BLOCK = 8_000
_LINE = 100  # characters of a line, for the guess of a block's height
_LINE_HEIGHT = 20  # pixels
_COLOURS = 12
_PREVIEW = 160  # characters of a value that a legend shows

# So that an origin has the same colour on every page.
_USUAL = (
    "question",
    "instruction",
    "tools",
    "agent_scratchpad",
    "conversation_history",
    "search_results",
    "prompt_session_attributes",
    "latest_response",
    "guidelines",
    "ask_user_missing_information",
    "action result",
    "call",
)


@dataclass(slots=True)
class Piece:
    """A piece of a text with one origin."""

    text: str
    origin: str
    colour: int  # the class of its colour and its underline; 0 for the template's own text


@dataclass(slots=True)
class Block:
    """Some pieces, with their height in pixels as far as that can be guessed."""

    pieces: list[Piece] = field(default_factory=list)
    height: int = 0


@dataclass(slots=True)
class Section:
    """The system text, a content block of a message, or the tools."""

    title: str
    blocks: list[Block]
    size: int  # characters
    is_known: bool = False  # whether the step before had it, too


@dataclass(slots=True)
class Origin:
    """What a legend says of an origin."""

    name: str
    colour: int
    pieces: int
    characters: int
    share: float  # of all characters, in percent
    tokens: int  # about how many
    preview: str
    lines: list[int]  # where the template names it


@dataclass(slots=True)
class PromptView:
    """A prompt, ready to be shown."""

    sections: list[Section]
    origins: list[Origin]
    characters: int
    tokens: int  # as the model counted them, or about how many
    counted: bool  # whether the model counted them


def build_prompt_view(
    prompt: Prompt,
    *,
    template: Template | None = None,
    before: Prompt | None = None,
    tokens: int = 0,
) -> PromptView:
    """A prompt as sections of coloured blocks, and a legend of its origins.

    Args:
        prompt: The prompt.
        template: Where it was made from, for the lines of placeholders.
        before: The prompt of the step before: what it had, too, is marked.
        tokens: How many tokens its model counted; about a quarter of the characters when 0.
    """
    palette = _Palette()
    sections = []
    if prompt.system:
        pieces = _cut(str(prompt.system), prompt.system.spans, palette)
        known = before is not None and str(before.system) == str(prompt.system)
        sections.append(_build_section("system", pieces, known))
    known_messages = _count_common(prompt, before)
    for place, message in enumerate(prompt.messages):
        for index, block in enumerate(message["content"]):
            pieces = _read_block(block, index, message.spans, palette)
            title = _name_block(message["role"], block)
            sections.append(_build_section(title, pieces, place < known_messages))
    if prompt.tools:
        text = json.dumps(list(prompt.tools), ensure_ascii=False, indent=2)
        pieces = [palette.make("tools", text)]
        sections.append(_build_section("tools", pieces, before is not None))
    size = sum(one.size for one in sections)
    counted = tokens or (size + 3) // 4
    return PromptView(sections, palette.legend(size, counted, template), size, counted, tokens > 0)


def _count_common(prompt: Prompt, before: Prompt | None) -> int:
    if before is None:
        return 0
    count = 0
    for own, other in zip(prompt.messages, before.messages, strict=False):
        if own != other:
            break
        count += 1
    return count


def _name_block(role: str, block: Mapping[str, Any]) -> str:
    if "toolUse" in block:
        return f"{role} · call of {block['toolUse'].get('name', '')}"
    if "toolResult" in block:
        return f"{role} · result"
    kind = next(iter(block), "text")
    return role if kind == "text" else f"{role} · {kind}"


def _read_block(
    block: Mapping[str, Any], index: int, spans: Sequence[Span], palette: _Palette
) -> list[Piece]:
    own = [span for span in spans if span.block == index]
    if "text" in block:
        return _cut(block["text"], own, palette)
    # Calls and results have no placeholder: they are the turn's own steps.
    origin = "call" if "toolUse" in block else "action result" if "toolResult" in block else AUTHOR
    return [palette.make(origin, json.dumps(_hide_bytes(block), ensure_ascii=False, indent=2))]


def _hide_bytes(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value):,} bytes)"
    if isinstance(value, Mapping):
        return {key: _hide_bytes(one) for key, one in value.items()}
    return [_hide_bytes(one) for one in value] if isinstance(value, list) else value


def _cut(text: str, spans: Sequence[Span], palette: _Palette) -> list[Piece]:
    if not spans:
        return [palette.make(AUTHOR, text)]
    pieces: list[Piece] = []
    for span in spans:
        part = text[span.start : span.end]
        if pieces and pieces[-1].origin == span.origin == AUTHOR:
            pieces[-1].text += part
            palette.add(AUTHOR, part)
        else:
            pieces.append(palette.make(span.origin, part))
    return pieces


class _Palette:
    """Colours by origin, and what there is of each."""

    def __init__(self) -> None:
        self._colours: dict[str, int] = {AUTHOR: 0}
        self._seen: dict[str, list[Any]] = {}

    def make(self, origin: str, text: str) -> Piece:
        self.add(origin, text, new=True)
        return Piece(text, origin, self.find(origin))

    def add(self, origin: str, text: str, *, new: bool = False) -> None:
        seen = self._seen.setdefault(origin, [0, 0, text[:_PREVIEW]])
        seen[0] += new
        seen[1] += len(text)

    def find(self, origin: str) -> int:
        if origin not in self._colours:
            usual = _USUAL.index(origin) + 1 if origin in _USUAL else 0
            self._colours[origin] = usual or len(self._colours) % _COLOURS + 1
        return self._colours[origin]

    def legend(self, size: int, tokens: int, template: Template | None) -> list[Origin]:
        lines: dict[str, list[int]] = {}
        for use in template.placeholders if template is not None else ():
            if not use.literal:
                lines.setdefault(use.name, []).append(use.line)
                self._seen.setdefault(use.name, [0, 0, ""])  # one that was empty shows, too
        total = max(size, 1)
        found = [
            Origin(
                name=name,
                colour=self.find(name),
                pieces=count,
                characters=characters,
                share=round(100 * characters / total, 1),
                tokens=round(tokens * characters / total),
                preview=preview,
                lines=lines.get(name, []),
            )
            for name, (count, characters, preview) in self._seen.items()
        ]
        return sorted(found, key=lambda it: (it.name != AUTHOR, -it.characters))


def _build_section(title: str, pieces: Iterable[Piece], known: bool) -> Section:
    blocks, size = [Block()], 0
    room = _BLOCK
    for piece in pieces:
        text = piece.text
        size += len(text)
        while text:
            cut = _find_cut(text, room)
            part, text = text[:cut], text[cut:]
            blocks[-1].pieces.append(Piece(part, piece.origin, piece.colour))
            room -= len(part)
            if room <= 0:
                blocks.append(Block())
                room = _BLOCK
    kept = [one for one in blocks if one.pieces]
    for block in kept:
        block.height = _guess_height(block)
    return Section(title, kept, size, known)


def _find_cut(text: str, room: int) -> int:
    """Where a block may end: at a line's end if there is one, or else anywhere."""
    if len(text) <= room:
        return len(text)
    at = text.rfind("\n", 0, room)
    if at < 0:
        at = text.find("\n", room, room + _BLOCK)
    return at + 1 if at >= 0 else min(len(text), room + 1)


def _guess_height(block: Block) -> int:
    lines = "".join(piece.text for piece in block.pieces).split("\n")
    return sum(max(1, -(-len(line) // _LINE)) for line in lines) * _LINE_HEIGHT


@dataclass(slots=True)
class TemplateLine:
    """A line of a template, with its placeholders marked."""

    number: int
    pieces: list[Piece]


def build_template_view(template: Template, origins: Sequence[Origin]) -> list[TemplateLine]:
    """The text of a template line by line, its placeholders in the colours of the prompt."""
    colours = {one.name: one.colour for one in origins}
    uses: dict[int, list[tuple[int, str]]] = {}
    for use in template.placeholders:
        if not use.literal:
            uses.setdefault(use.line, []).append((use.column, use.name))
    return [
        TemplateLine(number, list(_mark_line(text, sorted(uses.get(number, ())), colours)))
        for number, text in enumerate(template.text.split("\n"), 1)
    ]


def _mark_line(
    text: str, uses: Sequence[tuple[int, str]], colours: Mapping[str, int]
) -> Iterable[Piece]:
    at = 0
    for column, name in uses:
        start = column - 1
        written = f"${name}$"
        end = start + (len(written) if text.startswith(written, start) else len(name))
        if start < at or end > len(text):
            continue
        if start > at:
            yield Piece(text[at:start], AUTHOR, 0)
        yield Piece(text[start:end], name, colours.get(name, 0))
        at = end
    if at < len(text) or not text:
        yield Piece(text[at:], AUTHOR, 0)
