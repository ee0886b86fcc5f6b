"""Regular expressions of scripts: JavaScript's, and none that takes all time."""

from __future__ import annotations

import re

import pytest
from flow_support import script, scripted
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import FlowError
from orchestrator.flows.ppe.regexes import Searches, translate_pattern
from orchestrator.flows.steps import WorkTime
from orchestrator.flows.tree import ScriptError


def matched(pattern: str, text: str, flags: str = "") -> bool:
    return Searches(1).search(pattern, flags, text) is not None


@pytest.mark.parametrize(
    ("pattern", "flags", "yes", "no"),
    [
        (r"(?<year>\d{4})-\k<year>", "", "2020-2020", "2020-2021"),
        (r"^a$", "", "a", "a\n"),
        (r"^a$", "m", "b\na\n", "b"),
        (r"a.c", "", "abc", "a\nc"),
        (r"a.c", "", "abc", "a\u2028c"),
        (r"a.c", "s", "a\nc", "ac"),
        (r"A", "i", "a", "b"),
        (r"\d", "", "5", "٥"),
        (r"\w", "", "_", "文"),
        (r"\bab\b", "", "文ab文", "xab"),
        (r"\Bab", "", "xab", "ab"),
        (r"\s", "", "\ufeff", "\x1c"),
        (r"[\s]", "", "\u00a0", "a"),
        (r"[\d\w]", "", "7", "-"),
        (r"[^\w]", "", "文", "a"),
        (r"[\S]", "", "a", " "),
        (r"^[\W]$", "", "é", "a"),
        (r"^[\W]$", "i", "é", "K"),
        (r"^[\W]$", "i", "-", "i"),
        (r"^[^\W]$", "", "a", "é"),
        (r"^[\D]$", "", "٣", "3"),
        (r"^[^\D]$", "", "3", "٣"),
        (r"^[\S]$", "", "\x1c", "\ufeff"),
        (r"^[^\S]$", "", "\ufeff", "\x85"),
        (r"^[\W\d]$", "", "7", "x"),
        (r"^[\D-x]$", "", "-", "1"),
        (r"^[x-\d]$", "", "-", "y"),
        (r"^[x-\D]$", "", "y", "1"),
        (r"^[\w-]$", "", "-", "+"),
        (r"a+?b*?c??d{2}?", "", "add", "ad"),
        (r"[+*]+", "", "++", "a"),
        (r"\++", "", "++", "a"),
        (r"[^]", "", "\n", ""),
        (r"a[]b|c", "", "c", "ab"),
        (r"[[]", "", "[", "]"),
        (r"[{(?]", "", "(", "a"),
        (r"[a&&b]", "", "&", "c"),
        (r"[a\]]", "", "]", "b"),
        (r"[\b]", "", "\x08", "b"),
        (r"\/", "", "/", "x"),
        (r"a{e}", "", "a{e}", "a"),
        (r"a{,3}b", "", "a{,3}b", "aab"),
        (r"a{2}", "", "aa", "a"),
        (r"a{2,}", "", "aaa", "a"),
        (r"x{", "", "x{", "x"),
        (r"}", "", "}", "{"),
        (r"\u0041\x42\u{43}", "u", "ABC", "ab"),
        (r"\cJ", "", "\n", "J"),
        (r"\0", "", "\x00", "0"),
        (r"\p{L}", "u", "文", "1"),
        (r"\P{L}", "u", "1", "文"),
        (r"\A\Z", "", "AZ", ""),
        (r"\z\h\R", "", "zhR", "z"),
        (r"(?<=a)b(?!c)", "", "abd", "abc"),
        (r"(?<!a)b(?=c)", "", "xbc", "abc"),
        (r"(?:a|b)+?", "", "ab", "c"),
        (r"(a)(b)\2", "", "abb", "aba"),
        (r"a\-b\_c", "", "a-b_c", "abc"),
        (r"a b#c", "", "a b#c", "ab"),
        (r"\$\^\.", "", "$^.", "abc"),
        (r"a", "gy", "a", "b"),
    ],
)
def test_javascript_in_pythons_words(pattern: str, flags: str, yes: str, no: str) -> None:
    assert matched(pattern, yes, flags)
    assert not matched(pattern, no, flags)


_NOTHING_TO_REPEAT = (
    r"a++ a*+ a?+ a{2}+ a** a+* a{2}{3} a+?? (a)++ [a]++ \d++ "
    r"+a {2} a|* (*a) (?:+a) (?<n>?a) ^* $+ \b+"
).split()


@pytest.mark.parametrize(
    ("pattern", "flags", "what"),
    [
        ("(a", "", "is wrong"),
        ("a)", "", "is wrong"),
        ("*", "", "is wrong"),
        ("[a", "", "is wrong"),
        *((it, "", "nothing to repeat") for it in _NOTHING_TO_REPEAT),
        ("\\", "", "ends in a backslash"),
        ("(?P<n>a)", "", r"has '\(\?P<'"),
        ("(?i)a", "", r"has '\(\?i\)'"),
        ("(?R)", "", r"has '\(\?R\)'"),
        ("(?>a)", "", r"has '\(\?>a'"),
        ("(?#c)", "", r"has '\(\?#c'"),
        ("(?<=a+)b(?(1)c)", "", r"has '\(\?\(1'"),
        ("a", "x", "the flag 'x'"),
        ("\\u{110000}", "u", "a letter that is none"),
        ("\\k<no>", "", "is wrong"),
        ("\\2(a)", "", "is wrong"),
        ("a" * 5001, "", "more than 5000"),
        ("(" * 2000 + "a" + ")" * 2000, "", "is wrong"),
    ],
)
def test_an_expression_that_is_none(pattern: str, flags: str, what: str) -> None:
    with pytest.raises(ScriptError, match=what):
        matched(pattern, "a", flags)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|aa)+b",
        "(a*)*b",
        "(.*a){25}b",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(?:a?){40}a{40}b",
        "(a|a)*b",
        "(\\w+\\s?)*b",
    ],
)
def test_an_expression_that_takes_all_time_is_stopped(pattern: str) -> None:
    text = "a" * 5000
    try:
        assert not Searches(0.05).search(pattern, "", text)
    except ScriptError as wrong:
        assert "took longer than 0.05 seconds" in wrong.message


def test_the_searches_of_a_run_have_one_budget() -> None:
    searches = Searches(0.02)
    told = []
    for _ in range(200):
        with pytest.raises(ScriptError) as caught:
            searches.search("(a|aa)+$", "", "a" * 10_000 + "b")
        told.append(caught.value.message)
        if "together" in told[-1]:
            break
    assert "took longer than 0.02 seconds" in told[0]
    assert "longer than 0.2 seconds together" in told[-1]
    with pytest.raises(ScriptError, match="together"):  # one that takes no time, too
        searches.search("a", "", "a")


def test_a_budget_that_is_spent_stays_so_whichever_clock_is_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.flows.ppe.regexes.perf_counter", lambda: 0.0)
    searches = Searches(0.02, WorkTime(seconds=0.19))
    with pytest.raises(ScriptError, match="together"):
        searches.search("(a|aa)+$", "", "a" * 10_000 + "b")
    with pytest.raises(ScriptError, match="together"):
        searches.search("a", "", "a")


def test_a_run_that_goes_on_has_searched_no_longer_than_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, each = 0.0, 0.1

    def clock() -> float:
        nonlocal now
        now += each  # each search takes that long
        return now

    monkeypatch.setattr("orchestrator.flows.ppe.regexes.perf_counter", clock)
    search = "$match(t): {':/a/': {$set: {x: 1}}}"
    flow = script(*[search] * 8, "$ret: '?=x'")
    result = flow.run({"t": "a"}, model=scripted(), step=True)
    while result.paused and "$ret" not in result.statement:
        result = flow.resume(result.paused, model=scripted(), mode="step")
    each = 3.0  # where it goes on, all eight take longer than the run may
    assert result.paused
    result = flow.resume(result.paused, model=scripted())
    assert result.output == 1


def test_a_run_that_goes_on_has_no_new_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.12
        return now

    monkeypatch.setattr("orchestrator.flows.ppe.regexes.perf_counter", clock)
    flow = script(*["$match(t): {':/a/': {$set: {x: 1}}}"] * 10, "$ret: '?=x'")
    told = []
    for step in (False, True):
        with pytest.raises(FlowError, match="seconds together") as caught:
            result = flow.run({"t": "a"}, model=scripted(), step=step)
            while result.paused:
                result = flow.resume(result.paused, model=scripted(), mode="step")
        told.append((caught.value.line, caught.value.message))
    assert told[0] == told[1]
    assert told[0][0] == 10


def test_the_time_limit_ends_a_run() -> None:
    flow = script("user: 'v [[/(a|aa)+$/:t]]'")
    with pytest.raises(FlowError, match="took longer") as caught:
        flow.run({"t": "a" * 10_000 + "b"}, model=scripted("A"))
    assert caught.value.line == 1


@given(st.one_of(st.text(max_size=20), st.text("ab1()[]{}?*+|^$.\\<>:=!-kuxPd,", max_size=20)))
def test_any_pattern_is_translated_or_wrong(pattern: str) -> None:
    try:
        matched(pattern, "some text", "u")
    except ScriptError as wrong:
        assert wrong.message


@given(st.text(max_size=20))
def test_an_escaped_text_matches_itself(text: str) -> None:
    escaped = re.sub(r"[\\^$.*+?()\[\]{}|/]", lambda it: f"\\{it[0]}", text)
    assert matched(f"^{escaped}$", text)
    assert translate_pattern(escaped, "") is not None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("v: [[/[0-9]+/:AV]] end", "v: 12 end"),
        ("v:[[/[0-9]+/:AV]]!", "v:12!"),
        ("v: [[/(a)(b)/:AV:2]] end", "v: b end"),
        ("v: [[/(a)/:AV]] end", "v: a end"),
        ("v: [[/(?<w>b)/:AV:w]] end", "v: b end"),
        ("v: [[/(B)/i:AV]] end", "v: b end"),
        ("v: [[/zzz/:AV]] end", "v: ab 12 ab end"),
        ("v: [[/a(b)/:AV:0]] end", "v: ab end"),
        ("v: [[/[0-9]/g:AV]] end", "v: 1 end"),
        ("v: [[/x/:NOPE]] end", "v:  end"),
        ("v: [[/(x)?a/:AV]] end", "v:  end"),
        ("v: /[0-9]+/:AV end", "v: 12 end"),
        ("/[0-9]+/:AV", "12"),
        ("v:/[0-9]+/:AV end", "v:/[0-9]+/:AV end"),
        ("v: /[0-9]+/:AV, end", "v: /[0-9]+/:AV, end"),
        ("v: /usr/bin/:x y", "v: /usr/bin/:x y"),
        ("1 / 2 /:AV", "1 / 2 /:AV"),
        ("[[/a/:AV]] [[/b/:AV]] /1/:AV", "a b 1"),
        ("[[/a]] b/:AV]]", "ab 12 ab"),
        ("[[/a\nb/:AV]]", "[[/a\nb/:AV]]"),
    ],
)
def test_expressions_in_texts(written: str, said: str) -> None:
    model = scripted("A")
    body = "".join(f"  {line}\n" for line in written.split("\n"))
    script(f"user: |-\n{body}").run({"AV": "ab 12 ab"}, model=model)
    (message,) = model.requests[0].messages
    assert message["content"] == [{"text": said}]


@pytest.mark.parametrize(
    ("written", "what"),
    [("/(a)/:AV:2", "no group '2'"), ("/(a/:AV", "is wrong"), ("/a/:AV:w", "no group 'w'")],
)
def test_a_wrong_expression_is_an_error_before_anything_runs(written: str, what: str) -> None:
    with pytest.raises(FlowError, match=what) as caught:
        script("user: hi", f"user: 'v [[{written}]]'")
    assert caught.value.line == 2


def test_what_an_expression_finds_is_final() -> None:
    model = scripted("A")
    flow = script("user: 'v [[/.+/:t]]'")
    flow.run({"t": "{{ secret }} [[X]] [[@$echo(1)]] /a/:t"}, model=model)
    (message,) = model.requests[0].messages
    assert message["content"] == [{"text": "v {{ secret }} [[X]] [[@$echo(1)]] /a/:t"}]
