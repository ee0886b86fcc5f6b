"""Templates as people write them, run from file to answer, from Python."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from template_programs import PROGRAMS, TOOLS, Program

from orchestrator import TurnEnd, load_template
from orchestrator.message import text_of
from orchestrator.testing import ScriptedModel

IDS = [one.name for one in PROGRAMS]


def functions_of(program: Program) -> tuple[dict[str, Any], dict[str, Any]]:
    """The functions that the template calls, and those that its model is offered."""
    known: dict[str, Any] = {}
    exec(TOOLS, known)
    called = (one.split("=") for one in program.tools)
    return {name: known[it] for name, it in called}, {it: known[it] for it in program.offered}


def first_request(model: ScriptedModel) -> tuple[str, list[tuple[str, str]], dict[str, Any]]:
    asked = model.requests[0]
    messages = [(one["role"], text_of(one["content"])) for one in asked.messages]
    return str(asked.system), messages, dict(asked.inference)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_program_is_run(program: Program, tmp_path: Path) -> None:
    template = load_template(program.write(tmp_path))
    own, tools = functions_of(program)
    model = ScriptedModel(["Done."])
    result = template.run(program.inputs, model=model, functions=own, tools=tools)
    assert (result.text, result.stop_reason) == ("Done.", "end_turn")
    assert first_request(model) == (program.system, program.messages, program.settings)
    assert [it["toolSpec"]["name"] for it in model.requests[0].tools] == list(program.offered)
    assert [it.code for it in result.diagnostics] == list(program.warnings)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_program_is_run_in_an_event_loop_and_streamed(program: Program, tmp_path: Path) -> None:
    template = load_template(program.write(tmp_path))
    own, tools = functions_of(program)
    options: dict[str, Any] = {"functions": own, "tools": tools}

    async def run() -> list[str]:
        done = await template.arun(program.inputs, model=ScriptedModel(["Done."]), **options)
        events = template.astream(program.inputs, model=ScriptedModel(["Done."]), **options)
        ends = [it.reply.text async for it in events if isinstance(it, TurnEnd)]
        return [done.text, *ends]

    assert asyncio.run(run()) == ["Done.", "Done."]
    events = template.stream(program.inputs, model=ScriptedModel(["Done."]), **options)
    assert [it.reply.text for it in events if isinstance(it, TurnEnd)] == ["Done."]
