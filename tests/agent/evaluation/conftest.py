"""An agent on disk, and cases that scripted models answer."""

import json

import pytest
from evaluation_support import CLAUDE

from orchestrator.agent.evaluation import Evaluation, Matrix, Variant, read_cases
from orchestrator.testing import ScriptedModel

AGENT = """
agentName: desk
instruction: You look up vacation days, book vacations and hand letters to the caller to send.
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
actionGroups:
  - actionGroupName: days
    functionSchema:
      functions:
        - name: get_days
          description: The days that are left.
          parameters: {id: {type: string, description: Whose., required: true}}
        - name: book_days
          description: Books days.
          parameters: {days: {type: string, description: How many., required: true}}
        - {name: cancel, description: Cancels it., requireConfirmation: ENABLED}
    actionGroupExecutor: {lambda: days.py}
  - actionGroupName: post
    functionSchema:
      functions:
        - name: send_letter
          description: Sends a letter.
          parameters: {to: {type: string, description: To whom., required: true}}
    actionGroupExecutor: {customControl: RETURN_CONTROL}
  - actionGroupName: UserInput
    parentActionGroupSignature: AMAZON.UserInput
"""
DAYS = """
def lambda_handler(event, context):
    body = {"TEXT": {"body": "There are 17 days."}}
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": body}}}
"""


@pytest.fixture
def desk(tmp_path):
    """The agent's folder."""
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "agent.yaml").write_text(AGENT)
    (folder / "days.py").write_text(DAYS)
    return folder


@pytest.fixture
def write_cases(tmp_path):
    """Writes cases, one a line."""

    def write(*cases, name="cases.jsonl"):
        file = tmp_path / name
        file.write_text("".join(json.dumps(case) + "\n" for case in cases))
        return file

    return write


@pytest.fixture
def hold(desk, write_cases):
    """Holds one case with a model's replies, and gives its result."""

    def hold(case, *replies, **settings):
        cases = read_cases(write_cases({"id": "one", **case}))
        variant = Variant(ScriptedModel(replies, CLAUDE))
        with Matrix(Evaluation(desk, cases, (variant,), **settings)) as matrix:
            (result,) = matrix.run()
        return result

    return hold
