"""Parser Lambdas for models with native tools, one for Claude's replies and one for Nova's."""

import json

from helper import split_name


def lambda_handler(event, context):
    reply = json.loads(event["invokeModelRawResponse"])
    text = "".join(part["text"] for part in reply["content"] if part["type"] == "text")
    uses = [part for part in reply["content"] if part["type"] == "tool_use"]
    if reply["stop_reason"] == "tool_use":
        calls = [
            {**split_name(use["name"]), "id": use["id"], "actionGroupInput": wrapped(use["input"])}
            for use in uses
        ]
        details = {"invocationType": "ACTION_GROUP", "actionGroupInvocations": calls}
    else:
        answer = text.split("<answer>")[-1].split("</answer>")[0]
        details = {"invocationType": "FINISH", "agentFinalResponse": {"responseText": answer}}
    return orchestration(details)


def nova_handler(event, context):
    reply = json.loads(event["invokeModelRawResponse"])
    content = reply["output"]["message"]["content"]
    use = next(part["toolUse"] for part in content if part.get("toolUse"))
    assert reply["stopReason"] == "tool_use"
    question = {"responseText": use["input"]["question"], "id": use["toolUseId"]}
    return orchestration({"invocationType": "ASK_USER", "agentAskUser": question})


def wrapped(values):
    return {name: {"value": value} for name, value in values.items()}


def orchestration(details):
    return {
        "messageVersion": "2.0",
        "promptType": "ORCHESTRATION",
        "orchestrationParsedResponse": {"rationale": "", "responseDetails": details},
    }
