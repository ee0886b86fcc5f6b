"""Every conformance case of the workflow language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator import Flow, FlowError
from orchestrator.testing import ScriptedModel
from tests.flows.cases import (
    Case,
    cases,
    check_error,
    check_requests,
    check_variables,
    fits,
    function,
)

CASES = cases("pl_cases.jsonl")
MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"


@pytest.mark.skipif(not CASES, reason="the conformance cases are not beside the project")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES] or None)
def test_case(case: Case) -> None:
    model = ScriptedModel(case["replies"], MODEL)
    expect = case["expect"]
    try:
        result = _run(case, model)
    except FlowError as error:
        assert "error" in expect, str(error)
        check_error(error, expect["error"])
    else:
        assert "error" not in expect, result
        check_variables(result.variables, expect.get("variables", {}))
        if "output" in expect:
            assert fits(result.output, expect["output"]), result.output
    if "requests" in expect:
        check_requests(model.requests, expect["requests"])
    if "calls" in expect:
        assert len(model.requests) == expect["calls"]


def _run(case: Case, model: ScriptedModel) -> Any:
    tools = {name: function(kind) for name, kind in case["functions"].items()}
    flow = Flow.from_text(case["program"], "pl")
    result = flow.run(case["variables"], model=model, tools=tools)
    pauses = case["expect"].get("pauses", [])
    for at, mode in enumerate(case.get("resume", [])):
        _check_pause(result, pauses[at], model)
        state = json.loads(json.dumps(result.paused))
        other = case.get("resume_program")
        flow = Flow.from_text(other if other is not None else case["program"], "pl")
        result = flow.resume(state, model=model, tools=tools, mode=mode)
    if pauses:
        assert result.paused is None
    return result


def _check_pause(result: Any, wanted: Any, model: ScriptedModel) -> None:
    assert result.paused is not None
    check_variables(result.variables, wanted.get("variables", {}))
    if "output" in wanted:
        assert fits(result.output, wanted["output"])
    if "calls" in wanted:
        assert len(model.requests) == wanted["calls"]
