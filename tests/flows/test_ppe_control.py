"""What decides, repeats and connects in PPE scripts: patterns, loops, pipes, paths, edits."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest
from flow_support import script, scripted, texts
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import Flow, FlowError
from orchestrator.flows.ppe.patterns import read_pattern
from orchestrator.flows.ppe.regexes import Searches
from orchestrator.flows.tree import ScriptError

SEARCHES = Searches(1.0)


def fits(pattern: str, value: Any) -> Any:
    return read_pattern(pattern).fits(value, SEARCHES)


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("_", None, {}),
        (":_", 5, {}),
        (": _", "x", {}),
        (':"hi"', "hi", {}),
        (":hi", "hi", {}),
        (":hi", "ho", None),
        (":12", 12, {}),
        (":12", "12", None),
        (":-3", -3, {}),
        (":true", True, {}),
        (":true", 1, None),
        (":1", True, None),
        (":/B+/i", "abb", {}),
        (":/B+/", "abb", None),
        (":/1/", 1, None),
        (":/a||b/", "a", {}),
        (":> 10", 12, {}),
        (":> 10", 10, None),
        (":>= 10", 10, {}),
        (":!= 'a'", "b", {}),
        (":> 10", "12", None),
        (":1..5", 5, {}),
        (":1..5", 5.1, None),
        (":1..<5", 5, None),
        (":1..<5", 1, {}),
        (":1>..5", 1, None),
        (":1>..5", 5, {}),
        (":-2..2", -1, {}),
        (":1 || 2", 2, {}),
        (":1 || 2", 3, None),
        (":'a' || > 5", 6, {}),
        (":'a||b'", "a||b", {}),
        (":[a, _]", [1, 2], {"a": 1}),
        (":['a,b', _, _, last]", ["a,b", 2, 3, 4], {"last": 4}),
        (":['a,b', _]", ["a", 2], None),
        (":[1, ..]", [1, 2, 3], {}),
        (":[1, ..]", [2], None),
        (":[]", [], {}),
        (":[1]", "1", None),
        (":[[x], {k=y}]", [[1], {"k": 2}], {"x": 1, "y": 2}),
        (":{x='a', y=':1||2'}", {"x": "a", "y": 2}, {}),
        (":{x='a', y=':1||2'}", {"x": "a", "y": 3}, None),
        (":{x='a'}", {"x": "a", "y": 3}, None),
        (":{x='a', ..}", {"x": "a", "y": 3}, {}),
        (":{x, ..}", {"x": 7, "y": 3}, {"x": 7}),
        (":{x=> 3}", {"x": 5}, {}),
        (":{x=1}", [1], None),
    ],
)
def test_patterns(pattern: str, value: Any, found: Any) -> None:
    assert fits(pattern, value) == found


@given(st.text(":_[]{}.,=|<>/'\"ab1 ", max_size=25))
def test_any_pattern_is_read_or_wrong(written: str) -> None:
    try:
        pattern = read_pattern(written)
    except ScriptError as wrong:
        assert wrong.message and wrong.message_zh
    else:
        for value in (None, 1, "a", [1, "b"], {"a": 1}):
            assert pattern.fits(value, SEARCHES) is None or True


def test_what_a_pattern_names_is_there_in_its_branch_alone() -> None:
    lines = ["$match(v):", "  ':[first, ..]':", "    - user: '{{ first }} of {{ COND__ }}'"]
    model = scripted("A")
    result = script("---", "first: outer", "---", *lines, "$AI", "$echo: '?=first'").run(
        {"v": [1, 2]}, model=model
    )
    assert texts(model.requests[0]) == ["1 of 1,2"]
    assert result.output == "outer"


def test_match_takes_the_result_before_it() -> None:
    for written in ("$match", "$match()", "$match(allMatches=false)"):
        flow = script("$echo: 5", f"{written}:", "  ':5': {$echo: five}")
        assert flow.run(model=scripted()).output == "five"


@pytest.mark.parametrize("options", ["allMatches=true", "true", "allMatches=true, parallel=true"])
def test_all_that_fit_run_in_order(options: str) -> None:
    flow = script(
        f"$match(v, {options}):",
        "  ':> 1': {$set: {s: '?=[1]'}}",
        "  ':1..9': {$set: {s: '?=s + [2]'}}",
        "  ':7': {$set: {s: '?=s + [3]'}}",
        "  _: {$set: {s: '?=s + [4]'}}",
    )
    assert flow.run({"v": 5}, model=scripted()).variables["s"] == [1, 2, 4]


@pytest.mark.parametrize(
    ("written", "names", "seen"),
    [
        ("3", "", [[0, 1], [1, 2], [2, 3]]),
        ("'[5, 6]'", "", [[0, 5], [1, 6]]),
        ("[5, 6]", "", [[0, 5], [1, 6]]),
        ("'{a: 1, b: 2}'", "", [["a", 1], ["b", 2]]),
        ("{a: 1, b: '?=1 + 1'}", "", [["a", 1], ["b", 2]]),
        ("{start: 2, end: 6, step: 2}", "", [[0, 2], [1, 4], [2, 6]]),
        ("{start: 3, end: 1, step: -1}", "", [[0, 3], [1, 2], [2, 1]]),
        ("{end: 2}", "", [[0, 1], [1, 2]]),
        ("0", "", []),
        ("'-1'", "", []),
    ],
)
def test_what_loops_go_over(written: str, names: str, seen: list[Any]) -> None:
    lines = [f"$for: {written}", "do:", "  $set: {s: '?=s + [[index, item]]'}"]
    result = script("---", "s: []", "---", *lines).run(model=scripted())
    assert result.variables["s"] == seen
    again = [f"$for: {written}", "as: {value: v, index: k}", "do: {$set: {s: '?=s + [[k, v]]'}}"]
    assert script("---", "s: []", "---", *again).run(model=scripted()).variables["s"] == seen


@pytest.mark.parametrize("written", ["20000", "{end: 20000}", "'?=v'"])
def test_loops_end(written: str) -> None:
    with pytest.raises(FlowError, match="more than 10000 items") as caught:
        script(f"$for: {written}", "do: x").run({"v": 10**12}, model=scripted())
    assert "10000" in caught.value.message_zh


def test_conditions_are_functions_too() -> None:
    def even(number: int) -> bool:
        return number % 2 == 0

    for number, output in ((2, "yes"), (3, "no")):
        flow = script(f"$if: {{$even: {number}}}", "then: {$echo: 'yes'}", "else: {$echo: 'no'}")
        assert flow.run(model=scripted(), tools={"even": even}).output == output
    flow = script(
        "$set: {i: 0}", "$while: {$small: '?=i'}", "do: {$set: {i: '?=i + 1'}}", "$echo: '?=i'"
    )
    assert flow.run(model=scripted(), tools={"small": lambda i: i < 3}).output == 3


@pytest.mark.parametrize(
    "lines",
    [
        ["- $echo: 5", "- $pipe", "- $inc", "- $|inc"],
        ["- $echo: 5", "- $pipe", "- $inc", "- $pipe: inc"],
        ["$echo: 5", "$pipe: $inc", "-> inc"],
        ["- $echo: {content: 5}", "- $pipe", "- $inc: {by: 2}"],
        ["- $echo: 5", "- $pipe", "- $inc(by=2)"],
    ],
)
def test_pipes(lines: list[str]) -> None:
    def inc(content: int, by: int = 1) -> int:
        return content + by

    assert script(*lines).run(model=scripted(), tools={"inc": inc}).output == 7


def test_paths_are_set_and_read() -> None:
    flow = script(
        "---",
        "t: {b: [1, {c: 2}]}",
        "---",
        "$set: {t.a.b: 124, 't.b[1].c': 3, new.x: 1}",
        "$get: [t.a.b, 't.b[1].c', new.x, nope.y]",
    )
    result = flow.run(model=scripted())
    assert result.output == {"t.a.b": 124, "t.b[1].c": 3, "new.x": 1, "nope.y": None}
    assert result.variables["t"] == {"b": [1, {"c": 3}], "a": {"b": 124}}
    assert script("---", "t: {b: 5}", "---", "$get: t.b").run(model=scripted()).output == 5


def test_a_template_with_data_of_its_own() -> None:
    lines = ["---", "a: 1", "b: 2", "---", "$format: {template: '{{ a }}{{ b }}', data: {a: 7}}"]
    assert script(*lines).run(model=scripted()).output == "72"
    other = "$format: {template: '{a}', data: {a: 7}, templateFormat: fstring}"
    assert script(other).run(model=scripted()).output == "7"
    with pytest.raises(FlowError, match="no templateFormat 'nope'"):
        script("$format: {template: x, templateFormat: nope}").run(model=scripted())


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("#:new", ["user a", "user new"]),
        ("#:[0]new", ["user new", "user b"]),
        ("#[-1:assistant]new {{ 1 + 1 }}", ["user a", "assistant new 2"]),
        ("#[0]new", ["user new", "user b"]),
        ("#+new", ["user a", "user b", "user new"]),
        ("#+[0:assistant]new", ["assistant new", "user a", "user b"]),
        ("#+[-1]new", ["user a", "user new", "user b"]),
        ("#[x]new", ["user a", "user b", "user #[x]new"]),
    ],
)
def test_edits(edit: str, said: list[str]) -> None:
    flow = script("- user: a", "- user: b", f"- '{edit}'", "- user: end")
    result = flow.run(model=scripted("A"))
    told = [f"{one['role']} {it['text']}" for one in result.messages for it in one["content"]]
    merged: list[str] = []
    for one in [*said, "user end", "assistant A"]:
        role, _, text = one.partition(" ")
        if merged and merged[-1].startswith(role):
            merged[-1] += f"\n\n{text}"
        else:
            merged.append(one)
    assert told == merged


def test_there_is_nothing_to_edit() -> None:
    with pytest.raises(FlowError, match="no message to replace at 5") as caught:
        script("user: a", "- '#[5]new'").run(model=scripted())
    assert "没有可替换的消息" in caught.value.message_zh


def test_the_output_as_json_where_the_parameters_say_so() -> None:
    model = scripted("1")
    head = ["---", "parameters: {naturalOutput: false}", "output: {type: number}", "---"]
    script(*head, "user: '{{ output }}'").run(model=model)
    assert texts(model.requests[0]) == ['{"type":"number"}']


# Branches that may run at the same time


def branches(options: str, first: str, second: str, end: str = "$echo: done") -> Flow:
    blocks = [f"  {key}:\n{indent(body, '    ')}" for key, body in ((1, first), (2, second))]
    blocks = [it.replace("  1:", "  ':> 1':").replace("  2:", "  ':> 2':") for it in blocks]
    lines = ["user: first", "$set: {a: {}, z: 0}", f"$match(v, allMatches=true{options}):"]
    return script("---", "v: 5", "---", *lines, *blocks, end)


def came_to(flow: Flow, **options: Any) -> tuple[Any, ...]:
    model = scripted(*(["same"] * 6))
    told: list[Any] = []

    def hear(event: Any) -> None:
        told.append((event.type, event.line, dict(event.members)))

    result = flow.run(model=model, tools={"f": lambda x: [x]}, on_event=hear, **options)
    asked = [(it.messages, it.system, it.inference) for it in model.requests]
    return result.output, result.variables, result.messages, asked, told


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        ("- user: say a\n- assistant: '[[A]]'", "- user: say b\n- assistant: '[[B]]'", "$echo: x"),
        ("$set: {s: 1}", "$set: {t: '?=s + 1'}", "$echo: '?=t'"),
        ("$set: {z: 1}", "- $f(z)\n- $set: {w: '?=LatestResult'}", "$echo: '?=w'"),
        ("$set: {z: 1}", "- $get: z\n- $set: {w: '?=LatestResult'}", "$echo: '?=w'"),
        ("$set: {z: 1}", "user: 'x [[@$f(z)]]'", "assistant: done"),
        ("$set: {a.x: 1}", "$set: {a.y: 2}", "$echo: '?=a'"),
        ("$prompt: {k: 1}", "$set: {b: 2}", "$echo: '?=k'"),
        ("$parameters: {temperature: 0.9}", "$set: {b: 2}", "user: Hi"),
        ("$on: {event: llm, callback: \"?=arg1 + '!'\"}", "$set: {b: 2}", "user: Hi"),
        ("$ret: out", "$f: {x: 1}", "$echo: never"),
        ("- ---\n- user: new", "$set: {b: 2}", "$AI"),
        ("- '#:changed'", "$set: {b: 2}", "$AI"),
        ("- $AI: {memoized: true}", "- $AI: {memoized: true}", "$echo: x"),
        (
            "- assistant: '[[A:|a|b|c|d|e|f|g|h:random]]'",
            "- assistant: '[[B:|a|b|c|d|e|f|g|h:random]]'",
            "$echo: '?=A + B'",
        ),
    ],
)
def test_branches_that_may_run_at_the_same_time_come_to_what_they_do_in_order(
    first: str, second: str, end: str
) -> None:
    alone = came_to(branches("", first, second, end), seed=3)
    beside = came_to(branches(", parallel=true", first, second, end), seed=3)
    assert beside == alone


def test_a_branch_that_leaves_a_loop_is_the_last_that_runs() -> None:
    calls: list[int] = []

    def pay(x: int) -> int:
        calls.append(x)
        return x

    for option in ("", ", parallel=true"):
        flow = script(
            "$for: 3",
            "do:",
            f"  $match(v, allMatches=true{option}):",
            "    ':> 1': {$break: null}",
            "    ':> 2': {$pay: {x: 1}}",
            "$echo: done",
        )
        assert flow.run({"v": 5}, model=scripted(), tools={"pay": pay}).output == "done"
    assert not calls


def test_each_statement_of_a_branch_is_waited_before_in_step_mode() -> None:
    seen: dict[str, list[int]] = {}
    for option in ("", ", parallel=true"):
        flow = branches(option, "$set: {a: 1}", "$set: {b: 2}")
        result = flow.run(model=scripted("A"), step=True)
        while result.paused:
            seen.setdefault(option, []).append(result.line)
            result = flow.resume(result.paused, model=scripted("A"), mode="step")
        assert result.output == "A"
    assert seen[""] == seen[", parallel=true"] and len(seen[""]) == 6
