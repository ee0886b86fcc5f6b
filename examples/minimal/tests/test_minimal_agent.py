"""The library's agent, with a model whose replies are written beforehand."""

import json
import runpy
from pathlib import Path

from orchestrator.testing import ScriptedModel

EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[1] / "agent.py"))


def test_a_function_answers_the_question():
    call = {"toolUseId": "t-1", "name": "library__copies_available", "input": {"title": "dune"}}
    model = ScriptedModel(
        [[{"toolUse": call}], "<answer>Two copies of Dune are there.</answer>"],
        model_id="anthropic.claude-3-5-sonnet-20240620-v1:0",
    )
    reply = EXAMPLE["build"](model).invoke("Can I borrow Dune?", session_id="s-1")
    assert str(reply) == "Two copies of Dune are there."
    result = json.dumps(model.requests[1].messages[-1])
    assert "copies" in result and "2" in result


def test_the_functions_are_still_functions():
    assert EXAMPLE["opening_hours"]("Saturday") == "10:00 to 14:00"
