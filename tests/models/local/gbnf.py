"""A tiny matcher for llama.cpp's grammar language: whether a grammar accepts a text.

It knows what the grammars here use: literals, character classes, groups, alternatives, and the
repetitions `?`, `*`, `+`, `{n}`, `{n,m}`. Matching keeps the set of positions that can be reached,
so it terminates and needs no backtracking.
"""

from __future__ import annotations

from collections.abc import Callable

Match = Callable[[str, int], frozenset[int]]

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "]": "]", "[": "[", "-": "-"}


class Grammar:
    def __init__(self, source: str) -> None:
        self.rules: dict[str, Match] = {}
        self.memo: dict[tuple[str, int], frozenset[int]] = {}
        for line in source.splitlines():
            if line.strip():
                name, _, body = line.partition(" ::= ")
                assert name not in self.rules, f"{name} is defined twice"
                reader = _Reader(body, self)
                self.rules[name] = reader.alternatives()
                assert reader.at == len(body), f"{name}: {body[reader.at :]!r} is left over"
        for name in self.used:
            assert name in self.rules, f"{name} is used and not defined"

    used: frozenset[str] = frozenset()

    def accepts(self, text: str) -> bool:
        self.memo.clear()
        return len(text) in self.rule("root")(text, 0)

    def rule(self, name: str) -> Match:
        self.used |= {name}

        def match(text: str, at: int) -> frozenset[int]:
            key = (name, at)
            if key not in self.memo:
                self.memo[key] = frozenset()  # a left recursion finds nothing
                self.memo[key] = self.rules[name](text, at)
            return self.memo[key]

        return match


class _Reader:
    def __init__(self, source: str, grammar: Grammar) -> None:
        self.source, self.at, self.grammar = source, 0, grammar

    def skip(self) -> None:
        while self.source[self.at : self.at + 1] == " ":
            self.at += 1

    def peek(self) -> str:
        self.skip()
        return self.source[self.at : self.at + 1]

    def alternatives(self) -> Match:
        options = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            options.append(self.sequence())
        return lambda text, at: frozenset().union(*(option(text, at) for option in options))

    def sequence(self) -> Match:
        items: list[Match] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self.repeated(self.item()))
        return lambda text, at: _chain(items, text, frozenset({at}))

    def item(self) -> Match:
        first = self.peek()
        if first == '"':
            return self.literal()
        if first == "[":
            return self.character_class()
        if first == "(":
            self.at += 1
            inner = self.alternatives()
            assert self.peek() == ")"
            self.at += 1
            return inner
        start = self.at
        while self.at < len(self.source) and (
            self.source[self.at].isalnum() or self.source[self.at] == "-"
        ):
            self.at += 1
        assert self.at > start, f"cannot read {self.source[start:]!r}"
        return self.grammar.rule(self.source[start : self.at])

    def character(self) -> str:
        char = self.source[self.at]
        self.at += 1
        if char != "\\":
            return char
        kind = self.source[self.at]
        self.at += 1
        if kind == "x":
            self.at += 2
            return chr(int(self.source[self.at - 2 : self.at], 16))
        return _ESCAPES[kind]

    def literal(self) -> Match:
        self.at += 1
        chars = []
        while self.source[self.at] != '"':
            chars.append(self.character())
        self.at += 1
        word = "".join(chars)
        return lambda text, at: (
            frozenset({at + len(word)}) if text.startswith(word, at) else frozenset()
        )

    def character_class(self) -> Match:
        self.at += 1
        negated = self.source[self.at] == "^"
        self.at += negated
        ranges = []
        while self.source[self.at] != "]":
            low = high = self.character()
            if self.source[self.at] == "-" and self.source[self.at + 1] != "]":
                self.at += 1
                high = self.character()
            ranges.append((low, high))
        self.at += 1

        def match(text: str, at: int) -> frozenset[int]:
            if at >= len(text):
                return frozenset()
            inside = any(low <= text[at] <= high for low, high in ranges)
            return frozenset({at + 1}) if inside != negated else frozenset()

        return match

    def repeated(self, item: Match) -> Match:
        sign = self.source[self.at : self.at + 1]
        low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(sign, (1, 1))
        if sign and sign in "?*+":
            self.at += 1
        elif sign == "{":
            end = self.source.index("}", self.at)
            first, comma, last = self.source[self.at + 1 : end].partition(",")
            low, high = int(first), int(last) if last else (None if comma else int(first))
            self.at = end + 1
        else:
            return item
        return lambda text, at: _repeat(item, low, high, text, at)


def _chain(items: list[Match], text: str, places: frozenset[int]) -> frozenset[int]:
    for item in items:
        places = frozenset().union(*(item(text, at) for at in places))
    return places


def _repeat(item: Match, low: int, high: int | None, text: str, at: int) -> frozenset[int]:
    places, found, seen, count = frozenset({at}), set(), set(), 0
    if low == 0:
        found.add(at)
    while places and (high is None or count < high):
        places = frozenset().union(*(item(text, place) for place in places))
        count += 1
        if count >= low:
            places -= seen
            seen |= places
            found |= places
    return frozenset(found)
