"""Replies and agents that several tests of the command line use."""

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
