"""A ReAct loop in the way of AWS's samples: the session's steps are made into messages again."""

import json


def lambda_handler(event, context):
    if "state" not in event or "context" not in event:
        raise Exception("Invalid event structure")
    print(f"The incoming event: {json.dumps(event)}")
    state = event["state"]
    if state in ("START", "TOOL_INVOKED"):
        return reply("INVOKE_MODEL", json.dumps(converse(event)), event, f"asking after {state}")
    if state != "MODEL_INVOKED":
        raise Exception("Invalid state provided!")
    answered = json.loads(event["input"]["text"])
    if answered["stopReason"] == "tool_use":
        for content in answered["output"]["content"]:
            if "toolUse" in content:
                return reply("INVOKE_TOOL", json.dumps(content), event, "calling a tool")
    return reply("FINISH", answered["output"]["content"][0]["text"], event, "done")


def converse(event):
    configuration = event["context"]["agentConfiguration"]
    attributes = event["context"]["promptSessionAttributes"]
    return {
        "modelId": configuration["defaultModelId"],
        "system": [{"text": f"{configuration['instruction']} {json.dumps(attributes)}"}],
        "messages": messages(event),
        "inferenceConfig": {"maxTokens": 500, "temperature": 0.7, "topP": 0.9},
        "toolConfig": {"tools": configuration["tools"]},
    }


def messages(event):
    made = []
    for turn in event["context"]["session"]:
        for step in turn["intermediarySteps"]:
            given, said = step["orchestrationInput"], step["orchestrationOutput"]
            if given["state"] == "START":
                made.append(message("user", {"text": given["text"]}))
            if given["state"] == "MODEL_INVOKED":
                made.append(json.loads(given["text"])["output"])
            if given["state"] == "TOOL_INVOKED":
                made.append(message("user", json.loads(given["text"])))
            if said["event"] == "FINISH" and given["state"] != "MODEL_INVOKED":
                made.append(message("assistant", {"text": said["text"]}))
    made.append(message("user", json.loads(event["input"]["text"])))
    return made


def message(role, content):
    return {"role": role, "content": [content]}


def reply(action_event, text, event, trace):
    context = event["context"]
    return {
        "version": "1.0",
        "actionEvent": action_event,
        "output": {"text": text, "trace": {"event": {"text": trace}}},
        "context": {
            "sessionAttributes": context.get("sessionAttributes", {}),
            "promptSessionAttributes": context.get("promptSessionAttributes", {}),
        },
    }
