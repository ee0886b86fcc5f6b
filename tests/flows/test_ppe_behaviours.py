"""What scripts may ask for besides the guide's examples: calls, parameters, output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flow_support import PLAIN, script, scripted

from orchestrator import FlowError, load_flow


def said(request: Any) -> list[tuple[str, str]]:
    told = [("system", request.system)] if request.system else []
    for message in request.messages:
        told.append((message["role"], "".join(it.get("text", "") for it in message["content"])))
    return told


def test_equal_calls_are_made_again_unless_the_script_says_so() -> None:
    body = ["user: hi", "$AI: {pushMessage: false}", "$AI: {pushMessage: false}"]
    model = scripted("1", "2", "3")
    script(*body, "$echo: done").run(model=model)
    assert len(model.requests) == 3
    model = scripted("1")
    script("---", "parameters: {memoized: true}", "---", *body).run(model=model)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("front", "replies", "output"),
    [
        ("x: 1", ("one",), "one"),
        ("completion_delimiter: ';'", ("one", "two;x"), "two"),
        ("tools: [days]", ("one", "two"), "two"),
        ("parameters: {memoized: true, maxRetry: 1}", ("one", "two"), "two"),
        ("parameters: {memoized: true, stop: [x]}", ("one", "two"), "two"),
        ("parameters: {memoized: true, temperature: 0.5}", ("one", "two"), "two"),
    ],
)
def test_a_call_with_other_settings_is_no_equal_call(
    tmp_path: Path, front: str, replies: tuple[str, ...], output: str
) -> None:
    usual = "" if front.startswith("parameters") else "parameters: {memoized: true}\n"
    (tmp_path / "sub.ai.yaml").write_text(f"---\n{usual}{front}\n---\nuser: Hi\n")
    top = tmp_path / "top.ai.yaml"
    head = "---\nparameters: {memoized: true}\n---\n"
    body = "user: Hi\n$AI: {pushMessage: false}\n$exec: {id: sub}\n$ret: '?=LatestResult'\n"
    top.write_text(head + body)
    model = scripted(*replies)
    result = load_flow(top).run(model=model, tools={"days": lambda: 3})
    assert result.output == output
    assert len(model.requests) == len(replies)


@pytest.mark.parametrize(
    ("option", "front", "roles"),
    [
        ("$AI", "x: 1", ["user", "assistant", "assistant"]),
        ("$AI: {shouldAppendResponse: false}", "x: 1", ["user", "assistant"]),
        ("$AI: {shouldAppendResponse: true}", "x: 1", ["user", "assistant", "assistant"]),
        ("$AI", "shouldAppendResponse: false", ["user", "assistant"]),
        ("$AI: {pushMessage: false}", "x: 1", ["user", "assistant"]),
    ],
)
def test_where_a_reply_goes(option: str, front: str, roles: list[str]) -> None:
    model = scripted("R", "end")
    flow = script("---", front, "---", "user: q", "assistant: 'So:'", option, "user: more")
    flow.run(model=model)
    found = said(model.requests[1])
    merged = [role for at, role in enumerate(roles) if at == 0 or roles[at - 1] != role]
    assert [role for role, _ in found] == [*merged, "user"]
    text = found[1][1]
    assert ("So:" in text) == ("false" not in option + front or "pushMessage" in option)
    assert ("R" in text) == ("pushMessage" not in option)


@pytest.mark.parametrize(
    ("written", "number"),
    [("len", 33), ("'{{ len }}'", 33), ("len + 1", 34), ("9", 9), ("'{{ len }}4'", 334)],
)
def test_model_parameters_are_expressions_and_templates(written: str, number: int) -> None:
    model = scripted("A")
    flow = script("---", "len: 33", "---", "user: q", f'assistant: "[[A:max_tokens={written}]]"')
    flow.run(model=model)
    assert model.requests[0].inference["maximumLength"] == number


def test_who_wins_of_model_parameters() -> None:
    model = scripted("1", "2", "3")
    script(
        "---",
        "parameters: {temperature: 0.1, top_p: 0.1, max_tokens: 1}",
        "prompt: {top_p: 0.2, stop_words: [END]}",
        "---",
        "user: q",
        "$AI: {temperature: 0.3}",
        "$parameters: {temperature: 0.4}",
        "user: q2",
        "$AI",
    ).run(model=model)
    first, second = (dict(one.inference) for one in model.requests)
    wanted = {"topP": 0.2, "maximumLength": 1, "stopSequences": ["END"]}
    assert first == {**wanted, "temperature": 0.3}
    assert second == {**wanted, "temperature": 0.4}


def test_instructions_call_functions_in_several_ways() -> None:
    def add(*args: Any, **kwargs: Any) -> Any:
        return {"args": list(args), "kwargs": kwargs}

    tools = {"add": add}
    for written, given in [
        ("$add: [1, 2]", {"args": [1, 2], "kwargs": {}}),
        ("$add: {a: 1}", {"args": [], "kwargs": {"a": 1}}),
        ("$add(1, b=2)", {"args": [1], "kwargs": {"b": 2}}),
        ("$tool: {name: add, a: 1}", {"args": [], "kwargs": {"a": 1}}),
        ("$tool: add", {"args": [], "kwargs": {}}),
        ("$echo: x\n$|add", {"args": [], "kwargs": {"content": "x"}}),
        ("$echo: x\n$pipe: add", {"args": [], "kwargs": {"content": "x"}}),
        ("$echo: x\n-> $add(b=2)", {"args": [], "kwargs": {"content": "x", "b": 2}}),
        ("$echo: x\n-> add('->', b=' # 2') # end", {"args": ["->"], "kwargs": None}),
    ]:
        result = script(written).run(model=scripted(), tools=tools)
        if given["kwargs"] is None:
            given = {"args": ["->"], "kwargs": {"content": "x", "b": " # 2"}}
        assert result.output == given, written


def test_there_is_no_such_tool() -> None:
    with pytest.raises(FlowError, match="no tool 'nope'"):
        script("$tool: nope").run(model=scripted())


@pytest.mark.parametrize(
    ("front", "replies", "output"),
    [
        ("forceJson: true", ['```json\n{"a": 1}\n```'], {"a": 1}),
        ("parameters: {response_format: {type: json_object}}", ["[1]"], [1]),
        ("parameters: {response_format: {type: json}}\nforceJson: false", ["no json"], "no json"),
        ("parameters: {response_format: {type: yaml}}", ["a: 1"], {"a": 1}),
        (
            "parameters: {response_format: {type: nobj}}",
            ["a b: 1\nl: x, y"],
            {"a_b": 1, "l": ["x", "y"]},
        ),
        ("parameters: {response_format: {type: nobj}}", ["a: 1\n\na: 2"], [{"a": 1}, {"a": 2}]),
    ],
)
def test_forms_of_output(front: str, replies: list[str], output: Any) -> None:
    flow = script("---", *front.split("\n"), "---", "user: q")
    assert flow.run(model=scripted(*replies)).output == output


def test_an_assistants_own_words_after_a_call_are_the_result() -> None:
    model = scripted("A1")
    result = script("user: q", "$AI", "assistant: 'So: {{ RESPONSE }}'").run(model=model)
    assert result.output == "So: A1"


JSON_OUTPUT = [
    "---",
    "output: {type: object, properties: {a: {type: number}}, required: [a]}",
    "parameters: {response_format: {type: json}}",
    "---",
    "user: q",
]


def test_a_last_message_that_is_one_hole_is_data_too() -> None:
    model = scripted("none", '```json\n{"a": 1}\n```')
    result = script(*JSON_OUTPUT, "assistant: '[[X]]'").run(model=model)
    assert (result.output, result.variables["X"]) == ({"a": 1}, {"a": 1})
    assert '"a" is a required number' in model.requests[0].system
    assert said(model.requests[1])[-1][1].startswith("That is wrong: no JSON")
    lines = ["assistant: '[[X]]'", "user: '{{X.a}} {{X}}'", "$AI: {response_format: {type: text}}"]
    model = scripted('{"a": 2}', "end")
    script(*JSON_OUTPUT, *lines).run(model=model)
    # What `output` asks for is the result: a message before the last one may think aloud.
    assert said(model.requests[1])[1:] == [("assistant", '{"a": 2}'), ("user", ' {"a": 2}')]


def test_a_hole_within_a_text_stays_a_text() -> None:
    model = scripted("x")
    result = script(*JSON_OUTPUT, "assistant: 'It is [[X]].'").run(model=model)
    assert (result.output, result.variables["X"], model.requests[0].system) == ("It is x.", "x", "")


def test_the_output_in_words_has_all_that_is_validated() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    members = {
        "a": {**inner, "description": "Who."},
        "l": {"type": "array", "items": inner},
        "n": {"type": "array", "items": {"type": "integer"}},
        "e": {"enum": ["x", 1]},
        "o": {"type": ["string", "null"]},
        "m": {"type": "object", "required": True, "properties": {"b": {"type": "string"}}},
    }
    schema = {"type": "object", "properties": members, "required": ["a", "e"]}
    model = scripted("A")
    lines = ["---", f"output: {json.dumps(schema)}", "---", "user: '{{ output }}'"]
    script(*lines).run(model=model)
    assert said(model.requests[0])[-1][1].split("\n") == [
        '* "a" is a required object: Who.',
        '  * "b" is a required string',
        '* "l" is an optional array of objects',
        '  * "b" is a required string',
        '* "n" is an optional array of integers',
        '* "e" is a required value, one of "x", 1',
        '* "o" is an optional string or null',
        '* "m" is an optional object',
        '  * "b" is an optional string',
    ]


def test_the_output_in_words_and_as_json() -> None:
    head = ["---", "output: {type: object, properties: {a: {type: number}}, required: [a]}"]
    model = scripted("A")
    script(*head, "---", "user: '{{ output }}'").run(model=model)
    assert '* "a" is a required number' in said(model.requests[0])[-1][1]
    model = scripted("A")
    script(*head, "naturalOutput: false", "---", "user: '{{ output }}'").run(model=model)
    assert '"properties":{"a":{"type":"number"}}' in said(model.requests[0])[-1][1]


@pytest.mark.parametrize(
    ("written", "said_text"),
    [
        ("~v={{a}}", "v={{a}}"),
        ("~[[@$echo(1)]] /x/:a", "[[@$echo(1)]] /x/:a"),
        ("{{{a}}}", "5"),
        ("{{ l }} {{ m }} {{ f }} {{ t }} {{ n }}", '1,2 {"k":"<v>"} 2 true '),
        ("{{ m|tojson }}", '{"k": "<v>"}'),
        ("\\[\\[A\\]\\]", "[[A]]"),
        ("[[a.b]] [[ A ]] [[]] [[wiki page]]", "[[a.b]] [[ A ]] [[]] [[wiki page]]"),
        ("a{{nope}}b", "ab"),
        ("x[[@$echo(1)]]y, [[@$echo('q')]], z", "x1y, q, z"),
        ("[[@$echo({{ a }})]] [[@$echo(a + 1)]] [[@$echo(dir/x-y.txt)]]", "5 6 dir/x-y.txt"),
    ],
)
def test_texts(written: str, said_text: str) -> None:
    model = scripted("A")
    head = ["---", "a: 5", "l: [1, 2]", "m: {k: <v>}", "f: 2.0", "t: true", "n: null", "---"]
    script(*head, "user: |-", f"  {written}").run(model=model)
    assert said(model.requests[0]) == [("user", said_text)]


def test_a_message_of_several_substitutions_rendered_at_once_knows_them() -> None:
    model = scripted("1", "2")
    result = script("user: q", "assistant: '#A=[[A]] B=[[B]]'").run(model=model)
    assert result.output == "A=1 B=2"
    assert said(model.requests[1])[-1] == ("assistant", "A=1 B=")


def test_match_runs_all_that_fit_only_when_it_is_told() -> None:
    for option, output in (("", 1), (", allMatches=true", 2), (", parallel=true", 1)):
        flow = script(f"$match(v{option}):", "  ':> 1':", "    $echo: 1", "  _:", "    $echo: 2")
        assert flow.run({"v": 5}, model=scripted()).output == output


def test_a_list_is_joined_as_it_is_printed() -> None:
    model = scripted("A")
    written = "{{ l|reverse|join }} {{ l|join }} {{ l|join('-') }} {{ m|join(attribute='k') }}"
    head = ["---", "l: [a, true, 2.0]", "m: [{k: 1}, {k: 2}]", "---"]
    script(*head, "user: |-", f"  {written}").run(model=model)
    assert said(model.requests[0]) == [("user", "2,true,a a,true,2 a-true-2 1,2")]


CHAR = "---\ntype: type\ninput:\n  - name: {required: true}\n  - description\n---\nsystem: |-\n"


def test_a_kind_of_scripts_is_inherited_where_it_is_beside(tmp_path: Path) -> None:
    (tmp_path / "char.ai.yaml").write_text(CHAR + "  You are {{name}}.\n  {{description}}\n")
    dobby = tmp_path / "dobby.ai.yaml"
    dobby.write_text("---\ntype: char\nname: Dobby\ndescription: An elf.\n---\nuser: Who?\n")
    model = scripted("I am Dobby")
    load_flow(dobby).run(model=model)
    assert said(model.requests[0]) == [("system", "You are Dobby.\nAn elf."), ("user", "Who?")]
    chat = tmp_path / "chat.ai.yaml"
    chat.write_text("---\nroles: [dobby]\n---\nuser[@dobby]: hello\n")
    model = scripted("hi")
    load_flow(chat).run(model=model)
    assert said(model.requests[0])[0][1].startswith("You are Dobby.\nAn elf.\nYou are in a chat")
    with pytest.raises(FlowError, match="required input 'name' is missing"):
        load_flow(tmp_path / "char.ai.yaml").run(model=scripted())


FAILING = [
    # statements, what it says
    (["user: q", "assistant: '[[F:|a|b]]'"], "chose none of 'a', 'b'"),
    (["$while: 'true'", "do: {$set: {a: 1}}"], "went round 10000 times"),
    (["$for: 'a'", "do: x"], r"\$for needs a list"),
    (["$abort: enough"], "aborted: enough"),
    (["$exec: nope"], "no script 'nope'"),
    (["$tool: nope"], "no tool 'nope'"),
    (["$break"], "belong into loops"),
    (["$AI"], "no message to send"),
    (["$set: {a: '?=1 + [1]'}"], "cannot be calculated"),
    (["user: '{{ a.b.c }}'"], "'a' is undefined"),
    (["user: '{{ 1 / 0 }}'"], "division by zero"),
    (["---", "a: '{{ b }}'", "b: '{{ a }}'", "---", "user: '{{ a }}'"], "name each other"),
    (["$fail: 1"], "raised ValueError"),
    (["---", "output: {type: 5}", "forceJson: true", "---", "user: q"], "schema is wrong"),
    (["---", "output: {type: number}", "forceJson: true", "---", "user: q"], "'output' promises"),
]


@pytest.mark.parametrize(("lines", "what"), FAILING)
def test_what_fails_in_a_run_is_told_in_chinese_too(lines: list[str], what: str) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("it broke")

    flow = script(*lines)
    with pytest.raises(FlowError, match=what) as caught:
        flow.run(model=scripted(*['"x"'] * 5, model_id=PLAIN), tools={"fail": fail})
    assert caught.value.line and f"第 {caught.value.line} 行：" in caught.value.message_zh
    assert re.search("[\u4e00-\u9fff]", caught.value.message_zh.partition("：")[2])


def test_ai_asks_after_a_user_with_a_hole_and_not_after_its_own_reply() -> None:
    model = scripted("Hi", "reply", "next")
    assert (
        script("user: 'Greet: [[G]]'", "$AI", "$echo: '?=RESPONSE'").run(model=model).output
        == "reply"
    )
    assert [text for _, text in said(model.requests[1])] == ["Greet: Hi"]
    model = scripted("Hi")
    assert script("user: q", "assistant: '[[G]]'", "$AI").run(model=model).output == "Hi"


@pytest.mark.parametrize(
    "head", ["formatStringStrategy: Raw", "parameters: {formatStringStrategy: Raw}"]
)
def test_when_templates_are_rendered_is_a_setting(head: str) -> None:
    model = scripted("A")
    script("---", "a: 1", head, "---", "user: '{{ a }}'").run(model=model)
    assert said(model.requests[0]) == [("user", "{{ a }}")]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("$echo: '[[@sub(b=1)]]'", "sub: the required input 'a' is missing"),
        ("$exec: {id: sub, args: {a: x}}", "sub: the input 'a' is wrong"),
        ("-> sub(1, 2)", "sub: there is no input for the argument 2"),
    ],
)
def test_arguments_that_another_script_refuses_are_told_where_it_is_called(
    tmp_path: Path, call: str, what: str
) -> None:
    (tmp_path / "sub.ai.yaml").write_text(
        "---\ninput: [{a: {required: true, type: number}}]\n---\n$echo: '?=a'\n"
    )
    top = tmp_path / "top.ai.yaml"
    top.write_text(f"$set: {{x: 1}}\n{call}\n")
    with pytest.raises(FlowError, match=what) as raised:
        load_flow(top).run(model=scripted())
    assert (raised.value.line, Path(str(raised.value.file))) == (2, top)


@pytest.mark.parametrize(
    ("lines", "line", "column"),
    [
        (["$set:", "  a: 1", "  b: '?=1 / 0'"], 3, 6),
        (["$f:", "  a: ['?=nope.x + 1']"], 2, 7),
        (["---", "a: 1", "b: '{{ a.'", "---", "user: '{{ b }}'"], 3, 4),
    ],
)
def test_a_value_that_is_wrong_is_told_where_it_stands(
    tmp_path: Path, lines: list[str], line: int, column: int
) -> None:
    file = tmp_path / "one.ai.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(FlowError) as raised:
        load_flow(file).run(model=scripted(), tools={"f": lambda a: a})
    error = raised.value
    assert (error.line, error.column, Path(str(error.file))) == (line, column, file)
