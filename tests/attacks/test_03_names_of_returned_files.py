"""Attack 3, on files that a program gives back: names that are more than names elsewhere."""

from __future__ import annotations

import contextlib

import pytest

from orchestrator.actions import Call, CallContext
from orchestrator.actions.code_interpreter import CodeInterpreter, code_operation
from orchestrator.errors import DefinitionError, DependencyFailed

RISKY = (
    *("-rf", "--help.txt", "C:x", "file.txt:stream", "CON", "nul.txt", "com1", "LPT9.csv"),
    *("aux .txt", "a.", 'a"b', "a|b", "what?.txt", "*.txt", "<a>", "prn/a.txt", "d/-rf"),
)
PLAIN = ("console.txt", "a-b.txt", "common.csv", "ünïcode.txt", "d/e.txt", "a.b.c", "com10.txt")


@pytest.fixture
def interpreter():
    with contextlib.ExitStack() as stack:
        try:
            made = CodeInterpreter()
            stack.callback(made.close)
            made.check()
        except (DefinitionError, DependencyFailed) as error:
            pytest.skip(f"no sandbox here: {error.message}")
        yield made


def test_names_that_mean_something_elsewhere_do_not_come_back(interpreter: CodeInterpreter) -> None:
    code = f"""
import os
for name in {(*RISKY, *PLAIN)!r}:
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    open(name, "w").write("x")"""
    context = CallContext({"name": "sums"}, "s-1", "", {}, {}, 100_000)
    result = interpreter.call(Call("c-1", code_operation(), {"code": code}), context)
    assert {file["name"] for file in result.files} == set(PLAIN)
    assert "means something else on other systems; give it a plain one" in str(result.text)
