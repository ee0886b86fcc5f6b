"""In what order the embedded model is asked for one reply, and what is done with what it says.

A small model decides badly what to do next, so what is known is decided for it. Each step either
has a reply or leaves it to the next one:

1. The call that the user was asked values for goes on, when his input is short and has one.
2. What certainly is a collaborator's matter, or answers its question, is sent to it.
3. An input that is out of the agent's scope is refused, unless it goes on with what was said, or
   has a word of the last result.
4. An id in the input makes a call of a function that reads what has that id.
5. The model decides. Its answer is shown sentence by sentence, as far as nothing in it is made up.
   A refusal of what is in scope, or a made-up answer, becomes a call of a function that reads.
   Where there are documents, a refusal becomes a call, too, and an answer about what the user asked
   becomes a search if nothing was read of it yet.

Where something is decoded, it is under a grammar; the prompt is read for the first decoding.
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
from orchestrator.models.grounds import Grounds, collect_grounds, is_first_step
from orchestrator.models.identifiers import find_formed, read_examples
from orchestrator.models.operations import describe_operation, find_operation, find_required_ids
from orchestrator.models.owners import keep_to_own
from orchestrator.models.passages import FirstPassage
from orchestrator.models.read_by_id import ReadById
from orchestrator.models.scope import (
    FAR,
    FARTHER,
    NEAR,
    REFUSAL,
    find_subjects,
    goes_on,
    is_english,
    is_refusal,
    refers_back,
)
from orchestrator.models.team_messages import MESSAGE, TO_USER, find_asker
from orchestrator.models.tool_calls import ReplyReader, is_asked_by_name
from orchestrator.models.user_dates import find_dates
from orchestrator.support.sentences import QUESTION_MARK

Decode = Callable[[str, ReplyReader], Generator[str, None, tuple[Usage, str]]]
"""Decodes a reply under a grammar, into a reader; yields what is to be shown at once."""

Decoded = tuple[ReplyReader, Usage, str]
"""A reply, what all its decodings have used, and why it ended."""

# An input that is longer, or a question, is more than a value that was asked for.
_BRIEF_WORDS, _BRIEF_CHARS = 12, 120
_CORRECTION = re.compile(
    r"\b(?:no|not|sorry|meant|mistake|instead|oops|typo)\b|n['’]t\b", re.IGNORECASE
)
_MY = re.compile(r"\b(?:my|mine|our|ours)\b", re.IGNORECASE)
_LEAST_COPIED = 3  # words that a search has of an older input by no chance
_DIGITS = re.compile(r"\d+")
_SPARE_STEPS = 2  # of a turn, for a call of the model's own and for the answer
_LEAST_SUBJECTS = 2  # of a question that needs none before it
_LETTERED = re.compile(r"[^\W\d_][\w-]*\d|\d[\w-]*[^\W\d_]")

_SEARCH = "x_amz_knowledgebase_"  # in the names of Bedrock's searches

_OPENING = "I'm an assistant, and I can help you with "
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
        grounds = collect_grounds(request)
        own = keep_to_own(grounds, self._find_ids()) if form.grounded else None
        self._asks_of_own = own is not None
        self._grounds = own or grounds
        self._check = AnswerCheck(self._grounds, form.unsaid)
        self._is_first = is_first_step(request.messages)
        result = self._grounds.returned[-1] if self._grounds.returned and not self._is_first else ""
        self._by_id = ReadById(request.messages)
        self._passage = FirstPassage(self._grounds.now, result)
        self._must_call = not {"any", "tool"}.isdisjoint(request.tool_choice or ())
        self._usage = Usage()
        self._reason = "end_turn"
        self._findings = Findings()
        self._vetoes_refusal = False
        self._lacks_search = False
        self._swaps = False
        self._distance: float | None = None

    def run(self) -> Generator[str, None, Decoded]:
        reader: ReplyReader | None = None
        if self._form.grounded and self._is_first and not self._must_call:
            steps = (self._go_on, self._read_own, self._send, self._refuse, self._use_id)
            for step in steps:
                reader = yield from step()
                if reader is not None:
                    break
        elif self._form.grounded and not self._must_call:
            reader = yield from self._read_rest()
        if reader is None:
            reader = yield from self._let_decide()
        return reader, self._usage, self._reason

    def _ask(self, grammar: str, reader: ReplyReader) -> Generator[str, None, None]:
        usage, self._reason = yield from self._decode(grammar, reader)
        self._usage = self._usage.plus(usage)

    def _ask_for_call(
        self, form: CallFormat, grounds: Grounds | None = None
    ) -> Generator[str, None, CheckedReader | None]:
        """A call that only `form` allows; `None` when it allows none, or the reply was cut."""
        if not form.list_allowed():
            return None
        reader = CheckedReader(self._form)
        yield from self._ask(grammar_of(form, grounds or self._grounds, must_call=True), reader)
        return self._settle(reader)

    # -- the steps

    def _go_on(self) -> Generator[str, None, CheckedReader | None]:
        if self._form.pending is None or not self._is_brief():
            return None
        name, before = self._form.pending
        grounds = self._grounds.last_input
        grammar = continuation_grammar(self._form, grounds)
        operation = find_operation(self._form, name)
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
        return brief and not QUESTION_MARK.search(now)

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
            or distance < (FARTHER if self._find_searches() else FAR)
            or self._follows_up()
            or self._is_of_last_result()
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

    def _is_of_last_result(self) -> bool:
        last = "".join(self._grounds.returned[-1:])
        return not find_subjects(self._grounds.now).isdisjoint(find_subjects(last))

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
        operation = find_operation(self._form, name)
        reads = operation is not None and operation.reads
        return reader if reads and not ids.isdisjoint(map(str, arguments.values())) else None

    def _find_ids_to_read(self) -> set[str]:
        descriptions = (str(schema.get("description", "")) for schema in self._find_ids())
        now = [self._grounds.now]
        return {id for text in descriptions for id in find_formed(read_examples(text), now)}

    def _find_ids(self) -> list[Mapping[str, Any]]:
        """The parameters of functions that read what has an id."""
        reading = (one for one in self._form.list_allowed() if one.reads)
        return [schema for one in reading for schema in find_required_ids(one)]

    def _read_own(self) -> Generator[str, None, CheckedReader | None]:
        # What is the user's own is read anew: the last result is of somebody else's.
        if not self._asks_of_own:
            return None
        return (yield from self._ask_for_call(self._leave_readers_of_ids()))

    def _send(self) -> Generator[str, None, CheckedReader | None]:
        # An agent with functions of its own may have to call one of them first.
        if {one.name for one in self._form.list_allowed()} != {MESSAGE}:
            return None
        now, scope = self._grounds.now, self._form.scope
        recipient = scope.find_collaborator(now) if scope is not None else ""
        if not recipient and self._is_brief():
            recipient = find_asker(self._request.messages)
        if not recipient:
            return None
        reader = CheckedReader(self._form)
        reader.replace_call(MESSAGE, {"recipient": recipient, "content": now})
        yield ""
        return reader

    def _read_rest(self) -> Generator[str, None, CheckedReader | None]:
        """A call for an id of the question that no call of the turn had: its answer is made up."""
        now = self._grounds.now
        ids = self._find_ids_to_read() if QUESTION_MARK.search(now) else set()
        made = {str(value) for _, given in self._find_calls_made() for value in given.values()}
        rest = ids - made
        if not rest or rest == ids or _CORRECTION.search(now) or not self._may_read_more():
            return None
        grounds = Grounds(tuple(sorted(rest)), now=" ".join(sorted(rest)))
        reader = yield from self._ask_for_call(self._leave_readers_of_ids(), grounds)
        if reader is None or reader.call is None:
            return None
        return None if rest.isdisjoint(map(str, reader.call[1].values())) else reader

    def _may_read_more(self) -> bool:
        steps_left = self._request.steps_left
        return steps_left is None or steps_left >= _SPARE_STEPS

    def _leave_readers_of_ids(self) -> CallFormat:
        others = {
            one.name for one in self._form.operations if not one.reads or not find_required_ids(one)
        }
        return replace(self._form, excluded=self._form.excluded | others)

    def _let_decide(self) -> Generator[str, None, ReplyReader]:
        form = self._form
        reader = CheckedReader(form, self._may_be_shown if form.grounded else None)
        grammar = grammar_of(form, self._grounds, must_call=self._must_call)
        yield from self._ask(grammar, reader)
        yield reader.finish()
        if reader.raw:
            called = self._settle(reader) or reader
            if self._is_of_documents(called):
                return (yield from self._search_instead()) or called
            return (yield from self._look_up_first(called)) or called
        if reader.withheld and reader.is_empty:
            return (yield from self._mend(reader))
        return reader

    # -- calls

    def _settle(self, reader: CheckedReader) -> CheckedReader | None:
        call = reader.call
        if call is None:
            return None
        operation = find_operation(self._form, call[0])
        if operation is not None and self._form.grounded:
            unknown = self._form.unknown_value
            settled = settle_values(operation, call[1], self._grounds, unknown)
            if _SEARCH in call[0]:
                settled = {name: self._complete_query(text) for name, text in settled.items()}
            if call[0] == MESSAGE and self._is_first and settled.get("recipient") != TO_USER:
                settled["content"] = self._grounds.now
            if settled != call[1]:
                reader.replace_call(call[0], settled)
        return reader

    def _complete_query(self, query: Any) -> Any:
        """A search's text with the user's own words: small models leave the subject out."""
        now = self._grounds.now
        if not self._is_first or not isinstance(query, str) or len(now) > _BRIEF_CHARS:
            return query
        needs = goes_on(now) or refers_back(now) or len(find_subjects(now)) < _LEAST_SUBJECTS
        before = self._find_input_before()[:_BRIEF_CHARS] if needs else ""
        query = self._drop_older_inputs(query, before)
        known = find_subjects(query)
        texts = [text for text in (before, now) if not find_subjects(text) <= known]
        return " ".join([*([query] if query else []), *texts]) or now

    def _drop_older_inputs(self, query: str, before: str) -> str:
        # Small models copy their last search, which has the words of inputs that are answered.
        for text in self._grounds.said:
            if len(text.split()) >= _LEAST_COPIED and text not in (self._grounds.now, before):
                query = query.replace(text, "")
        return " ".join(query.split())

    def _is_of_documents(self, reader: ReplyReader) -> bool:
        """Whether a question calls a function that has no word of it, and documents may have.

        Nothing is lost by a search: the function can still be called after it. What is the user's
        own ("my parcel") stands in no documents.
        """
        now, call = self._grounds.now, reader.call
        if call is None or not self._is_first or not self._form.grounded or self._must_call:
            return False
        operation, searches = find_operation(self._form, call[0]), self._find_searches()
        if operation is None or call[0] in searches or not searches:
            return False
        if not QUESTION_MARK.search(now) or not is_english(now) or _MY.search(now):
            return False
        follows = operation.reads and (goes_on(now) or refers_back(now))
        subjects = find_subjects(now)
        if follows or not subjects or self._find_ids_to_read():
            return False
        return subjects.isdisjoint(find_subjects(describe_operation(operation)))

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
        self._swaps = self._by_id.swaps(sentence)
        wrong = self._swaps or self._vetoes_refusal or self._lacks_search
        if wrong or not self._findings.fine:
            return False
        return not self._passage.leaves(sentence)

    def _is_answered_unread(self, sentence: str) -> bool:
        """Whether a question is answered with what nobody has said, and nothing was read of it."""
        now = self._grounds.now
        if QUESTION_MARK.search(sentence) or not self._find_searches():
            return False
        if self._repeats(sentence):
            return True
        if not QUESTION_MARK.search(now):
            return False
        if self._grounds.returned:  # in earlier turns: the answer may be of what was found then
            known = find_subjects("\n".join(self._grounds.returned))
            return not find_subjects(now) & find_subjects(sentence) <= known
        numbers = {*_DIGITS.findall(sentence)} - {*_DIGITS.findall(" ".join(self._grounds.said))}
        return bool(numbers) or share_content(sentence, now)

    def _repeats(self, sentence: str) -> bool:
        """Whether a question that goes on with other words gets the last answer once more."""
        now, answered = self._grounds.now, self._grounds.answered
        subjects = find_subjects(now)
        asks = QUESTION_MARK.search(now) or goes_on(now)
        return bool(
            asks
            and answered
            and sentence.strip() in answered[-1]
            and subjects
            and subjects.isdisjoint(find_subjects(sentence))
        )

    def _find_searches(self) -> set[str]:
        return {one.name for one in self._form.list_allowed() if _SEARCH in one.name}

    def _is_wrong_refusal(self, sentence: str) -> bool:
        if not is_refusal(sentence):
            return False
        if self._find_searches():  # nobody knows what is in documents before they are searched
            return True
        distance = self._measure()
        goes_on = self._grounds.answered and refers_back(self._grounds.now)
        return distance is not None and distance < (FAR if goes_on else NEAR)

    def _mend(self, reader: CheckedReader) -> Generator[str, None, ReplyReader]:
        if self._findings.names_maker:
            return (yield from self._introduce())
        instead = self._search_instead if self._lacks_search else self._read_instead
        called = yield from instead()
        if called is not None:
            return called
        if self._findings.fine and not self._swaps:  # it is the answer after all
            yield reader.show(reader.withheld)
            return reader
        return (yield from self._answer_with(build_grounded_answer(self._grounds), _UNKNOWN))

    def _introduce(self) -> Generator[str, None, ReplyReader]:
        # "A variety of tasks and other topics" is more than the agent is for.
        settings = collect_grounds(replace(self._request, messages=()))
        functions = map(describe_operation, self._form.list_allowed())
        known = find_subjects(" ".join((_OPENING, *settings.said, *functions)))
        grammar = build_introduction(_OPENING)
        return (yield from self._answer_with(grammar, _INTRODUCTION, known))

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

    def _answer_with(
        self, grammar: str, otherwise: str, known: set[str] | None = None
    ) -> Generator[str, None, ReplyReader]:
        def check(sentence: str) -> bool:
            fine = self._check.find(sentence).fine and not self._by_id.swaps(sentence)
            return fine and (known is None or find_subjects(sentence) <= known)

        reader = CheckedReader(self._form, check)
        yield from self._ask(grammar, reader)
        yield reader.finish()
        if reader.is_empty:
            yield reader.show(otherwise)
        return reader
