"""What programs do besides the guide's examples: warnings, code, agents, and errors in Chinese."""

from __future__ import annotations

import sys
from itertools import groupby, takewhile
from typing import Any

import pytest
from flow_support import CLAUDE, program, scripted
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import FlowError, ValidationError
from orchestrator.flows.languages import lint_program
from orchestrator.flows.members import MOST
from orchestrator.testing import ScriptedModel


def heard(kind: str, flow: Any, given: Any, *replies: Any, **more: Any) -> list[dict[str, Any]]:
    told: list[Any] = []
    flow.run(given, model=scripted(*replies), on_event=told.append, **more)
    return [dict(it.members) for it in told if it.type == kind]


def fails() -> None:
    raise ValueError("canary")


@pytest.mark.parametrize(
    ("lines", "zh"),
    [
        (["@nope() -> r"], "未找到函数: nope"),
        (["@fails() -> r"], "执行失败"),
        (["FOR $i in $x:", "    @f($i) -> r", "END"], "FOR 需要列表"),
        (["FOR $i in 5:", "    @f($i) -> r", "END"], "FOR 需要列表"),
        (['IF $n < "a":', "    @f() -> r", "END"], "条件表达式评估失败: 数字与文本不能用"),
        (["@code(```python", "1/0", "```) -> r"], "Python 代码执行错误"),
        (["@code(```python", "import os", "```) -> r"], "不允许使用"),
        (["@code(```python", "x = $x", "```) -> r"], "变量 $x 未定义"),
        (["@code(```python", "x =", "```) -> r"], "Python 代码有误"),
        (["@condition_judge($n, 5) -> r"], "分类必须是非空列表"),
        (["@agent(task='x', tools=['nope']) -> a"], "未找到工具: nope"),
        (["@agent(task='x', tools='nope') -> a"], "tools 必须是列表"),
        (["@agent(task='x', roles=[1]) -> a"], "roles 必须是字典"),
        (["@agent(task='x', type=$n) -> a"], "未知的Agent类型"),
    ],
)
def test_errors_while_a_program_runs_are_told_in_chinese(lines: list[str], zh: str) -> None:
    with pytest.raises(FlowError) as caught:
        program(*lines).run({"n": 1}, model=scripted("x"), tools={"fails": fails, "f": str})
    assert zh in caught.value.message_zh
    line = 2 if lines[0].startswith("@code") else 1  # the line of the code itself
    assert caught.value.message_zh.startswith(f"第 {line} 行")
    assert "canary" not in caught.value.message_zh


def test_a_loop_that_overwrites_a_variable_is_told_once() -> None:
    flow = program("FOR $a in [1]:", "    @echo($a) -> r", "END")
    (told,) = heard("warning", flow, {"a": 5}, tools={"echo": str})
    assert told["text"] == "FOR overwrites the variable $a"
    nested = program(
        "FOR $a in [1, 2]:", "  FOR $b in [1, 2]:", "    @echo($b) -> r", "  END", "END"
    )
    assert heard("warning", nested, {}, tools={"echo": str}) == []
    clash = program("FOR $a in [1, 2]:", "  FOR $a in [3]:", "    @echo($a) -> r", "  END", "END")
    assert len(heard("warning", clash, {}, tools={"echo": str})) == 2


@pytest.mark.parametrize(
    ("variable", "code", "value"),
    [
        ("input", "result = $input + 1", 6),
        ("list", "result = list(range($list))", [0, 1, 2, 3, 4]),
        ("class", "result = $class", 5),
        ("x", "x = $x + 1", 6),
        ("x", "result = '$x'  # $x", "5"),
        ("x", "value_0 = 2\nresult = ${x} + ${x} + value_0", 12),
        ("x", "y = 1\nresult = $x", 5),
        ("x", "python_res = $x\nresult = 1", 5),
        ("x", "y = $x\ndef f(): pass", 5),
    ],
)
def test_code_reads_variables_by_any_name(variable: str, code: str, value: Any) -> None:
    flow = program("@code(```python", *code.split("\n"), "```) -> out")
    assert flow.run({variable: 5}, model=scripted()).output == value


def test_lists_and_texts_stay_small() -> None:
    flow = program("@f() >> a")
    with pytest.raises(FlowError, match="more than") as caught:
        flow.run({"a": [0] * MOST}, model=scripted(), tools={"f": lambda: 1})
    assert "超过" in caught.value.message_zh
    with pytest.raises(FlowError, match="more than"):
        program("$a$a -> r").run({"a": "x" * (MOST // 2 + 1)}, model=scripted())


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (None, 1, [1]),
        ([1], 2, [1, 2]),
        ([1], [2, 3], [1, 2, 3]),
        ("a", "b", ["a", "b"]),
        (5, "b", [5, "b"]),
        ({"k": 1}, {"k": 2}, [{"k": 1}, {"k": 2}]),
    ],
)
def test_appending_gives_a_list(before: Any, value: Any, after: Any) -> None:
    given = {} if before is None else {"a": before}
    result = program("@f() >> a").run(given, model=scripted(), tools={"f": lambda: value})
    assert result.variables["a"] == after


def test_a_played_team_switches_roles_and_uses_tools_by_name() -> None:
    flow = program(
        "@agent(type='bambo', task='write', roles={'Editor': 'edits'}, tools=['find']) -> team"
    )
    replies = (
        '=>@Editor: I look.\n=>$find: {"topic": "{sleep}"} and more',
        "=>@Nobody: hm\n=>@Bambo: done",
    )
    given: list[Any] = []
    told: list[Any] = []
    model = scripted(*replies)
    result = flow.run(
        model=model, tools={"find": lambda topic: given.append(topic) or "F"}, on_event=told.append
    )
    assert given == ["{sleep}"]
    roles = [it.members["role"] for it in told if it.type == "role_switch"]
    assert roles == ["Editor", "Bambo", "Bambo"]
    assert any("'Nobody' is no role" in it.members["text"] for it in told if it.type == "warning")
    assert result.output.endswith("=>@Bambo: done")
    assert "and more" not in result.output
    assert "The result of 'find': F" in model.requests[1].messages[-1]["content"][0]["text"]


def test_an_agent_that_talks_waits_for_the_user() -> None:
    flow = program("@agent(type='prompt-based', task='Be kind.') -> talk", "Sum up $talk -> r")
    first = flow.run(model=scripted("Hello?"))
    assert (first.waits_for, first.question) == ("user", "Hello?")
    second = flow.resume(first.paused, model=scripted("Fine."), text="How are you?")
    assert second.question == "Fine."
    model = scripted("sum")
    last = flow.resume(second.paused, model=model, text="Quit")
    assert last.variables["talk"] == "Hello?\nHow are you?\nFine."
    assert last.output == "sum"


def test_an_agent_that_never_answers_is_stopped() -> None:
    call = [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]
    with pytest.raises(FlowError, match="did not answer within 20") as caught:
        program("@agent(task='go') -> a").run(model=scripted(*[call] * 20), tools={"f": lambda: 1})
    assert "没有给出答案" in caught.value.message_zh


@pytest.mark.parametrize("words", ["what's 1 + 1?", 'say "2', "it's (1 + 1) 'or so", "a 'quote'"])
def test_words_for_code_may_have_a_quote_without_its_other(words: str) -> None:
    model = scripted("result = 2")
    flow = program(f"@code({words}) -> n", "@f('(') -> m")
    assert flow.run(model=model, tools={"f": str}).variables == {"n": 2, "m": "("}
    assert model.requests[0].messages[0]["content"][0]["text"] == words


def test_code_is_told_before_it_runs_and_streams_while_a_model_writes_it() -> None:
    flow = program("@code(```python", "x = $a + 1", "```) -> b", "@code(add $b and 1) -> c")
    told: list[Any] = []
    flow.run({"a": 1}, model=scripted("result = 3"), on_event=told.append)
    calls = [it.members["kwargs"]["code"] for it in told if it.type == "tool_call"]
    assert calls == ["x = a + 1", "result = 3"]
    assert [it.members["value"] for it in told if it.type == "tool_result"] == [2, 3]
    assert [it.members["text"] for it in told if it.type == "token"] == ["result = 3"]


@pytest.mark.parametrize(
    "call",
    [
        "@save($nope) -> r",
        "@save(id=$nope) -> r",
        "@save([1, {'id': $nope}]) -> r",
        "@save('$nope') -> r",
        "@condition_judge($nope, ['x', 'y']) -> r",
        "@agent(task=$nope, tools=[]) -> r",
    ],
)
def test_an_argument_that_is_not_defined_is_refused_before_anything_is_called(call: str) -> None:
    called: list[Any] = []
    model = scripted("x")
    with pytest.raises(FlowError, match=r"\$nope is not defined; did you mean 'nose'") as raised:
        program(call).run({"nose": 1}, model=model, tools={"save": called.append})
    assert (raised.value.line, called, model.requests) == (1, [], [])
    assert "变量 $nope 未定义" in raised.value.message_zh


@pytest.mark.parametrize("path", ["${paper.titel}", "${paper.authors[3]}"])
def test_a_path_that_leads_nowhere_is_no_argument(path: str) -> None:
    flow = program(f"@save({path}) -> r")
    with pytest.raises(FlowError, match="is not defined"):
        flow.run({"paper": {"authors": []}}, model=scripted(), tools={"save": str})


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("Say $nope -> r", "token"),
        ("@save('of $nope') -> r", "tool_call"),
        ("@condition_judge('of $nope', ['x']) -> r", "token"),
    ],
)
def test_an_undefined_variable_within_a_text_is_told_before_it_is_sent(
    line: str, after: str
) -> None:
    told: list[Any] = []
    result = program(line).run(model=scripted("x"), tools={"save": str}, on_event=told.append)
    kinds = [it.type for it in told]
    assert kinds.index("warning") < kinds.index(after)
    assert kinds.count("warning") == 1
    expected = [{"text": "$nope is not defined", "line": 1}]
    assert (result.warnings, result.as_dict()["warnings"]) == (expected, expected)
    assert program(line).run({"nope": 1}, model=scripted("x"), tools={"save": str}).warnings == []


def test_a_text_is_no_list_to_go_through() -> None:
    model = scripted("x", "y", "z")
    with pytest.raises(FlowError, match=r"needs a list, and this is the text 'a,b'; .* JSON"):
        program("FOR $x in $list:", "    Say $x -> y", "END").run({"list": "a,b"}, model=model)
    assert not model.requests


def doubts(*lines: str) -> list[tuple[str, str, int | None, int | None]]:
    return [
        (it.severity, it.code, it.line, it.column) for it in lint_program(program(*lines).program)
    ]


def test_an_arrow_that_names_no_variable_is_told_before_its_text_is_sent() -> None:
    lines = ("IF True:", "    Say hi", "    there -> 诗", "    Say -> y", "END")
    assert doubts(*lines) == [("warning", "arrow", 3, 14)]
    told: list[Any] = []
    model = scripted("x")
    result = program(*lines).run(model=model, on_event=told.append)
    assert [it.type for it in told][:2] == ["run_start", "warning"]
    assert "'诗' is no variable name" in result.warnings[0]["text"]
    assert doubts("解释 a -> b 的含义 -> p", "Say ->", "```", "x -> 1", "``` -> q") == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Say ${oops -> b", ("warning", "variable", 1, 1)),
        ("Say $诗 -> b", ("warning", "variable", 1, 1)),
        ("@condition_jugde(1) -> b", ("warning", "function", 1, 1)),
        ("@save(1) -> b", ("info", "function", 1, 1)),
        ("# Say -> nothing? No: a heading\nSay -> b", ("info", "comment", 1, 1)),
        ("Say -> thing\nSay it of $thng -> b", ("warning", "argument", 2, 11)),
        ("Say it of ${who.name} -> b", ("info", "argument", 1, 11)),
        ("", ("warning", "empty", 1, 1)),
    ],
)
def test_lint_tells_what_may_be_misspelt(line: str, found: tuple[Any, ...]) -> None:
    assert found in doubts(line)


def test_a_function_that_resembles_a_statement_little_is_no_mistake() -> None:
    assert doubts("@score(1) -> b") == [("info", "function", 1, 1)]


@pytest.mark.parametrize("arguments", [[1], 5, {"a": float("nan")}, {"a": {1}}])
def test_arguments_that_are_no_data_by_name_are_refused(arguments: Any) -> None:
    with pytest.raises(ValidationError, match="the arguments are"):
        program("Say -> a").run(arguments, model=scripted("x"))


@pytest.mark.parametrize("tools", [[1], {"f": 5}, "f"])
def test_tools_are_functions_by_name(tools: Any) -> None:
    with pytest.raises(ValidationError, match="function"):
        program("Say -> a").run(model=scripted("x"), tools=tools)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("@one(1, 2) -> r", r"'one' takes \(a\), and is given 2 by place: too many positional"),
        ("@one() -> r", r"'one' takes \(a\), and is given 0 by place: missing a required"),
        ("@one(emploee='canary') -> r", r"takes \(a\), and is given 'emploee' by name"),
        ("@fails() -> r", r"'fails' raised ValueError at test_pl_behaviours.py:\d+;"),
        ("@leaves() -> r", r"'leaves' raised SystemExit at test_pl_behaviours.py:\d+;"),
        ("@onee(1) -> r", r"did you mean 'one'\? Give it with --tool onee=FILE:FUNCTION"),
    ],
)
def test_a_call_that_fails_says_what_the_function_takes_or_where(call: str, told: str) -> None:
    def one(a: int) -> int:
        return a

    def leaves() -> None:
        sys.exit("canary")

    tools = {"one": one, "fails": fails, "leaves": leaves}
    with pytest.raises(FlowError, match=told) as caught:
        program(call).run(model=scripted(), tools=tools)
    assert "canary" not in caught.value.reason


def test_step_by_step_it_waits_before_headers_too() -> None:
    flow = program(
        "FOR $x in [1]:", "    IF $x == 1:", "        Say $x -> y", "    END", "END", "Say -> z"
    )
    result = flow.run(model=scripted("a"), step=True)
    lines = []
    while result.paused is not None:
        lines.append(result.line)
        result = flow.resume(result.paused, model=scripted("a"), mode="step")
    assert lines == [1, 2, 3, 6]


def test_a_function_that_is_not_there_is_told_before_anything_is_asked() -> None:
    model = scripted("x")
    flow = program("Say -> a", "IF $a == 'y':", "    @nope() -> r", "END")
    with pytest.raises(FlowError, match="no function 'nope'; did you mean 'hope'") as raised:
        flow.run(model=model, tools={"hope": str})
    assert raised.value.line == 3
    assert not model.requests
    agent = program("@agent(task='a', tools=[]) -> nope", "@nope('b') -> c")
    assert agent.run(model=scripted("1", "2")).output == "2"


def test_a_function_may_come_when_a_program_goes_on() -> None:
    flow = program("Say -> a", "(bp)", "@later($a) -> r")
    waits = flow.run(model=scripted("x"))
    assert flow.resume(waits.paused, model=scripted(), tools={"later": str}).output == "x"


def test_models_may_call_tools_by_the_names_that_scripts_use() -> None:
    from flow_support import agent as made

    flow = program("@agent(type='bambo', task='Find', tools=['get_days']) -> team")
    asked, model = made(flow, '=>$get_days: {"employee": "7"}', "=>@Bambo: 12 days")
    assert asked.invoke("?", "s-1").text.endswith("12 days")
    assert '"left": 12' in model.requests[1].messages[-1]["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "word"), [("for $x in $xs:", "FOR"), ("If $a == 1:", "IF"), ("Else:", "else")]
)
def test_lint_tells_of_keywords_in_other_letters(line: str, word: str) -> None:
    (told,) = [
        it for it in lint_program(program(line, "    Say it -> a").program) if it.code == "keyword"
    ]
    assert (told.line, told.severity) == (1, "warning")
    assert f"the keyword is {word}" in told.message
    assert not [
        it
        for it in lint_program(program("If you can, for all of us -> a").program)
        if it.code == "keyword"
    ]


@given(
    st.lists(
        st.sampled_from(
            [
                "=>@Ed: ",
                "=>@Bambo:",
                "=>@Nobody：",
                '=>$f: {"a": 1}',
                "=",
                ">",
                "=>",
                "=>@",
                "Ed",
                "x\n",
            ]
        ),
        max_size=8,
    ),
    st.integers(1, 7),
)
def test_a_played_team_streams_who_says_what_without_marks(parts: list[str], chunk: int) -> None:
    text = "Start " + "".join(parts)
    flow = program("@agent(type='bambo', task='w', roles={'Ed': 'edits'}, tools=[]) -> team")
    told: list[Any] = []
    model = ScriptedModel([text, "=>@Bambo: end"], CLAUDE, chunk=chunk)
    flow.run(model=model, on_event=told.append)
    kinds = [it.type for it in told]
    first = kinds.index("role_switch")
    streamed = [
        (it.members["role"], it.members["text"]) for it in told[:first] if it.type == "token"
    ]
    switches = [it for it in told[first:] if it.type in ("role_switch", "token", "run_end")]
    switched = list(takewhile(lambda it: it.type == "role_switch", switches))
    said = [(it.members["role"], it.members["text"]) for it in switched]
    assert spoken(streamed) == spoken(said)


def spoken(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Who says what, without blank space."""
    heard = [(role, "".join(text.split())) for role, text in pieces]
    grouped = groupby([it for it in heard if it[1]], key=lambda it: it[0])
    return [(role, "".join(text for _, text in some)) for role, some in grouped]
