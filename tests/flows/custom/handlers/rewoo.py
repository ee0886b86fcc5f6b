"""Plans first, then carries the plan out without asking the model, then has it summed up.

As AWS's sample, it keeps its plan in the session attributes, returns its object as JSON text, and
writes the final text as JSON, too.
"""

import json


def plan_and_execute(event, context):
    state = json.loads(event["context"]["sessionAttributes"].get("state", "{}"))
    given = json.loads(event["input"]["text"])
    if event["state"] == "START":
        return reply("INVOKE_MODEL", ask(event, f"Plan: {given['text']}"), {"phase": "plan"})
    if event["state"] == "MODEL_INVOKED" and state["phase"] == "sum":
        return reply("FINISH", given["output"]["content"][0]["text"], {})
    if event["state"] == "MODEL_INVOKED":
        state = {"phase": "work", "plan": json.loads(given["output"]["content"][0]["text"])}
        state["found"] = []
    elif event["state"] == "TOOL_INVOKED":
        state["found"].append(given["toolResult"]["content"][0]["text"])
    else:
        raise Exception("Invalid state provided!")
    if len(state["found"]) < len(state["plan"]):
        at = len(state["found"])
        step = state["plan"][at]
        use = {"toolUseId": f"step-{at}", "name": step["tool"], "input": step["input"]}
        return reply("INVOKE_TOOL", {"toolUse": use}, state)
    state["phase"] = "sum"
    return reply("INVOKE_MODEL", ask(event, f"Sum up: {state['found']}"), state)


def ask(event, text):
    configuration = event["context"]["agentConfiguration"]
    return {
        "modelId": configuration["defaultModelId"],
        "messages": [{"role": "user", "content": [{"text": text}]}],
        "inferenceConfig": {"maxTokens": 500, "temperature": 0, "topP": 0.9},
        "toolConfig": {"tools": configuration["tools"]},
    }


def reply(action_event, payload, state):
    return json.dumps(
        {
            "version": "1.0",
            "actionEvent": action_event,
            "output": {"text": json.dumps(payload), "trace": {"event": {"text": "a step"}}},
            "context": {"sessionAttributes": {"state": json.dumps(state), "lambda": None}},
        }
    )
