"""A guardrail without a service: phrases, word lists, regular expressions and patterns of PII."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from threading import Lock
from typing import Any, Literal, NamedTuple

from orchestrator.errors import DefinitionError
from orchestrator.guardrails.base import Source, Verdict
from orchestrator.guardrails.fold import FoldedText, plain, visible
from orchestrator.guardrails.phrases import Phrases, Words
from orchestrator.guardrails.pii import PII_REACH, PII_TYPES, find_pii
from orchestrator.models.embeddings.base import Embedder
from orchestrator.support.regexes import Regex as CompiledRegex
from orchestrator.support.regexes import compile_regex

# What is done about a finding; `ANONYMIZE` puts `{TYPE}` in its place.
Action = Literal["BLOCK", "ANONYMIZE", "NONE"]

# Letters and digits of a match of a regular expression that streaming waits for.
REGEX_REACH = 200

_BLOCKED_INPUT = "Sorry, the model cannot answer this question."
_ACTED = {"BLOCK": "BLOCKED", "ANONYMIZE": "ANONYMIZED"}


@dataclass(frozen=True, slots=True)
class Topic:
    """A denied topic (Bedrock: `GuardrailTopicConfig`)."""

    name: str  # its name; a text that has it as a phrase has the topic
    definition: str = ""  # what it is about; used with an embedder only
    # Phrases that belong to it; found as phrases, and by meaning with an embedder
    examples: Sequence[str] = ()
    input: bool = True  # whether it is denied to the user
    output: bool = True  # whether it is denied to the agent


@dataclass(frozen=True, slots=True)
class Word:
    """A denied word or phrase (Bedrock: `GuardrailWordConfig`)."""

    text: str  # the word or phrase; case, diacritics, spacing and punctuation do not matter
    input: bool = True  # whether it is denied to the user
    output: bool = True  # whether it is denied to the agent


@dataclass(frozen=True, slots=True)
class Pii:
    """A type of sensitive information (Bedrock: `GuardrailPiiEntityConfig`)."""

    type: str  # Bedrock's name: `EMAIL`, `PHONE`, ...; one of `PII_TYPES`
    input: Action = "BLOCK"  # what is done about it in the user's input
    output: Action = "BLOCK"  # what is done about it in answers


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression (Bedrock: `GuardrailRegexConfig`)."""

    name: str  # its name, which also is its mask
    pattern: str  # the expression, in RE2's syntax; `(?i)` at its beginning ignores case
    input: Action = "BLOCK"  # what is done about a match in the user's input
    output: Action = "BLOCK"  # what is done about it in answers


class _Match(NamedTuple):
    start: int
    end: int
    mask: str
    action: str


Assessed = dict[str, list[dict[str, Any]]]


class _Side:
    """What is looked for in one direction, and the message when it is found."""

    def __init__(
        self,
        topics: Sequence[Topic],
        words: Sequence[Word],
        profanity: Sequence[Word],
        pii: Mapping[str, str],
        regexes: Sequence[tuple[Regex, CompiledRegex, str]],
        message: str,
    ) -> None:
        self.names = {
            phrase: topic.name for topic in topics for phrase in (topic.name, *topic.examples)
        }
        self.topics = _phrases(self.names, "topic's")
        self.words = _phrases((word.text for word in words), "listed")
        self.profanity = _phrases((word.text for word in profanity), "listed")
        self.pii = pii
        self.regexes = regexes
        self.message = message
        self.has_phrases = bool(self.topics or self.words or self.profanity)
        self.meanings: TopicVectors | None = None

    @property
    def reach(self) -> int:
        longest = (self.topics.longest, self.words.longest, self.profanity.longest)
        return max(*longest, PII_REACH * bool(self.pii), REGEX_REACH * bool(self.regexes))

    def topics_in(self, text: str, words: Words) -> Assessed:
        names = dict.fromkeys(self.names[found.phrase] for found in self.topics.find(words))
        if self.meanings is not None:
            names |= dict.fromkeys(sorted(self.meanings.find(text)))
        return {"topics": [{"name": it, "type": "DENY", "action": "BLOCKED"} for it in names]}

    def words_in(self, text: str, words: Words) -> Assessed:
        matches = dict.fromkeys(text[it.start : it.end] for it in self.words.find(words))
        listed = dict.fromkeys(text[it.start : it.end] for it in self.profanity.find(words))
        return {
            "customWords": [{"match": it, "action": "BLOCKED"} for it in matches],
            "managedWordLists": [
                {"match": it, "type": "PROFANITY", "action": "BLOCKED"} for it in listed
            ],
        }

    def sensitive_in(self, text: str) -> tuple[list[_Match], Assessed]:
        matches: list[_Match] = []
        found: Assessed = {"piiEntities": [], "regexes": []}
        reading = visible(text) if self.pii or self.regexes else FoldedText("", "")
        looked_at = plain(reading.text) if self.pii else ""
        for kind, action in self.pii.items():
            own = _build_matches(reading, find_pii(kind, looked_at), kind, action)
            matches += own
            found["piiEntities"] += _describe_matches(text, own, type=kind)
        for regex, expression, action in self.regexes:
            own = _build_matches(reading, expression.find(reading.text), regex.name, action)
            matches += own
            found["regexes"] += _describe_matches(text, own, name=regex.name, regex=regex.pattern)
        return matches, found


def _phrases(phrases: Iterable[str], whose: str) -> Phrases:
    try:
        return Phrases(phrases)
    except ValueError as error:
        raise DefinitionError(f"a {whose} phrase cannot be used: {error}") from None


class LocalGuardrail:
    """Checks texts in this process. Safe for many threads at once; time linear in the text.

    Texts are read without the tricks of Unicode (`orchestrator.guardrails.fold`), and masked as
    they were written. Assessments have Bedrock's shape, with the finding as `match`.

    Attributes:
        id: Its id, for errors and diagnostics.
        reach: Letters and digits that the longest finding with spaces in it may have.
        embedder: Also finds topics by meaning; `None` when it finds them by words only.
        bounded: Whether findings depend on nothing further away: not with an embedder.
        policies: What it checks, by the names that Bedrock counts it with (bedrock-runtime:
            `GuardrailUsage`).
        denied: The names of its denied topics.
    """

    def __init__(
        self,
        id: str = "local",
        *,
        topics: Sequence[Topic] = (),
        words: Sequence[Word | str] = (),
        profanity: Sequence[Word | str] = (),
        pii: Sequence[Pii] = (),
        regexes: Sequence[Regex] = (),
        blocked_input_messaging: str = _BLOCKED_INPUT,
        blocked_outputs_messaging: str = _BLOCKED_INPUT,
        embedder: Embedder | None = None,
        threshold: float = 0.6,
    ) -> None:
        """Compiles the guardrail.

        Args:
            id: Its id.
            topics: Denied topics.
            words: Denied words and phrases.
            profanity: A custom list for Bedrock's managed list `PROFANITY`; none is shipped.
            pii: Types of sensitive information.
            regexes: Regular expressions.
            blocked_input_messaging: The answer to an input that is blocked.
            blocked_outputs_messaging: What replaces an answer that is blocked.
            embedder: Also finds topics by meaning.
            threshold: The cosine from which on a sentence belongs to a topic.

        Raises:
            DefinitionError: A phrase has no words, a type is not known, or an expression is wrong.
        """
        for entity in pii:
            if entity.type not in PII_TYPES:
                raise DefinitionError(
                    f"the type {entity.type!r} has no form by which it could be found here; there "
                    f"are {', '.join(sorted(PII_TYPES))}"
                )
        compiled = [(regex, compile_regex(regex.pattern)) for regex in regexes]
        self.id = id
        self._sides: dict[Source, _Side] = {}
        messages: dict[Source, str] = {
            "INPUT": blocked_input_messaging,
            "OUTPUT": blocked_outputs_messaging,
        }
        for source, message in messages.items():
            of_side = attrgetter(source.lower())
            denied = [it for it in topics if of_side(it)]
            side = self._sides[source] = _Side(
                denied,
                [it for it in map(_word, words) if of_side(it)],
                [it for it in map(_word, profanity) if of_side(it)],
                {it.type: of_side(it) for it in pii if of_side(it) != "NONE"},
                [(it, rule, of_side(it)) for it, rule in compiled if of_side(it) != "NONE"],
                message,
            )
            if embedder is not None:
                side.meanings = TopicVectors(embedder, denied, threshold)
        self.embedder = embedder
        self.bounded = embedder is None
        self.denied = [topic.name for topic in topics]
        counted = {
            "topicPolicyUnits": topics,
            "wordPolicyUnits": [*words, *profanity],
            "sensitiveInformationPolicyUnits": pii,
            "sensitiveInformationPolicyFreeUnits": regexes,
        }
        self.policies = frozenset(name for name, entries in counted.items() if entries)
        self.reach = 1 + max(side.reach for side in self._sides.values())

    def check(self, text: str, source: Source) -> Verdict:
        """Assesses a text.

        Raises:
            DependencyFailed: The embedding model failed.
        """
        side = self._sides[source]
        words = Words(text if side.has_phrases else "")
        matches, sensitive = side.sensitive_in(text)
        assessment: dict[str, Assessed] = {}
        _put(assessment, "topicPolicy", side.topics_in(text, words))
        _put(assessment, "wordPolicy", side.words_in(text, words))
        _put(assessment, "sensitiveInformationPolicy", sensitive)
        if not assessment:
            return Verdict(text=text)
        if any(item["action"] == "BLOCKED" for item in _items(assessment)):
            return Verdict("INTERVENED", side.message, True, [assessment])
        return Verdict("INTERVENED", _mask_matches(text, matches), False, [assessment])


def _word(word: Word | str) -> Word:
    return Word(word) if isinstance(word, str) else word


def _put(assessment: dict[str, Assessed], policy: str, found: Assessed) -> None:
    if members := {name: items for name, items in found.items() if items}:
        assessment[policy] = members


def _items(assessment: Mapping[str, Assessed]) -> Iterator[dict[str, Any]]:
    for policy in assessment.values():
        for items in policy.values():
            yield from items


def _build_matches(
    reading: FoldedText, spans: Iterable[tuple[int, int]], name: str, action: str
) -> list[_Match]:
    return [_Match(*reading.span(*it), f"{{{name}}}", _ACTED[action]) for it in spans]


def _describe_matches(text: str, matches: Iterable[_Match], **members: str) -> list[dict[str, Any]]:
    distinct = {(text[it.start : it.end], it.action): None for it in matches}
    return [{**members, "match": match, "action": action} for match, action in distinct]


def _mask_matches(text: str, matches: Iterable[_Match]) -> str:
    # Where matches overlap, the mask of the first and longest counts.
    pieces, done = [], 0
    for match in sorted(matches, key=lambda it: (it.start, -it.end)):
        if match.start >= done:
            pieces += [text[done : match.start], match.mask]
        done = max(done, match.end)
    return "".join((*pieces, text[done:]))


_BATCH = 64
_LONGEST = 400  # characters of a piece; embedding models read a few hundred tokens


class TopicVectors:
    """Topics as vectors, embedded at the first check. Safe for many threads at once."""

    def __init__(self, embedder: Embedder, topics: Sequence[Topic], threshold: float) -> None:
        # A sentence belongs to a topic from the cosine `threshold` on, a number from -1 to 1.
        self._embedder = embedder
        said = [(it.name, text) for it in topics for text in (it.definition, *it.examples) if text]
        self._owners = [name for name, _ in said]
        self._texts = [text for _, text in said]
        self._threshold = threshold
        self._known: Any = None
        self._lock = Lock()

    def find(self, text: str) -> set[str]:
        """The names of the topics that a sentence of the text belongs to."""
        found: set[str] = set()
        if not self._texts:
            return found
        known = self._vectors()
        pieces = pieces_of(text)
        for start in range(0, len(pieces), _BATCH):
            near = self._embedder.embed(pieces[start : start + _BATCH]) @ known.T
            best = near.max(axis=0).tolist()
            for name, value in zip(self._owners, best, strict=True):
                if value >= self._threshold:
                    found.add(name)
        return found

    def _vectors(self) -> Any:
        with self._lock:
            if self._known is None:
                self._known = self._embedder.embed(self._texts)
            return self._known


def pieces_of(text: str) -> list[str]:
    """A text's sentences; longer ones are cut at spaces."""
    pieces = []
    for sentence in re.split(r"(?<=[.!?。！？])\s+|\n+", text):
        rest = sentence.strip()
        while len(rest) > _LONGEST:
            cut = rest.rfind(" ", _LONGEST // 2, _LONGEST)
            cut = cut if cut > 0 else _LONGEST
            pieces.append(rest[:cut])
            rest = rest[cut:].lstrip()
        if rest:
            pieces.append(rest)
    return pieces
