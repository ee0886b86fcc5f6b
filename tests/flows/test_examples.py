"""The example programs, with a scripted model: in Python, and as a newcomer types them."""

from __future__ import annotations

import json
import runpy
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from flow_support import CLAUDE, Echo, scripted, statements, texts
from typer.testing import CliRunner

from orchestrator import load_flow
from orchestrator.cli import app
from orchestrator.flows.languages import lint_program

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "flows"
TOOLS = {
    name: one
    for name, one in runpy.run_path(str(FOLDER / "tools.py")).items()
    if name in ("find_papers", "note", "track", "score")
}


def run(name: str, arguments: Mapping[str, Any] | str, *replies: Any) -> tuple[Any, Any]:
    model = scripted(*replies)
    result = load_flow(FOLDER / name).run(arguments, model=model, tools=TOOLS)
    assert len(model.requests) == len(replies)
    return result, model


@pytest.mark.parametrize("name", ["reflection.pl", "reflection.ai.yaml"])
def test_reflection(name: str) -> None:
    given = {"text": "Hurry up.", "language": "German"}
    result, model = run(name, given, "Eile auf.", "- wrong verb", "Beeil dich.")
    assert result.output == result.variables["translation"] == "Beeil dich."
    (last,) = texts(model.requests[2])
    assert all(text in last for text in ("Hurry up.", "Eile auf.", "- wrong verb"))


def test_a_map_over_papers() -> None:
    found = ["Naps help.", "Phones keep awake."]
    result, model = run("papers.pl", {"topic": "sleep"}, *found, "Sleep matters.")
    assert result.output == "Sleep matters."
    assert result.variables["notes"] == [
        "Naps in the night shift (2019): Naps help.",
        "What screens take from sleep (2023): Phones keep awake.",
    ]
    assert "Naps help." in texts(model.requests[2])[0]
    assert (len(model.requests[0].tools), len(model.requests[2].tools)) == (4, 0)


def test_the_papers_at_the_same_time() -> None:
    flow = load_flow(FOLDER / "papers.pl")
    alone = flow.run({"topic": "sleep"}, model=Echo(), tools=TOOLS)
    together = flow.run({"topic": "sleep"}, model=Echo(), tools=TOOLS, parallel=4)
    assert (alone.output, alone.variables) == (together.output, together.variables)
    assert statements(together.trace)[2].startswith("item 1, line 3: Say in one plain sentence")


@pytest.mark.parametrize(
    ("message", "order", "replies", "wanted"),
    [
        ("Where is it?", "1042", ["delivery", "Sorry!"], "3 days late"),
        ("Where is it?", "1043", ["delivery", "On its way."], "on time"),
        ("A page is torn.", "1", ["refund", "A photo, please."], "photo"),
        ("Lovely!", "1", ["praise", "Thank you."], "Thank"),
    ],
)
def test_routing(message: str, order: str, replies: list[str], wanted: str) -> None:
    result, model = run("routing.pl", {"message": message, "order": order}, *replies)
    assert result.output == replies[1]
    assert wanted in texts(model.requests[1])[0]


def test_routing_to_a_colleague() -> None:
    result, _ = run("routing.pl", {"message": "?", "order": "7"}, "no_answer")
    assert result.output == "A colleague will write to you about order 7."


def test_routing_as_a_ppe_script() -> None:
    result, model = run("routing.ai.yaml", "A page is torn.", "refund", "A photo, please.")
    assert result.output == "A photo, please."
    assert "what is wrong, which every refund needs. One" in texts(model.requests[1])[-1]
    assert "small bookshop" in model.requests[1].system


def test_fan_in() -> None:
    result, model = run(
        "fan_in.pl", {"plan": "A new bus"}, "Night.", "Noise.", "Cost.", "All agree."
    )
    assert result.output == "All agree."
    views = json.loads(texts(model.requests[3])[0].split("\n")[3])
    assert [it["what"] for it in views] == ["Night.", "Noise.", "Cost."]


def test_optimise_until_good() -> None:
    slogans = ["Wake up now! It is time to go to work!", "Wake up!", "Wakes softly."]
    result, model = run("optimise.pl", {"product": "a clock"}, *slogans)
    assert result.output == "Wakes softly."
    assert "it shouts" in texts(model.requests[2])[0]


def test_optimise_gives_up() -> None:
    result, _ = run("optimise.pl", {"product": "a clock"}, *["Up!"] * 5)
    assert result.output.startswith("No slogan was good enough")


SCRIPTS = sorted(it for it in FOLDER.iterdir() if it.name.endswith((".pl", ".ai.yaml")))


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda it: it.name)
def test_nothing_is_doubtful_in_them(file: Path) -> None:
    assert {it.severity for it in lint_program(load_flow(file).program)} <= {"info"}


def commands() -> list[list[str]]:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("words", commands(), ids=lambda it: " ".join(it)[:60])
def test_the_commands_of_the_page_run(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER.parents[1])
    replies = tmp_path / "replies.jsonl"
    replies.write_text('"refund"\n' * 3)
    done = CliRunner().invoke(app, [*words[1:], f"--model=scripted:{replies}@{CLAUDE}"])
    assert done.exit_code == 0, done.output
    assert "refund" in done.stdout
