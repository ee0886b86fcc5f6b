"""States of scripts that wait come back from their callers: changed ones are refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator import Flow, FlowError
from orchestrator.flows.state import SECRET_VARIABLE
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
FLOW = Flow.from_text("Say $x -> a\n@pay($a) -> b\n(bp)\nSay $b -> c", "pl")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "one key")


def paused() -> dict[str, Any]:
    tools = {"pay": lambda to: f"paid {to}"}
    state = FLOW.run({"x": 1}, model=ScriptedModel(["Emma"], CLAUDE), tools=tools).paused
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


def resumed(state: Any, flow: Flow = FLOW) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(["end"], CLAUDE)
    return flow.resume(state, model=model, tools={"pay": lambda to: to}), model


def test_the_state_as_it_was_goes_on() -> None:
    result, _ = resumed(paused())
    assert result.variables["b"] == "paid Emma"


def _records(state: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(one for one in state["journal"] if one["kind"] == kind)  # type: ignore[no-any-return]


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another reply": lambda it: _records(it, "model").update(content=[{"text": "Mallory"}]),
    "another result": lambda it: _records(it, "action").update(text='"paid Mallory"'),
    "other arguments": lambda it: _records(it, "turn").update(question='{"arguments": {"x": 2}}'),
    "a call that never was": lambda it: it["journal"].append(copy.deepcopy(_records(it, "action"))),
    "a shorter journal": lambda it: it["journal"].pop(2),
    "another program": lambda it: it.update(program_sha256="0" * 64),
    "another version": lambda it: it.update(version=1),
    "another session": lambda it: it.update(session="another"),
    "waiting for the user": lambda it: it.update(waits_for="user"),
    "another member": lambda it: it.update(tools=["os.system"]),
    "another signature": lambda it: it.update(signature="0" * 64),
    "a signature in other letters": lambda it: it.update(signature="é" * 64),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_changed_state_is_refused_before_anything_is_done(forge: Callable[..., Any]) -> None:
    state = paused()
    forge(state)
    with pytest.raises(FlowError, match="signature is wrong") as raised:
        resumed(state)
    assert raised.value.message_zh


@pytest.mark.parametrize(
    "state",
    [None, [], "x", {}, {"signature": 5}, {"signature": "x"}, {"journal": [], "version": 1}],
)
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(FlowError):
        resumed(state)


def test_a_state_of_another_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = paused()
    monkeypatch.setenv(SECRET_VARIABLE, "another key")
    with pytest.raises(FlowError, match=SECRET_VARIABLE):
        resumed(state)


def test_a_state_of_another_program_is_refused() -> None:
    other = Flow.from_text("Say $x -> a\n@pay($a) -> b\n(bp)\n@steal($b) -> c", "pl")
    with pytest.raises(FlowError, match="another script"):
        resumed(paused(), other)


def test_a_hostile_record_with_a_right_signature_is_refused() -> None:
    # Who has the key could write anything; what a journal cannot hold is refused all the same.
    from orchestrator.flows import state as states

    made = paused()
    for hostile in ({"kind": "pickle", "data": "gASV"}, {"kind": "model", "content": "x"}, 5):
        given = {key: it for key, it in made.items() if key != "signature"}
        given["journal"] = [*given["journal"], hostile]
        signed = {**given, "signature": states._signature(given)}
        with pytest.raises(FlowError, match="journal has a record"):
            resumed(signed)


def test_the_state_does_not_hold_the_key() -> None:
    assert "one key" not in json.dumps(paused())
