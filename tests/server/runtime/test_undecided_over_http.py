"""A server was killed in an action: whoever asks is told, and a program decides by InvokeAgent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from runtime_servers import AGENT_ID, Runtime, running
from whole_agents import NATIVE, answer

from orchestrator import Agent, Sessions, SQLiteStore

AGENT = f"""\
agentId: {AGENT_ID}
agentName: payer
foundationModel: {NATIVE.model_id}
instruction: You pay bills for people who ask you to do so.
actionGroups:
  - actionGroupName: bank
    actionGroupExecutor: {{lambda: bank.py}}
    functionSchema: {{functions: [{{name: pay, description: Pays.}}]}}
"""
BANK = """
from pathlib import Path
def lambda_handler(event, context):
    with Path(__file__).with_name("paid.log").open("a") as file:
        file.write(context.aws_request_id + "\\n")
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": {"TEXT": {"body": "paid"}}}}}
"""
CALL = NATIVE.calls(("bank::pay", {}))


class Died(BaseException):
    """The process has ended."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "agents" / "payer"
    home.mkdir(parents=True)
    (home / "agent.yaml").write_text(AGENT)
    (home / "bank.py").write_text(BANK)
    sessions = Sessions(SQLiteStore(tmp_path / "state.sqlite"))
    sessions.leaving = True
    agent = Agent.load(home, model=NATIVE.model([CALL]), sessions=sessions)

    def die(executor: Any) -> Any:
        class Dying:
            def call(self, call: Any, context: Any) -> Any:
                raise Died

        return Dying()

    with pytest.raises(Died):
        agent.with_executors(die).invoke("Pay", "s-1")
    sessions.store.close()  # type: ignore[attr-defined]
    return tmp_path


@pytest.fixture
def runtime(folder: Path) -> Iterator[Runtime]:
    model, state = NATIVE.model([answer("Paid.")]), folder / "state.sqlite"
    with running(model, folder / "agents", state=state) as opened:
        opened.world.recovery.patience = 0
        (turn,) = opened.world.recovery.run_pass()
        assert turn.outcome == "undecided"
        yield opened


def paid(folder: Path) -> list[str]:
    log = folder / "agents" / "payer" / "paid.log"
    return log.read_text().split() if log.exists() else []


def decide(runtime: Runtime, control: dict[str, Any], **member: str) -> dict[str, Any]:
    result = {"actionGroup": "bank", "function": "pay", **member}
    state = {
        "invocationId": control["invocationId"],
        "returnControlInvocationResults": [{"functionResult": result}],
    }
    return runtime.invoke(sessionState=state)


def test_who_asks_is_told_and_a_program_decides(folder: Path, runtime: Runtime) -> None:
    for question in ("Pay", "Hello?"):
        with pytest.raises(ClientError, match="nobody knows whether 'bank::pay'"):
            runtime.invoke(question)
    (event,) = runtime.invoke()["events"]
    control = event["returnControl"]
    (waits,) = control["invocationInputs"]
    call = waits["functionInvocationInput"]
    assert (call["actionGroup"], call["function"]) == ("bank", "pay")
    assert call["actionInvocationType"] == "USER_CONFIRMATION_AND_RESULT"
    assert paid(folder) == []
    for _ in range(2):
        assert decide(runtime, control, confirmationState="CONFIRM")["text"] == "Paid."
    assert len(paid(folder)) == 1


def test_given_up(folder: Path, runtime: Runtime) -> None:
    (event,) = runtime.invoke()["events"]
    with pytest.raises(EventStreamError, match="nobody knows whether 'bank::pay'"):
        decide(runtime, event["returnControl"], responseState="FAILURE")
    assert paid(folder) == []
