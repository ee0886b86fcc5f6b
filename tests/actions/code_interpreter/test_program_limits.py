"""What a program may use, and that it is ended when it takes more."""

from __future__ import annotations

import re

import pytest
from interpreter_support import children, given, needs_sandbox, output_of, run
from left_out import sampled

from orchestrator.actions.code_interpreter import process
from orchestrator.errors import DependencyFailed

pytestmark = needs_sandbox


ENDLESS = [
    "while True: pass",
    "import time\ntime.sleep(1000)",
    "import signal\nfor n in (1, 2, 3, 13, 14, 15, 24): signal.signal(n, signal.SIG_IGN)\n"
    "while True: pass",
    "import threading, time\n"
    "for _ in range(3): threading.Thread(target=time.sleep, args=(1000,)).start()",
    "import atexit, time\natexit.register(time.sleep, 1000)",
    "import os, time\nos.close(1)\nos.close(2)\ntime.sleep(1000)",
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "import re\nre.match('(a+)+$', 'a' * 50 + 'b')",
    "2 ** 10 ** 10",
    "while True: print('x' * 10000)",
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
]


@pytest.mark.parametrize("code", sampled(ENDLESS, len(ENDLESS)))
def test_a_program_that_does_not_end_is_ended(make, code):
    before = children()
    result = run(make(seconds=1.5), f"print('began')\n{code}")
    assert result.details["executionTimeout"] is True
    elapsed = re.search(r"it was stopped after (.*) seconds", result.details["executionError"])
    assert elapsed and float(elapsed[1]) >= 1.5
    assert result.details["executionOutput"].startswith("began")
    assert children() <= before


@pytest.mark.exhaustive
def test_the_caller_does_not_give_up_first(make):
    result = run(make(seconds=1000, cpu_seconds=1000), "while True: pass", seconds=3.0)
    assert "it was stopped after" in result.text


@pytest.mark.parametrize(
    "ignore", sampled(["", "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"])
)
def test_processor_time_is_limited(make, ignore):
    result = run(make(cpu_seconds=1), f"{ignore}while True: pass")
    assert "processor time" in result.details["executionError"]
    assert result.details["executionTimeout"] is not bool(ignore)


@pytest.mark.parametrize(
    "code",
    [
        "x = []\nwhile True: x.append(bytearray(10_000_000))",
        "x = 'a' * 10 ** 10",
        "import mmap\nmmap.mmap(-1, 2 ** 33)",
        "import os\nopen('big', 'wb').truncate(2 ** 20)\nimport mmap\n"
        "f = open('big', 'r+b')\nx = [mmap.mmap(f.fileno(), 0) for _ in range(2000)]",
        "x = [0] * 10 ** 9",
    ],
)
def test_memory_is_limited(make, code):
    result = run(make(memory_bytes=300_000_000), code)
    assert "Error" in result.details["executionError"]
    assert result.details["executionTimeout"] is False


def test_threads_are_limited(make):
    code = """
import threading
gate = threading.Event()
threading.stack_size(32768)
made = 0
try:
    for made in range(1_000_000): threading.Thread(target=gate.wait, daemon=True).start()
except (RuntimeError, MemoryError) as error:
    print(type(error).__name__)
gate.set()"""
    assert "Error" in run(make(threads=8, memory_bytes=200_000_000), code).text


def test_a_fork_bomb_does_nothing(interpreter):
    code = "import os\nfor _ in range(1000):\n    try: os.fork()\n    except PermissionError: pass"
    assert output_of(run(interpreter, code)) == ""


def test_descriptors_are_limited(interpreter):
    code = "x = [open('f', 'w') for _ in range(1000)]"
    assert "Too many open files" in run(interpreter, code).text


@pytest.mark.exhaustive
def test_deep_recursion_is_an_outcome(interpreter):
    assert "RecursionError" in run(interpreter, "def f(): f()\nf()").text
    crash = (
        "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)"
    )
    assert run(interpreter, crash).details["executionError"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("open('sparse', 'wb').truncate(10 ** 12)", "File too large"),
        ("f = open('big', 'wb')\nwhile True: f.write(bytes(100_000))", "File too large"),
        ("import os\nos.posix_fallocate(os.open('f', 66), 0, 10 ** 10)", "File too large"),
    ],
)
def test_one_file_has_a_largest_size(make, code, reason):
    assert reason in run(make(scratch_bytes=1_000_000), code).text


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "for n in range(5): open(f'{n}', 'wb').write(bytes(900_000))",
            "its files have more than 1000000 bytes",
        ),
        ("for n in range(5000): open(f'{n}', 'w')", "more than 50 files and folders"),
        ("import os\nfor n in range(5000): os.mkdir(f'{n}')", "more than 50 files and folders"),
        (
            "import os\nfor n in range(40):\n    os.mkdir('d')\n    os.chdir('d')",
            "folders in one another",
        ),
        ("import os\nos.mkdir('d', 0o300)", "cannot be read"),
    ],
)
def test_a_session_that_has_too_much_loses_its_files(make, code, reason):
    interpreter = make(scratch_bytes=1_000_000, scratch_files=50)
    files = [given("a.csv", b"1,2")]
    result = run(interpreter, code, files=files)
    assert reason in result.details["executionError"]
    assert "all files in the working folder were removed" in result.text
    assert result.files == []
    again = run(interpreter, "import os\nos.listdir()", files=files)
    assert output_of(again) == "['a.csv']"


def test_too_much_disk_ends_a_program_that_runs(make):
    code = """
import time
for n in range(2): open(f"{n}", "wb").write(bytes(900_000))
time.sleep(1000)"""
    result = run(make(scratch_bytes=1_000_000), code)
    assert "its files have more than 1000000 bytes" in result.details["executionError"]
    assert result.details["executionTimeout"] is False


def test_with_a_file_system_of_its_own_no_more_is_ever_written(make, monkeypatch):
    monkeypatch.setattr(process, "LAYERS", ("namespaces",))
    interpreter = make(scratch_bytes=1_000_000)
    try:
        interpreter.check()
    except DependencyFailed as error:
        pytest.skip(error.message)
    code = """
import os
kept = []
try:
    for n in range(100):
        kept.append(open("f", "wb", 0))
        os.unlink("f")
        kept[-1].write(bytes(900_000))
except OSError as error:
    print(n, error.strerror)"""
    assert "No space left on device" in run(interpreter, code).text
    assert output_of(run(interpreter, "import os\nos.listdir()")) == "[]"


def test_files_stay_from_one_program_to_the_next_as_they_were(interpreter):
    code = """
import os
os.makedirs("a/b")
open("a/b/c.txt", "w").write("hello")
os.symlink("a/b", "short")"""
    assert [it["name"] for it in run(interpreter, code).files] == ["a/b/c.txt"]
    again = run(interpreter, "print(open('short/c.txt').read())\nopen('a/d', 'w').write('x')")
    assert output_of(again) == "hello\n1"
    assert [it["name"] for it in again.files] == ["a/d"]
    assert run(interpreter, "import os\nos.remove('a/d')").files == []
    assert output_of(run(interpreter, "import os\nos.listdir('a')")) == "['b']"


def test_an_empty_folder_stays_too(interpreter):
    run(interpreter, "import os\nos.mkdir('d')")
    assert output_of(run(interpreter, "import os\nos.listdir()")) == "['d']"


def test_a_very_deep_folder_can_be_removed(make):
    code = "import os\nfor n in range(3000):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)"
    interpreter = make(scratch_files=1_000_000)
    assert "folders in one another" in run(interpreter, code).text
    assert output_of(run(interpreter, "import os\nos.listdir()")) == "[]"
