"""Templates as people write them, run from file to answer, on the command line."""

import json

import pytest
from template_programs import PROGRAMS

from orchestrator.message import text_of

IDS = [one.name for one in PROGRAMS]


def words_of(program):
    named = [f"--tool={name}=tools.py:{it}" for name, it in (o.split("=") for o in program.tools)]
    return [*program.words, *named]


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_program_is_run(program, run, script, place):
    path = program.write(place).relative_to(place)
    offered = [f"--tool={name}=tools.py:{name}" for name in program.offered]
    done = run("run", path, *words_of(program), *offered, script("Done."))
    assert (done.exit_code, done.stdout) == (0, "Done.\n"), done.stderr
    codes = [line.rsplit("[", 1)[1][:-1] for line in done.stderr.splitlines() if line[-1:] == "]"]
    assert codes == list(program.warnings)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_a_program_is_rendered_and_linted(program, run, place):
    path = program.write(place).relative_to(place)
    done = run("render", path, *words_of(program), "--json")
    shown = json.loads(done.stdout)
    said = [(one["role"], text_of(one["content"])) for one in shown["messages"]]
    # `render` shows the messages of the template; without roles they are the system's.
    system = program.system or ("" if said else program.messages[0][1])
    assert (shown["system"], said or program.messages) == (system, program.messages)
    assert run("lint", path).exit_code == 0
