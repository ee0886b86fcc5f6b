"""Ten cases for each of three examples: a scripted model passes, and what a baseline finds."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.scratch import open_scratch
from orchestrator.agent.evaluation import (
    Evaluation,
    Matrix,
    Run,
    RunFile,
    Variant,
    compare_runs,
    read_cases,
    read_run,
)
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.prompts import load_dialect
from orchestrator.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
NAMES = ("insurance", "hr", "handbook")
NOISE = 0.1  # of the cases, each time others


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    ignored = shutil.ignore_patterns(".orchestrator", "__pycache__", "tests")
    for name in NAMES:
        shutil.copytree(ROOT / "examples" / name, folder / name, ignore=ignored)
    return folder


def read_replies(name: str) -> list[Any]:
    lines = (ROOT / "evals" / "replies" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def hold(examples: Path, name: str, out: Path, model: Model, prompts: Path | None = None) -> Run:
    cases = read_cases(ROOT / "evals" / f"{name}.jsonl")
    variant = Variant(model, prompts)
    evaluation = Evaluation(examples, cases, (variant,), around=open_scratch)
    with Matrix(evaluation) as matrix, RunFile(out, matrix.head()) as kept:
        for result in matrix.run():
            kept.add(result)
    return read_run(out)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_does_what_is_asked_passes(name: str, examples: Path, tmp_path: Path) -> None:
    run = hold(examples, name, tmp_path / "run.jsonl", ScriptedModel(read_replies(name), CLAUDE))
    assert [(it.case, it.status) for it in run.results if it.status != "passed"] == []
    assert len(run.results) == 10


class Noisy(Model):
    """Does what is asked, where it is told what it is for, and in some cases does not know."""

    model_id = CLAUDE

    def __init__(self, name: str, seed: int) -> None:
        self._seed = seed
        definition = (ROOT / "examples" / name / "agent.yaml").read_text(encoding="utf-8")
        self._instruction: str = yaml.safe_load(definition)["instruction"]
        self._replies: dict[str, list[Any]] = {}
        replies = iter(read_replies(name))
        for case in read_cases(ROOT / "evals" / f"{name}.jsonl").cases:
            for turn in case.turns:
                self._replies[turn.question] = list(_take_turn(replies))

    def complete(self, request: ModelRequest) -> ModelReply:
        chance = random.Random(f"{self._seed} {request.question}").random()
        if self._instruction not in request.system or chance < NOISE:
            return ModelReply([{"text": "<answer>I do not know.</answer>"}])
        step = 0  # how many results the turn has got
        for message in reversed(request.messages):
            if any("text" in block for block in message["content"]) and message["role"] == "user":
                break
            step += message["role"] == "user"
        reply = self._replies[request.question][step]
        content = [{"text": reply}] if isinstance(reply, str) else reply
        return ModelReply(content, "end_turn" if isinstance(reply, str) else "tool_use")


def _take_turn(replies: Iterator[Any]) -> Iterator[Any]:
    for reply in replies:
        yield reply
        if isinstance(reply, str) or reply[0]["toolUse"]["name"] == "user__askuser":
            return


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A folder of templates of which one does not say any more what the agent is for."""
    text, _ = load_dialect("tool-use", model_id=CLAUDE).read("orchestration.json")
    assert "$instruction$" in text
    folder = tmp_path / "spoilt"
    folder.mkdir()
    (folder / "orchestration.json").write_text(text.replace("$instruction$", ""))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_spoilt_template_is_found_and_noise_is_not(
    name: str, examples: Path, spoilt: Path, tmp_path: Path
) -> None:
    before = hold(examples, name, tmp_path / "before.jsonl", Noisy(name, 0))
    worse = hold(examples, name, tmp_path / "worse.jsonl", Noisy(name, 1), spoilt)
    (found,) = compare_runs(worse, before)
    assert (found.outcome, found.gained) == ("regression", [])
    changed = 0
    for seed in range(2, 6):
        run = hold(examples, name, tmp_path / f"{seed}.jsonl", Noisy(name, seed))
        (found,) = compare_runs(run, before)
        assert found.outcome == "no difference shown"
        changed += len(found.lost) + len(found.gained)
    assert changed > 0  # there is noise
