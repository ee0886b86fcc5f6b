def answer(event, context):
    text = f"High water at {event['parameters'][0]['value']} is at noon."
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": {"responseBody": {"TEXT": {"body": text}}},
        },
    }
