"""Scripts written the way public ones are run from file to answer, in Python and by `run`."""

import json

import pytest
import wild_pl
import wild_ppe
from cli_support import CLAUDE

from orchestrator import load_flow
from orchestrator.cli.run import load_tools, parse_arguments
from orchestrator.testing import ScriptedModel

CASES = [pytest.param(one, id=one.about) for one in (*wild_ppe.CASES, *wild_pl.CASES)]


def said(request):
    texts = [request.system]
    for message in request.messages:
        texts += [block.get("text", "") for block in message["content"]]
    return "\n".join(texts)


@pytest.mark.parametrize("case", CASES)
def test_it_runs_in_python(case, place):
    flow = load_flow(case.write(), files="--files" in case.words)
    words = [word for word in case.words if not word.startswith("--")]
    model = ScriptedModel(list(case.replies), CLAUDE)
    tools = load_tools([word.removeprefix("--tool=") for word in case.tool_words])
    result = flow.run(parse_arguments(words, flow), model=model, tools=tools)
    assert result.output == case.output
    assert len(model.requests) == len(case.replies)
    for request, text in zip(model.requests, case.asked, strict=False):
        assert text in said(request)


@pytest.mark.parametrize("case", CASES)
def test_it_runs_on_the_command_line(case, run, script, place):
    done = run("run", case.write(), *case.words, *case.tool_words, script(*case.replies), "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["output"] == case.output


@pytest.mark.parametrize("case", CASES)
def test_lint_has_no_error_and_nothing_literal(case, run, place):
    done = run("lint", case.write(), "--json")
    found = json.loads(done.stdout)
    assert found["errors"] == 0
    assert [one for one in found["diagnostics"] if one["code"] == "literal"] == []
