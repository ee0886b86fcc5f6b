"""The whole vacations agent, with a model whose replies are written beforehand."""

import json
from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.errors import DependencyFailed
from orchestrator.testing import ScriptedModel

FOLDER = Path(__file__).resolve().parents[1]
TOOL_USE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


@pytest.fixture(autouse=True)
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("HR_DATABASE", str(tmp_path / "hr.sqlite"))


def tool(name, **values):
    return [{"toolUse": {"toolUseId": "t-1", "name": f"vacations__{name}", "input": values}}]


def load(*replies):
    model = ScriptedModel(replies, model_id=TOOL_USE)
    return Agent.load(FOLDER, model=model), model


def test_the_employee_of_the_session_is_meant_and_never_shown_to_the_model():
    agent, model = load(
        tool("get_available_vacation_days"),
        "<answer>You have 20 days left.</answer>",
        tool("list_planned_vacations"),
        "<answer>You are off from 3 to 7 May.</answer>",
    )
    attributes = {"employeeId": "e-1077"}
    agent.invoke("How many days do I have?", session_id="s-1", session_attributes=attributes)
    agent.invoke("And what is planned?", session_id="s-1")
    first, last = (json.dumps(model.requests[n].messages) for n in (1, 3))
    assert "available_vacation_days" in first and "20" in first
    assert "2027-05-03" in last
    for request in model.requests:
        assert "e-1077" not in json.dumps([request.system, request.messages])


def test_wrong_dates_go_back_to_the_model_which_tries_again():
    agent, model = load(
        tool("request_vacation", start_date="2023-06-14", end_date="2023-06-18"),
        tool("request_vacation", start_date="2027-06-14", end_date="2027-06-18"),
        "<answer>Your vacation is planned.</answer>",
    )
    reply = agent.invoke(
        "Book me 14 to 18 June", session_id="s-1", session_attributes={"employeeId": "e-1101"}
    )
    assert reply.text == "Your vacation is planned."
    assert "only be planned for 2027" in json.dumps(model.requests[1].messages)
    assert "planned" in json.dumps(model.requests[2].messages[-1])


def test_without_an_employee_the_caller_is_told_what_to_set():
    agent, _ = load(tool("get_available_vacation_days"))
    with pytest.raises(DependencyFailed, match="employeeId"):
        agent.invoke("How many days do I have?", session_id="s-1")
