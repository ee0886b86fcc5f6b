"""How programs of the workflow language are read: comments, headings, blocks, arrows, mistakes."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from flow_support import program
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import FlowError
from orchestrator.flows.pl.nodes import (
    AgentCall,
    Block,
    Breakpoint,
    CodeBlock,
    Exit,
    FunctionCall,
    If,
    Judge,
    Loop,
    Prompt,
    Statement,
    Target,
)
from orchestrator.flows.pl.reader import read_program
from orchestrator.flows.tree import Node


def prompts(text: str) -> list[str]:
    return [one.text for one in read_program(text) if isinstance(one, Prompt)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# a comment\n@f() -> r", []),
        ("# one\n\n# two\n@f() -> r", []),
        ("# at the end", []),
        ("a -> b\n# at the end\n", ["a"]),
        ("# a heading\ntext -> a", ["# a heading\ntext"]),
        ("text\n## 限制\nmore -> a", ["text\n## 限制\nmore"]),
        ("# a -> b", []),
        ("# a -> b\ntext -> c", ["text"]),
        ("# old\n# a -> b\n# heading\ntext -> c", ["# heading\ntext"]),
        ("# comment\nFOR $i in [1]:\n    # comment\n    @f($i) -> r\nEND", []),
        ("#not a comment\ntext -> a", ["#not a comment\ntext"]),
        ("第一行\n\n第二行 -> p", ["第一行\n\n第二行"]),
        ("解释 a -> b 的含义 -> p", ["解释 a -> b 的含义"]),
        ("FORMAT it -> p", ["FORMAT it"]),
        ("IFFY -> p", ["IFFY"]),
        ("END it -> p", ["END it"]),
        ("for all -> p", ["for all"]),
        ("if so: do it -> p", ["if so: do it"]),
        ("```\na -> b\n```\nexplain -> p", ["```\na -> b\n```\nexplain"]),
        ("an @ sign @f in it -> p", ["an @ sign @f in it"]),
        ("a >> b\nc >> $d", ["a", "c"]),
        ("a->b", ["a"]),
        ("\ta -> b", ["a"]),
        ("a -> b\r\nc -> d\r\n", ["a", "c"]),
    ],
)
def test_texts(text: str, found: list[str]) -> None:
    assert prompts(text) == found


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a -> b", Target("b")),
        ("a -> $b", Target("b")),
        ("a >> b", Target("b", True)),
        ("a -> None", Target("")),
        ("a >> None", Target("", True)),
    ],
)
def test_targets(text: str, target: Target) -> None:
    (statement,) = read_program(text)
    assert isinstance(statement, Prompt)
    assert statement.target == target


@pytest.mark.parametrize(
    "text",
    [
        "IF $a == 1 and\n   $b == 2:\n    c -> d\nEND",
        "IF ($a == 1\n    or $b == 2):\n    c -> d\nEND",
        "IF $a in [1,\n 2,\n 3]:\n    c -> d\nEND",
        "IF ( $a ):\n    c -> d\nelif ($b\n  and $c):\n    e -> f\nEND",
        'IF $a == "x:y":\n    c -> d\nEND',
        'IF $a == "->":\n    c -> d\nEND',
        "IF $a:\n    c -> d\nelse :\n    e -> f\nEND",
        "IF $a:\n\tc -> d\nelse:\n\te -> f\nEND",
        "IF $a:\n  # only a comment\nEND",
        "IF $a:\n    IF $b:\n        c -> d\n    END\nEND",
    ],
)
def test_conditions_of_any_shape(text: str) -> None:
    (statement,) = read_program(text)
    assert isinstance(statement, If)


FULL = "：，（）"
MISTAKES = [
    ("text", 1, "no arrow", "缺少 -> 或 >>"),
    ("a -> b\n\n  text\nmore", 3, "no arrow", "缺少"),
    ("text → a", 1, "and not '→'", "→"),
    ("text => a", 1, "and not '=>'", "=>"),
    ("-> a", 1, "nothing to ask", "没有内容"),
    ('IF $a = "x":\n    s -> b\nEND', 1, "a comparison is written ==", "比较请写 =="),
    ("IF $a == '=':\n    s -> b\nelif $a = 1:\n    s -> c\nEND", 3, "written ==", "比较请写 =="),
    ("FOR $x in $l PARALEL:\n    s -> b\nEND", 1, "did you mean PARALLEL", "PARALLEL"),
    ("IF $a:\n    s -> b\nelse if $c:\n    s -> d\nEND", 3, "write elif", "请写 elif"),
    ("IF $a:\n    s -> b\nENDIF", 3, "write END, and not 'ENDIF'", "请写 END"),
    ("FRO $x in $l:\n    s -> b\nEND", 3, "'FRO .* is text for the model", "不是语句头"),
    ("While $x:\n    s -> b\nEND", 3, "'While .* is text for the model", "不是语句头"),
    ("a -> 1b", 1, "'1b' is no variable name", "'1b' 不是变量名"),
    ("a\nb -> 诗", 2, "'诗' is no variable name", "'诗' 不是变量名"),
    ("a -> b 的含义", 1, "no arrow", "缺少"),
    ("@f()", 1, "no arrow", "写 -> None"),
    ("@f() text", 1, "does not belong behind", "之后只能写"),
    ("@f(", 1, "not closed", "没有闭合"),
    ('@f("a) -> b', 1, "not closed", "没有闭合"),
    (f"@f{FULL[2]}1{FULL[3]} -> r", 1, "full-width", "全角"),
    (f"@f(1{FULL[1]} 2) -> r", 1, "full-width", "全角"),
    ("@f(1、2) -> r", 1, "full-width", "全角"),
    (f"IF $a == 1{FULL[0]}\n    b -> c\nEND", 1, "full-width", "全角"),
    (f"FOR $a in $b{FULL[0]}\n    b -> c\nEND", 1, "full-width", "全角"),
    (f"IF $a:\n    b -> c\nelse{FULL[0]}\n    d -> e\nEND", 3, "full-width", "全角"),
    ("IF $a == “x”:\n    b -> c\nEND", 1, "full-width", "全角"),
    ("@f(a=1, 2) -> r", 1, "without a name follows", "位置参数必须在关键字参数之前"),
    ("@f(a=1, a=2) -> r", 1, "given twice", "重复"),
    ("@f(name) -> r", 1, "write \\$name", "变量请写"),
    ("@f($a.b) -> r", 1, "for a path", "路径请写"),
    ("@f(g(1)) -> r", 1, "are PPE's", "路径请写"),
    ("@f(${a b}) -> r", 1, "no path", "变量路径"),
    ("FOR $a:\n    b -> c\nEND", 1, "no 'in'", "缺少 'in'"),
    ("FOR a in $b:\n    b -> c\nEND", 1, "no variable", "无效的循环变量名"),
    ("FOR $a in :\n    b -> c\nEND", 1, "ends too early", "不完整"),
    ("FOR $a in $b\n    b -> c\nEND", 1, "no colon", "缺少冒号"),
    ("FOR $a in $b:\nb -> c\nEND", 2, "indented more", "必须缩进"),
    ("FOR $a in $b:\n    b -> c", 1, "no END", "缺少 END"),
    ("FOR $a in $b:\n    b -> c\n  END", 3, "not indented as its FOR", "缩进"),
    ("FOR $a in $b:\n    b -> c\n  d -> e\nEND", 3, "not indented as its block", "缩进"),
    ("FOR $a in $b:\n    b -> c\nelse:\n    d -> e\nEND", 1, "no END", "缺少 END"),
    ("IF $a\n    b -> c\nEND", 1, "no colon", "缺少冒号"),
    ("IF :\n    b -> c\nEND", 1, "ends too early", "不完整"),
    ("IF $a ==:\n    b -> c\nEND", 1, "ends too early", "不完整"),
    ("IF a == 1:\n    b -> c\nEND", 1, "no value", "变量请写"),
    ("IF $a:\n    b -> c", 1, "no END", "缺少 END"),
    ("IF $a:\n    b -> c\nelse:\n    d -> e\nelif $c:\n    f -> g\nEND", 5, "last branch", "最后"),
    ("IF $a:\n    b -> c\nelse:\n    d -> e\nelse:\n    f -> g\nEND", 5, "last branch", "最后"),
    ("IF $a:\n    b -> c\nelse: d -> e\nEND", 3, "lines below else", "另起一行"),
    ("IF $a:\n    b -> c\nELSE:\n    d -> e\nEND", 3, "write else: keywords are", "请写 else"),
    ("FOR $a in $b:\n    c -> d\nEnd", 3, "write END", "请写 END"),
    ("if $a == 1:\n    @c() -> d\nEND", 1, "write IF", "请写 IF"),
    ("for $a in $b:\n    @c() -> d\nEND", 1, "write FOR", "请写 FOR"),
    ("IF $a:\n    b -> c\n  elif $d:\n    e -> f\nEND", 3, "elif is not indented", "缩进"),
    ("IF $a:\n    b -> c\n else:\n    e -> f\nEND", 3, "else is not indented", "缩进"),
    ("END", 1, "'END' belongs to no", "没有对应的"),
    ("else:\n    a -> b", 1, "'else' belongs to no", "没有对应的"),
    ("elif $a:\n    a -> b", 1, "'elif' belongs to no", "没有对应的"),
    ("@code() -> r", 1, "nothing to run", "没有内容"),
    ("@code(```js\n1\n```) -> r", 1, "and not 'js'", "只支持"),
    ("@code(```json\n{x}\n```) -> r", 2, "no JSON", "JSON 解析错误"),
    ("@code(```json\nNaN\n```) -> r", 2, "NaN is no number", "JSON 解析错误"),
    ("@code(```json\n" + "9" * 5000 + "\n```) -> r", 2, "no JSON", "JSON 解析错误"),
    ("@code(```json\n" + "[" * 5000 + "]" * 5000 + "\n```) -> r", 2, "nested too deeply", "JSON"),
    ("@exit(1, 2)", 1, "takes msg", "只接受"),
    ("@exit(text=1)", 1, "takes msg", "只接受"),
    ("@condition_judge($a) -> r", 1, "a list of classes", "两个参数"),
    ("@condition_judge($a, b=1) -> r", 1, "a list of classes", "两个参数"),
    ("@agent(task='x')", 1, "no arrow", "缺少"),
    ("@agent(type='bambo') -> a", 1, "no task", "缺少 task"),
    ("@agent(task='x', type='nope') -> a", 1, "no agent type 'nope'", "未知的Agent类型"),
    ("@agent(\n  task='x',\n  taks='y'\n) -> a", 3, "and not 'taks'", "@agent 的参数是"),
    ("@agent(task='x', color=1) -> a", 1, "not 'color'", "参数是"),
    ("@agent('x') -> a", 1, "an argument without one", "参数是"),
    ("@agent(task='x') -> None", 1, "needs a name", "指定名称"),
    ("@agent(task='x') >> a", 1, "needs a name", "指定名称"),
    ("".join(f"{' ' * n}IF $a:\n" for n in range(60)), 52, "nested too deeply", "嵌套过深"),
]


@pytest.mark.parametrize(("text", "line", "what", "zh"), MISTAKES)
def test_a_mistake_has_its_line_in_both_languages(text: str, line: int, what: str, zh: str) -> None:
    with pytest.raises(FlowError, match=what) as caught:
        read_program(text)
    error = caught.value
    assert error.line == line
    assert error.column is not None
    assert error.column >= 1
    assert zh in error.message_zh
    assert f"第 {line} 行" in error.message_zh


def test_nothing_runs_of_a_program_with_a_mistake() -> None:
    with pytest.raises(FlowError):
        program("a -> b", "@f(")


PIECES = st.sampled_from(
    [
        *("IF ", "elif ", "else:", "else: x", "END", "FOR $i in ", "$a", "${a[0]}", "@f(", ")"),
        *("@code(", "```", "```json", "```python", "@agent(", "@exit(", "@condition_judge(", ":"),
        *("->", ">>", " -> r", "\n", "\n    ", "\n\n", '"', "'", "[", "]", "{", "}", ",", "="),
        *("# ", "## 限制", "文本", "：", "（", "、", "(bp)", "@(bp)", "1", " ", "\t", "\\", "not "),
    ]
)


@given(st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_is_a_program_or_a_flow_error(text: str) -> None:
    try:
        read_program(text)
    except FlowError as error:
        assert error.line
        assert error.line >= 1
        assert error.message_zh


LARGE = [
    "# comment\n" * 10_000,
    "# comment\n" * 10_000 + "@f() -> r",
    "# heading\n" * 10_000 + "text -> a",
    "IF $a:\n    b -> c\nEND\n" * 4_000,
    "FOR $i in $a:\n    b -> c\nEND\n" * 3_000,
    "@f($a) -> b\n" * 8_000,
    "a -> b\n" * 14_000,
    "text\n" * 20_000,
    "@f(\n" * 20_000,
    '@f("a) -> b\n' * 8_000,
    "IF ($a\n" * 15_000,
    "IF 'a\n" * 15_000,
    "```\n" * 25_001,
    "@code(```\n" * 9_000,
    "-> " * 30_000,
    "a ->" + " " * 100_000 + "!",
    "a -> " + "b" * 100_000 + "!",
    "IF " + "(" * 100_000,
    "FOR $a in " + " " * 100_000 + "x",
    "@f" + " " * 100_000 + "x",
    "${" * 50_000 + " -> a",
    "END\n" * 20_000,
    "else:\n" * 15_000,
    "    " * 25_000 + "a -> b",
    "@agent(task='" + "\\" * 100_000,
]


@pytest.mark.parametrize("text", LARGE, ids=range(len(LARGE)))
def test_a_large_program_is_read_in_one_pass(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Letters that are looked at one by one; what regular expressions look at is bounded by them.
    from orchestrator.flows import expressions
    from orchestrator.flows.pl import reader

    looked = [0]

    def counted(text: str, at: int) -> Any:
        for one in scanning_outside(text, at):
            looked[0] += 1
            yield one

    hashes = [0]

    def hashed(line: str) -> bool:
        hashes[0] += 1
        return line.strip().startswith("#")

    scanning_outside = expressions.outside_quotes
    monkeypatch.setattr(expressions, "outside_quotes", counted)
    monkeypatch.setattr(reader, "outside_quotes", counted)
    monkeypatch.setattr(reader, "is_comment", hashed)
    try:
        read_program(text)
    except FlowError as error:
        assert error.message_zh
    assert looked[0] <= 3 * len(text)
    assert hashes[0] <= 5 * (text.count("\n") + 1)


# Programs printed, and read again.


def value_text(node: Node) -> str:
    if node.kind == "text":
        return json.dumps(node.value, ensure_ascii=False)
    if node.kind == "value":
        return str(node.value)
    if node.kind == "path":
        return str(node.value[1])
    if node.kind == "items":
        return f"[{', '.join(map(value_text, node.parts))}]"
    if node.kind == "compared":
        rest = zip(node.value, map(value_text, node.parts[1:]), strict=True)
        return f"({' '.join((value_text(node.parts[0]), *chain(*rest)))})"
    if node.kind == "negated":
        return f"(not {value_text(node.parts[0])})"
    words = {"either": "or", "both": "and"}
    return f"({value_text(node.parts[0])} {words[node.kind]} {value_text(node.parts[1])})"


_PLACES = ("begins", "line", "offset", "place", "span", "written")


def bare(tree: Any) -> Any:
    """A tree without its places."""
    if isinstance(tree, Node):
        return (tree.kind, bare(tree.value), bare(tree.parts))
    if isinstance(tree, list | tuple):
        return [bare(one) for one in tree]
    if hasattr(tree, "__dataclass_fields__"):
        names = [name for name in tree.__dataclass_fields__ if name not in _PLACES]
        return (type(tree).__name__, [bare(getattr(tree, name)) for name in names])
    return tree


def target_text(target: Target) -> str:
    return f"{'>>' if target.append else '->'} {target.name or 'None'}"


def arguments_text(arguments: Any) -> str:
    return ", ".join(
        (f"{one.name}=" if one.name else "") + value_text(one.node) for one in arguments
    )


def printed(block: Block, indent: str = "") -> str:
    return "".join(statement_text(one, indent) for one in block)


def statement_text(one: Statement, indent: str) -> str:
    match one:
        case Prompt():
            lines = one.text.replace("\n", f"\n{indent}")
            return f"{indent}{lines} {target_text(one.target)}\n"
        case FunctionCall():
            call = f"@{one.name}({arguments_text(one.arguments)})"
            return f"{indent}{call} {target_text(one.target)}\n"
        case AgentCall():
            call = f"@agent({arguments_text(one.arguments)})"
            return f"{indent}{call} {target_text(one.target)}\n"
        case Judge():
            call = f"@condition_judge({value_text(one.content)}, {value_text(one.classes)})"
            return f"{indent}{call} {target_text(one.target)}\n"
        case CodeBlock():
            inner = one.text if one.kind == "words" else f"```{one.kind}\n{one.text}\n```"
            return f"{indent}@code({inner}) {target_text(one.target)}\n"
        case _:
            return control_text(one, indent)


def control_text(one: Statement, indent: str) -> str:
    match one:
        case Exit():
            inner = "" if one.message is None else f"msg={value_text(one.message)}"
            return f"{indent}@exit({inner})\n"
        case Breakpoint():
            return f"{indent}@(bp)\n"
        case Loop():
            head = f"{indent}FOR ${one.name} in {value_text(one.items)}:\n"
            return f"{head}{printed(one.body, indent + '    ')}{indent}END\n"
        case If():
            text = ""
            for at, branch in enumerate(one.branches):
                word = "IF" if at == 0 else "elif"
                condition = branch.condition
                head = "else" if condition is None else f"{word} {value_text(condition)}"
                text += f"{indent}{head}:\n{printed(branch.body, indent + '    ')}"
            return f"{text}{indent}END\n"


NAMES = st.sampled_from(["a", "b1", "_c", "city", "IFx", "END_"])
STRINGS = st.text("ab$@->:#()[]{}\"'\\ 文，", max_size=8).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
LEAVES = st.one_of(
    STRINGS,
    NAMES.map("${}".format),
    NAMES.map("${{{}.k[0]}}".format),
    st.integers(0, 99).map(str),
    st.sampled_from(["True", "None"]),
)
VALUES = st.one_of(LEAVES, st.lists(LEAVES, max_size=3).map(lambda it: f"[{', '.join(it)}]"))
CONDITIONS = st.one_of(
    LEAVES,
    st.builds("({} {} {})".format, LEAVES, st.sampled_from(["==", "<", "and", "or"]), LEAVES),
    LEAVES.map("(not {})".format),
)
TARGETS = st.builds(
    "{} {}".format, st.sampled_from(["->", ">>"]), st.one_of(NAMES, st.just("None"))
)
WORDS = st.sampled_from(
    ["请写诗", "write $a", "第一行\n\n## 限制\n第二行", "a -> b", "x: y", '"q"']
)
SIMPLE = st.one_of(
    st.builds("{} {}".format, WORDS, TARGETS),
    st.builds("@f({}, k={}) {}".format, VALUES, VALUES, TARGETS),
    st.builds("@condition_judge({}, [{}]) {}".format, VALUES, STRINGS, TARGETS),
    st.builds("@agent(task={}) -> {}".format, STRINGS, NAMES),
    st.builds("@exit(msg={})".format, STRINGS),
    st.builds("@code(计算) {}".format, TARGETS),
    st.builds('@code(```json\n{{"k": [1]}}\n```) {}'.format, TARGETS),
    st.builds("@code(```python\nx = $a\nif x:\n    y = 1\n```) {}".format, TARGETS),
    st.just("(bp)"),
)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))


def blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, max_size=3).map("\n".join).map(indented)
    return st.one_of(
        st.builds("FOR ${} in {}:\n{}\nEND".format, NAMES, VALUES, body),
        st.builds("IF {}:\n{}\nEND".format, CONDITIONS, body),
        st.builds("IF {}:\n{}\nelif {}:\n{}\nelse:\n{}\nEND".format, *[CONDITIONS, body] * 2, body),
    )


PROGRAMS = st.lists(st.recursive(SIMPLE, blocks, max_leaves=8), max_size=5).map("\n".join)


@given(PROGRAMS)
def test_a_program_that_is_printed_and_read_again_is_the_same(text: str) -> None:
    tree = read_program(text)
    assert bare(read_program(printed(tree))) == bare(tree)
