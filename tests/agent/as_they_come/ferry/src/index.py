import os
import sqlite3

with open("ferries.sql") as script:
    SCRIPT = script.read()


def handler(event, context):
    given = {p["name"]: p["value"] for p in event.get("parameters", [])}
    database = sqlite3.connect(":memory:")
    database.executescript(SCRIPT)
    found = database.execute(
        "select leaves from ferry where harbour = ? and leaves > ? order by leaves",
        (given["harbour"], given.get("time", "00:00")),
    ).fetchone()
    database.close()
    assert sorted(os.listdir(".")) == ["ferries.sql", "index.py"]
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": {"responseBody": {"TEXT": {"body": str(found)}}},
        },
        "sessionAttributes": {**event["sessionAttributes"], "harbour": given["harbour"]},
        "promptSessionAttributes": event["promptSessionAttributes"],
    }
