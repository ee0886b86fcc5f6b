"""The tutorial runs: each step of docs/tutorial.md, in its order, in one empty folder.

- A block after `<!-- file: PATH -->` is written, after `<!-- append: PATH -->` it is put at the end
  of the file, and after `<!-- change: PATH -->` its line with `-` becomes the one with `+`.
- Each command of a `console` block is run, and must print what stands below it. `…` stands for
  anything, and on a line of its own for any number of lines; how long something took, and how many
  tokens it had, may differ.
- After `<!-- answers: [JSON, ...] -->` the model has these replies. What is under
  `<!-- no-run: REASON -->` is left alone.
- The server listens on any port that is free, which commands have instead of 8080.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>no-run|file|append|change|answers): (?P<note>.+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PORT = "127.0.0.1:8080"


@dataclass
class Reader:
    """Somebody who does what the page says."""

    environment: dict[str, str]
    address: str = PORT
    answers: str = ""
    commands: list[str] = field(default_factory=list)
    server: subprocess.Popen[str] | None = None

    def follow(self, mark: str, note: str, text: str) -> None:
        if mark == "file":
            Path(note).parent.mkdir(parents=True, exist_ok=True)
            Path(note).write_text(text)
        elif mark == "append":
            with Path(note).open("a") as file:
                file.write(text)
        elif mark == "change":
            before, after = (line[1:] + "\n" for line in text.splitlines())
            content = Path(note).read_text()
            assert content.count(before) == 1, f"{note} has no line {before!r}"
            Path(note).write_text(content.replace(before, after))
        else:
            self.answers = note if mark == "answers" else ""
            self.run_all(text)

    def run_all(self, text: str) -> None:
        for shown in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = shown.partition("\n")
            self.commands.append(command)
            printed = self.run(shlex.split(command.replace(PORT, self.address)))
            assert matches(expected, printed.replace(self.address, PORT)), (
                f"$ {command}\nprinted:\n{printed}\nand not:\n{expected}"
            )

    def run(self, words: list[str]) -> str:
        if words[:2] == ["orchestrator", "serve"]:
            return self.serve(words[1:])
        if words[0] == "orchestrator":
            done = CliRunner().invoke(app, [*words[1:], *self.choose_model()])
            assert done.exit_code in ((0, 1) if words[1] == "diff" else (0,)), done.output
            return done.output
        if words[0] == "export":
            self.environment.update(word.split("=", 1) for word in words[1:])
            return ""
        program = [sys.executable, *words[1:]] if words[0] == "python" else words
        ran = subprocess.run(
            program, capture_output=True, text=True, timeout=120, check=False, env=self.environment
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def choose_model(self) -> list[str]:
        if not self.answers:
            return []
        script = Path(f"answers-{len(self.commands)}.jsonl").absolute()
        script.write_text("".join(json.dumps(it) + "\n" for it in json.loads(self.answers)))
        return [f"--model=scripted:{script}"]

    def serve(self, words: list[str]) -> str:
        command = [sys.executable, "-m", "orchestrator", *words, "--port", "0"]
        self.server = subprocess.Popen(
            [*command, *self.choose_model()],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment,
        )
        assert self.server.stdout is not None
        lines = [self.server.stdout.readline() for _ in range(5)]
        found = re.search(r"http://(127\.0\.0\.1:\d+)", lines[0])
        assert found, lines
        self.address = found[1]
        return "".join(lines)

    def leave(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.communicate(timeout=60)


def matches(expected: str, printed: str) -> bool:
    """Whether a text is what the page shows; how it is broken into lines does not count."""
    lines = re.sub(r"\s*^…$\s*", "…", expected, flags=re.MULTILINE)  # any number of them, or none
    pattern = re.escape(" ".join(lines.split())).replace("…", ".*")
    pattern = re.sub(r"[\d,.\\]+(\\ )?(ms|s)\b", r"[\\d,.]+\1(ms|s)", pattern)
    pattern = re.sub(r"[\d,]+\\ →\\ [\d,]+\\ tokens", r"[\\d,]+ → [\\d,]+ tokens", pattern)
    return re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL) is not None


@pytest.fixture
def reader(tmp_path, monkeypatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path / "no-models"))
    alone = {
        name: it for name, it in os.environ.items() if not name.startswith(("AWS_", "PYTEST_"))
    }
    # Without the plugins of others that are here, which take longer than the tests.
    alone |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "AWS_EC2_METADATA_DISABLED": "true"}
    reader = Reader(alone)
    yield reader
    reader.leave()


def read_blocks() -> Iterator[tuple[str, str, str]]:
    page = PAGE.read_text(encoding="utf-8")
    page = re.sub("<!-- session -->.*<!-- /session -->", "", page, flags=re.DOTALL)
    for found in BLOCK.finditer(page):
        if found["mark"] != "no-run":
            assert found["mark"] or found["language"] == "console", found[0]
            yield found["mark"] or "", found["note"] or "", found["text"]


def test_each_step_of_the_page_does_what_it_says(reader):
    for block in read_blocks():
        reader.follow(*block)
    verbs = {command.split()[1] for command in reader.commands if command.startswith("orch")}
    assert verbs == {"lint", "render", "invoke", "knowledge", "templates", "diff", "serve"}
    assert {"python ask.py", "python -m pytest workshop"} <= set(reader.commands)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n  b\n", "a b\n", True),
        ("a\n", "b\n", False),
        ("a …\n", "a, and more\nlines", False),
        ("a\n…\n", "a\n", True),
        ("a…\n", "a, and more\nlines", True),
        ("2 model calls · 1,157 → 43 tokens · 20.9 s", "2 model calls · 0 → 9 tokens · 7 ms", True),
        ("2 model calls · 1 → 1 tokens · 1 s", "3 model calls · 1 → 1 tokens · 1 s", False),
        ("2 passed in 0.31s", "2 passed in 1.07s", True),
        ("2 passed in 0.31s", "1 passed in 0.31s", False),
    ],
)
def test_what_is_the_same(expected, printed, same):
    assert matches(expected, printed) is same
