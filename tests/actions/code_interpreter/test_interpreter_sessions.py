"""Sessions, turns and the end of an interpreter."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from interpreter_support import PROJECT, children, context, given, needs_sandbox, output_of, run

from orchestrator.actions.code_interpreter import CodeInterpreter
from orchestrator.actions.code_interpreter.scratch import session_key
from orchestrator.errors import DependencyFailed, ThrottlingError

pytestmark = needs_sandbox


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where interpreters make their private folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_nothing_is_made_before_the_first_program(make, folder):
    interpreter = make()
    assert list(folder.iterdir()) == []
    run(interpreter, "1")
    (base,) = folder.iterdir()
    assert base.stat().st_mode & 0o066 == 0


@pytest.mark.parametrize(
    "code",
    [
        "open('a', 'w').write('x')",
        "import os\nos.makedirs('a/b/c')\nos.mkdir('closed', 0)\nos.symlink('/', 'link')",
        "import os\n"
        "for n in range(12):\n"
        "    os.mkdir('d')\n"
        "    os.chdir('d')\n"
        "    os.mkdir('e', 0)",
    ],
)
def test_closing_removes_all_files(make, folder, code):
    interpreter = make()
    run(interpreter, code)
    interpreter.close()
    interpreter.close()
    assert list(folder.iterdir()) == []
    assert Path("/etc").is_dir()
    with pytest.raises(DependencyFailed, match="was closed"):
        run(interpreter, "1")


def test_files_go_with_the_interpreter(folder):
    interpreter = CodeInterpreter()
    run(interpreter, "open('a', 'w').write('x')")
    del interpreter
    gc.collect()
    assert list(folder.iterdir()) == []


def test_closing_ends_what_is_running(make):
    interpreter = make()
    before = children()
    with ThreadPoolExecutor(1) as pool:
        began = threading.Event()
        running = pool.submit(begin, interpreter, began)
        assert began.wait(60)
        interpreter.close()
        assert "it was cancelled" in running.result(60).details["executionError"]
    assert children() <= before


def begin(interpreter, began):
    """Runs a program without an end; `began` is set when it is surely about to begin."""
    waiting = interpreter._scratch.turn
    try:
        interpreter._scratch.turn = lambda *args: (began.set(), waiting(*args))[1]
        return run(interpreter, "while True: pass")
    finally:
        interpreter._scratch.turn = waiting


def test_a_session_is_known_by_its_agent_and_its_id():
    other = {"name": "other", "id": "AGENT54321", "alias": "TSTALIASID", "version": "DRAFT"}
    keys = [session_key(context(session_id=it)) for it in ("..", "a:b", "CON", "s-1", "\ud800")]
    keys.append(session_key(context(agent=other)))
    assert len(set(keys)) == len(keys)
    assert all(key.isalnum() and len(key) == 32 for key in keys)
    assert session_key(context()) == session_key(context(input_text="else"))


def test_the_session_that_was_not_used_for_longest_loses_its_files(make):
    interpreter = make(sessions=2)
    code = "import os\nprint(os.listdir())\nopen('a', 'w').close()"
    for session in ("one", "two", "one", "three"):
        run(interpreter, code, session_id=session)
    assert "['a']" in run(interpreter, code, session_id="one").text
    assert "[]" in run(interpreter, code, session_id="two").text


def test_programs_of_one_session_take_turns(make):
    interpreter = make(parallel=8)
    code = "import os\nn = len(os.listdir())\nopen(f'{n}', 'x').close()"
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: run(interpreter, code), range(6)))
    assert [result.details["executionError"] for result in results] == [""] * 6
    assert output_of(run(interpreter, "import os\nsorted(os.listdir())")) == str(list("012345"))


def test_programs_of_many_sessions_run_side_by_side(make):
    interpreter = make(parallel=3)
    with ThreadPoolExecutor(6) as pool:
        texts = list(
            pool.map(
                lambda n: output_of(run(interpreter, f"{n} * 2", session_id=f"s-{n}")), range(6)
            )
        )
    assert texts == ["0", "2", "4", "6", "8", "10"]


def test_waiting_for_others_has_an_end(make):
    interpreter = make(parallel=1, seconds=1000, cpu_seconds=1000)
    with ThreadPoolExecutor(1) as pool:
        scratch = interpreter._scratch
        with scratch.turn("other", float("inf"), lambda: False):
            with pytest.raises(ThrottlingError, match="parallel"):
                pool.submit(run, interpreter, "1", seconds=0.2).result()
    assert output_of(run(interpreter, "1")) == "1"


def test_a_users_file_is_given_again_to_another_session(interpreter):
    files = [given("a.txt", b"x")]
    for session in ("s-1", "s-2"):
        assert run(interpreter, "open('a.txt').read()", session_id=session, files=files).text


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open")
def test_a_program_ends_with_the_process_that_started_it(make, tmp_path, monkeypatch):
    script = tmp_path / "host.py"
    script.write_text(
        "import sys, threading\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from interpreter_support import children, output_of, run\n"
        "from orchestrator.actions.code_interpreter import CodeInterpreter\n"
        "known = children()\n"
        "interpreter = CodeInterpreter()\n"
        "threading.Thread(target=run, args=(interpreter, 'while True: pass')).start()\n"
        "while not (found := children() - known): pass\n"
        "print(*found, flush=True)\n"
    )
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as host:
        try:
            assert host.stdout is not None
            program = os.pidfd_open(int(host.stdout.readline()))
            try:
                host.kill()
                assert select.select([program], [], [], 30)[0]  # readable: it has ended
            finally:
                os.close(program)
        finally:
            host.kill()
    assert host.returncode == -signal.SIGKILL
    # What it left is removed by the next one, and what is in use is not.
    (left,) = (tmp_path / "tmp").iterdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    first, second = make(), make()
    assert [run(one, "open('a', 'w').write('x')").text for one in (first, second)]
    assert not left.exists()
    assert "'x'" in run(first, "open('a').read()").text


def test_a_fork_has_files_of_its_own(folder):
    program = (
        "import os, sys, warnings\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from interpreter_support import output_of, run\n"
        "from orchestrator.actions.code_interpreter import CodeInterpreter\n"
        "interpreter = CodeInterpreter()\n"
        "run(interpreter, \"open('a', 'w').write('x')\")\n"
        "if os.fork() == 0:\n"
        "    print(output_of(run(interpreter, 'import os; os.listdir()')), flush=True)\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "print(output_of(run(interpreter, \"open('a').read()\")))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("[]\n'x'"), done.stdout
