"""What the tests of the code interpreter share."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.actions.code_interpreter import (
    CodeInterpreter,
    CodeInterpreterSettings,
    code_operation,
)
from orchestrator.actions.code_interpreter.process import check_platform
from orchestrator.errors import DefinitionError, DependencyFailed

PROJECT = Path(__file__).resolve().parents[1]


def context(**changes: Any) -> CallContext:
    made = {
        "agent": {"name": "sums", "id": "AGENT12345", "alias": "TSTALIASID", "version": "DRAFT"},
        "session_id": "s-1",
        "input_text": "What is 1 + 1?",
        "session_attributes": {},
        "prompt_session_attributes": {},
        "max_bytes": 200_000,
    }
    return CallContext(**{**made, **changes})


def call(code: object) -> Call:
    return Call("c-1", code_operation(), {"code": code})


def run(interpreter: CodeInterpreter, code: object, **changes: Any) -> ActionResult:
    return interpreter.call(call(code), context(**changes))


def output_of(result: ActionResult) -> str:
    """What a program printed, as the model reads it; a program that failed has none here."""
    shown = json.loads(result.text)
    assert shown["is_error"] is ("code_execution_error" in shown) is False, shown
    return str(shown["code_execution_output"]).removesuffix("\n")


def given(name: object, content: object = b"") -> dict[str, Any]:
    return {"name": name, "type": "text/plain", "bytes": content}


def settings(**changes: Any) -> CodeInterpreterSettings:
    return CodeInterpreterSettings(**changes)


def children() -> set[str]:
    """The processes that this one has started and that still are there."""
    while True:
        tasks = Path("/proc/self/task").iterdir()
        try:
            return {pid for task in tasks for pid in (task / "children").read_text().split()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread ended meanwhile, and another has its children now


def sandbox_is_missing() -> str:
    """Why there is no sandbox on this machine; empty when there is one."""
    if reason := check_platform():
        return reason
    try:
        interpreter = CodeInterpreter()
        try:
            interpreter.check()
        finally:
            interpreter.close()
    except (DefinitionError, DependencyFailed) as error:
        return error.message
    return ""


missing = sandbox_is_missing()
needs_sandbox = pytest.mark.skipif(bool(missing), reason=f"no sandbox here: {missing}")
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
