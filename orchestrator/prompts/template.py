"""A compiled template: its structure, fixed when it is loaded, and the leaves to fill.

Values are put into leaves in a single pass and are never looked at again, so that no text in them
can become a message, a role or another placeholder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import ValidationError
from orchestrator.message import AUTHOR, Block, Message, Span, Text
from orchestrator.prompts.bound_prompt import (
    HISTORY,
    SCRATCHPAD,
    BoundPrompt,
    BoundTextPrompt,
    ScratchpadText,
    append_message,
    join_messages,
    spans_of,
)
from orchestrator.prompts.placeholders import (
    ORCHESTRATION,
    PRE_PROCESSING,
    Status,
    lookup,
    scan,
    status,
)

if TYPE_CHECKING:
    from orchestrator.prompts.dialect import Dialect


class Use(NamedTuple):
    """One use of a placeholder in a template.

    Its line and column, from 1, are those of the template; the offset is that in its leaf's text.
    A literal one stays in the text as it is.
    """

    name: str
    status: Status
    literal: bool
    offset: int
    line: int = 0
    column: int = 0


class Leaf:
    """A text of the template with holes for values.

    `names` are the placeholders to fill, in order, some of them twice; `uses` is everything that
    looks like a placeholder. `whole` is the placeholder that is all of the text, if one is.
    """

    __slots__ = ("_runs", "_texts", "names", "text", "uses", "whole")

    def __init__(self, text: str, stage: str, family: str) -> None:
        self.text = text
        runs, names, uses, last = [], [], [], 0
        for start, end, name in scan(text, stage):
            literal = lookup(name, stage) is None
            uses.append(Use(name, status(name, stage, family), literal, start))
            if not literal:
                runs.append([(AUTHOR, text[last:start])])
                names.append(name)
                last = end
        self.uses = tuple(uses)
        self._set([*runs, [(AUTHOR, text[last:])]], names)

    @classmethod
    def of(cls, pieces: Sequence[tuple[str, str]], holes: Collection[str]) -> Leaf:
        """A leaf of origins and texts; the pieces whose origin is in `holes` are to be filled."""
        leaf = cls.__new__(cls)
        leaf.text, leaf.uses = "".join([text for _, text in pieces]), ()
        runs: list[list[tuple[str, str]]] = [[]]
        names = []
        for origin, text in pieces:
            if origin in holes:
                names.append(origin)
                runs.append([])
            else:
                runs[-1].append((origin, text))
        leaf._set(runs, names)
        return leaf

    def _set(self, runs: list[list[tuple[str, str]]], names: list[str]) -> None:
        # A run is what stands between two holes: origins and texts. Runs are joined once, here.
        self._runs = runs
        self.names = tuple(names)
        self._texts = [""] * (2 * len(runs) - 1)
        self._texts[::2] = ["".join([text for _, text in run]) for run in runs]
        self.whole = self.names[0] if len(names) == 1 and not any(self._texts) else ""

    def join(self, other: Leaf) -> Leaf:
        """The leaf with another one behind it."""
        leaf = Leaf.__new__(Leaf)
        leaf.text, leaf.uses = self.text + other.text, ()
        seam = list(self._runs[-1])
        for origin, text in other._runs[0]:
            joins = bool(seam) and origin == seam[-1][0]
            seam.append((origin, seam.pop()[1] + text if joins else text))
        runs = [*self._runs[:-1], seam, *other._runs[1:]]
        leaf._set(runs, [*self.names, *other.names])
        return leaf

    def split(self, hole: int, offset: int) -> tuple[Leaf, Leaf]:
        """The two parts of a leaf as its author wrote it.

        The second begins `offset` characters behind so many holes.
        """
        ((_, text),) = self._runs[hole]
        halves = (
            ([*self._runs[:hole], [(AUTHOR, text[:offset])]], self.names[:hole]),
            ([[(AUTHOR, text[offset:])], *self._runs[hole + 1 :]], self.names[hole:]),
        )
        parts = []
        for runs, names in halves:
            part = Leaf.__new__(Leaf)
            part.text, part.uses = "", ()
            part._set(runs, list(names))
            parts.append(part)
        return parts[0], parts[1]

    def fill_fixed(self, values: Mapping[str, str]) -> Leaf:
        """The leaf with these values filled in, once and for all."""
        leaf = Leaf.__new__(Leaf)
        leaf.text, leaf.uses = self.text, self.uses
        runs, names = [list(self._runs[0])], []
        for name, run in zip(self.names, self._runs[1:], strict=True):
            if name in values:
                runs[-1] += [(name, values[name]), *run]
            else:
                names.append(name)
                runs.append(list(run))
        leaf._set(runs, names)
        return leaf

    @property
    def only(self) -> str:
        """The placeholder that is the whole text but for white space; empty when there is none."""
        if len(self.names) == 1 and not (self._texts[0] + self._texts[2]).strip():
            return self.names[0]
        return ""

    def parts(self, values: Mapping[str, str]) -> list[str]:
        """The pieces in order, values at odd places; a value that is absent is empty."""
        # The hot path of every prompt: a copy of pointers and one lookup a placeholder.
        parts = self._texts.copy()
        at = 1
        for name in self.names:
            parts[at] = values.get(name, "")
            at += 2
        return parts

    def pieces(self, parts: Sequence[str]) -> list[tuple[str, str]]:
        """The joined `parts`, cut where another wrote: origins and texts."""
        pieces: list[tuple[str, str]] = []
        for index, part in enumerate(parts):
            if index % 2:
                pieces.append((self.names[index // 2], part))
            else:
                pieces += self._runs[index // 2]
        return pieces


# Placeholders that the agent's instruction fills.
_INSTRUCTION = frozenset(("instruction", "model_instruction", "model_instructions"))

# Placeholders of a raw text that the steps of the loop replace: the first of them that it has.
_STEPS = (SCRATCHPAD, "bot_response")


# Texts that others wrote and no partial encodes: in a raw text their tags would be the prompt's
# own, so they are encoded there.
_UNENCODED = ("question", "query", "latest_response")

# Characters that placeholders which a template names more than once may become in a prompt.
# A template of 100,000 characters could name one long value 10,000 times.
_MOST_REPEATED = 30_000_000


class Slot(NamedTuple):
    """A place in the conversation: a message with one leaf a content block, or an anchor.

    An anchor, `HISTORY` or `SCRATCHPAD`, is the place of other messages. A message without
    placeholders is `fixed` once.
    """

    role: str
    leaves: tuple[Leaf, ...] = ()
    anchor: str = ""
    fixed: Message | None = None

    def message(self, values: Mapping[str, str]) -> Message | None:
        """The message, filled; `None` when nothing is in it. Empty blocks are left out."""
        if self.fixed is not None:
            return self.fixed
        if len(self.leaves) == 1 and (name := self.leaves[0].whole):  # as the question mostly is
            text = values.get(name, "")
            return Message(self.role, [{"text": text}], name) if text else None
        content: list[Block] = []
        filled = []
        for leaf in self.leaves:
            parts = leaf.parts(values)
            text = "".join(parts)
            if text:
                content.append({"text": text})
                filled.append((leaf, parts))
        return Message(self.role, content, partial(_spans, filled)) if content else None

    @property
    def asks(self) -> bool:
        """Whether it has the user's question."""
        if self.fixed is not None:
            return any(span.origin == "question" for span in self.fixed.spans)
        return any("question" in leaf.names for leaf in self.leaves)

    @property
    def instructs(self) -> bool:
        """Whether it has the agent's instruction."""
        return any(not _INSTRUCTION.isdisjoint(leaf.names) for leaf in self.leaves)

    def insert(self, added: Leaf) -> Slot:
        """The place with a text behind the agent's instruction, or else before the question."""
        names = _INSTRUCTION if self.instructs else {"question"}
        at = next((i for i, leaf in enumerate(self.leaves) if not names.isdisjoint(leaf.names)), 0)
        leaves = list(self.leaves)
        leaves[at] = _insert(leaves[at], added)
        return self._replace(leaves=tuple(leaves))

    def fill_fixed(self, values: Mapping[str, str]) -> Slot:
        """The place with these values filled in, once and for all."""
        leaves = tuple(leaf.fill_fixed(values) for leaf in self.leaves)
        slot = self._replace(leaves=leaves)
        if leaves and not any(leaf.names for leaf in leaves) and self.fixed is None:
            slot = slot._replace(fixed=slot.message({}))
        return slot


class Template:
    """A compiled template."""

    __slots__ = (
        *("_dialect", "_head", "_history_anchors", "_history_in_text", "_last_system", "_raw_text"),
        *("_repeated", "_slots", "_steps_in_text", "_system", "_tail", "_uses_history", "text"),
        *("diagnostics", "inference", "language", "placeholders", "shape", "source", "stage"),
    )

    def __init__(
        self,
        stage: str,
        dialect: Dialect,
        system: Leaf | None,
        slots: Sequence[Slot],
        *,
        shape: str,
        text: str,
        source: str | None = None,
        placeholders: tuple[Use, ...] = (),
        diagnostics: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.stage = stage
        self.text = text
        self.source = source
        self.shape = shape  # `messages` for a JSON body, `text` for raw text
        self.language = "bedrock"  # or the other language that it is written in
        # What it says itself of how the model generates, in Bedrock's names.
        self.inference: Mapping[str, Any] = {}
        self.placeholders = placeholders  # every use of one, in the template's order
        self.diagnostics = diagnostics  # what is doubtful about it
        self._dialect = dialect
        self._system = system
        self._slots = tuple(slots)
        self._last_system: tuple[list[str | None], Text] | None = None
        self._raw_text = shape == "text" and dialect.protocol == "text"
        at = next((i for i, slot in enumerate(slots) if slot.anchor == SCRATCHPAD), None)
        if at is None:
            last = slots[-1]
            at = len(slots) - (len(slots) > 1 and last.role == "assistant" and not last.anchor)
        self._head = tuple(slots[:at])
        self._tail = tuple(slot for slot in slots[at:] if not slot.anchor)
        leaves = chain((system,) if system else (), *(slot.leaves for slot in slots))
        in_texts = Counter(name for leaf in leaves for name in leaf.names)
        self._repeated = tuple((name, count) for name, count in in_texts.items() if count > 1)
        self._history_anchors = sum(slot.anchor == HISTORY for slot in slots)
        self._history_in_text = HISTORY in in_texts
        self._uses_history = self._history_in_text or self._history_anchors > 0
        self._steps_in_text = SCRATCHPAD in in_texts

    def fill_fixed(self, values: Mapping[str, str]) -> Template:
        """The template with these values filled in, which are the same in every turn."""
        self._check_size(values)
        system = self._system.fill_fixed(values) if self._system else None
        return self._replace(system, [slot.fill_fixed(values) for slot in self._slots])

    def append_text(self, added: Leaf) -> Template:
        """The template with a text at the end of its system text.

        Without a system text it stands behind the agent's instruction, and without that it is the
        system text; in raw text it then stands before the question.
        """
        slots = list(self._slots)
        system = self._system
        at = next((at for at, slot in enumerate(slots) if slot.instructs), None)
        if system is not None:
            system = join_paragraphs(system, added)
        elif at is not None or self._raw_text:
            at = len(slots) - 1 if at is None else at
            slots[at] = slots[at].insert(added)
        else:
            system = added
        return self._replace(system, slots)

    def _replace(self, system: Leaf | None, slots: Sequence[Slot]) -> Template:
        return Template(
            self.stage,
            self._dialect,
            system,
            slots,
            shape=self.shape,
            text=self.text,
            source=self.source,
            placeholders=self.placeholders,
            diagnostics=self.diagnostics,
        )

    def bind(self, values: Mapping[str, str], history: Sequence[Message] = ()) -> BoundPrompt:
        """Fills the template for one turn.

        Args:
            values: Texts by placeholder name. A name that this stage knows and that is absent
                becomes the empty text; names that the stage does not know are ignored.
            history: Messages of the session's earlier turns, their roles alternating; shared and
                not copied.

        Raises:
            ValidationError: A placeholder stands so often in it that the prompt would be too large.
        """
        if not self._uses_history:
            history = ()
        elif self.stage != ORCHESTRATION:
            history = drop_tool_blocks(history)
        if self._history_in_text and history and HISTORY not in values:
            text = self._dialect.history_text(history, steps=self.stage == ORCHESTRATION)
            values = {**values, HISTORY: text}
        if self._repeated:
            self._check_size(values)
        anchors = self._history_anchors
        if anchors > 1 and anchors * len(repr(history)) > _MOST_REPEATED:
            self._refuse_size(HISTORY, anchors)
        if self._raw_text:
            return self._bind_text(values)
        system = self._system_text(values)
        head = fill_slots(self._head, values, history)
        tail = fill_slots(self._tail, values) if self._tail else ()
        if not self._steps_in_text:
            return BoundPrompt(system, head, tail)
        bind_steps = partial(self._bind_steps, values, history, ScratchpadText(self._dialect))
        return BoundPrompt(system, head, tail, bind_steps=bind_steps)

    def _bind_steps(
        self,
        values: Mapping[str, str],
        history: Sequence[Message],
        steps: ScratchpadText,
        scratchpad: Sequence[Message],
    ) -> BoundPrompt:
        return self.bind({**values, SCRATCHPAD: steps.text(scratchpad)}, history)

    def _check_size(self, values: Mapping[str, str]) -> None:
        # A small template can multiply a large value; so this is checked before any text is joined.
        total = 0
        for name, count in self._repeated:
            total += len(values.get(name, "")) * count
            if total > _MOST_REPEATED:
                self._refuse_size(name, count)

    def _refuse_size(self, name: str, count: int) -> NoReturn:
        raise ValidationError(
            f"the {self.stage} template has {f'${name}$'!r} {count} times, and with its value the "
            f"prompt would have more than {_MOST_REPEATED:,} characters; name it once, or shorten "
            "the value"
        )

    def _bind_text(self, values: Mapping[str, str]) -> BoundPrompt:
        from orchestrator.prompts.partials import encode

        (leaf,) = self._slots[-1].leaves
        values = {**values, **{name: encode(values[name]) for name in _UNENCODED if name in values}}
        parts, steps = leaf.parts(values), len(leaf.names)
        if self.stage == ORCHESTRATION:
            steps = next((leaf.names.index(name) for name in _STEPS if name in leaf.names), steps)
        pieces = leaf.pieces(parts)
        if steps == len(leaf.names):
            return BoundTextPrompt(pieces, [], self._dialect)
        before = len(leaf.pieces(parts[: 2 * steps + 1]))
        return BoundTextPrompt(pieces[:before], pieces[before + 1 :], self._dialect)

    def _system_text(self, values: Mapping[str, str]) -> Text:
        leaf = self._system
        if leaf is None:
            return Text()
        filled = [*map(values.get, leaf.names)]
        last = self._last_system
        # Most turns fill it as the last one did; joining it is the largest part of a bind.
        if last is None or last[0] != filled:
            parts = leaf.parts(values)
            text = Text.of("".join(parts), partial(_spans, [(leaf, parts)]))
            last = self._last_system = (filled, text)
        return last[1]


def join_paragraphs(leaf: Leaf, *more: Leaf) -> Leaf:
    """These texts, with an empty line between them."""
    between = Leaf.of([(AUTHOR, "\n\n")], ())
    for one in more:
        leaf = leaf.join(between).join(one)
    return leaf


def _insert(leaf: Leaf, added: Leaf) -> Leaf:
    # Never behind a mark such as `Assistant:`, where the model goes on: both the instruction and
    # the question stand before it.
    at = next((at for at, name in enumerate(leaf.names) if name in _INSTRUCTION), None)
    if at is None:
        asks = "question" in leaf.names
        hole = leaf.names.index("question") if asks else 0
        before, after = leaf.split(hole, len(leaf.parts({})[2 * hole]) if asks else 0)
        return join_paragraphs(before, added, after)
    # The author may go on in the instruction's line, but another value there is another thought.
    end = leaf.parts({})[2 * (at + 1)].find("\n")
    before, after = leaf.split(at + 1, max(end, 0))
    whole = join_paragraphs(before, added)
    return whole.join(after) if end >= 0 else join_paragraphs(whole, after)


def find_anchor(slots: Sequence[Slot], name: str) -> int:
    """Where the anchor `name` stands; behind the last place when there is none."""
    return next((at for at, slot in enumerate(slots) if slot.anchor == name), len(slots))


def insert_history(slots: list[Slot], stage: str) -> None:
    """Puts earlier turns before the question, and before the steps of this turn.

    Only where the stage has them, and they have no place yet.
    """
    if stage not in (ORCHESTRATION, PRE_PROCESSING) or any(it.anchor == HISTORY for it in slots):
        return
    question = next((at for at, slot in enumerate(slots) if slot.asks), 0)
    slots.insert(min(question, find_anchor(slots, SCRATCHPAD)), Slot("", anchor=HISTORY))


def fill_slots(
    slots: Sequence[Slot], values: Mapping[str, str], history: Sequence[Message] = ()
) -> list[Message]:
    """The messages of these places; the history stands where there is an anchor."""
    messages: list[Message] = []
    for slot in slots:
        if slot.anchor:
            if history:
                messages = join_messages(messages, history)
        elif message := slot.message(values):
            if messages:
                append_message(messages, message)
            else:
                messages.append(message)
    return messages


def drop_tool_blocks(history: Sequence[Message]) -> Sequence[Message]:
    """`history` without native calls and results: only the loop has the tools that they need."""
    remaining: list[Message] = []
    for message in history:
        content = message["content"]
        if any("text" not in block for block in content):
            content = [block for block in content if "text" in block]
            message = Message(message["role"], content, HISTORY)
        if content:
            append_message(remaining, message)
    return remaining


def _spans(filled: Sequence[tuple[Leaf, Sequence[str]]]) -> tuple[Span, ...]:
    spans = [spans_of(leaf.pieces(parts), block) for block, (leaf, parts) in enumerate(filled)]
    return tuple(chain(*spans))
