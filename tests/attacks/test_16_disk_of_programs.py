"""Attack 16, on the disk: programs that hold files where nobody sees them, or take it at once."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from orchestrator.actions import Call, CallContext
from orchestrator.actions.code_interpreter import (
    CodeInterpreter,
    CodeInterpreterSettings,
    code_operation,
    process,
    storage,
)
from orchestrator.errors import DefinitionError, DependencyFailed

MEBIBYTE = 1 << 20
SETTINGS = CodeInterpreterSettings(seconds=120, scratch_bytes=4 * MEBIBYTE, scratch_files=100)
ENDED = "The program was ended"

TAKE = """
import os, time
def take():
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(3 << 20))
    os.unlink("f")
    return fd
"""
# Each would hold 300 MiB at least with nothing in its folder, and takes ten seconds or more for it:
# who watches it may be late.
WAYS = {
    "removed, closed and mapped": """
import mmap
kept = []
for n in range(200):
    kept.append(mmap.mmap(take(), 4096))
    os.closerange(3, 120)
    time.sleep(.1)
""",
    "open in a thread whose leader has ended": """
import ctypes, threading
libc = ctypes.CDLL(None)
def go():
    time.sleep(.1)
    for n in range(200):
        take()
        time.sleep(.1)
    os.write(1, b"HELD")
threading.Thread(target=go).start()
libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
""",
    "open in many": """
for n in range(100):
    take()
    time.sleep(.1)
""",
}


def _read_output(shown: object) -> str:
    """What a program has printed, and its error, of what the model reads."""
    read = json.loads(str(shown))
    return f"{read['code_execution_output']}{read.get('code_execution_error', '')}"


def _run(code: str) -> tuple[str, int]:
    """What the model reads, and how many files of the session are left afterwards."""
    interpreter = CodeInterpreter(SETTINGS)
    try:
        context = CallContext({"name": "sums"}, "s-1", "", {}, {}, 100_000)
        text = interpreter.call(Call("c-1", code_operation(), {"code": code}), context).text
        left = interpreter.call(
            Call("c-2", code_operation(), {"code": "import os\nlen(os.listdir())"}), context
        )
        return _read_output(text), int(_read_output(left.text))
    finally:
        interpreter.close()


@pytest.fixture(params=["namespaces", "landlock"])
def layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What alone confines files."""
    monkeypatch.setattr(process, "LAYERS", (request.param,))
    with contextlib.ExitStack() as stack:
        try:
            interpreter = CodeInterpreter(SETTINGS)
            stack.callback(interpreter.close)
            interpreter.check()
        except (DefinitionError, DependencyFailed) as error:
            pytest.skip(f"no sandbox of {request.param} here: {error.message}")
    return str(request.param)


@pytest.mark.parametrize("way", WAYS)
def test_files_that_no_folder_has_are_bounded(way: str, layer: str) -> None:
    text, _ = _run(f"{TAKE}{WAYS[way]}\nprint('HELD')\ntime.sleep(100)")
    assert "HELD" not in text
    assert ("No space left" if layer == "namespaces" else ENDED) in text


def test_space_is_never_set_aside_in_one_moment(layer: str) -> None:
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("f", os.O_RDWR | os.O_CREAT)
number = {"x86_64": 285, "aarch64": 47}[os.uname().machine]
assert libc.syscall(number, fd, 0, 0, 3 << 20) == -1
assert ctypes.get_errno() == errno.EOPNOTSUPP
os.posix_fallocate(fd, 0, 10_000)  # the library writes it instead
os.stat("f").st_size"""
    assert _run(code)[0].startswith("10000")


def test_many_small_files_and_names_are_bounded(layer: str) -> None:
    text, left = _run("import os\nopen('f', 'w')\nfor n in range(3000): os.link('f', f'{n}')")
    assert "more than 100 files and folders" in text
    assert left == 0


def test_many_names_of_a_large_file_are_not_copied_out(layer: str) -> None:
    text, left = _run(
        "import os\nopen('f', 'wb').write(bytes(3 << 20))\nfor n in range(50): os.link('f', f'{n}')"
    )
    assert "its files have more than" in text
    assert left == 0


def test_a_file_that_is_mapped_and_stays_is_no_attack(layer: str) -> None:
    code = """
import mmap, time
with open("f", "w+b") as file:
    file.truncate(10_000)
    with mmap.mmap(file.fileno(), 0) as held:
        held[:5] = b"hello"
        time.sleep(.2)
open("f", "rb").read(5)"""
    assert _run(code)[0].startswith("b'hello'")


def test_links_that_a_program_leaves_are_not_followed(layer: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    interpreter = CodeInterpreter(SETTINGS)
    context = CallContext({"name": "sums"}, "s-1", "", {}, {}, 100_000)
    code = f"import os\nos.symlink({str(secret)!r}, 'link')\nos.symlink({str(tmp_path)!r}, 'all')"
    again = "import os\nprint(sorted(os.listdir()), os.readlink('link'))\nopen('link').read()"
    try:
        interpreter.call(Call("c-1", code_operation(), {"code": code}), context)
        text = str(interpreter.call(Call("c-2", code_operation(), {"code": again}), context).text)
    finally:
        interpreter.close()
    assert f"['all', 'link'] {secret}" in text
    assert "canary" not in text
    assert os.listdir(tmp_path) == ["secret"]


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")
def test_what_cannot_be_watched_is_ended(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:

    def refused(place: str) -> None:
        raise PermissionError(place)

    code = f"import time\ntime.sleep({0.5 if layer == 'namespaces' else 100})"
    interpreter = CodeInterpreter(SETTINGS)
    monkeypatch.setattr(storage, "_measure_removed_files", refused)
    try:
        context = CallContext({"name": "sums"}, "s-1", "", {}, {}, 100_000)
        text = interpreter.call(Call("c-1", code_operation(), {"code": code}), context).text
    finally:
        interpreter.close()
    watched = "what it holds of the disk cannot be watched here"
    assert (watched in str(text)) is (layer == "landlock")
