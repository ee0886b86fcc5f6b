"""Replies and agents that several tests of the command line use."""

import json
from pathlib import Path

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
ORDER = [
    {"text": "<thinking>I look the order up.</thinking>"},
    {
        "toolUse": {
            "toolUseId": "t-1",
            "name": "GET__orders__getOrder",
            "input": {"orderId": "1042"},
        }
    },
]
ANSWER = "<thinking>It is there.</thinking><answer>Emma will arrive on Thursday.</answer>"

ROC = """
agentName: buyer
instruction: You order books for people, and you pay for them when they have agreed.
foundationModel: local
actionGroups:
  - actionGroupName: shop
    functionSchema:
      functions:
        - name: order_book
          description: Order a book.
          parameters: {title: {type: string, description: Its title., required: true}}
    actionGroupExecutor: {customControl: RETURN_CONTROL}
  - actionGroupName: bank
    functionSchema:
      functions:
        - {name: pay, description: Pay for it., requireConfirmation: ENABLED}
    actionGroupExecutor: {lambda: bank.py}
"""
BANK = """
def lambda_handler(event, context):
    body = {"TEXT": {"body": "paid"}}
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "function": event["function"],
        "functionResponse": {"responseBody": body}}}
"""


def call(name, **values):
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": values}}]


def write_buyer():
    """An agent in the working directory that hands one action over and asks before the other."""
    folder = Path("buyer")
    folder.mkdir()
    (folder / "agent.yaml").write_text(ROC)
    (folder / "bank.py").write_text(BANK)
    return folder


def write_script(file, *replies):
    """Writes a model's replies, and gives the `--model` that reads them."""
    file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"--model=scripted:{file}@{CLAUDE}"
