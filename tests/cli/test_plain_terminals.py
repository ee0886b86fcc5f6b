"""Terminals that want no colours, and pipes: no verb, help or error writes any."""

import errno
import os
import pty
import re
import subprocess
import sys

import pytest
from left_out import sampled

# What sets colours and other styles; a cursor may move.
STYLE = re.compile(rb"\x1b\[[0-9;]*m")
VERBS = {
    "help": ["--help"],
    "help of a verb": ["lint", "--help"],
    "no such verb": ["nonesuch"],
    "missing argument": ["render"],
    "wrong option": ["serve", "--port", "x"],
    "group": ["models", "list"],
    "render": ["render", "shop", "Hi"],
    "lint": ["lint", "shop"],
    "error": ["invoke", "nowhere", "Hi"],
    "error in json": ["invoke", "nowhere", "Hi", "--json"],
    "answer": ["invoke", "shop", "Hi", "--model", "scripted:replies.jsonl", "--trace"],
    "parse": ["parse", "replies.jsonl"],
}


@pytest.fixture
def at(shop, place):
    (place / "replies.jsonl").write_text('"<answer>Hello."\n')
    return place


def read_all(descriptor):
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux's end of a terminal that nobody writes to
                raise
            piece = b""
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def show(words, place, terminal=True, **variables):
    """What a command writes to a terminal, or to pipes."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **variables}
    for name in ("PY_COLORS", "GITHUB_ACTIONS", "COLORTERM", "NO_COLOR", "FORCE_COLOR"):
        if name not in variables:
            environment.pop(name, None)
    command = [sys.executable, "-m", "orchestrator", *words]
    if not terminal:
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, timeout=120)
        return done.stdout + done.stderr
    ours, theirs = pty.openpty()
    streams = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    try:
        with subprocess.Popen(command, cwd=place, env=environment, **streams) as process:
            os.close(theirs)
            written = read_all(ours)
            process.wait(120)
    finally:
        os.close(ours)
    return written


_FEW = ("help", "error")


@pytest.mark.parametrize(
    "name",
    [one if one in _FEW else pytest.param(one, marks=pytest.mark.exhaustive) for one in VERBS],
)
def test_no_color_is_honoured(at, name):
    written = show(VERBS[name], at, NO_COLOR="1")
    assert written.strip() and not STYLE.search(written)


@pytest.mark.parametrize("name", sampled(["no such verb", "render"]))
@pytest.mark.parametrize(
    ("terminal", "variables"),
    [
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}),
        (False, {}),
        pytest.param(True, {"TERM": "dumb"}, marks=pytest.mark.exhaustive),
        pytest.param(False, {"GITHUB_ACTIONS": "true"}, marks=pytest.mark.exhaustive),
    ],
    ids=["NO_COLOR is stronger than FORCE_COLOR", "pipe", "dumb", "pipe of a build"],
)
def test_others_that_want_none_have_none(at, name, terminal, variables):
    written = show(VERBS[name], at, terminal, **variables)
    assert written.strip() and b"\x1b" not in written


@pytest.mark.parametrize("name", sampled(["no such verb", "render"]))
@pytest.mark.parametrize(
    ("terminal", "variables"),
    sampled([(True, {}), (True, {"NO_COLOR": ""}), (False, {"FORCE_COLOR": "1"})]),
    ids=["terminal", "empty NO_COLOR", "FORCE_COLOR"],
)
def test_others_have_colours(at, name, terminal, variables):
    assert STYLE.search(show(VERBS[name], at, terminal, **variables))
