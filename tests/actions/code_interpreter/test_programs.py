"""What a program can do, and what the model reads of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given as for_all
from hypothesis import strategies
from interpreter_support import needs_sandbox, output_of, run

from orchestrator.actions.code_interpreter.process import Output

pytestmark = needs_sandbox


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('one'); print('two')", "one\ntwo"),
        ("x = 20\nx + 1", "21"),
        ("'text'", "'text'"),
        ("None", ""),
        ("", ""),
        ("x = 1", ""),
        ("if __name__ == '__main__':\n    print('main')", "main"),
        ("print('größer', '日本', '🙂')", "größer 日本 🙂"),
        ("print('\\ud800')", "\\ud800"),
        ("print('x')\nraise SystemExit", "x"),
        ("raise SystemExit(0)", ""),
        ("print('x')\nexit()\nprint('y')", "x"),
        ("print('x')\nquit(0)\nprint('y')", "x"),
        ("import sys\nfor n in range(3):\n    print(n)\n    sys.exit()", "0"),
        ("# nothing but\n# comments", ""),
    ],
)
def test_output_and_the_last_value_are_shown(interpreter, code, text):
    result = run(interpreter, code)
    assert output_of(result) == text
    assert result.state == ""
    assert result.files == []


def test_an_exception_is_an_outcome_with_its_place(interpreter):
    result = run(interpreter, "def half(x):\n    return x / 0\n\nprint('before')\nhalf(3)")
    assert result.state == ""
    error = result.details["executionError"]
    assert result.details == {
        "executionOutput": "before\n",
        "executionError": error,
        "executionTimeout": False,
    }
    # Which signs stand under a line is up to the version of Python.
    assert [line for line in error.splitlines() if line.strip(" ~^")] == [
        "Traceback (most recent call last):",
        '  File "<code>", line 5, in <module>',
        "    half(3)",
        '  File "<code>", line 2, in half',
        "    return x / 0",
        "ZeroDivisionError: division by zero",
    ]
    assert json.loads(result.text) == {
        "code_execution_output": "before\n",
        "code_execution_error": error,
        "is_error": True,
    }


def test_a_warning_is_shown_and_no_error(interpreter):
    result = run(interpreter, "import warnings\nwarnings.warn('it is old')\n5")
    shown = json.loads(result.text)
    assert (shown["code_execution_output"], shown["is_error"]) == ("5\n", False)
    assert "UserWarning: it is old" in shown["code_execution_error"]
    failed = run(
        interpreter, "import os, sys\nprint('x', file=sys.stderr, flush=True)\nos._exit(3)"
    )
    assert json.loads(failed.text)["is_error"] is True


def test_a_mistake_of_syntax_is_shown(interpreter):
    result = run(interpreter, "print('never')\ndef f(:\n")
    assert "never" not in result.details["executionOutput"]
    assert 'File "<code>", line 2' in result.details["executionError"]
    assert "SyntaxError" in result.text


@pytest.mark.parametrize(
    "code", ["raise KeyboardInterrupt", "class E(BaseException): pass\nraise E"]
)
def test_whatever_is_raised_is_shown(interpreter, code):
    assert "Traceback" in run(interpreter, code).details["executionError"]


def test_an_exception_without_a_text_is_shown(interpreter):
    code = "class E(Exception):\n    def __str__(self): raise ValueError\nraise E"
    assert "E" in run(interpreter, code).details["executionError"]


@pytest.mark.parametrize("end", ["exit", "quit", "import sys\nsys.exit"])
def test_an_end_with_a_message_is_an_error(interpreter, end):
    details = run(interpreter, f"print('before')\n{end}('no such column')").details
    assert details["executionOutput"] == "before\n"
    assert details["executionError"] == "SystemExit: no such column\n"


def test_help_is_printed_as_at_a_prompt(interpreter):
    assert "Return the absolute value" in run(interpreter, "help(abs)").text


def test_nobody_answers_a_program(interpreter):
    assert "EOFError" in run(interpreter, "input('Which file? ')").details["executionError"]


def test_a_crash_is_reported(interpreter):
    result = run(interpreter, "print('before')\nimport os\nos.abort()")
    assert "before" in result.text
    assert "it crashed (SIGABRT)" in result.details["executionError"]


def test_an_end_without_a_word_is_reported(interpreter):
    result = run(interpreter, "import os\nprint('before', flush=True)\nos._exit(3)")
    assert "before" in result.text
    assert '"is_error": true' in result.text
    assert "it ended with the exit status 3" in result.details["executionError"]
    assert run(interpreter, "import os\nos._exit(0)").details["executionError"] == ""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os._exit(1)", "The program was ended: it ended with the exit status 1."),
        ("sys.exit(1)", "SystemExit: 1\n"),
    ],
)
def test_its_status_is_reported_also_after_a_warning(interpreter, end, status):
    code = f"import os, sys\nprint('careful', file=sys.stderr, flush=True)\n{end}"
    assert run(interpreter, code).details["executionError"] == f"careful\n{status}"


@pytest.mark.parametrize("code", [None, 3, "print(1)\0"])
def test_code_must_be_a_program(interpreter, code):
    assert run(interpreter, code).state == "REPROMPT"


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nasyncio.run(asyncio.sleep(0))",
        "import threading\nt = threading.Thread(target=int)\nt.start()\nt.join()",
        "from concurrent.futures import ThreadPoolExecutor as T\nlist(T(4).map(abs, range(9)))",
        "import sqlite3\nsqlite3.connect('t.db').execute('create table t (x)')",
        "import shutil\nopen('a', 'w').close()\nshutil.copy('a', 'b')\nshutil.copy2('a', 'c')",
        "import tempfile\ntempfile.NamedTemporaryFile().write(b'x')",
        "import zipfile\nzipfile.ZipFile('z.zip', 'w').writestr('a', 'b')",
        "import os, pathlib\nos.makedirs('a/b')\npathlib.Path('a/b/c').write_text('x')\n"
        "os.rename('a/b/c', 'a/c')\nos.symlink('a/c', 'l')\nassert pathlib.Path('l').exists()",
        "import decimal, fractions, statistics, datetime, random, json, csv, re, hashlib, secrets",
        "import zoneinfo\nzoneinfo.available_timezones()",
        "import mmap\nmmap.mmap(-1, 4096)",
        "open('/dev/urandom', 'rb').read(4), open('/dev/null', 'w').write('x')",
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 100)",
        "import time\ntime.sleep(0.001)\nprint(time.time(), time.process_time())",
        "import sys\nsys.setrecursionlimit(100000)\nlen([])",
        "import linecache, inspect, dataclasses, enum, typing, pickle, unittest, logging",
    ],
)
def test_the_usual_library_works(interpreter, code):
    assert run(interpreter, code).details["executionError"] == ""


def test_there_is_no_input(interpreter):
    assert "EOFError" in run(interpreter, "input('name? ')").text


def test_files_last(interpreter):
    run(interpreter, "open('kept.txt', 'w').write('kept')\nopen('tool.py', 'w').write('y=2')")
    assert output_of(run(interpreter, "open('kept.txt').read()")) == "'kept'"
    assert output_of(run(interpreter, "import tool\ntool.y")) == "2"
    assert output_of(run(interpreter, "open('$BASE_PATH$/kept.txt').read()")) == "'kept'"


def test_a_file_of_the_program_does_not_stand_in_for_the_library(interpreter):
    run(interpreter, "open('random.py', 'w').write('boom')")
    assert output_of(run(interpreter, "import random\nrandom.Random(1).random() < 1")) == "True"


def test_installed_packages_can_be_imported_unless_they_may_not(make):
    code = "import yaml\nyaml.safe_load('a: 1')"
    assert output_of(run(make(), code)) == "{'a': 1}"
    assert "ModuleNotFoundError" in run(make(packages=False), code).text


def test_the_package_itself_is_not_there_when_it_is_developed(interpreter):
    assert "ModuleNotFoundError" in run(interpreter, "import orchestrator.actions").text
    assert "ModuleNotFoundError" in run(interpreter, "import jail.main, nothing").text


def test_numbers_in_arrays(interpreter):
    pytest.importorskip("numpy")
    code = "import numpy as np\nprint(np.linalg.solve(np.eye(2) * 2, np.ones(2)).sum())"
    assert output_of(run(interpreter, code)) == "1.0"


def test_a_chart_becomes_a_file(make):
    pytest.importorskip("matplotlib")
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.savefig('chart.png')"
    (file,) = run(make(cpu_seconds=60, seconds=60), code).files
    assert (file["name"], file["type"]) == ("chart.png", "image/png")
    assert file["bytes"].startswith(b"\x89PNG")


def test_charts_are_made_without_a_screen(interpreter):
    assert output_of(run(interpreter, "import os\nos.environ['MPLBACKEND']")) == "'Agg'"


def test_a_long_output_keeps_its_beginning_and_its_end(make):
    code = "print('first'); print('x' * 1_000_000); print('last')"
    result = run(make(output_bytes=1000), code)
    shown = output_of(result)
    assert shown.startswith("first\nxxx")
    assert shown.endswith("xxx\nlast")
    assert "bytes were left out here" in shown
    assert len(result.text) < 1200


def test_the_output_fits_into_a_small_result(interpreter):
    result = run(interpreter, "import sys\nprint('o' * 9999)\nprint('e' * 9999, file=sys.stderr)")
    assert len(result.text) > 19_000
    small = run(interpreter, "print('o' * 9999)", max_bytes=4000)
    assert len(small.text) < 4000


@for_all(strategies.lists(strategies.binary(max_size=30)), strategies.integers(0, 60))
def test_output_is_whole_or_says_what_is_left_out(pieces, most):
    output = Output(most)
    for piece in pieces:
        output.take(piece)
    whole = b"".join(pieces)
    text = output.text()
    if len(whole) <= max(most // 2, 1) * 2:
        assert text == whole.decode(errors="replace")
    else:
        assert f"{len(whole) - max(most // 2, 1) * 2} bytes were left out" in text
