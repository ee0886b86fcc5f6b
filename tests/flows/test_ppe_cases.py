"""Every conformance case of Programmable Prompt Engine scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator import FlowError, load_flow
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

CASES = cases("ppe_cases.jsonl")
MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"


@pytest.mark.skipif(not CASES, reason="the conformance cases are not beside the project")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES] or None)
def test_case(case: Case, tmp_path: Path) -> None:
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    model = ScriptedModel(case["replies"], MODEL)
    tools = {name: function(kind) for name, kind in case.get("functions", {}).items()}
    expect = case["expect"]
    try:
        flow = load_flow(tmp_path / "main.ai.yaml")
        result = flow.run(case.get("args"), model=model, tools=tools)
    except FlowError as error:
        assert "error" in expect, str(error)
        check_error(error, expect["error"])
        assert re.search("^第 \\d+ 行：.*[\u4e00-\u9fff]", error.message_zh, re.S)
    else:
        assert "error" not in expect, result
        check_variables(result.variables, expect.get("variables", {}))
        if "output" in expect:
            assert fits(result.output, expect["output"]), result.output
    if "requests" in expect:
        check_requests(model.requests, expect["requests"])
    if "calls" in expect:
        assert len(model.requests) == expect["calls"]
