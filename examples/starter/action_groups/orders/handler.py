"""The action group `orders`: an AWS Lambda handler that also runs here, in process."""

import json

# Stands for a database of yours: what is changed here is forgotten when the process ends.
ORDERS = {
    "1042": {"books": ["Emma"], "state": "on its way", "arrives": "Thursday"},
    "1043": {"books": ["Dune", "Ulysses"], "state": "being packed", "arrives": "Monday"},
}


def get_order(order):
    return 200, order


def cancel_order(order):
    if order["state"] == "on its way":
        return 409, {"error": "it has left the shop and cannot be cancelled any more"}
    order["state"] = "cancelled"
    order.pop("arrives", None)
    return 200, order


OPERATIONS = {
    ("GET", "/orders/{orderId}"): get_order,
    ("POST", "/orders/{orderId}/cancellation"): cancel_order,
}


def lambda_handler(event, context):
    given = {parameter["name"]: parameter["value"] for parameter in event.get("parameters", [])}
    order = ORDERS.get(given.get("orderId", "").lstrip("#"))
    if order is None:
        status, body = 404, {"error": f"there is no order {given.get('orderId')!r}"}
    else:
        status, body = OPERATIONS[event["httpMethod"], event["apiPath"]](order)
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
