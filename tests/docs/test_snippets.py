"""The documentation runs: the examples of README.md, docs/ and examples/ are carried out.

- A `python` block runs, in the order of the page, in one namespace a page.
- A block after `<!-- file: PATH -->` is written to PATH first.
- In a `console` block, commands `$ orchestrator VERB` that need no model run, and must succeed; so
  must `$ pytest`. All tests that a page has written are run after it.
- A block after `<!-- no-run: REASON -->` is left alone.
- In a block after `<!-- answers: [JSON, ...] -->` the model `"local"` gives these scripted replies.

The working directory is a temporary folder with a copy of `examples/`. The tutorial, whose steps
build on each other, has a test of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from left_out import need_dbos
from typer.testing import CliRunner

import orchestrator.agent.agent
import orchestrator.agent.flow_run
import orchestrator.agent.template_model
from orchestrator.cli import app
from orchestrator.definition import parse_definition
from orchestrator.models import resolve_model
from orchestrator.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(it for it in sorted((ROOT / "docs").glob("*.md")) if it.name != "tutorial.md"),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
WITHOUT_A_MODEL = {
    "render",
    "lint",
    "import",
    "parse",
    "schema",
    "init",
    "templates",
    "--help",
    "--version",
}
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>no-run|file|answers): (?P<note>.+?) -->\n+)?"
    r"^(?P<fence>`{3,})(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    file: str = ""
    answers: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("text")) + 1,
            found["language"],
            found["text"],
            **({found["mark"]: found["note"]} if found["mark"] else {}),
        )
        for found in BLOCK.finditer(text)
        if found["mark"] != "no-run"
    ]


def commands_of(block: Block) -> list[list[str]]:
    lines = re.sub(r"\\\n", " ", block.text).splitlines()
    shown = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    return [
        words
        for words in shown
        if words[0] == "pytest" or (words[0] == "orchestrator" and words[1] in WITHOUT_A_MODEL)
    ]


def write_file(block: Block) -> None:
    target = Path(block.file)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block.text, encoding="utf-8")


def run_python(block: Block, namespace: dict[str, object]) -> None:
    # Blank lines before it make tracebacks name the page's own lines.
    source = "\n" * (block.line - 1) + block.text
    with pytest.MonkeyPatch.context() as patch:
        if block.answers:
            model = ScriptedModel(json.loads(block.answers), "local")
            rooms = orchestrator.agent
            for module in (rooms.agent, rooms.flow_run, rooms.template_model):
                patch.setattr(
                    module,
                    "resolve_model",
                    lambda spec: model if spec == "local" else resolve_model(spec),
                )
        exec(compile(source, str(block.page), "exec"), namespace)
        if block.answers:
            assert len(model.requests) == len(json.loads(block.answers))


def run_commands(block: Block) -> None:
    for words in commands_of(block):
        if words[0] == "pytest":
            run_pytest(*words[1:])
            continue
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{block}: $ {shlex.join(words)}\n{done.output}"


def run_pytest(*arguments: str) -> None:
    # Without the plugins of others that are here, which take longer than the tests.
    plugins = ["-p", "orchestrator.testing.plugin", "-p", "no:cacheprovider"]
    run = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False, env=alone)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def examples(tmp_path, monkeypatch):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HR_DATABASE", str(tmp_path / "hr.sqlite"))
    monkeypatch.setenv("REMINDERS_FILE", str(tmp_path / "reminders.jsonl"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_runs_as_it_stands(page, examples):
    if page.name == "durable.md":
        need_dbos()
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks_of(page):
        if block.file:
            write_file(block)
        elif block.language == "python":
            run_python(block, namespace)


# It starts a server, and the tests of a project.
LONG = ROOT / "docs/testing.md"


@pytest.mark.parametrize(
    "page",
    [pytest.param(it, marks=pytest.mark.exhaustive) if it == LONG else it for it in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_run_as_they_stand(page, examples, monkeypatch):
    if page.parent.name == "starter":  # the page of a new project speaks of its own folder
        monkeypatch.chdir("examples/starter")
    blocks = blocks_of(page)
    for block in blocks:
        if block.file:
            write_file(block)
        elif block.language == "console":
            run_commands(block)
    if written := [it.file for it in blocks if Path(it.file).name.startswith("test_")]:
        run_pytest(*written)


def test_the_fields_of_the_agents_page_are_valid():
    fragments = [
        block.text
        for block in blocks_of(ROOT / "docs/agents.md")
        if block.language == "yaml" and not block.file
    ]
    assert len(fragments) > 2
    for fragment in fragments:
        parse_definition(f"agentName: a\ninstruction: You help.\n{fragment}")


def test_blocks_are_found_with_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n<!-- file: a/b.yaml -->\n```yaml\nx: 1\n```\n\n"
        "<!-- no-run: it needs AWS -->\n```python\nboom()\n```\n\n```python\ny = 2\n```\n"
        "```console\n$ orchestrator lint a \\\n    --json\n$ orchestrator chat a\nout\n```\n"
    )
    found = blocks_of(page)
    assert [(block.language, block.file, block.line) for block in found] == [
        ("yaml", "a/b.yaml", 5),
        ("python", "", 14),
        ("console", "", 17),
    ]
    assert commands_of(found[-1]) == [["orchestrator", "lint", "a", "--json"]]


def test_a_wrong_snippet_fails_at_its_own_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nok = 1\nraise ValueError(ok)\n```\n")
    (block,) = blocks_of(page)
    with pytest.raises(ValueError) as caught:
        run_python(block, {})
    assert caught.traceback[-1].lineno + 1 == 5
