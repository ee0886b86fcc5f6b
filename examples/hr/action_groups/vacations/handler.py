"""Vacations of the signed-in employee, as an AWS Lambda function for an Amazon Bedrock agent.

Runs unchanged in AWS Lambda and inside `orchestrator`. One environment variable:

    HR_DATABASE     the SQLite file, made from data/*.sql when it does not exist
                    (default: hr-vacations.sqlite in the system's temporary folder)
"""

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
YEAR = 2027


class Reprompt(Exception):
    """The call makes no sense as it is; the text tells the model what to do better."""


def connect():
    """A connection to the database, which is made and filled at first use."""
    default = Path(tempfile.gettempdir()) / "hr-vacations.sqlite"
    path = Path(os.environ.get("HR_DATABASE") or default)
    db = sqlite3.connect(path, isolation_level=None)
    db.row_factory = sqlite3.Row
    db.execute("BEGIN IMMEDIATE")  # one writer at a time, until `commit`
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'employees'").fetchone():
        for script in ("schema.sql", "seed.sql"):
            for statement in (DATA / script).read_text(encoding="utf-8").split(";"):
                db.execute(statement)
    return db


def available_days(db, employee):
    used = db.execute(
        "SELECT coalesce(sum(days), 0) FROM vacations WHERE employee_id = ? AND status = 'planned'",
        (employee["employee_id"],),
    ).fetchone()[0]
    return employee["vacation_days"] - used


def planned(db, employee):
    rows = db.execute(
        "SELECT * FROM vacations WHERE employee_id = ? AND status = 'planned' ORDER BY start_date",
        (employee["employee_id"],),
    )
    return [
        {
            "request_id": f"V-{row['number']}",
            "start_date": row["start_date"],
            "end_date": row["end_date"],
            "days": row["days"],
        }
        for row in rows
    ]


def get_available_vacation_days(db, employee):
    return {"available_vacation_days": available_days(db, employee), "year": YEAR}


def list_planned_vacations(db, employee):
    return {"planned_vacations": planned(db, employee)}


def request_vacation(db, employee, start_date="", end_date=""):
    start, end = parse_day("start_date", start_date), parse_day("end_date", end_date)
    if end < start:
        raise Reprompt(f"The vacation ends ({end}) before it starts ({start}). Ask for the dates.")
    for other in planned(db, employee):
        if other["start_date"] <= str(end) and str(start) <= other["end_date"]:
            return {"status": "refused", "reason": "it overlaps another vacation", "other": other}
    days, left = working_days(start, end), available_days(db, employee)
    if days > left:
        return {"status": "refused", "reason": f"it needs {days} vacation days, {left} are left"}
    number = db.execute(
        "INSERT INTO vacations (employee_id, start_date, end_date, days, status)"
        " VALUES (?, ?, ?, ?, 'planned')",
        (employee["employee_id"], str(start), str(end), days),
    ).lastrowid
    return {
        "status": "planned",
        "request_id": f"V-{number}",
        "days": days,
        "available_vacation_days": left - days,
    }


def cancel_vacation(db, employee, request_id=""):
    number = request_id.strip().upper().removeprefix("V-")
    changed = db.execute(
        "UPDATE vacations SET status = 'cancelled'"
        " WHERE number = ? AND employee_id = ? AND status = 'planned'",
        (number, employee["employee_id"]),
    ).rowcount
    if not changed:
        ids = ", ".join(one["request_id"] for one in planned(db, employee)) or "none"
        raise Reprompt(f"No planned vacation {request_id!r}. Planned vacations: {ids}.")
    return {
        "status": "cancelled",
        "request_id": f"V-{number}",
        "available_vacation_days": available_days(db, employee),
    }


def parse_day(name, text):
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Reprompt(f"{name} must be a day as YYYY-MM-DD, not {text!r}.") from None
    if day.year != YEAR:
        raise Reprompt(f"{name} is {day}, but vacations can only be planned for {YEAR}.")
    return day


def working_days(start, end):
    days = (start + timedelta(days=n) for n in range((end - start).days + 1))
    return sum(day.weekday() < 5 for day in days)


FUNCTIONS = {
    function.__name__: function
    for function in (
        get_available_vacation_days,
        list_planned_vacations,
        request_vacation,
        cancel_vacation,
    )
}


def run(event):
    """The state and the text of the response: who is asking, then what is asked."""
    employee_id = event.get("sessionAttributes", {}).get("employeeId", "")
    parameters = {one["name"]: one["value"] for one in event.get("parameters", [])}
    try:
        with closing(connect()) as db, db:  # commits at the end, rolls back on an exception
            employee = db.execute(
                "SELECT * FROM employees WHERE employee_id = ?", (employee_id,)
            ).fetchone()
            if employee is None:
                return "FAILURE", "No employee is signed in: set the session attribute employeeId."
            return "", json.dumps(FUNCTIONS[event["function"]](db, employee, **parameters))
    except Reprompt as problem:
        return "REPROMPT", str(problem)


def lambda_handler(event, context):
    state, text = run(event)
    response = {"responseBody": {"TEXT": {"body": text}}}
    if state:
        response["responseState"] = state
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": response,
        },
        "sessionAttributes": event.get("sessionAttributes", {}),
        "promptSessionAttributes": event.get("promptSessionAttributes", {}),
    }
