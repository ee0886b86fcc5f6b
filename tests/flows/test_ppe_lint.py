"""What `lint` finds in PPE scripts, and that it finds nothing in scripts that are right."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow_support import script, scripted
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import FlowError, load_flow
from orchestrator.diagnostics import Diagnostic
from orchestrator.flows.languages import lint_program
from tests.flows.cases import Case, cases

CASES = cases("ppe_cases.jsonl")
RUNS = [case for case in CASES if "error" not in case["expect"]]
DOUBTFUL = {
    # What a case is about is doubtful.
    "instruction: $ret of an expression": "unreachable",
    "messages: an unknown role is passed through": "unknown-role",
}


def found(*lines: str) -> list[Diagnostic]:
    return lint_program(script(*lines).program)


def told(*lines: str) -> list[tuple[str, str, int | None, int | None]]:
    """Errors and warnings: severity, code and place."""
    return [(it.severity, it.code, it.line, it.column) for it in doubts(*lines)]


def doubts(*lines: str) -> list[Diagnostic]:
    return [it for it in found(*lines) if it.severity != "info"]


@pytest.mark.skipif(not RUNS, reason="the conformance cases are not beside the project")
@pytest.mark.parametrize("case", RUNS, ids=[case["name"] for case in RUNS] or None)
def test_scripts_that_run_have_no_doubts(case: Case, tmp_path: Path) -> None:
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for file in case["files"]:
        program = load_flow(tmp_path / file).program
        codes = {it.code for it in lint_program(program) if it.severity != "info"}
        assert codes <= {DOUBTFUL.get(case["name"], "")}


@pytest.mark.parametrize(
    ("lines", "what", "way"),
    [
        (["user: hi", "$ech: 1"], ("warning", "unknown-instruction", 2, 1), "'$echo'"),
        (["user: 'a [[@ f(1)]]'"], ("warning", "literal", 1, 7), "without spaces"),
        (["user: |", "  a", "  [[@../f(1)]]"], ("warning", "literal", 3, 1), "without a path"),
        (["user: 'a [[@$formt(1)]]'"], ("warning", "unknown-instruction", 1, 7), "'$format'"),
        (
            ["---", "topic: rain", "---", "user: 'Of {{ topik }}'"],
            ("warning", "undefined", 4, 14),
            "'topic'",
        ),
        (
            ["user: q", "assistant: '[[Answer]]'", "$echo: '?=Anwser'"],
            ("warning", "undefined", 3, 8),
            "'Answer'",
        ),
        (
            ["---", "paramters: {temperature: 1}", "---", "user: q"],
            ("warning", "unknown-key", 2, 1),
            "'parameters'",
        ),
        (
            ["---", "parameters:", "  temprature: 1", "---", "user: q"],
            ("warning", "unknown-parameter", 3, 3),
            "'temperature'",
        ),
        (
            ["user: q", "assistant: '[[A:topp=1]]'"],
            ("warning", "unknown-parameter", 2, 12),
            "'top_p'",
        ),
        (["$ret: 1", "user: q"], ("warning", "unreachable", 2, 7), "remove"),
        (["$abort", "---", "user: q"], ("warning", "unreachable", 2, 1), "remove"),
        (
            ["$for: 3", "do:", "  - $break", "  - user: q"],
            ("warning", "unreachable", 4, 11),
            "remove",
        ),
        (["user: q", "$break"], ("error", "no-loop", 2, 1), "$for"),
        (
            ["user: q", "assistant: '[[F:|red|green]]'", "$if: \"F == 'gren'\"", "then: {user: x}"],
            ("warning", "impossible", 3, 1),
            "'green'",
        ),
        (
            ["user: q", "assistant: '[[F:|a|b]]'", "$match(F):", "  ':a': {user: x}"],
            ("warning", "unused-choice", 3, 1),
            "`_`",
        ),
        (
            ["$match(v):", "  _: {user: x}", "  ':1': {user: y}"],
            ("warning", "unreachable", 1, 1),
            "last",
        ),
        (
            ["---", "roles: {dobby: char-dobby}", "---", "user: q"],
            ("error", "unknown-role", 1, 1),
            "put it there",
        ),
        (
            ["$on: {event: beforecall, callback: '?=1'}"],
            ("warning", "unknown-event", 1, 1),
            "'beforeCall'",
        ),
        (["---", "output: {type: 5}", "---", "user: q"], ("warning", "wrong-schema", 2, 1), ""),
        (["system: 'Be [[MOOD]]'"], ("warning", "doubtful", 1, 9), ""),
        (["$iff: 1 > 2", "user: q"], ("warning", "unknown-instruction", 1, 1), "'$if'"),
        (["$Mtach(x): 1", "user: q"], ("warning", "unknown-instruction", 1, 1), "'$match'"),
        (
            ["user: '[[A:|{{ q }}|b]]'", "$echo: '?=A'"],
            ("warning", "constant-choice", 1, 7),
            "its text",
        ),
        (["user: q", "uesr: Hello"], ("error", "unknown-role", 2, 1), "'user'"),
        (["user: q", "- Asistent: '[[A]]'"], ("error", "unknown-role", 2, 3), "'assistant'"),
        (["user: q", "narrator: Hello"], ("warning", "unknown-role", 2, 1), "system, user"),
        (["$if: 1 > 0", "then:", "  usr: |", "    hi"], ("error", "unknown-role", 3, 3), "'user'"),
        (["user: q", '- "#[0:sytem]x"'], ("error", "unknown-role", 2, 8), "'system'"),
    ],
)
def test_what_is_found(lines: list[str], what: tuple[str, str, int, int], way: str) -> None:
    (one,) = [it for it in doubts(*lines) if it.code == what[1]]
    assert (one.severity, one.code, one.line, one.column) == what
    assert way in one.suggestion


@pytest.mark.parametrize(
    "lines",
    [
        ["user: '{% set x = 1 %}{{ x }} {% for y in [1] %}{{ y }}{{ loop.index }}{% endfor %}'"],
        ["$set: {t.a: 1}", "$echo: '?=t.a'", "user: '{{ t.a }}'"],
        ["$for: 3", "as: {value: v, index: k}", "do:", "  - user: '{{ v }} {{ k }}'"],
        ["$for: 3", "do:", "  - user: '{{ item }} {{ value }} {{ index }}'"],
        ["$match(RESPONSE):", "  ':[first, _, last]': {user: '{{ first }}{{ last }}{{ COND__ }}'}"],
        ["user: q", "assistant: '[[F:|a|b|c:2]]'", "user: '{{ F }}{{ F_list }}'"],
        ["user: '{{ LatestResult }} {{ RESPONSE }} {{ prompt.x }} {{ this }}'"],
        ["$AI: {mood: kind}", "user: 'Be {{ mood }}'"],
        ["user: '[[@$echo(file.txt)]] [[@$echo(word)]]'"],
        ['$on: {event: llm, callback: "?=arg1 + event.type"}', "user: q"],
        ["$format: {template: 'x {{ a }}', data: {a: 7}}"],
        [
            "---",
            "shouldThink: first",
            "---",
            "user: q",
            "assistant: '[[A]]'",
            "$echo: '?=THINKING'",
        ],
        ["---", "b: 5", "a: 'x {{ b }}'", "---", "user: '{{ a }}'"],
        ["---", "len: 9", "---", "user: q", "assistant: '[[A:max_tokens=len]]'"],
        ["user: q", "assistant: '[[F:|a|b]]'", "$match(F):", "  ':a': {user: x}", "  _: {user: y}"],
        ["user: q", "assistant: '[[F:|a|b]]'", "$if: \"F == 'a'\"", "then: {user: x}"],
        ["user: 'see /usr/bin/:x there'"],
        ["- $ret: 1"],
        ["$rate: 1", "$add: 1", "$fetch: 1"],
        ["$for: items", "do:", "  - user: '{{ item }}'"],
    ],
)
def test_what_is_right_is_not_doubted(lines: list[str]) -> None:
    assert told(*lines) == []


def test_arguments_functions_and_what_nothing_reads_are_told() -> None:
    lines = ["---", "extra: 1", "---", "user: 'Of {{ topic }}'", "$rate: 1", "$if: mood", "then: x"]
    infos = [(it.code, it.line, it.column) for it in found(*lines)]
    assert infos == [("unused", 2, 1), ("argument", 4, 14), ("function", 5, 1), ("argument", 6, 1)]


def test_declared_arguments_and_functions_are_told_with_what_they_are() -> None:
    lines = [
        "---",
        "input:",
        "  - language: {required: true, type: string}",
        "  - {tone: {default: kind, index: 0}}",
        "  - text",
        "text: hello",
        "---",
        "user: '{{ text }} {{ language }} {{ tone }}'",
        "$track: 1",
    ]
    infos = [(it.code, it.line, it.column, it.message, it.suggestion) for it in found(*lines)]
    assert infos == [
        ("argument", 3, 5, "'language' is an argument: required, of type string", ""),
        (
            "argument",
            4,
            6,
            "'tone' is an argument: by itself 'kind', what a text without a name is",
            "",
        ),
        ("argument", 5, 5, "'text' is an argument: by itself 'hello'", ""),
        (
            "function",
            9,
            1,
            "$track is a function, which is to be registered",
            "--tool NAME=FILE:FUNCTION gives it",
        ),
    ]


def test_the_run_names_the_instruction_that_was_meant_too() -> None:
    with pytest.raises(FlowError, match=r"no instruction \$iff; did you mean '\$if'\?"):
        script("$iff: 1 > 2", "user: q").run(model=scripted())


def test_scripts_beside_it_are_known(tmp_path: Path) -> None:
    (tmp_path / "calculator.ai.yaml").write_text("user: '{{ content }}'")
    (tmp_path / "named.ai.yaml").write_text("---\n_id: adder\n---\nuser: x")
    main = tmp_path / "main.ai.yaml"
    main.write_text("user: '[[@calculator(1)]] [[@adder]] [[@calculater(1)]]'")
    (one,) = lint_program(load_flow(main).program)
    assert (one.code, one.suggestion) == ("unknown-script", "did you mean 'calculator'?")
    main.write_text("user: '[[@calculator(1)]] [[@adder]]'")
    assert lint_program(load_flow(main).program) == []


def test_what_cannot_be_read_is_an_error_with_its_place() -> None:
    with pytest.raises(FlowError) as caught:
        script("user: hi", "$set: {a: '?=1 +'}")
    assert (caught.value.line, caught.value.column) == (2, 11)


LINES = [
    *("user: '{{ a.b }} [[A]] [[B:|x|y:2]]'", "assistant: '[[A:|x|y]]'", "$set: {a: '?=B + 1'}"),
    *("$if: \"A == 'z'\"", "then: {$ret: 1}", "$match(A):", "  ':x': {$break: 1}", "  _: $AI"),
    *("$for: B_list", "as: {value: v}", "do: {user: '{{ v }}'}", "-> $print -> f(a=1)", "$|f"),
    *("---", "roles: {r: s}", "a: '{{ a }}'", "user[@r]: hi", "$on: {event: llm, callback: '?=c'}"),
    *("user: '[[/x(/:A]] [[@g(h.txt)]] ((x:5%))'", "parameters: {top: 1}", "output: {type: {}}"),
]


@given(st.lists(st.sampled_from(LINES), max_size=8))
def test_whatever_can_be_read_can_be_looked_at(lines: list[str]) -> None:
    try:
        program = script(*lines).program
    except FlowError:
        return
    for one in lint_program(program):
        assert one.message and one.code
        assert 1 <= (one.line or 0) <= len(lines) and one.column


def test_the_place_of_an_input_is_no_comment() -> None:
    lines = ["---", "input:", "  # the text", "  - kind # of text", "", "  - text", "---"]
    places = {it.message.split("'")[1]: (it.line, it.column) for it in found(*lines, "user: hi")}
    assert places == {"kind": (4, 5), "text": (6, 5)}
