"""Processes that tests kill: forks of one that has loaded the engine, which takes most of the time.

`forked` runs a script as `python script.py arguments...` would, in a process of its own, and
`run_in_child` calls a function in a fork of this one.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NoReturn

_SECONDS = 120


def forked(script: Path, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end, or to its death; with more variables in its environment."""
    order = json.dumps([[str(script), *map(str, arguments)], env])
    process = _parent(script)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(order + "\n")
    process.stdin.flush()
    if not select.select([process.stdout], [], [], _SECONDS)[0]:
        _parent.cache_clear()
        process.kill()
        raise TimeoutError(f"{order} took over {_SECONDS} seconds")
    code, out, err = json.loads(process.stdout.readline())
    return subprocess.CompletedProcess([*map(str, arguments)], code, out, err)


def run_in_child(work: Callable[[], object]) -> int:
    """The exit status of a fork of this process that calls a function: 0 unless it raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(_SECONDS)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@cache
def _parent(script: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(script)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # which closes its input: that is its end
    return process


def _serve(script: str) -> None:
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="loaded")  # with all that it imports
    for line in sys.stdin:
        argv, env = json.loads(line)
        with TemporaryFile() as out, TemporaryFile() as err:
            child = os.fork()
            if not child:
                os.environ.update(env)
                _run(argv, out, err)
            _, status = os.waitpid(child, 0)
            told = [_read(out), _read(err)]
        print(json.dumps([os.waitstatus_to_exitcode(status), *told]), flush=True)


def _run(argv: list[str], out: IO[bytes], err: IO[bytes]) -> NoReturn:
    code = 1
    try:
        for place, file in ((0, open(os.devnull, "rb")), (1, out), (2, err)):
            os.dup2(file.fileno(), place)
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


if __name__ == "__main__":
    _serve(sys.argv[1])
