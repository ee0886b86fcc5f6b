import csv

with open("stock.csv", newline="") as file:
    STOCK = {row["item"]: row["left"] for row in csv.DictReader(file)}


def lambda_handler(event, context):
    item = next(p["value"] for p in event["parameters"] if p["name"] == "item")
    return {
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": {
                "responseBody": {"TEXT": {"body": {"item": item, "left": STOCK.get(item)}}}
            },
        }
    }
