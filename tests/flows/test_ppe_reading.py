"""How scripts are read: styles, dialects, leniency, mistakes, and texts of any shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from flow_support import script, scripted
from hypothesis import given
from hypothesis import strategies as st
from left_out import sampled

from orchestrator import Flow, FlowError, load_flow
from orchestrator.flows.ppe.choices import Choice, read_substitution
from orchestrator.flows.ppe.dialects import as_jinja
from orchestrator.flows.ppe.reader import read_script
from orchestrator.flows.tree import ScriptError


def asked(*lines: str, arguments: Any = None, replies: tuple[str, ...] = ("A",)) -> str:
    """What the user says in the last request."""
    model = scripted(*replies)
    script(*lines).run(arguments, model=model)
    return "".join(block["text"] for block in model.requests[-1].messages[-1]["content"])


def in_chinese(error: FlowError) -> bool:
    """Whether an error says in Chinese, too, where it is and what is wrong."""
    told = re.search(r"^第 \d+ 行：.*[\u4e00-\u9fff]", error.message_zh, re.S)
    return told is not None and f"第 {error.line} 行" in error.message_zh


def warned(*lines: str, arguments: Any = None, replies: tuple[str, ...] = ("A",)) -> list[str]:
    told: list[str] = []

    def hear(event: Any) -> None:
        if event.type == "warning":
            told.append(event.members["text"])

    script(*lines).run(arguments, model=scripted(*replies), on_event=hear)
    return told


MISTAKES = [
    (["a: ["], 1, "not YAML"),
    (["user: a: b"], 1, "this colon begins a second value"),
    (["user: a", "  b: c: d"], 2, "by its indentation this line goes on"),
    (["---", "a: 1", "user: hi"], 1, "no end"),
    (["---", "- a", "---", "user: hi"], 2, "is a mapping"),
    (["---", "a: 1", "a: 2", "---", "user: hi"], 3, "'a' is there twice"),
    (["---", "a: " + "9" * 5000, "---", "user: hi"], 2, "no number, or too large"),
    (["---", "a: 1e999", "---", "user: hi"], 2, "no number, or too large"),
    (["---", "b: *x", "---", "user: hi"], 2, "no anchor &x"),
    (["---", "a: !!python/name:os.system x", "---", "user: hi"], 2, "tag"),
    (["---", "a: " + "[" * 5000, "---", "user: hi"], 2, "nested deeper than 60 levels"),
    (['user: "\\UFFFFFFFF"'], 1, "not YAML: found invalid Unicode character escape code"),
    (["user: \x00"], 1, "the character U\\+0000 may not stand in YAML"),
    (["user: hi", "$if: 'a ='", "then:", "  user: b"], 2, "the expression"),
    (["user: hi", "$for: '[1'", "do:", "  user: b"], 2, "the expression"),
    (["$set: {a: '?=1 +'}"], 1, "the expression"),
    (["user: hi", "then:", "  user: b"], 2, "'then' belongs below"),
    (["else:", "  user: b"], 1, "'else' belongs below"),
    (["$match('a'): x"], 1, "patterns below it"),
    (["$if: [1]", "then: x"], 1, "condition is an expression"),
    (["-> 1"], 1, "no call"),
    (["-> a(", "user: x"], 1, "no call|arguments"),
    (["$f(1 2)"], 1, "arguments"),
    (["[1]: a"], 1, "is a text"),
    (["user: '{{ a'"], 1, "template is wrong"),
    (["user: |-", "  a", "  {% if %}"], 3, "template is wrong"),
    (["user: |-", "  a [[A]] b", "  {{ b }", "  c"], 3, "template is wrong"),
    (["user: '[[A:0.2]]'"], 1, "has a name: name=value"),
    (["user: '[[A:x=]]'"], 1, "ends too early"),
    (["user: '[[A:|a|]]'"], 1, "empty item"),
    (["user: '[[A:|a|b:0]]'"], 1, "of 1 to 0 items"),
    (["user: '[[A:|a|b:3:minPick=3]]'"], 1, "has only 2"),
    (["user: '[[A:|a|b:type=other]]'"], 1, "'ai' or 'random'"),
    (["user: '[[A:|a|b:maxPick=1+1]]'"], 1, "is a constant"),
    (["user: \"[[A:|a|b:maxPick='x']]\""], 1, "is none"),
    (["user: '[[@f(]]'"], 1, "is not closed|no ]] behind"),
    (["user: '[[@f(1) and more'"], 1, "no ]] behind"),
    (["user: '[[@f(1 2)]]'"], 1, "arguments of 'f'"),
    (["user: 'a ((text:2000)) b'"], 1, "the bias 2000 is larger than 1000"),
    (["user[@dobby]: hi"], 1, "no role 'dobby'.*has user, assistant"),
    (["---", "roles: {dobby: d}", "---", "user[@dobi]: hi"], 4, "did you mean 'dobby'"),
    (["---", "roles: {dobby: d}", "---", "user[@ (x)]: hi"], 4, "names no roles"),
    (["---", "roles: x", "---", "user: hi"], 2, "'roles' is a map"),
    (["---", "roles: {user: x}", "---", "user: hi"], 2, "'user' is no role"),
    (["---", "shouldThink: always", "---", "user: hi"], 2, "one of off, last, first, deep"),
    (["---", "shouldThink: {mod: deep}", "---", "user: hi"], 2, "did you mean 'mode'"),
    (["---", "shouldThink: {mode: deep, thinkTag: 5}", "---", "user: hi"], 2, "no list of two"),
    (["---", "permissions: x", "---", "user: hi"], 2, "map with 'call'"),
    (["---", "permissions: {call: x}", "---", "user: hi"], 2, "list of rules"),
    (["---", "permissions: {call: [1]}", "---", "user: hi"], 2, "a text or a map"),
    (["---", "permissions: {call: [{a: {action: x}}]}", "---", "user: hi"], 2, "'x'.* is none"),
    (["---", "permissions: {call: [{a: {parameters: x}}]}", "---", "user: hi"], 2, "'parameters'"),
    (["---", "tools: [{title: x, a: b}]", "---", "user: hi"], 2, "has an 'id'"),
    (["$match(a):", "  ':/(/':", "    $echo: 1"], 2, "regular expression /\\(/ is wrong"),
    (["$match(a):", "  ':[a':", "    $echo: 1"], 2, "is not closed"),
    (["$match(a):", "  ':[.., a]':", "    $echo: 1"], 2, "the last of a list"),
    (["$match(a):", f"  ':{'[' * 30}{']' * 30}':", "    $echo: 1"], 2, "nested too deeply"),
    (["$if: {a: b}", "then: x"], 1, "or one instruction"),
    (["$if: {$|f: 1}", "then: x"], 1, "no pipe"),
    (["---", "templateFormat: nope", "---", "user: hi"], 2, "no templateFormat 'nope'"),
    (["---", "formatStringStrategy: Never", "---", "user: hi"], 2, "Deferred, Immediate, Raw"),
    (["---", "dialect: new", "---", "user: hi"], 2, "dialect 'new' is none"),
    (["---", "dialect: 0.5", "---", "user: hi"], 2, "too old"),
    (["---", "import: 'js:pkg'", "---", "user: hi"], 2, "JavaScript package"),
    (["---", "import: [a, b]", "---", "user: hi"], 2, "JavaScript package"),
    (["---", "prompt: {messages: x}", "---", "user: hi"], 2, "list of messages"),
    (["---", "prompt: {messages: [x]}", "---", "user: hi"], 2, "a role and a content"),
    (["!fn |-", "  x"], 2, "register a Python function"),
    (["$echo: \"[[@f(format=(a) => a ? 'y' : 'n')]]\""], 1, "'=>' is a function in JavaScript"),
    (["user: !fn x"], 1, "register a Python function"),
]


@pytest.mark.parametrize(("lines", "line", "what"), MISTAKES)
def test_a_mistake_is_told_before_anything_runs(lines: list[str], line: int, what: str) -> None:
    with pytest.raises(FlowError, match=what) as caught:
        script(*lines)
    assert caught.value.line in (line, line - 1)
    assert caught.value.column
    assert in_chinese(caught.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("a {x} b", "a 5 b"),
        ("a {{x}} b", "a {x} b"),
        ("{m.k} {m[k]}{nope}", "v v"),
        ("100{% done %} {# no #} {", "100{% done %} {# no #} {"),
        ("{{{x}}}", "{5}"),
        ("{x!r}", "{x!r}"),
    ],
)
def test_format_strings(written: str, said: str) -> None:
    lines = ["---", "templateFormat: fstring", "x: 5", "m: {k: v}", "---", f"user: '{written}'"]
    assert asked(*lines) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("a {{ .x }} b", "a 5 b"),
        ("{{.m.k}}", "v"),
        ("{{if .x}}yes{{else}}no{{end}}", "yes"),
        ("{{ if .nope }}a{{ else if .x }}b{{ else }}c{{ end }}", "b"),
        ("{{range .l}}<{{.}}>{{end}}", "<1><2>"),
        ("a {{- .x -}} b", "a5b"),
    ],
)
def test_go_templates(written: str, said: str) -> None:
    head = ["---", "templateFormat: golang", "x: 5", "m: {k: v}", "l: [1, 2]", "---"]
    assert asked(*head, f"user: '{written}'") == said


@pytest.mark.parametrize("written", ['{{template "x"}}', "{{ .x | upper }}", "{{if .x}}", "{{.}}"])
def test_go_templates_that_are_not_understood(written: str) -> None:
    with pytest.raises(ScriptError, match="Go's template"):
        as_jinja(written, "golang")


@pytest.mark.parametrize(
    ("dialect", "written", "said"),
    [
        ("0.6", "'#{{ 1 + 1 }}'", "2"),
        ("0.6", "'!{{ 1 + 1 }}'", "!2"),
        ("0.6", "'#:new'", ":new"),
        ("0.6", "v /[0-9]+/:AV e", "v 12 e"),
        ("0.7", "v /[0-9]+/:AV e", "v /[0-9]+/:AV e"),
        ("0.7", "v [[/[0-9]+/:AV]] e", "v 12 e"),
        ("0.9", "'!{{ 1 + 1 }}'", "2"),
        ("0.9", "'# {{ 1 + 1 }}'", "# 2"),
        ("0.11.4", "v /[0-9]+/:AV e", "v /[0-9]+/:AV e"),
        ("", "'#{{ 1 + 1 }}'", "2"),
        ("", "'!{{ 1 + 1 }}'", "2"),
        ("", "v /[0-9]+/:AV e", "v 12 e"),
    ],
)
def test_dialects(dialect: str, written: str, said: str) -> None:
    lines = ["---", f"dialect: '{dialect}'" if dialect else "AW: 1", "AV: ab 12", "---"]
    assert asked(*lines, f"user: {written}") == said


@pytest.mark.parametrize(
    ("written", "said", "warning"),
    [
        ("{{ nope|nofilter }}", "{{ nope|nofilter }}", "template"),
        ("{{ nope.k }}", "{{ nope.k }}", "undefined"),
        ("{{ l[5] }}", "{{ l[5] }}", "no element|has no"),
        ("a [[@missing(1)]] b", "a [[@missing(1)]] b", "missing"),
        ("a [[@$missing(1)]] b", "a [[@$missing(1)]] b", "missing"),
        ("a [[@$fails()]] b", "a [[@$fails()]] b", "fails"),
        ("a [[/(/:l]] b", "a [[/(/:l]] b", "is wrong"),
    ],
)
def test_a_lenient_script_leaves_what_is_wrong_as_it_is(
    written: str, said: str, warning: str
) -> None:
    def fails() -> None:
        raise ValueError

    lines = ["l: [1]", "---", f"user: '{written}'"]
    told: list[Any] = []
    model = scripted("A")
    script("---", "lenient: true", *lines).run(
        model=model, tools={"fails": fails}, on_event=told.append
    )
    assert model.requests[0].messages[-1]["content"] == [{"text": said}]
    assert [it for it in told if it.type == "warning"]
    with pytest.raises(FlowError):
        script("---", *lines).run(model=scripted("A"), tools={"fails": fails})


def test_what_is_doubtful_is_told() -> None:
    told = warned("user: hi", "system: 'Be [[MOOD]].'", replies=("x", "y"))
    assert "speaks for the system" in told[0]
    assert "'export' has no effect" in warned("---", "export: [a]", "---", "user: hi")[0]
    assert warned("---", "shouldThink: 'off'", "---", "user: hi") == []
    assert "'seed' is not known" in warned("user: hi", "assistant: '[[A:seed=1]]'")[0]
    assert "did you mean 'top_p'" in warned("user: hi", "assistant: '[[A:topp=1]]'")[0]
    assert "NOPE is not defined" in warned("user: 'a [[/x/:NOPE]]'")[0]


@pytest.mark.parametrize(
    ("written", "choice", "parameters"),
    [
        ("|apple|apple|orange", Choice(("apple", "apple", "orange")), []),
        (" |a|b:2", Choice(("a", "b"), 2), []),
        ("|a b| c ", Choice(("a b", "c")), []),
        ("|'a,b'|c", Choice(("a,b", "c")), []),
        ("|'a|b'|\"c:d\"", Choice(("a|b", "c:d")), []),
        ("|it's|b", Choice(("it's", "b")), []),
        ("|a|b:random", Choice(("a", "b"), random=True), []),
        ("|a|b:type=random", Choice(("a", "b"), random=True), []),
        ("|a|b:type='random'", Choice(("a", "b"), random=True), []),
        ("|a|b:2:random", Choice(("a", "b"), 2, random=True), []),
        ("|a|b:ai", Choice(("a", "b")), []),
        (
            '|plant|animal:2:";":minPick= 1: prefix= "- "',
            Choice(("plant", "animal"), 2, 1, separator=";", prefix="- "),
            [],
        ),
        ("|a|b:maxPick=2,suffix='!'", Choice(("a", "b"), 2, suffix="!"), []),
        ("|a|b:2,temperature=0.5", Choice(("a", "b"), 2), ["temperature"]),
        ("|a|b:temperature=0.5,top_p=1", Choice(("a", "b")), ["temperature", "top_p"]),
        ("temperature=0.7,max_tokens=9", None, ["temperature", "max_tokens"]),
    ],
)
def test_choices(written: str, choice: Choice | None, parameters: list[str]) -> None:
    found, given_parameters = read_substitution(written)
    assert found == choice
    assert [one.name for one in given_parameters] == parameters


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 99)
)
def test_a_draw_has_each_item_once(items: list[str], most: int, seed: int) -> None:
    choice = Choice(tuple(items), most, random=True)
    chosen = choice.draw(seed)
    assert 1 <= len(chosen) <= min(most, len(set(items)))
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(items)
    assert choice.draw(seed) == chosen


def test_an_item_that_is_there_twice_is_drawn_twice_as_often() -> None:
    choice = Choice(("a", "a", "b"), random=True)
    drawn = [choice.draw(seed)[0] for seed in range(3000)]
    assert 1800 < drawn.count("a") < 2200


@given(st.text(max_size=30))
def test_a_choice_is_one_of_them_or_asked_again(reply: str) -> None:
    for choice in (Choice(("apple", "banana split", "日本")), Choice(("a", "b", "c"), 2, 1)):
        found = choice.read(reply)
        assert isinstance(found, str) or set(found) <= set(choice.items)


PIECES = st.sampled_from(
    [
        *(
            "user: ",
            "system: ",
            "assistant: ",
            "- ",
            "---\n",
            "***\n",
            "\n",
            "\n  ",
            "'",
            '"',
            "|-\n  ",
        ),
        *(
            "[[",
            "]]",
            "[[A]]",
            "[[A:",
            "|a|b",
            ":2",
            "random",
            "[[@",
            "[[@$",
            "f(",
            ")",
            "[[/",
            "/:A]]",
        ),
        *(
            " /",
            "/i:A ",
            "{{",
            "}}",
            "{{{",
            "}}}",
            "{%",
            "%}",
            "{#",
            "$set: ",
            "$if: ",
            "then: ",
            "do: ",
        ),
        *(
            "-> f",
            "#:",
            "#+[-1:system]",
            "!fn ",
            "?=",
            "~",
            "#",
            "!",
            "&a ",
            "*a ",
            "!!str ",
            "((a:1))",
        ),
        *(
            "a",
            "1",
            "文",
            " ",
            ":",
            ",",
            "\\",
            "\t",
            "\\[\\[",
            "$match(a):\n  :1: x\n",
            "\x85",
            "\u2028",
        ),
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_is_a_script_or_a_flow_error(text: str) -> None:
    for head in ("", "---\ntemplateFormat: golang\n---\n", "---\ntemplateFormat: fstring\n---\n"):
        try:
            read_script(head + text)
        except FlowError as error:
            assert error.line
            assert error.line >= 1


LARGE = [
    "user: '" + "[[" * 50_000 + "'",
    "user: '" + "[[A:" * 25_000 + "'",
    "user: '" + "[[A" * 33_000 + "]]'",
    "user: '" + "[[@f([" * 16_000 + "'",
    "user: '" + "[[@f(" * 20_000 + ")" * 20_000 + "'",
    "user: '" + "[[/ ]]" * 16_000 + "'",
    "user: '" + "[[/a" * 25_000 + "'",
    "user: '" + " /a" * 33_000 + "'",
    "user: '" + " /a /:" * 16_000 + "'",
    "user: '" + "((" * 50_000 + "'",
    "user: '" + "((a" * 33_000 + ":'",
    "user: '" + "{{{" * 33_000 + "'",
    "user: '" + "\\[\\[" * 25_000 + "'",
    "a" + " " * 100_000 + "b",
    "user:" + " " * 100_000 + "{{a}}" + " " * 100_000 + "x",
    "[[a]]" + " x" * 50_000,
    "- " * 50_000 + "a",
    "$a" + " " * 100_000 + "x",
    "-> a" + " " * 100_000 + "x",
    "->" * 50_000,
    "-> f('" + "->" * 50_000,
    "user: a\n" * 3_000,
    "---\n" * 25_000,
    "# comment\n" * 10_000,
    "user: |\n" + "  [[A]]\n" * 300,
    "a: " + "{" * 50_000,
    "a: " + "[" * 50_000,
    "[" * 50_000,
    "? " * 50_000,
    "'" * 50_001,
]


@pytest.mark.parametrize("head", ["", "---\ntemplateFormat: golang\n---\n"])
@pytest.mark.parametrize("text", sampled(LARGE), ids=range(len(LARGE)))
def test_a_large_script_is_read_in_one_pass(text: str, head: str) -> None:
    try:
        read_script(head + text)
    except FlowError as error:
        assert error.line


def test_scripts_that_call_each_other_without_end_are_stopped(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{one}.ai.yaml").write_text(f"$echo: 1\n-> {other}\n")
    (tmp_path / "main.ai.yaml").write_text("$echo: 1\n-> a\n")
    with pytest.raises(FlowError, match="levels deep"):
        load_flow(tmp_path / "main.ai.yaml").run(model=scripted())


def test_scripts_are_called_only_so_often(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("orchestrator.flows.ppe.calls.MOST_CALLS", 50)
    (tmp_path / "a.ai.yaml").write_text("$echo: 1\n")
    (tmp_path / "main.ai.yaml").write_text("$while: 'true'\ndo:\n  - $exec: a\n")
    with pytest.raises(FlowError, match="more than 50 times"):
        load_flow(tmp_path / "main.ai.yaml").run(model=scripted())


@pytest.mark.parametrize("id", ["../outside", "/etc/passwd", "a/b", "..", "a\\b"])
def test_a_script_is_found_by_its_name_beside_the_others_only(id: str, tmp_path: Path) -> None:
    (tmp_path / "outside.ai.yaml").write_text("$echo: secret\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.ai.yaml").symlink_to(tmp_path / "outside.ai.yaml")
    (inner / "main.ai.yaml").write_text(f"$exec: {{id: '{id}'}}\n")
    with pytest.raises(FlowError, match="there is no script"):
        load_flow(inner / "main.ai.yaml").run(model=scripted())
    (inner / "main.ai.yaml").write_text("$exec: link\n")
    with pytest.raises(FlowError, match="there is no script 'link'"):
        load_flow(inner / "main.ai.yaml").run(model=scripted())


def test_an_error_shows_the_beginning_of_a_long_expression() -> None:
    with pytest.raises(FlowError, match="the expression") as error:
        Flow.from_text(f"$echo: '?={'(' * 50_000}'", "ppe")
    assert len(str(error.value)) < 500
