"""Looks for replies whose meaning depends on how they were cut while they streamed.

    python -m tests.parsers.streaming_differences --inputs 1000000 --seed 1

The replies are made by this grammar. `...` is any of it again, three levels deep, so that tags
stand in values, values in calls, and calls in answers and in thinking. Each tag may be in upper
case, have white space or attributes (some of about the longest length), or be cut off.

    reply     = part+, of which pieces are then taken out, put in twice, or cut off
    part      = thinking | answer | calls | function | fncall | nova | results | other | tag | word
    thinking  = <thinking> ... </thinking>, also <think> and <scratchpad>
    answer    = <answer> ... </answer> | <answer> parts </answer> | <final_response> ...
    parts     = (<answer_part> <text> ... </text> <sources> <source> word ... </answer_part>)+
    calls     = <function_calls> invoke+ </function_calls>
    invoke    = (<invoke> <tool_name> name </tool_name> | <invoke name="name">) values </invoke>
    values    = <parameters> element+ </parameters> | element+ | JSON | nothing
    element   = <a> value </a> | <parameter name="a"> value </parameter>
    value     = word | ... | <![CDATA[ ... ]]> | encoded ... | "..." | '...' | escaped ...
    function  = <function_call> name( a=value, b=value ) </function_call>
    fncall    = <fnCall> (invoke | <tool_name> ... | JSON | name( a=value )) </fnCall>
    nova      = <__function=name> <__parameter=a> value </__parameter> </__function>
    results   = <function_results> ... </function_results>
    other     = <category>, <a>, <summary>, <topic> with any of it between
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from orchestrator import parsers
from orchestrator.parsers import ANSWER, CALL, THINKING, Parsed

DEPTH = 3
MOST = 16  # pieces of a reply
NAMES = (
    "g::f", "mail::note", "GET::g::/p/{id}", "GET__g__f", "mail__wipe", "f", "user::askuser",
    "GET::x_amz_knowledgebase_K::Search", "AgentCommunication::sendMessage", "outOfDomain",
)  # fmt: skip
WORDS = (
    "Paris", "a", " ", "\n", "  \n", "1", "x y", "]", "]]", "]]>", "&amp;", "&lt;", "&", "<", ">",
    "/", "</", "<a", "=", '="', "='", '"', "'", "\\", '\\"', "(", ")", "()", ",", ", b=", ":", "::",
    "{", "}", "[", "D", "\x00", "\ud800", "\u017f", "\u212a", "<!", "<![CDATA[", "<!DOCTYPE a>",
    "<b>", "</b>", "<br/>", "<thin\u212aing>", "Thought:", "User", "keep_previous_agent",
)  # fmt: skip
TAGS = (
    "thinking", "/thinking", "think", "/scratchpad", "answer", "/answer", "answer_part",
    "/answer_part", "text", "/text", "sources", "/sources", "source", "/source", "function_calls",
    "/function_calls", "invoke", 'invoke name="mail::wipe"', "/invoke", "tool_name", "/tool_name",
    "parameters", "/parameters", 'parameter name="a"', "/parameter", "function_call", "a", "/a",
    "/function_call", "fnCall", "/fnCall", "__function=mail__wipe", "/__function", "/__parameter",
    "__parameter=a", "function_results", "/function_results", "function_result", "final_response",
    "/final_response", "category", "/category", "summary", "topic name='t'", "/topic", "tools",
    "parameters/", "a /",
)  # fmt: skip


class _Grammar:
    # Writes pieces of a reply, most of them tags and words.
    def __init__(self, rng: random.Random) -> None:
        self.random = rng.random
        self.choose: Callable[[Sequence[Any]], Any] = rng.choice
        self.pieces: list[str] = []

    def add(self, text: str) -> None:
        self.pieces.append(text)

    def tag(self, name: str) -> None:
        chance = self.random()
        if chance < 0.88:
            self.add(f"<{name}>")
        elif chance < 0.91:
            self.add(f"<{name.upper()}>")
        elif chance < 0.93:
            self.add(f"<{name}{self.choose((' ', chr(10), chr(9) + ' ', '  '))}>")
        elif chance < 0.95:
            self.add(f'<{name} id="x">')
        elif chance < 0.955:
            self.add(f"<{name} {'=' + 'x' * self.choose((100, 120, 254, 255, 256, 257))}>")
        elif chance < 0.985:
            self.add(f"<{name}"[: 1 + int(self.random() * (len(name) + 1))])

    def around(self, name: str, inside: Callable[..., None], *args: Any) -> None:
        self.tag(name)
        inside(*args)
        self.tag("/" + name.split(None, 1)[0].partition("=")[0])

    def part(self, depth: int) -> None:
        kinds = self.PARTS if depth else self.LEAVES
        self.choose(kinds)(self, depth - 1)

    def some(self, depth: int) -> None:
        self.part(max(depth, 0))
        while self.random() < 0.3:
            self.part(max(depth, 0))

    def word(self, depth: int) -> None:
        self.add(self.choose(WORDS))

    def any_tag(self, depth: int) -> None:
        self.tag(self.choose(TAGS))

    def thinking(self, depth: int) -> None:
        self.around(self.choose(("thinking", "think", "scratchpad")), self.some, depth)

    def answer(self, depth: int) -> None:
        chance = self.random()
        if chance < 0.6:
            self.around("answer", self.some, depth)
        elif chance < 0.8:
            self.around("answer", self.answer_parts, depth)
        else:
            self.around("final_response", self.some, depth)

    def answer_parts(self, depth: int) -> None:
        for _ in range(self.choose((1, 1, 2))):
            self.tag("answer_part")
            self.around("text", self.some, depth)
            self.around("sources", self.around, "source", self.word, 0)
            self.tag("/answer_part")

    def calls(self, depth: int) -> None:
        self.tag("function_calls")
        for _ in range(self.choose((1, 1, 1, 2))):
            self.invoke(depth)
        self.tag("/function_calls")

    def invoke(self, depth: int) -> None:
        name = self.choose(NAMES)
        if self.random() < 0.8:
            self.tag("invoke")
            self.around("tool_name", self.add, name)
        else:
            self.tag(f'invoke name="{name}"')
        self.values(depth)
        self.tag("/invoke")

    def values(self, depth: int) -> None:
        chance = self.random()
        if chance < 0.6:
            self.around("parameters", self.elements, depth)
        elif chance < 0.8:
            self.elements(depth)
        elif chance < 0.95:
            self.json(depth)

    def elements(self, depth: int) -> None:
        for _ in range(self.choose((1, 1, 2))):
            self.around(self.choose(("a", "b", 'parameter name="a"')), self.value, depth)

    def value(self, depth: int) -> None:
        chance, start = self.random(), len(self.pieces)
        if chance < 0.4:
            self.add(self.choose(WORDS))
            return
        self.some(depth)
        if chance < 0.6:
            return
        inside = "".join(self.pieces[start:])
        del self.pieces[start:]
        if chance < 0.7:
            self.pieces += ["<![CDATA[", inside, "]]>"]
        elif chance < 0.75:
            self.add(escape(inside))
        elif chance < 0.85:
            self.pieces += ['"', inside, '"']
        elif chance < 0.9:
            self.pieces += ["'", inside, "'"]
        else:
            self.pieces += ['"', inside.replace("\\", "\\\\").replace('"', '\\"'), '"']

    def json(self, depth: int) -> None:
        start = len(self.pieces)
        self.some(depth)
        inside = "".join(self.pieces[start:])
        del self.pieces[start:]
        self.add(json.dumps({"name": self.choose(NAMES), "parameters": {"a": inside}}))

    def function(self, depth: int) -> None:
        self.around("function_call", self.arguments, depth)

    def arguments(self, depth: int) -> None:
        self.add(self.choose(NAMES))
        self.add("(")
        for index in range(self.choose((0, 1, 1, 1, 2))):
            self.add(", b=" if index else "a=")
            self.value(depth)
        self.add(")")

    def fncall(self, depth: int) -> None:
        self.around(
            "fnCall", self.choose((self.arguments, self.json, self.invoke, self.named)), depth
        )

    def named(self, depth: int) -> None:
        self.around("tool_name", self.add, self.choose(NAMES))
        self.values(depth)

    def nova(self, depth: int) -> None:
        self.tag(f"__function={self.choose(NAMES)}")
        self.around("__parameter=a", self.value, depth)
        self.tag("/__function")

    def results(self, depth: int) -> None:
        self.around(self.choose(("function_results", "function_result")), self.some, depth)

    def other(self, depth: int) -> None:
        self.around(self.choose(("category", "a", "summary", "topic name='t'")), self.some, depth)

    PARTS = (*[word, any_tag, thinking, answer, calls, function, fncall] * 2, nova, results, other)
    LEAVES = (word, any_tag)


def reply(rng: random.Random) -> str:
    """A reply of the grammar, with mistakes."""
    grammar = _Grammar(rng)
    while len(grammar.pieces) < MOST // 2:
        grammar.part(DEPTH)
    pieces = grammar.pieces[:MOST]
    chance = rng.random()
    while chance < 0.4:
        at = int(rng.random() * len(pieces))
        if chance < 0.2:
            del pieces[at]
        elif chance < 0.3:
            pieces.insert(at, rng.choice(pieces))
        else:
            pieces[at] = pieces[at][: int(rng.random() * len(pieces[at]))]
        chance = rng.random() if pieces else 1
    return "".join(pieces)


def ways_to_cut(text: str, rng: random.Random) -> Iterator[list[str]]:
    """Ways to stream a reply: short ones at every place, all of them in many pieces."""
    size = len(text)
    places = range(1, size) if size <= 24 else [int(rng.random() * size) for _ in range(2)]
    for at in places:
        yield [text[:at], text[at:]]
    for many in (2, 9):
        edges = [0, *sorted(int(rng.random() * size) for _ in range(many)), size]
        yield [text[start:end] for start, end in pairwise(edges)]
    yield list(text)


class Meaning(NamedTuple):
    """What a reply means, and what of it was streamed, by kind."""

    parsed: Parsed
    streamed: dict[str, str]


def read(pieces: Sequence[str], stage: str, name: str) -> Meaning:
    """What a reply means that streams in these pieces."""
    parser = parsers.new(name, stage)
    streamed = {THINKING: "", ANSWER: "", CALL: ""}
    feed = parser.feed
    for piece in pieces:
        for kind, text in feed(piece):
            streamed[kind] += text
    return Meaning(parser.finish([{"text": "".join(pieces)}]), streamed)


def check(text: str, stage: str, name: str, cuts: Iterator[Sequence[str]]) -> list[str]:
    """What differs between a reply that comes whole and the same one in pieces."""
    whole = parsers.parse(text, stage, name)
    at_once = read([text], stage, name)
    found = [] if at_once.parsed == whole else ["whole and fed at once"]
    for pieces in cuts:
        meaning = read(pieces, stage, name)
        if meaning.parsed != whole:
            found.append(f"meaning, cut as {[*map(len, pieces)]}")
        if meaning.streamed != at_once.streamed:
            found.append(f"streamed pieces, cut as {[*map(len, pieces)]}")
    answer, streamed = _find_answer(whole), at_once.streamed[ANSWER]
    if (
        answer is not None
        and streamed
        and answer != streamed
        and not _has_message(text, answer, streamed)
    ):
        found.append("the streamed answer is not the answer")
    return found


def _find_answer(parsed: Parsed) -> str | None:
    # The answer of a reply that ends the turn.
    (member,) = (parsed.response[key] for key in parsed.response if key.endswith("Response"))
    if "generatedResponse" in member:
        parts = member["generatedResponse"]["generatedResponseParts"]
        return " ".join(part["text"] for part in parts)
    if "responseText" in member:
        return str(member["responseText"])
    final = member.get("responseDetails", {}).get("agentFinalResponse")
    return None if final is None else str(final["responseText"])


def _has_message(text: str, answer: str, streamed: str) -> bool:
    # Only a message to the user adds to an answer that was streamed.
    sends = "sendmessage" in text.lower() or "outofdomain" in text.lower()
    return sends and answer.startswith(streamed)


class Count(NamedTuple):
    """What was tried, and what differed."""

    inputs: int
    cuts: int
    kinds: Counter[str]
    examples: list[tuple[str, str, str, list[str]]]


def choose_parser(rng: random.Random) -> tuple[str, str]:
    """A stage, most often ORCHESTRATION, and a parser."""
    stage = "ORCHESTRATION" if rng.random() < 0.8 else rng.choice(parsers.STAGES)
    return stage, rng.choice(parsers.NAMES)


def run(seed: int, inputs: int) -> Count:
    """Checks so many inputs, each made from the seed and its number."""
    count, kinds, examples = 0, Counter[str](), []
    for number in range(inputs):
        rng = random.Random(seed * 1_000_003 + number)
        text = reply(rng)
        stage, name = choose_parser(rng)
        ways = list(ways_to_cut(text, rng))
        count += len(ways)
        if found := check(text, stage, name, iter(ways)):
            kinds["inputs"] += 1
            kinds.update({one.partition(",")[0] for one in found})
            examples.append((text, stage, name, found))
    return Count(inputs, count, kinds, examples[:3])


def main() -> None:
    """Runs the search, and prints what it found."""
    options = argparse.ArgumentParser(description="Look for replies that stream differently.")
    options.add_argument("--inputs", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--processes", type=int, default=1, choices=(1, 2))
    given = options.parse_args()
    began, share = time.monotonic(), 10_000
    chunks = [min(share, given.inputs - start) for start in range(0, given.inputs, share)]
    seeds = [given.seed * 1_000 + index for index in range(len(chunks))]
    cuts, kinds = 0, Counter[str]()
    with ProcessPoolExecutor(given.processes) as pool:
        for counted in pool.map(run, seeds, chunks):
            cuts += counted.cuts
            kinds += counted.kinds
            for text, stage, name, found in counted.examples[:1]:
                print(f"{stage} {name}: {text!r}\n  {found[:3]}", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{given.inputs} inputs from seed {given.seed}, {cuts} ways to cut them, {seconds:.0f} s: "
        f"{kinds['inputs']} differ {dict(kinds)}"
    )


if __name__ == "__main__":
    main()
