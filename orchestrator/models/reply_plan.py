"""In what order the embedded model is asked for one reply, and what is done with what it says.

A small model decides badly what to do next, so what is known is decided for it. Each step either
has a reply or leaves it to the next one:

1. The call that the user was asked values for goes on, when his input is short and has one.
2. An input that is out of the agent's scope is refused, unless it goes on with what was said.
3. An id in the input makes a call of a function that reads what has that id.
4. The model decides. Its answer is shown sentence by sentence, as far as nothing in it is made up.
   A refusal of what is in scope, or a made-up answer, becomes a call of a function that reads.
   Where there are documents, a refusal becomes a call, too, and an answer about what the user asked
   becomes a search if nothing was read of it yet.

Every step but the second is one decoding under a grammar; the prompt was read for the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.models.answer_check import AnswerCheck, Findings, share_content
from orchestrator.models.base import CallFormat, ModelRequest, OperationFormat, Usage
from orchestrator.models.call_values import fill_once, settle_values
from orchestrator.models.checked_reader import CheckedReader
from orchestrator.models.grammar import (
    build_grounded_answer,
    build_introduction,
    continuation_grammar,
    find_kind,
    grammar_of,
    look_ups,
)
from orchestrator.models.grounds import collect_grounds, is_first_step
from orchestrator.models.identifiers import find_formed, read_examples
from orchestrator.models.scope import FAR, NEAR, REFUSAL, find_subjects, goes_on, refers_back
from orchestrator.models.tool_calls import ReplyReader, is_asked_by_name
from orchestrator.models.user_dates import find_dates

Decode = Callable[[str, ReplyReader], Generator[str, None, tuple[Usage, str]]]
"""Decodes a reply under a grammar, into a reader; yields what is to be shown at once."""

Decoded = tuple[ReplyReader, Usage, str]
"""A reply, what all its decodings have used, and why it ended."""

# An input that is longer, or a question, is more than a value that was asked for.
_BRIEF_WORDS, _BRIEF_CHARS = 12, 120
_QUESTION = re.compile("[?？؟]")
_DIGITS = re.compile(r"\d+")
_LEAST_SUBJECTS = 2  # of a question that needs none before it
_LETTERED = re.compile(r"[^\W\d_][\w-]*\d|\d[\w-]*[^\W\d_]")

_SEARCH = "x_amz_knowledgebase_"  # in the names of Bedrock's searches

_OPENING = "I'm an assistant. I can help you with "
_INTRODUCTION = "I'm an assistant. How can I help you?"
_UNKNOWN = "Sorry, I don't know that."


def decode_reply(request: ModelRequest, decode: Decode) -> Generator[str, None, Decoded]:
    """Decodes the reply to a request; yields what is to be shown at once."""
    form = request.call_format
    if form is None or form.choices:
        reader = ReplyReader(form)
        grammar = grammar_of(form) if form is not None else ""
        usage, reason = yield from decode(grammar, reader)
        return reader, usage, reason
    return (yield from _Plan(request, form, decode).run())


class _Plan:
    def __init__(self, request: ModelRequest, form: CallFormat, decode: Decode) -> None:
        self._request = request
        self._form = form
        self._decode = decode
        self._grounds = collect_grounds(request)
        self._check = AnswerCheck(self._grounds, form.unsaid)
        self._is_first = is_first_step(request.messages)
        self._must_call = not {"any", "tool"}.isdisjoint(request.tool_choice or ())
        self._usage = Usage()
        self._reason = "end_turn"
        self._findings = Findings()
        self._vetoes_refusal = False
        self._lacks_search = False
        self._distance: float | None = None

    def run(self) -> Generator[str, None, Decoded]:
        reader: ReplyReader | None = None
        if self._form.grounded and self._is_first and not self._must_call:
            for step in (self._go_on, self._refuse, self._use_id):
                reader = yield from step()
                if reader is not None:
                    break
        if reader is None:
            reader = yield from self._let_decide()
        return reader, self._usage, self._reason

    def _ask(self, grammar: str, reader: ReplyReader) -> Generator[str, None, None]:
        usage, self._reason = yield from self._decode(grammar, reader)
        self._usage = self._usage.plus(usage)

    def _ask_for_call(self, form: CallFormat) -> Generator[str, None, CheckedReader | None]:
        """A call that only `form` allows; `None` when it allows none, or the reply was cut."""
        if not _find_callable(form):
            return None
        reader = CheckedReader(self._form)
        yield from self._ask(grammar_of(form, self._grounds, must_call=True), reader)
        return self._settle(reader)

    # -- the steps

    def _go_on(self) -> Generator[str, None, CheckedReader | None]:
        if self._form.pending is None or not self._is_brief():
            return None
        name, before = self._form.pending
        grounds = self._grounds.last_input
        grammar = continuation_grammar(self._form, grounds)
        operation = _find_operation(self._form, name)
        if not grammar or operation is None or self._corrects(operation, before):
            return None
        reader = CheckedReader(self._form)
        yield from self._ask(grammar, reader)
        if reader.call is None:
            return None
        unknown = self._form.unknown_value
        _, arguments = reader.call
        settled = settle_values(operation, arguments, grounds, unknown)
        merged = {
            key: settled.get(key, unknown) if value == unknown else value
            for key, value in before.items()
        }
        filled = fill_once(merged, before, grounds.now, unknown)
        if filled == before:
            return None
        reader.replace_call(name, filled)
        return reader

    def _is_brief(self) -> bool:
        now = self._grounds.now
        brief = len(now) <= _BRIEF_CHARS and len(now.split()) <= _BRIEF_WORDS
        return brief and not _QUESTION.search(now)

    def _corrects(self, operation: OperationFormat, before: Mapping[str, Any]) -> bool:
        # More dates than are open: one of them is for a value that was there already.
        properties = operation.schema.get("properties") or {}
        unknown = self._form.unknown_value
        gaps = [name for name, value in before.items() if value == unknown]
        open_ = sum(find_kind(properties.get(name) or {}) == "date" for name in gaps)
        return len(find_dates([self._grounds.now]).whole) > max(open_, 1)

    def _refuse(self) -> Generator[str, None, CheckedReader | None]:
        distance = self._measure()
        if (
            distance is None
            or distance < FAR
            or self._follows_up()
            or _LETTERED.search(self._grounds.now)
        ):
            return None
        reader = CheckedReader(self._form)
        yield reader.show(REFUSAL)
        return reader

    def _follows_up(self) -> bool:
        """Whether the input is about what the last one was about, as far as its form tells."""
        now, before = self._grounds.now, self._find_input_before()
        if not before or goes_on(now):
            return bool(before)
        scope = self._form.scope
        if not refers_back(now) or scope is None:
            return False
        together = scope.measure(f"{before} {now}")
        return together is not None and together < FAR

    def _find_input_before(self) -> str:
        grounds = self._grounds
        if not grounds.answered:
            return ""
        return next((text for text in reversed(grounds.said) if text != grounds.now), "")

    def _measure(self) -> float | None:
        scope = self._form.scope
        if self._distance is None and scope is not None:
            self._distance = scope.measure(self._grounds.now)
        return self._distance

    def _use_id(self) -> Generator[str, None, CheckedReader | None]:
        ids = self._find_ids_to_read()
        if not ids:
            return None
        reader = yield from self._ask_for_call(self._form)
        if reader is None or reader.call is None:
            return None
        name, arguments = reader.call
        operation = _find_operation(self._form, name)
        reads = operation is not None and operation.reads
        return reader if reads and not ids.isdisjoint(map(str, arguments.values())) else None

    def _find_ids_to_read(self) -> set[str]:
        found: set[str] = set()
        for operation in _find_callable(self._form):
            if operation.reads:
                for schema in _find_required_ids(operation):
                    examples = read_examples(str(schema.get("description", "")))
                    found.update(find_formed(examples, [self._grounds.now]))
        return found

    def _let_decide(self) -> Generator[str, None, ReplyReader]:
        form = self._form
        reader = CheckedReader(form, self._may_be_shown if form.grounded else None)
        grammar = grammar_of(form, self._grounds, must_call=self._must_call)
        yield from self._ask(grammar, reader)
        yield reader.finish()
        if reader.raw:
            called = self._settle(reader) or reader
            return (yield from self._look_up_first(called)) or called
        if reader.withheld and reader.is_empty:
            return (yield from self._mend(reader))
        return reader

    # -- calls

    def _settle(self, reader: CheckedReader) -> CheckedReader | None:
        call = reader.call
        if call is None:
            return None
        operation = _find_operation(self._form, call[0])
        if operation is not None and self._form.grounded:
            unknown = self._form.unknown_value
            settled = settle_values(operation, call[1], self._grounds, unknown)
            if _SEARCH in call[0]:
                settled = {name: self._complete_query(text) for name, text in settled.items()}
            if settled != call[1]:
                reader.replace_call(call[0], settled)
        return reader

    def _complete_query(self, query: Any) -> Any:
        """A search's text with the user's own words: small models leave the subject out."""
        now = self._grounds.now
        if not self._is_first or not isinstance(query, str) or len(now) > _BRIEF_CHARS:
            return query
        needs = goes_on(now) or refers_back(now) or len(find_subjects(now)) < _LEAST_SUBJECTS
        texts = [self._find_input_before()[:_BRIEF_CHARS] if needs else "", now]
        known = find_subjects(query)
        return " ".join([query, *(text for text in texts if not find_subjects(text) <= known)])

    def _look_up_first(self, reader: ReplyReader) -> Generator[str, None, ReplyReader | None]:
        # Small models call the function that does what was asked, id or no id. Before the user is
        # asked for an id that he may not know, a function that lists or searches gets its chance.
        form, call = self._form, reader.call
        if call is None or not form.unknown_value or not is_asked_by_name(self._request.messages):
            return None
        found = look_ups(form, *call)
        return (yield from self._ask_for_call(found)) if found is not None else None

    # -- answers

    def _may_be_shown(self, sentence: str) -> bool:
        self._findings = self._check.find(sentence)
        self._vetoes_refusal = self._is_first and self._is_wrong_refusal(sentence)
        self._lacks_search = self._is_first and self._is_answered_unread(sentence)
        return self._findings.fine and not self._vetoes_refusal and not self._lacks_search

    def _is_answered_unread(self, sentence: str) -> bool:
        """Whether a question is answered with what nobody has said, and nothing was read of it."""
        now = self._grounds.now
        if not _QUESTION.search(now) or _QUESTION.search(sentence) or not self._find_searches():
            return False
        if self._grounds.returned:  # in earlier turns: the answer may be of what was found then
            known = find_subjects("\n".join(self._grounds.returned))
            return not find_subjects(now) & find_subjects(sentence) <= known
        numbers = {*_DIGITS.findall(sentence)} - {*_DIGITS.findall(" ".join(self._grounds.said))}
        return bool(numbers) or share_content(sentence, now)

    def _find_searches(self) -> set[str]:
        return {one.name for one in _find_callable(self._form) if _SEARCH in one.name}

    def _is_wrong_refusal(self, sentence: str) -> bool:
        if not REFUSAL.startswith(sentence.strip().rstrip(".")) or len(sentence) < len("Sorry, I"):
            return False
        if self._find_searches():  # nobody knows what is in documents before they are searched
            return True
        distance = self._measure()
        goes_on = self._grounds.answered and refers_back(self._grounds.now)
        return distance is not None and distance < (FAR if goes_on else NEAR)

    def _mend(self, reader: CheckedReader) -> Generator[str, None, ReplyReader]:
        if self._findings.names_maker:
            return (yield from self._answer_with(build_introduction(_OPENING), _INTRODUCTION))
        instead = self._search_instead if self._lacks_search else self._read_instead
        called = yield from instead()
        if called is not None:
            return called
        if self._findings.fine:  # it is the answer after all
            yield reader.show(reader.withheld)
            return reader
        return (yield from self._answer_with(build_grounded_answer(self._grounds), _UNKNOWN))

    def _search_instead(self) -> Generator[str, None, ReplyReader | None]:
        others = {one.name for one in self._form.operations} - self._find_searches()
        searching = replace(self._form, excluded=self._form.excluded | others)
        return (yield from self._ask_for_call(searching))

    def _read_instead(self) -> Generator[str, None, ReplyReader | None]:
        writing = {one.name for one in self._form.operations if not one.reads}
        reading = replace(self._form, excluded=self._form.excluded | writing)
        reader = yield from self._ask_for_call(reading)
        known = reader is None or reader.call is None or reader.call in self._find_calls_made()
        return None if known else reader

    def _find_calls_made(self) -> list[tuple[str, Any]]:
        """The calls of this turn."""
        made: list[tuple[str, Any]] = []
        for message in reversed(self._request.messages):
            blocks = message["content"]
            if message["role"] == "user" and not any("toolResult" in one for one in blocks):
                break
            uses = (one["toolUse"] for one in blocks if "toolUse" in one)
            made += [(use["name"], use["input"]) for use in uses]
        return made

    def _answer_with(self, grammar: str, otherwise: str) -> Generator[str, None, ReplyReader]:
        reader = CheckedReader(self._form, lambda sentence: self._check.find(sentence).fine)
        yield from self._ask(grammar, reader)
        yield reader.finish()
        if reader.is_empty:
            yield reader.show(otherwise)
        return reader


def _find_callable(form: CallFormat) -> list[OperationFormat]:
    return [one for one in form.operations if one.name not in form.excluded]


def _find_operation(form: CallFormat, name: str) -> OperationFormat | None:
    return next((one for one in form.operations if one.name == name), None)


def _find_required_ids(operation: OperationFormat) -> list[Mapping[str, Any]]:
    properties = operation.schema.get("properties") or {}
    schemas = [properties.get(name) or {} for name in operation.schema.get("required") or ()]
    texts = [one for one in schemas if one.get("type") == "string" and "enum" not in one]
    return [one for one in texts if find_kind(one) == "grounded"]
