"""Files for the code interpreter: into its folder, and out of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "actions" / "code_interpreter"))

from inline_support import INSTRUCTION, called, plain, scripted, texts
from interpreter_support import needs_sandbox

from orchestrator import ActionGroup, Agent, Collaborator, Files, ValidationError
from orchestrator.actions import ActionResult, Call, CallContext

EXECUTE = "get__codeinterpreteraction__execute"
TABLE = {"name": "table.csv", "bytes": b"pen,3\ncup,5\n", "use_case": "CODE_INTERPRETER"}
SUM = """
total = sum(int(line.split(",")[1]) for line in open("table.csv"))
print(total, file=open("total.txt", "w"))
total
"""


class Elsewhere:
    """Runs no code, and remembers which files it would have had."""

    def __init__(self) -> None:
        self.files: list[dict[str, object]] = []

    def call(self, call: Call, context: CallContext) -> ActionResult:
        self.files = [dict(file) for file in context.files]
        return ActionResult("ran")


def code_group(executor: object = None) -> ActionGroup:
    return ActionGroup("code", signature="AMAZON.CodeInterpreter", executor=executor)


@needs_sandbox
def test_a_program_reads_the_users_file_and_gives_one_back() -> None:
    model = scripted(called(EXECUTE, code=SUM), "<answer>8</answer>")
    agent = plain(model, action_groups=[code_group()])
    events = list(agent.stream("Sum it up.", "s-1", files=[TABLE]))
    total = {"name": "total.txt", "type": "text/plain", "bytes": b"8\n"}
    assert [event.files for event in events if isinstance(event, Files)] == [[total]]
    reply = events[-1].reply
    assert (reply.text, reply.files) == ("8", [total])
    assert reply.as_dict()["files"] == [{**total, "bytes": "OAo="}]
    steps = [part["trace"]["orchestrationTrace"] for part in reply.trace]
    (ran,) = [step["invocationInput"] for step in steps if "invocationInput" in step]
    assert ran["codeInterpreterInvocationInput"]["files"] == ["table.csv"]
    assert "table.csv" in texts(model)


def test_the_executor_has_the_bytes_and_the_model_only_the_names() -> None:
    elsewhere = Elsewhere()
    model = scripted(called(EXECUTE, code="1"), "<answer>ok</answer>")
    agent = plain(model, action_groups=[code_group(elsewhere)])
    agent.invoke("Sum it up.", "s-1", files=[TABLE, {"name": "n.txt", "bytes": b"for the model"}])
    (file,) = elsewhere.files
    assert (file["name"], file["type"]) == ("table.csv", "text/csv")
    assert file["bytes"] == TABLE["bytes"]
    assert "pen,3" not in texts(model)
    assert "for the model" in texts(model)


def test_an_agent_that_runs_no_programs_refuses_them() -> None:
    model = scripted()
    with pytest.raises(ValidationError, match=r"'table\.csv' is for the code interpreter, which"):
        plain(model).invoke("Sum it up.", "s-1", files=[TABLE])
    assert model.requests == []


def test_a_collaborator_may_run_them() -> None:
    elsewhere = Elsewhere()
    below = scripted(called(EXECUTE, code="1"), "<answer>8</answer>")
    coder = Agent("coder", INSTRUCTION, below, action_groups=[code_group(elsewhere)])
    send = called("AgentCommunication__sendMessage", recipient="coder", content="Sum it up.")
    agent = plain(
        scripted(send, "<answer>8</answer>"), collaborators=[Collaborator(coder, "Sums.")]
    )
    agent.invoke("Sum it up.", "s-1", files=[TABLE])
    assert [file["name"] for file in elsewhere.files] == ["table.csv"]
