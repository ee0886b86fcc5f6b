import json
import os

from shelf import titles_of


def lambda_handler(event, context):
    reader = event["parameters"][0]["value"]
    body = {"titles": titles_of(reader), "days": os.environ["LOAN_DAYS"]}
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "apiPath": event["apiPath"],
            "httpMethod": event["httpMethod"],
            "httpStatusCode": 200,
            "responseBody": {"application/json": {"body": json.dumps(body)}},
        },
    }
