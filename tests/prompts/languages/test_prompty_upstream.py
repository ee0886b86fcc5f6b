"""What Prompty's own library makes of the same texts, where it is installed.

It is equal, but for what upstream does wrong, each of which has a test of its own.
"""

from __future__ import annotations

import importlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jinja2 import nodes

from orchestrator import OrchestratorError, load_template
from orchestrator.prompts.jinja import Jinja
from orchestrator.prompts.languages import read_template

prompty = pytest.importorskip("prompty")

CORPUS = "jinja_subset/conformance"


def golden(name: str) -> Any:
    return json.loads(files("prompty").joinpath(f"{CORPUS}/{name}.json").read_text("utf-8"))


CASES = golden("corpus")["cases"]
RENDERED = {case["name"]: case for case in golden("render_golden")}
SEGMENTS = {case["name"]: case for case in golden("segments_golden")}


def read(case: dict[str, Any]) -> Any:
    strict = [{"name": name, "strict": True} for name in case.get("strict_props", ())]
    # The corpus is about rendering: what it renders stands in one message.
    return read_template(
        f"---\n{json.dumps({'inputs': strict})}\n---\n{case['template']}", "prompty"
    )


def pieces(document: Any, inputs: dict[str, Any]) -> list[tuple[str, str]]:
    from orchestrator.prompts.languages.values import Values

    values = Values()
    for name, value in inputs.items():
        values.add(name, value)
    found: list[tuple[str, str]] = document.engine.pieces(values.given)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_jinja_subset(case: dict[str, Any]) -> None:
    document = read(case)
    if case.get("expect_throw"):
        with pytest.raises(OrchestratorError, match="looks like a role's mark"):
            document.render(case["inputs"])
        return
    document.render(case["inputs"])
    made = pieces(document, case["inputs"])
    assert "".join(text for _, text in made) == RENDERED[case["name"]]["rendered"]


@pytest.mark.parametrize("name", [name for name, it in SEGMENTS.items() if "segments" in it])
def test_the_segments(name: str) -> None:
    case = SEGMENTS[name]
    shown = [(it["source"] or "template", it["text"]) for it in case["segments"]]
    assert pieces(read(case), case["inputs"]) == shown


TREES = golden("ast_golden")


def step(node: Any) -> Any:
    if isinstance(node, nodes.Getattr):
        return {"kind": "attr", "name": node.attr}
    return {"kind": "index", "expr": tree(node.arg)}


def tree(node: Any) -> Any:
    """What our parser makes of a template, as the goldens write it."""
    if isinstance(node, nodes.Filter) and node.name.endswith("!"):  # which counts and marks
        inner = node.node
        is_text = node.name == "authors!" and isinstance(inner, nodes.Const)
        return {"kind": "text", "value": inner.value} if is_text else tree(inner)
    if isinstance(node, nodes.Const):
        return {"kind": "lit", "value": node.value}
    if isinstance(node, nodes.Name):
        return {"kind": "var", "root": node.name, "path": []}
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        found = tree(node.node)
        return {**found, "path": [*found["path"], step(node)]}
    if isinstance(node, nodes.Filter):
        args = [tree(one) for one in node.args]
        return {"kind": "filter", "name": node.name, "input": tree(node.node), "args": args}
    if isinstance(node, nodes.Not):
        return {"kind": "unary", "operator": "not", "operand": tree(node.node)}
    if isinstance(node, nodes.And | nodes.Or):
        left, right = tree(node.left), tree(node.right)
        return {"kind": "binary", "operator": node.operator, "left": left, "right": right}
    if isinstance(node, nodes.Compare):
        (operand,) = node.ops
        sign = SIGNS[operand.op]
        left, right = tree(node.expr), tree(operand.expr)
        return {"kind": "binary", "operator": sign, "left": left, "right": right}
    if isinstance(node, nodes.For):
        made = {"kind": "for", "loopVar": node.target.name, "seq": tree(node.iter)}
        return {**made, "body": body(node.body)}
    branches = [{"test": tree(one.test), "body": body(one.body)} for one in (node, *node.elif_)]
    made = {"kind": "if", "branches": branches}
    return {**made, "elseBody": body(node.else_)} if node.else_ else made


SIGNS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "gt": ">",
    "lteq": "<=",
    "gteq": ">=",
    "in": "in",
}


def body(found: list[Any]) -> list[Any]:
    made = []
    for one in found:
        for inner in one.nodes if isinstance(one, nodes.Output) else [one]:
            shown = tree(inner)
            plain = shown["kind"] in ("text", "if", "for")
            made.append(shown if plain else {"kind": "interp", "expr": shown})
    return made


@pytest.mark.parametrize("case", TREES, ids=lambda case: case["name"])
def test_the_trees(case: dict[str, Any]) -> None:
    made = Jinja(keep_trailing_newline=True).parse_template(case["template"])
    assert body(made.body) == case["ast"]["nodes"]


ROLES = ("system", "user", "assistant", "developer")
LINE = st.one_of(
    st.sampled_from(["", " ", "text", "a: b", "## user:", "user::", "> system:", "{x}", "![a](b)"]),
    st.sampled_from([f"{role}:" for role in ROLES]),
    st.sampled_from(["# system:", "  USER :", "tool:", "user[]:", "user[n]:", "user[ n=1]:"]),
    st.sampled_from(['user[name="A B"]:', "assistant[a=1, b=true, c=1.5, d=x]:", 'user[x="y]z"]:']),
)


@given(st.lists(LINE, min_size=1, max_size=12))
def test_marks_and_messages(lines: list[str]) -> None:
    parser = importlib.import_module("prompty.parsers.prompty").PromptyChatParser()
    model = importlib.import_module("prompty.model")
    text = "\n".join(lines)
    assume(lines[0].strip())  # a file's body has no blank beginning
    theirs = [
        (it.role, it.text, it.metadata or {}) for it in parser._parse(model.Agent(name="t"), text)
    ]
    ours = [
        (it.role, it.text, dict(it.attributes))
        for it in read_template(text, "prompty").render({}).messages
    ]
    assert [it for it in ours if it[1]] == [it for it in theirs if it[1]]
    assert len(ours) >= len(theirs), "upstream drops messages without any line"


INPUTS = {
    "q": "hello",
    "l": ["a", "b"],
    "o": {"x": 1},
    "c": [{"role": "user", "content": "q1"}, {"role": "assistant", "content": "a1"}],
    "img": "https://x/i.png",
}
BODIES = [
    "system:\nS {{q}}\nuser:\n{{o.x}} {% for i in l %}{{i}},{% endfor %}",
    "system:\nbefore\n{{c}}\nafter\nuser:\nQ",
    "system:\nS\nuser:\nQ",
    "user:\nlook {{img}} please",
    "system:\nS {{img}}\nuser:\nQ",
    "user:\n{{img}}\nassistant:\n{{q|upper}}",
    "user:\n{% if q %}{{q}}{% else %}none{% endif %}",
    "user:\n{{missing}}x",
]


def theirs(file: Path, inputs: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [
        (it.role, [getattr(part, "value", getattr(part, "source", "")) for part in it.parts])
        for it in prompty.prepare(prompty.load(file), inputs)
    ]


def ours(file: Path, inputs: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [
        (it["role"], [part.get("value", part.get("source")) for part in it["content"]])
        for it in load_template(file).render(inputs).as_dicts()
    ]


FRONT = (
    "---\nname: t\ninputs:\n  - {name: q, kind: string}\n  - {name: c, kind: thread}\n"
    "  - {name: img, kind: image}\n"
    "template: {format: {kind: jinja2, strict: STRICT}, parser: {kind: prompty}}\n---\n"
)


@pytest.mark.parametrize("body", BODIES)
def test_whole_files(tmp_path: Path, body: str) -> None:
    file = tmp_path / "t.prompty"
    file.write_text(FRONT.replace("STRICT", "true") + body)
    # Upstream loses a thread without a place when any other input has one.
    inputs = {k: it for k, it in INPUTS.items() if k != "c" or "img" not in body}
    assert ours(file, inputs) == theirs(file, inputs)


PARTS = st.sampled_from(
    [
        *("system:", "user:", "assistant:", "developer:", "# system:", "text", "", "- user: x"),
        *("{{q}}", " a {{q}} b", "{{o.x}} {{l[0]}}", "{% if q %}yes{% else %}no{% endif %}"),
        *("{% for i in l %}{{i}},{% endfor %}", "{{missing}}", "{# c #}", "{{ l|length }}"),
        *("{{q|upper}} {{l|join(', ')}}", "{{c}}", "look {{img}} please", "{{img}}"),
    ]
)


@given(st.lists(PARTS, min_size=1, max_size=9))
def test_whole_files_of_any_parts(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    assume(lines[0].strip())
    body = "\n".join(lines)
    assume(body.count("{{c}}") < 2 and body.count("{{img}}") < 2)
    file = tmp_path_factory.mktemp("any") / "t.prompty"
    file.write_text(FRONT.replace("STRICT", "false") + body)
    inputs = {k: it for k, it in INPUTS.items() if k not in ("c", "img") or f"{{{{{k}}}}}" in body}
    said, made = theirs(file, inputs), ours(file, inputs)
    assert "PROMPTY_THREAD" not in str(made)
    # Upstream shows the mark of an image or a thread that is beside another.
    assume("PROMPTY_THREAD" not in str(said))
    assert together(made) == together(said)


def together(shown: list[tuple[str, list[Any]]]) -> list[tuple[str, list[Any]]]:
    """Messages without what is empty in them, with neighbours of one role as one."""
    made: list[tuple[str, list[Any]]] = []
    for role, said in shown:
        parts = [part for part in said if part]
        if any(parts) and made and made[-1][0] == role:
            made[-1] = (role, made[-1][1] + parts)
        elif any(parts):
            made.append((role, parts))
    return made
