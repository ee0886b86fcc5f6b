"""`@code`: variables in its texts, files that are granted, and lines of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import program, scripted

from orchestrator import FlowError, load_flow
from orchestrator.flows.languages import lint_program

DEEP = ["    @code(```python", "    def f():", "        return 1/0", "    f()", "    ```) -> r"]
VALUE = "A\"B' + {x} \\ $n"


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("result = 'I am $who.'", f"I am {VALUE}."),
        ('result = "$who"', VALUE),
        ("result = '''a\n$who'''", f"a\n{VALUE}"),
        ("result = f'{$n + 1} {{}} $who'", f"6 {{}} {VALUE}"),
        ("result = r'\\d$n'", "\\d5"),
        ("result = ['${d.k}', '$l', \"$t\"]", ["1", "[1, 2]", "true"]),
        ("'''$who'''\nresult = 1  # $who", 1),
        ("result = {'$n': 'é$n'}['5']", "é5"),
        ("x = 'é' + '$n'; result = x + 'ü$n'", "é5ü5"),
        ("result = 'costs $5 and $$'", "costs $5 and $$"),
    ],
)
def test_a_text_has_the_variables_text(code: str, value: Any) -> None:
    flow = program("@code(```python", *code.split("\n"), "```) -> out")
    given = {"who": VALUE, "n": 5, "d": {"k": 1}, "l": [1, 2], "t": True}
    result = flow.run(given, model=scripted())
    assert (result.output, result.warnings) == (value, [])


def test_the_same_rule_holds_for_json_and_words() -> None:
    flow = program("@code(```json", '{"q": "On $who", "$who": ["$n", 1]}', "```) -> out")
    result = flow.run({"who": VALUE, "n": 5}, model=scripted())
    assert result.output == {"q": f"On {VALUE}", "$who": ["5", 1]}
    model = scripted("```python\nresult = 1\n```")
    program("@code(count $who) -> out").run({"who": "cats"}, model=model)
    assert model.requests[0].messages[0]["content"][0]["text"] == "count cats"


def test_in_json_a_variable_outside_of_texts_is_its_value() -> None:
    code = '{"l": $l, "n": [$n, "$n", ${d.k[0]}], "q": "\\"$n", "w": $who}'
    given = {"who": VALUE, "n": 5, "d": {"k": [None]}, "l": [1, {"a": True}]}
    result = program("@code(```json", code, "```) -> out").run(given, model=scripted())
    assert result.output == {
        "l": [1, {"a": True}],
        "n": [5, "5", None],
        "q": '"5',
        "w": VALUE,
    }


@pytest.mark.parametrize(
    ("lines", "column", "what"),
    [
        (['{"a": $n, "b": $nope}'], 1, "\\$nope is not defined"),
        (['{"a": $n, "b": x}'], 16, "no JSON: Expecting value"),
        (["{$n: 1}"], 2, "no JSON: Expecting property name"),
        (['{"a": "$n, 1}'], 14, "no JSON: Invalid control character"),
        (['{"a": ${n[}}'], 1, "'\\$\\{n\\[\\}' is no variable"),
    ],
)
def test_wrong_json_with_variables_has_its_place(lines: list[str], column: int, what: str) -> None:
    with pytest.raises(FlowError, match=what) as raised:
        program("@code(```json", *lines, "```) -> r").run({"n": 5}, model=scripted())
    assert (raised.value.line, raised.value.column) == (1 if "nope" in what else 2, column)


@pytest.mark.parametrize(
    "code",
    ["```python\nresult = 'a $nope'\n```", '```json\n{"a": "a $nope"}\n```', "say $nope"],
)
def test_what_is_not_filled_is_told(code: str) -> None:
    flow = program(f"@code({code}) -> out")
    result = flow.run(model=scripted("result = 'a'"))
    assert [it["text"] for it in result.warnings] == ["$nope is not defined"]
    found = [it for it in lint_program(flow.program) if it.code == "argument"]
    assert [it.message.split(" ")[0] for it in found] == ["$nope"]


def test_a_value_never_becomes_code() -> None:
    flow = program("@code(```python", "result = '$a' + f'$a'", "```) -> out")
    for value in ("' + open('/etc/passwd').read() + '", "{__import__('os')}", "\\"):
        assert flow.run({"a": value}, model=scripted()).output == value * 2


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        (["Say hi -> a", "@code(```python", "x = 1", "y = (", "```) -> r"], 4, "no Python"),
        (["@code(```python", "", "x = 1", "import os", "```) -> r"], 4, "the module 'os'"),
        (["@code(```python", "x = '''a", "b'''", "1/0", "```) -> r"], 4, "ZeroDivisionError"),
        (["@code(```python", "x = '''$a", "b'''", "1/0", "```) -> r"], 4, "ZeroDivisionError"),
        (["@code(```python", "x = 1", "y = $nope", "```) -> r"], 3, "'\\$nope' is not defined"),
        (["FOR $i in [1]:", *DEEP, "END"], 4, "ZeroDivisionError"),
        (["@f(", "  1,", "  k=$nope", ") -> r"], 3, "\\$nope is not defined"),
        (["@f(", "  k=1 +", "  'a'", ") -> r"], 2, "cannot be calculated"),
        (["@agent(", '  task="x",', "  tools=[$nope]", ") -> r"], 3, "\\$nope is not defined"),
        (["IF 1 == 1:", "    IF 2 == 2:", "        @f($nope) -> r", "    END", "END"], 3, "nope"),
    ],
)
def test_a_mistake_inside_a_block_has_its_own_line(lines: list[str], line: int, what: str) -> None:
    with pytest.raises(FlowError, match=what) as caught:
        program(*lines).run({"a": "x\ny"}, model=scripted("hi"), tools={"f": str})
    assert caught.value.line == line
    assert f"第 {line} 行" in caught.value.message_zh


# Files


READ = (
    '@code(```python\nwith open($path, "r") as f:\n    text = "".join(f.readlines())\n```) -> t\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow").mkdir()
    (tmp_path / "flow" / "a.txt").write_text("one\ntwo")
    (tmp_path / "flow" / ".env").write_text("secret")
    (tmp_path / "b.txt").write_text("secret")
    (tmp_path / "flow" / "main.pl").write_text(READ)
    return tmp_path / "flow"


def test_open_reads_files_of_the_programs_folder_where_it_is_granted(folder: Path) -> None:
    flow = load_flow(folder / "main.pl", files=True)
    assert flow.run({"path": "a.txt"}, model=scripted()).output == "one\ntwo"
    with pytest.raises(FlowError, match=r"may not use 'open'; .* files=True") as caught:
        load_flow(folder / "main.pl").run({"path": "a.txt"}, model=scripted())
    assert caught.value.line == 2


@pytest.mark.parametrize("path", ["../b.txt", ".env", "/etc/hostname", "nope.txt"])
def test_open_reads_nothing_else(folder: Path, path: str) -> None:
    with pytest.raises(FlowError, match="FileNotFoundError"):
        load_flow(folder / "main.pl", files=True).run({"path": path}, model=scripted())


def test_open_writes_nothing_and_knows_bytes(folder: Path) -> None:
    main = folder / "main.pl"
    main.write_text('@code(```python\nresult = len(open("a.txt", "rb").read())\n```) -> n\n')
    assert load_flow(main, files=True).run(model=scripted()).output == 7
    main.write_text('@code(```python\nopen("a.txt", "w").write("x")\n```) -> n\n')
    with pytest.raises(FlowError, match="PermissionError: files can only be read"):
        load_flow(main, files=True).run(model=scripted())
    assert (folder / "a.txt").read_text() == "one\ntwo"
    main.write_text("@code(read a.txt) -> n\n")  # a model's code has no grant
    wrong = "```python\nresult = open('a.txt').read()\n```"
    with pytest.raises(FlowError, match="may not use 'open'"):
        load_flow(main, files=True).run(model=scripted(wrong, wrong, wrong))


def test_numbers_that_json_does_not_have_are_texts() -> None:
    lines = ["@code(```python", "result = [float('nan'), -float('inf')]", "```) -> a", "@f() -> b"]
    result = program(*lines).run(model=scripted(), tools={"f": lambda: {"x": float("nan")}})
    assert (result.variables["a"], result.output) == (["NaN", "-Infinity"], {"x": "NaN"})


def test_a_models_code_that_is_nested_too_deeply_is_asked_again() -> None:
    model = scripted("result = " + "-" * 200_000 + "1", "result = 1")
    assert program("@code(count) -> out").run(model=model).output == 1
    assert "nested too deeply" in model.requests[1].messages[-1]["content"][0]["text"]
