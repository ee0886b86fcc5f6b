"""Sorts the inputs of `pre_processing.jsonl` into categories and counts what was right.

    python evals/pre_processing.py
    python evals/pre_processing.py --model local:0.5b --json result.json

Without `--model` the nearest examples decide, as they do in agents of the embedded model; with it a
language model does, by its dialect's template.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator import Agent
from orchestrator.models import Model, ModelRequest, resolve_embedder, resolve_model
from orchestrator.models.example_classifier import (
    EXAMPLES_FILE,
    CategoryExamples,
    ExampleClassifier,
)
from orchestrator.parsers import maker
from orchestrator.prompts import Dialect
from orchestrator.testing import ScriptedModel

HERE = Path(__file__).resolve().parent
STAGE = "PRE_PROCESSING"


class Asked:
    """One example agent, rendering its pre-processing prompts for a model."""

    def __init__(self, name: str, model: str) -> None:
        self._model_id = resolve_model(model).model_id if model else "local"
        self._name = name
        self.plan = self._agent([]).plan.stages[STAGE]
        self.model: Model = resolve_model(model) if model else self._build_classifier()

    def _agent(self, replies: list[Any]) -> Agent:
        self._scripted = ScriptedModel(replies, self._model_id)
        return Agent.load(HERE.parent / "examples" / self._name, model=self._scripted)

    def _build_classifier(self) -> ExampleClassifier:
        dialect: Dialect = self.plan.dialect
        listed = self._agent([]).plan.catalog.descriptions(dialect.protocol, ask_user=False)
        examples = CategoryExamples.read(*dialect.read(EXAMPLES_FILE))
        return ExampleClassifier(listed, examples, resolve_embedder("local"))

    def request(self, question: str, asked: str) -> ModelRequest:
        """The request of a turn; the turn before it ended with the agent's question `asked`."""
        agent = self._agent([f"<answer>{asked}</answer>"])
        if asked:
            agent.invoke("Hello, I need your help.", session_id="s-1")
        prompt = agent.render(STAGE, question, session_id="s-1")
        plan = self.plan
        return ModelRequest(
            STAGE, prompt.system, prompt.messages, inference=plan.inference, question=question
        )

    def category(self, question: str, asked: str) -> tuple[str, str, float]:
        """The category, the reply, and the CPU milliseconds that the model took."""
        request = self.request(question, asked)
        begun = time.process_time()
        reply = self.model.complete(request)
        spent = 1000 * (time.process_time() - begun)
        return _category_of(reply.text), reply.text, spent


def _category_of(text: str) -> str:
    """The letter that the parser's verdict rests on; `-` when there is none."""
    parser = maker("auto", STAGE)()
    parser.feed(text)
    if parser.finish().code:
        return "-"
    tail = text.rpartition("<category>")[2].replace("</category>", "").strip()
    return tail[:1] or "-"


def main(arguments: list[str] | None = None) -> int:
    """Runs the evaluation; 1 when fewer than `--min` are right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="", help="model spec; the nearest examples by default")
    parser.add_argument("--json", type=Path, help="write every input to this file")
    parser.add_argument("--min", type=int, default=0, help="fail when fewer are right")
    given = parser.parse_args(arguments)
    lines = (HERE / "pre_processing.jsonl").read_text(encoding="utf-8").splitlines()
    inputs = [json.loads(line) for line in lines if line]
    agents = {name: Asked(name, given.model) for name in {one["agent"] for one in inputs}}
    for agent in agents.values():
        agent.category("Hello", "")  # loading is not counted
    console = Console()
    for one in inputs:
        found = agents[one["agent"]].category(one["input"], one.get("asked", ""))
        one["found"], one["reply"], one["ms"] = found
        if one["found"] != one["category"]:
            console.print(f"{one['category']} -> {one['found']}  {one['input']}", highlight=False)
            console.print(f"        {one['reply']}", style="dim", markup=False)
    console.print(_totals(inputs))
    right = _right(inputs)
    if given.json:
        given.json.write_text(json.dumps(inputs, indent=2, ensure_ascii=False), encoding="utf-8")
    return 1 if right < given.min else 0


def _right(inputs: list[dict[str, Any]]) -> int:
    return sum(one["found"] == one["category"] for one in inputs)


def _totals(inputs: list[dict[str, Any]]) -> Table:
    shown = Table("category", "right", "allowed or refused rightly", "of", "cpu ms each")
    for category in [*"ABCDE", "all"]:
        some = [one for one in inputs if category in ("all", one["category"])]
        valid = sum((one["found"] in "DE") == (one["category"] in "DE") for one in some)
        spent = sum(one["ms"] for one in some) / len(some)
        shown.add_row(category, str(_right(some)), str(valid), str(len(some)), f"{spent:.1f}")
    return shown


if __name__ == "__main__":
    sys.exit(main())
