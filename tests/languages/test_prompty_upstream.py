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
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orchestrator import OrchestratorError, load_template
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
    found: list[tuple[str, str]] = document._engine.pieces(values.given)
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
    told = [(it["source"] or "template", it["text"]) for it in case["segments"]]
    assert pieces(read(case), case["inputs"]) == told


ROLES = ("system", "user", "assistant", "developer")
LINE = st.one_of(
    st.sampled_from(["", " ", "text", "a: b", "## user:", "user::", "> system:", "{x}", "![a](b)"]),
    st.sampled_from([f"{role}:" for role in ROLES]),
    st.sampled_from(["# system:", "  USER :", "tool:", "user[]:", "user[n]:", "user[ n=1]:"]),
    st.sampled_from(['user[name="A B"]:', "assistant[a=1, b=true, c=1.5, d=x]:", 'user[x="y]z"]:']),
)


@given(st.lists(LINE, min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
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


@pytest.mark.parametrize("body", BODIES)
def test_whole_files(tmp_path: Path, body: str) -> None:
    file = tmp_path / "t.prompty"
    file.write_text(
        "---\nname: t\ninputs:\n  - {name: q, kind: string}\n  - {name: c, kind: thread}\n"
        f"  - {{name: img, kind: image}}\n---\n{body}"
    )
    # Upstream loses a thread without a place when any other input has one.
    inputs = {k: it for k, it in INPUTS.items() if k != "c" or "img" not in body}
    theirs = prompty.prepare(prompty.load(file), inputs)
    ours = load_template(file).render(inputs).as_dicts()
    said = [
        (it.role, [getattr(part, "value", getattr(part, "source", "")) for part in it.parts])
        for it in theirs
    ]
    made = [
        (it["role"], [part.get("value", part.get("source")) for part in it["content"]])
        for it in ours
    ]
    assert made == said
