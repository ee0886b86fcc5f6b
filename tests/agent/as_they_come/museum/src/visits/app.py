import json
import logging
import os
from importlib import import_module
from pathlib import Path

logger = logging.getLogger()
logger.setLevel(logging.INFO)

HOURS = json.loads(Path("hours.json").read_text())
REGION = os.environ["AWS_REGION"]


def lambda_handler(event, context):
    logger.info("%s asks for %s", context.function_name, event["function"])
    day = {p["name"]: p["value"] for p in event["parameters"]}["day"].lower()
    hours = HOURS.get(day, "unknown")
    text = import_module("texts").closed(day) if hours == "closed" else {"day": day, "open": hours}
    body = {"TEXT": {"body": str(text)}}
    return {
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": {"responseBody": body},
        }
    }
