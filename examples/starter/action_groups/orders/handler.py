"""The action group `orders`: an AWS Lambda handler that also runs here, in process."""

import json

ORDERS = {
    "1042": {"books": ["Emma"], "state": "on its way", "arrives": "Thursday"},
    "1043": {"books": ["Dune", "Ulysses"], "state": "being packed", "arrives": "Monday"},
}


def lambda_handler(event, context):
    given = {parameter["name"]: parameter["value"] for parameter in event.get("parameters", [])}
    order = ORDERS.get(given.get("orderId", "").lstrip("#"))
    status = 200 if order else 404
    body = order or {"error": f"there is no order {given.get('orderId')!r}"}
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "apiPath": event["apiPath"],
            "httpMethod": event["httpMethod"],
            "httpStatusCode": status,
            "responseBody": {"application/json": {"body": json.dumps(body)}},
        },
    }
