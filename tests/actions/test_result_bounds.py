"""One bound for the results of every executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_support import SECRET, context, run
from test_lambda_handlers import group, handler

from orchestrator.actions import ActionGroup, ActionResult, Call, CallContext
from orchestrator.errors import DependencyFailed, ThrottlingError


class Custom:
    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def call(self, call: Call, context: CallContext) -> ActionResult:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return ActionResult(self.outcome, session_attributes={"kept": "yes"})


def custom(outcome: Any) -> ActionGroup:
    return ActionGroup("hr", functions=[{"name": "now"}], executor=Custom(outcome))


def groups(text: str, folder: Path) -> list[ActionGroup]:
    def now() -> str:
        return text

    code = f"def lambda_handler(e, c): return {text!r}"
    return [custom(text), ActionGroup("py", [now]), group(handler(folder, code))]


@pytest.mark.parametrize(("text", "size"), [("a" * 101, 101), ("é" * 51, 102), ("😀" * 26, 104)])
def test_a_larger_result_is_not_shown_and_the_model_reads_why(
    text: str, size: int, tmp_path: Path
) -> None:
    for made in groups(text, tmp_path):
        result = run(made, "now", context(max_bytes=100))
        assert result.state == "" and result.text.startswith("The action was carried out:")
        assert f"{size} bytes" in result.text and "at most 100 bytes" in result.text
        assert text[:20] not in result.text
        assert any(f"{size} bytes" in note for note in result.notes)


@pytest.mark.parametrize("text", ["a" * 100, "é" * 50, "😀" * 25, ""])
def test_a_result_up_to_the_limit_is_shown_whole(text: str, tmp_path: Path) -> None:
    for made in groups(text, tmp_path):
        result = run(made, "now", context(max_bytes=100))
        assert (result.text, result.state) == (text, "")


def test_attributes_of_a_larger_result_stay() -> None:
    assert run(custom("a" * 101), "now", context(max_bytes=100)).session_attributes == {
        "kept": "yes"
    }


def test_a_larger_failure_stays_a_failure(tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    content = {"TEXT": {"body": "x" * 101}}
    return {"response": {"functionResponse": {"responseState": "FAILURE", "responseBody": content}}}
"""
    result = run(group(handler(tmp_path, code)), "now", context(max_bytes=100))
    assert result.state == "FAILURE" and "x" * 20 not in result.text


def test_a_lone_surrogate_is_replaced_since_it_cannot_be_sent() -> None:
    assert run(custom("a\ud800b"), "now").text == "a\ufffdb"


def test_any_executors_error_is_typed_and_carries_no_payload() -> None:
    with pytest.raises(DependencyFailed, match="'hr::now' raised OSError") as caught:
        run(custom(OSError(SECRET)), "now")
    assert SECRET not in caught.value.message and isinstance(caught.value.__cause__, OSError)
    with pytest.raises(ThrottlingError):
        run(custom(ThrottlingError("slow down")), "now")
