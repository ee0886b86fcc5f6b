"""Parses replies of a model without tools; one shape of answer for functions and for APIs."""

import re

CALL = re.compile(r"<call>\s*(\w+)\.(\w+)\((.*?)\)", re.DOTALL)
FINAL = re.compile(r"<final>(.*)", re.DOTALL)


def lambda_handler(event, context):
    reply = event["invokeModelRawResponse"]
    thought = reply.split("</think>")[0].replace("<think>", "").strip()
    call = CALL.search(reply)
    if call:
        group, name, written = call.groups()
        values = dict(re.findall(r"(\w+)\s*=\s*\"?([^\",]+)\"?", written))
        details = {
            "invocationType": "ACTION_GROUP",
            "actionGroupInvocation": {
                "actionGroupName": group,
                "verb": "GET",
                "apiName": name,
                "functionName": name,
                "actionGroupInput": {key: {"value": value} for key, value in values.items()},
            },
        }
    else:
        answer = FINAL.search(reply)
        text = answer.group(1).replace("</final>", "").strip() if answer else reply
        details = {"invocationType": "FINISH", "agentFinalResponse": {"responseText": text}}
    return {
        "promptType": event["promptType"],
        "orchestrationParsedResponse": {"rationale": thought, "responseDetails": details},
    }
