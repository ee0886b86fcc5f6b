"""What of a reply a grammar leaves no choice about.

A model decides little of a call: which function, and which values. All between follows from the
grammar. Read as a part of the prompt it takes a third of the time that decoding it takes.

`ForcedText` follows a reply through a grammar of `grammar.py`: llama.cpp's GBNF, as that file
writes it, with one rule on each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

# Ways to go on, all of which are looked at for each character. With more, nothing is forced.
_MOST_WAYS = 1000
# Characters that are forced in one go; no call has a longer piece without a choice in it.
_MOST_FORCED = 4000

_TOKEN = re.compile(
    r'\s*+(?:(?P<literal>"(?:[^"\\]|\\.)*+")|(?P<set>\[(?:[^\]\\]|\\.)*+\])'
    r"|(?P<name>[\w-]++)|(?P<count>\{[0-9,]++\})|(?P<sign>[()|*+?]))",
    re.DOTALL,
)
# The last word or signs of a text. What follows may belong to the same token, and a model is not
# used to the same text in other tokens: after a token `{` it leaves out what comes after `{"`.
_LAST = re.compile(r" ?(?:[^\w\s]|_)*+[^\W_]*+\Z")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class _Element(NamedTuple):
    kind: Literal["char", "set", "rule"]
    text: str  # a character, a set as it is written (`[^<]`), or a rule's name


_Sequence: TypeAlias = tuple[_Element, ...]


class _Way(NamedTuple):
    """What may come: a sequence from some element on, and then `after` it another one."""

    sequence: _Sequence
    at: int
    after: _Way | None


class ForcedText:
    """A reply's place in a grammar: what has come, and what must come next.

    Attributes:
        is_whole: Whether the reply has nowhere left to go.
    """

    def __init__(self, grammar: str) -> None:
        """Begins a reply under a grammar, which is read as far as a reply comes to it."""
        self._rules = _Rules(grammar)
        self._ways: list[_Way | None] = []
        self._follow([_Way((_Element("rule", "root"),), 0, None)])

    @property
    def is_whole(self) -> bool:
        """Whether the reply is complete and nothing can follow."""
        return self._ways == [None]

    def accept(self, text: str) -> None:
        """Takes what the model has decoded."""
        for char in text:
            self._take(char)

    def force(self, least: int = 1) -> str:
        """Takes what must come next, as far as there is no choice; returns it.

        Where the reply goes on after that, its last word or signs are left to the model. Takes
        nothing when there are fewer than `least` characters, unless they end the reply.
        """
        ways, forced = self._ways, self._take_forced()
        if self.is_whole:
            return forced
        forced = _LAST.sub("", forced)
        self._ways = ways
        if len(forced) < least:
            return ""
        self.accept(forced)
        # With too many ways to go on, the rest could not be written.
        return forced if self._ways else ""

    def _take_forced(self) -> str:
        forced: list[str] = []
        while len(forced) < _MOST_FORCED:
            tops = {None if way is None else way.sequence[way.at] for way in self._ways}
            top = tops.pop() if len(tops) == 1 else None
            if top is None or top.kind != "char":
                break
            self._take(top.text)
            forced.append(top.text)
        return "".join(forced)

    def write_rest(self) -> str:
        """The grammar of what may still come.

        Raises:
            ValueError: Nothing may come: the text is none of the grammar, or is not followed.
        """
        if not self._ways:
            raise ValueError("the text is none of the grammar")
        return self._rules.write(self._ways)

    def _take(self, char: str) -> None:
        self._follow(
            [
                _Way(way.sequence, way.at + 1, way.after)
                for way in self._ways
                if way is not None and _matches(way.sequence[way.at], char)
            ]
        )

    def _follow(self, ways: Iterable[_Way | None]) -> None:
        """Has every way begin with a character or a set; the end is `None`."""
        found: dict[_Way | None, None] = {}
        seen: set[_Way | None] = set()
        open_ = [*ways]
        while open_:
            way = open_.pop()
            if way in seen:
                continue
            seen.add(way)
            if len(seen) > _MOST_WAYS:  # what is not followed has no forced text
                found = {}
                break
            open_ += self._step(way, found)
        self._ways = [*found]

    def _step(self, way: _Way | None, found: dict[_Way | None, None]) -> Sequence[_Way | None]:
        if way is None:
            found[None] = None
            return ()
        if way.at == len(way.sequence):
            return (way.after,)
        element = way.sequence[way.at]
        if element.kind != "rule":
            found[way] = None
            return ()
        last = way.at + 1 == len(way.sequence)
        after = way.after if last else _Way(way.sequence, way.at + 1, way.after)
        return [_Way(sequence, 0, after) for sequence in self._rules.read(element.text)]


def _matches(element: _Element, char: str) -> bool:
    if element.kind == "set":
        return _compile_set(element.text).match(char) is not None
    return element.text == char


@lru_cache(100)
def _compile_set(written: str) -> re.Pattern[str]:
    return re.compile(written)


class _Rules:
    """The rules of a grammar. Groups and repetitions get rules of their own."""

    def __init__(self, grammar: str) -> None:
        self._written = dict(
            line.split(" ::= ", 1) for line in grammar.splitlines() if " ::= " in line
        )
        self._read: dict[str, list[_Sequence]] = {}
        self._made = 0

    def read(self, name: str) -> list[_Sequence]:
        """The alternatives of a rule."""
        if name not in self._read:
            self._read[name] = self._alternatives(_cut(self._written[name]), 0)[0]
        return self._read[name]

    def write(self, ways: Iterable[_Way | None]) -> str:
        """The grammar whose root is any of these ways."""
        made: dict[str, str] = {}
        root = " | ".join(self._write(_flatten(way), made) for way in ways)
        rules = {**self._written, **made, "root": root}
        return "".join(f"{name} ::= {text}\n" for name, text in rules.items())

    def _write(self, elements: Iterable[_Element], made: dict[str, str]) -> str:
        parts = []
        for kind, group in groupby(elements, lambda element: element.kind):
            texts = [element.text for element in group]
            parts += [f'"{"".join(texts).translate(_WRITTEN)}"'] if kind == "char" else texts
            for text in texts if kind == "rule" else ():
                if text not in self._written and text not in made:
                    made[text] = ""  # it may name itself
                    made[text] = " | ".join(self._write(way, made) for way in self._read[text])
        return " ".join(parts) or '""'

    def _make(self, alternatives: list[_Sequence]) -> _Element:
        self._made += 1
        name = f"made-{self._made}"
        self._read[name] = alternatives
        return _Element("rule", name)

    def _alternatives(self, tokens: list[tuple[str, str]], at: int) -> tuple[list[_Sequence], int]:
        found: list[_Sequence] = []
        sequence: list[_Element] = []
        while at < len(tokens) and tokens[at][1] != ")":
            kind, text = tokens[at]
            at += 1
            if text == "|":
                found.append(tuple(sequence))
                sequence = []
                continue
            part: list[_Element]
            if text == "(":
                inner, at = self._alternatives(tokens, at)
                part, at = [self._make(inner)], at + 1
            else:
                part = _elements(kind, text)
            if at < len(tokens) and tokens[at][1][0] in "*+?{":
                part = self._repeat(tuple(part), tokens[at][1])
                at += 1
            sequence += part
        return [*found, tuple(sequence)], at

    def _repeat(self, part: _Sequence, times: str) -> list[_Element]:
        if times[0] == "{":
            fewest, _, most = times.strip("{}").partition(",")
            optional: _Sequence = ()
            for _ in range(int(most or fewest) - int(fewest)):
                optional = (self._make([(*part, *optional), ()]),)
            return [*part * int(fewest), *optional]
        if times == "?":
            return [self._make([part, ()])]
        more = self._make([])
        self._read[more.text] = [(*part, more), ()]
        return [*part, more] if times == "+" else [more]


def _cut(text: str) -> list[tuple[str, str]]:
    tokens = ((str(found.lastgroup), found) for found in _TOKEN.finditer(text))
    return [(kind, found[kind]) for kind, found in tokens]


def _elements(kind: str, text: str) -> list[_Element]:
    if kind == "literal":
        plain = _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), text[1:-1])
        return [_Element("char", char) for char in plain]
    return [_Element("set" if kind == "set" else "rule", text)]


def _flatten(way: _Way | None) -> Iterator[_Element]:
    while way is not None:
        yield from way.sequence[way.at :]
        way = way.after
