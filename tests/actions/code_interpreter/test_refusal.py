"""Where there is no sandbox, nothing runs; and settings that are wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from interpreter_support import call, needs_sandbox, output_of, run

from orchestrator.actions import ActionGroup, Catalog, ReturnControl
from orchestrator.actions.code_interpreter import (
    CodeInterpreter,
    CodeInterpreterSettings,
    code_operation,
    process,
)
from orchestrator.definition import build_action_groups, parse_definition
from orchestrator.errors import DefinitionError, DependencyFailed

AGENT = "agentName: a\ninstruction: You help.\nactionGroups:\n  - "


@pytest.fixture
def elsewhere(monkeypatch):
    """A platform without a sandbox."""
    monkeypatch.setattr(sys, "platform", "darwin")
    process.check_platform.cache_clear()
    yield
    monkeypatch.undo()
    process.check_platform.cache_clear()


def test_another_platform_is_refused_when_the_agent_is_made(elsewhere):
    with pytest.raises(DefinitionError, match=r"'darwin', only for Linux; run it on Linux"):
        CodeInterpreter()
    with pytest.raises(DefinitionError, match="cannot run here"):
        ActionGroup("code", signature="AMAZON.CodeInterpreter")
    definition = parse_definition(
        f"{AGENT}{{actionGroupName: code, parentActionGroupSignature: AMAZON.CodeInterpreter}}"
    )
    with pytest.raises(DefinitionError, match="cannot run here") as caught:
        build_action_groups(definition)
    assert caught.value.line == 4


def test_another_platform_can_have_the_group_disabled_or_an_executor_of_its_own(elsewhere):
    group = ActionGroup("code", signature="AMAZON.CodeInterpreter", state="DISABLED")
    assert Catalog([group]).operations == ()
    own = ActionGroup("code", signature="AMAZON.CodeInterpreter", executor=ReturnControl())
    assert Catalog([own]).code_interpreter


def test_another_machine_is_refused(monkeypatch):
    process.check_platform.cache_clear()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "h", "6", "v", "riscv64")))
    try:
        with pytest.raises(DefinitionError, match="'riscv64'"):
            CodeInterpreter()
    finally:
        process.check_platform.cache_clear()


@needs_sandbox
def test_without_a_way_to_confine_files_nothing_runs(interpreter, monkeypatch, tmp_path):
    monkeypatch.setattr(process, "LAYERS", ())
    with pytest.raises(DependencyFailed, match="did not run; run it on Linux") as caught:
        run(interpreter, f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert caught.value.resource == "codeinterpreteraction"
    assert not (tmp_path / "ran").exists()
    with pytest.raises(DependencyFailed):
        interpreter.check()


@needs_sandbox
@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        ("seccomp", "restrict", "a socket"),
        ("landlock", "restrict", "opening a file outside"),
    ],
)
def test_what_does_not_hold_is_noticed_before_the_program(
    module, name, why, interpreter, monkeypatch
):
    """A part of the sandbox that does nothing, as on a kernel that lies."""
    broken = process._START.replace(
        "from jail.main import main",
        f"from jail.main import main\nfrom jail import {module}\n{module}.{name} = lambda *_: None",
    )
    monkeypatch.setattr(process, "_START", broken)
    monkeypatch.setattr(process, "LAYERS", ("landlock",))
    with pytest.raises(DependencyFailed, match=f"does not hold here: {why}"):
        run(interpreter, "print('ran')")


@needs_sandbox
@pytest.mark.parametrize(
    "start", ["raise SystemExit(1)", "import os\nos.abort()", "import os\nos.close(int('9'))"]
)
def test_a_process_that_does_not_get_ready_is_reported(start, interpreter, monkeypatch):
    monkeypatch.setattr(process, "_START", start)
    with pytest.raises(DependencyFailed, match="ended before it was ready"):
        run(interpreter, "print('ran')")


@needs_sandbox
def test_check_says_what_the_sandbox_is_made_of(interpreter):
    held = interpreter.check()
    assert held[-1] == "seccomp"
    assert set(held) & {"namespaces", "landlock"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"memory_bytes": "1"}, "memory_bytes is '1'"),
        ({"memory_bytes": 1.5}, "memory_bytes is 1.5"),
        ({"files": True}, "files is True"),
        ({"packages": 1}, "packages must be True or False"),
    ],
)
def test_settings_are_checked(values, message):
    with pytest.raises(DefinitionError, match=message):
        CodeInterpreterSettings(**values)


def test_a_definition_may_have_settings():
    definition = parse_definition(
        f"{AGENT}{{actionGroupName: code, parentActionGroupSignature: AMAZON.CodeInterpreter, "
        'parentActionGroupSignatureParams: {seconds: "2.5", memoryBytes: "500000000", '
        'packages: "false"}}'
    )
    (group,) = build_action_groups(definition)
    assert isinstance(group.executor, CodeInterpreter)
    assert group.executor.settings == CodeInterpreterSettings(
        seconds=2.5, memory_bytes=500_000_000, packages=False
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ('{second: "2"}', "has no setting 'second'; did you mean 'seconds'"),
        ('{seconds: "soon"}', "'seconds' is 'soon'; write a number"),
        ('{packages: "1"}', "'packages' is '1'; write true or false"),
        ('{files: "0"}', "files is 0"),
    ],
)
def test_wrong_settings_have_their_place(params, message):
    definition = parse_definition(
        f"{AGENT}actionGroupName: code\n"
        "    parentActionGroupSignature: AMAZON.CodeInterpreter\n"
        f"    parentActionGroupSignatureParams: {params}"
    )
    with pytest.raises(DefinitionError, match=message) as caught:
        build_action_groups(definition)
    assert caught.value.line == 6


def test_the_operation_is_bedrocks():
    operation = code_operation()
    assert operation.tool_use_name == "get__codeinterpreteraction__execute"
    assert operation.xml_name == "get::codeinterpreteraction::execute"
    assert call("1").operation == operation


def test_two_code_interpreters_are_one_too_many():
    groups = [
        ActionGroup(name, signature="AMAZON.CodeInterpreter", executor=ReturnControl())
        for name in ("one", "two")
    ]
    with pytest.raises(DefinitionError, match="get__codeinterpreteraction__execute"):
        Catalog(groups)


def test_other_built_in_groups_are_refused():
    with pytest.raises(DefinitionError, match=r"did you mean 'AMAZON\.CodeInterpreter'"):
        ActionGroup("code", signature="AMAZON.CodeInterpretor")


def test_an_agent_without_the_group_does_not_load_the_interpreter():
    code = (
        "import sys, orchestrator.agent.agent, orchestrator.definition\n"
        "print('orchestrator.actions.code_interpreter' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "False\n"


@pytest.fixture
def unusable(monkeypatch, tmp_path):
    """A base Python that is there and that nobody may execute."""
    python = tmp_path / "python"
    python.write_text("")
    python.chmod(0o600)
    monkeypatch.setattr(sys, "_base_executable", str(python))
    process.check_platform.cache_clear()
    yield python
    monkeypatch.undo()
    process.check_platform.cache_clear()


def test_a_python_that_cannot_be_executed_is_refused_when_the_agent_is_made(unusable, monkeypatch):
    monkeypatch.setattr(process, "_FOR_ALL", ("/nowhere",))
    said = rf"'{unusable}' or its library cannot be used by the user \d+; .* install python3"
    with pytest.raises(DefinitionError, match=said):
        CodeInterpreter()


@needs_sandbox
def test_a_python_that_cannot_be_executed_any_more_is_named(interpreter, monkeypatch, tmp_path):
    monkeypatch.setattr(process, "_FOR_ALL", ("/nowhere",))
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "gone"))
    with pytest.raises(DependencyFailed, match=rf"'{tmp_path}/gone' or its library cannot be used"):
        run(interpreter, "print(1)")


@needs_sandbox
def test_another_python_of_the_same_version_is_used_instead(unusable, monkeypatch, tmp_path):
    instead = tmp_path / "bin"
    instead.mkdir()
    real = os.path.realpath(sys.executable)
    (instead / "python{}.{}".format(*sys.version_info)).symlink_to(real)
    monkeypatch.setattr(process, "_FOR_ALL", (str(instead),))
    interpreter = CodeInterpreter()
    try:
        assert output_of(run(interpreter, "import pydantic\nprint(6 * 7)")) == "42"
    finally:
        interpreter.close()
