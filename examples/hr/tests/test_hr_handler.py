"""The vacations Lambda, driven with the events that Bedrock sends."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]


@pytest.fixture
def handler(tmp_path, monkeypatch):
    monkeypatch.setenv("HR_DATABASE", str(tmp_path / "hr.sqlite"))
    path = FOLDER / "action_groups/vacations/handler.py"
    spec = importlib.util.spec_from_file_location("hr_handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reply(handler, function, employee="e-1042", **parameters):
    """The function's response of one call."""
    event = {
        "messageVersion": "1.0",
        "agent": {"name": "hr-vacations", "id": "A", "alias": "T", "version": "DRAFT"},
        "inputText": "a question",
        "sessionId": "s-1",
        "actionGroup": "vacations",
        "function": function,
        "parameters": [
            {"name": name, "type": "string", "value": value} for name, value in parameters.items()
        ],
        "sessionAttributes": {"employeeId": employee} if employee else {},
        "promptSessionAttributes": {},
    }
    response = handler.lambda_handler(event, None)["response"]
    assert (response["actionGroup"], response["function"]) == ("vacations", function)
    return response["functionResponse"]


def text(response):
    return response["responseBody"]["TEXT"]["body"]


def result(handler, function, employee="e-1042", **parameters):
    """The result of a call that succeeds."""
    response = reply(handler, function, employee, **parameters)
    assert "responseState" not in response
    return json.loads(text(response))


def days_left(handler, employee="e-1042"):
    return result(handler, "get_available_vacation_days", employee)["available_vacation_days"]


def test_each_employee_sees_their_own_days_and_vacations(handler):
    everyone = ("e-1042", "e-1077", "e-1101", "e-1120")
    assert [days_left(handler, employee) for employee in everyone] == [13, 20, 30, 2]
    mine = result(handler, "list_planned_vacations", "e-1077")["planned_vacations"]
    assert [one["request_id"] for one in mine] == ["V-16"]


def test_the_identity_comes_from_the_session_and_cannot_be_given(handler):
    response = reply(handler, "get_available_vacation_days", employee=None)
    assert response["responseState"] == "FAILURE"
    with pytest.raises(TypeError):
        reply(handler, "get_available_vacation_days", employee_id="e-1101")


def test_a_requested_vacation_is_kept_and_counts_working_days(handler):
    made = result(handler, "request_vacation", start_date="2027-06-11", end_date="2027-06-14")
    assert (made["status"], made["days"], made["available_vacation_days"]) == ("planned", 2, 11)
    assert days_left(handler) == 11
    ids = [o["request_id"] for o in result(handler, "list_planned_vacations")["planned_vacations"]]
    assert made["request_id"] in ids


@pytest.mark.parametrize(
    ("employee", "start", "end", "reason"),
    [
        ("e-1042", "2027-02-19", "2027-02-22", "overlaps"),
        ("e-1120", "2027-03-01", "2027-03-03", "2 are left"),
    ],
)
def test_a_vacation_that_cannot_be_is_refused(handler, employee, start, end, reason):
    before = days_left(handler, employee)
    made = result(handler, "request_vacation", employee, start_date=start, end_date=end)
    assert made["status"] == "refused"
    assert reason in made["reason"]
    assert days_left(handler, employee) == before


@pytest.mark.parametrize(
    ("start", "end", "problem"),
    [
        ("next Monday", "2027-06-18", "YYYY-MM-DD"),
        ("2023-06-14", "2023-06-18", "2027"),
        ("2027-06-18", "2027-06-14", "before it starts"),
        ("", "", "YYYY-MM-DD"),
    ],
)
def test_dates_without_sense_are_asked_again(handler, start, end, problem):
    response = reply(handler, "request_vacation", start_date=start, end_date=end)
    assert response["responseState"] == "REPROMPT"
    assert problem in text(response)


def test_a_cancelled_vacation_gives_its_days_back(handler):
    assert result(handler, "cancel_vacation", request_id="v-12")["status"] == "cancelled"
    assert days_left(handler) == 18


def test_nobody_can_cancel_the_vacation_of_somebody_else(handler):
    response = reply(handler, "cancel_vacation", request_id="V-16")
    assert response["responseState"] == "REPROMPT"
    assert "V-12, V-15" in text(response)
    assert days_left(handler, "e-1077") == 20
