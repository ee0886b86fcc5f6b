"""Handlers written the way public ones are, unchanged, through whole agents.

Each is small and our own; what it has of others is its habit: no `messageVersion`, Python's text of
a value instead of JSON, a list, a dict or `None` as body, `REPROMPT` on every success, an exception
when a parameter is missing, identity from session attributes, attributes that it returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import unescape

import pytest
from whole_agents import BOTH, NATIVE, XML, Family, agent, answer, members

from orchestrator import ActionGroup, Agent, DependencyFailed, LambdaHandler
from orchestrator.actions import LambdaProcess

REPLY = """
def reply(event, body, **more):
    inner = {"responseBody": {"TEXT": {"body": body}}, **more}
    return {"response": {"actionGroup": event["actionGroup"], "function": event["function"],
                         "functionResponse": inner}}

def given(event):
    return {p["name"]: p["value"] for p in event.get("parameters", [])}
"""
API_REPLY = """
import json

def api_reply(event, body, status=200, **more):
    return {"messageVersion": "1.0", "response": {
        "actionGroup": event["actionGroup"], "apiPath": event["apiPath"],
        "httpMethod": event["httpMethod"], "httpStatusCode": status,
        "responseBody": {"application/json": {"body": body}}}, **more}

def properties(event):
    content = event["requestBody"]["content"]["application/json"]["properties"]
    return {p["name"]: p["value"] for p in content}
"""


def function(*names: str, required: bool = True) -> list[dict[str, Any]]:
    parameters = {name: {"type": "string", "required": required} for name in names}
    return [{"name": "act", "description": "Acts.", "parameters": parameters}]


def group(folder: Path, code: str, functions: list[dict[str, Any]]) -> ActionGroup:
    (folder / "lambda_function.py").write_text(REPLY + code)
    handler = LambdaHandler(folder / "lambda_function.py")
    return ActionGroup("actions", functions=functions, executor=handler)


def api_group(
    folder: Path, code: str, path: str, verb: str, *, query: str = "", body: tuple[str, ...] = ()
) -> ActionGroup:
    (folder / "lambda_function.py").write_text(API_REPLY + code)
    text = {"type": "string"}
    found: dict[str, Any] = {"operationId": "act", "description": "Acts.", "responses": {}}
    places = [("path", one[1:-1]) for one in path.split("/") if one.startswith("{")]
    places += [("query", query)] if query else []
    found["parameters"] = [
        {"name": name, "in": place, "required": True, "schema": text} for place, name in places
    ]
    if body:
        schema = {"type": "object", "properties": {name: text for name in body}}
        found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    document = {
        "openapi": "3.0.0",
        "info": {"title": "t", "version": "1"},
        "paths": {path: {verb: found}},
    }
    handler = LambdaHandler(folder / "lambda_function.py")
    return ActionGroup("actions", api_schema=document, executor=handler)


def results_of(request: Any) -> list[str]:
    """The texts of the results in a prompt's last message."""
    found: list[str] = []
    for block in request.messages[-1]["content"]:
        if "toolResult" in block:
            found += [inner["text"] for inner in block["toolResult"]["content"]]
        for tag in ("stdout", "error") if "toolResult" not in block else ():
            pieces = unescape(block["text"]).split(f"<{tag}>")[1:]
            found += [piece.partition(f"</{tag}>")[0].strip() for piece in pieces][:1]
    return found[:1]


class Turn:
    """A turn with one call of the group's operation."""

    def __init__(self, family: Family, group: ActionGroup, **values: Any) -> None:
        (operation,) = group.operations
        name = operation.xml_name if not family.native else operation.tool_use_name
        self.script = [family.calls((name.replace("__", "::"), values)), answer("So it is.")]
        self.model = family.model(self.script)
        self.agent: Agent = agent(self.model, [group])

    def run(self, **options: Any) -> Any:
        self.reply = self.agent.invoke("Please.", "s-1", **options)
        assert self.reply.text == "So it is."
        return self

    def read(self) -> str:
        """What the model read of the call."""
        (text,) = results_of(self.model.requests[1])
        return text


@BOTH
def test_vacations_without_a_message_version_as_pythons_text(
    family: Family, tmp_path: Path
) -> None:
    code = """
def lambda_handler(event, context):
    days = {"employee": given(event)["employee"], "days": 12, "left": None}
    return reply(event, str(days))
"""
    turn = Turn(family, group(tmp_path, code, function("employee")), employee="E-7").run()
    assert turn.read() == "{'employee': 'E-7', 'days': 12, 'left': None}"
    assert "`messageVersion` is missing" in turn.reply.notes
    assert any("Python's text of a value" in note for note in turn.reply.notes)


@BOTH
def test_insurance_claims_with_a_list_as_body(family: Family, tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    return api_reply(event, [{"claim": "c-1", "status": "open"}, {"claim": "c-2"}])
"""
    turn = Turn(family, api_group(tmp_path, code, "/claims", "get", query="state"), state="open")
    assert turn.run().read() == '[{"claim": "c-1", "status": "open"}, {"claim": "c-2"}]'
    assert any("the body is a list, not a text" in note for note in turn.reply.notes)


@BOTH
def test_restaurant_booking_with_decimals_as_a_database_gives_them(
    family: Family, tmp_path: Path
) -> None:
    code = """
from decimal import Decimal
def lambda_handler(event, context):
    return reply(event, {"seats": Decimal("4"), "price": Decimal("19.5"), "tables": {1}})
"""
    turn = Turn(family, group(tmp_path, code, function("date")), date="2026-12-24").run()
    assert turn.read() == '{"seats": 4, "price": 19.5, "tables": [1]}'


@BOTH
def test_a_ticket_system_that_answers_nothing(family: Family, tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    return reply(event, None)
"""
    turn = Turn(family, group(tmp_path, code, function("ticket")), ticket="t-1").run()
    assert turn.read() in ("", "(empty)")  # tool results cannot be empty
    assert any("the body is empty" in note for note in turn.reply.notes)


def test_a_handler_that_returns_nothing_at_all(tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    print("closed", given(event)["ticket"])
"""
    turn = Turn(NATIVE, group(tmp_path, code, function("ticket")), ticket="t-1").run()
    assert turn.read() in ("", "(empty)")  # tool results cannot be empty
    assert any("the handler returned nothing" in note for note in turn.reply.notes)


@BOTH
def test_a_bank_that_says_reprompt_on_every_success(family: Family, tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    return reply(event, "the balance is 100", responseState="REPROMPT")
"""
    turn = Turn(family, group(tmp_path, code, function("account")), account="a-1").run()
    assert turn.read() == "the balance is 100"
    # (Bedrock: the observation of a REPROMPT is still the action group's.)
    assert "failureTrace" not in members(turn.reply.trace)


@BOTH
def test_a_bank_that_fails(family: Family, tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    return reply(event, "no such account", responseState="FAILURE")
"""
    turn = Turn(family, group(tmp_path, code, function("account")), account="a-1")
    with pytest.raises(DependencyFailed) as caught:
        turn.run()
    assert caught.value.reply is not None
    assert members(caught.value.reply.trace)[-1] == "failureTrace"


@BOTH
def test_travel_that_raises_when_a_parameter_is_missing(family: Family, tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    city = next(p["value"] for p in event["parameters"] if p["name"] == "city")
    return reply(event, f"three hotels in {city}")
"""
    optional = group(tmp_path, code, function("city", required=False))
    turn = Turn(family, optional)
    with pytest.raises(DependencyFailed, match=r"raised StopIteration at lambda_function\.py:11"):
        turn.run()
    # Said to be required, it is asked for before the handler sees anything.
    wanted = group(tmp_path, code, function("city"))
    turn = Turn(family, wanted).run()
    assert "Missing the argument city" in turn.read()


IDENTITY = """
def lambda_handler(event, context):
    session = event["sessionAttributes"]
    employee = given(event).get("employee") or session.get("employeeId")
    if not employee:
        return reply(event, "Please sign in.")
    return reply(event, f"{employee} has 12 days")
"""


@BOTH
@pytest.mark.parametrize(
    ("values", "attributes", "read"),
    [
        ({}, {"employeeId": "E-7"}, "E-7 has 12 days"),
        ({"employee": "E-9"}, {"employeeId": "E-7"}, "E-9 has 12 days"),
        ({}, {}, "Please sign in."),
    ],
)
def test_identity_from_the_session(
    family: Family, tmp_path: Path, values: Any, attributes: Any, read: str
) -> None:
    made = group(tmp_path, IDENTITY, function("employee", required=False))
    turn = Turn(family, made, **values).run(session_attributes=attributes)
    assert turn.read() == read
    # The model was never shown who it is.
    assert "employeeId" not in str([turn.model.requests[0].system, turn.model.requests[0].messages])


def test_a_crm_that_returns_attributes_whole(tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    session, prompt = event["sessionAttributes"], event["promptSessionAttributes"]
    session["visits"] = int(session.get("visits", 0)) + 1
    body = f"visit {session['visits']} of {session['customer']}, {prompt.get('language')}"
    return {**reply(event, body), "sessionAttributes": session, "promptSessionAttributes": prompt}
"""
    made = group(tmp_path, code, function())
    (operation,) = made.operations
    call = NATIVE.calls((operation.xml_name, {}))
    model = NATIVE.model([call, answer("One."), call, answer("Two.")])
    asked = agent(model, [made])
    first = asked.invoke(
        "Hi",
        "s-1",
        session_attributes={"customer": "c-1"},
        prompt_session_attributes={"language": "de"},
    )
    assert results_of(model.requests[1]) == ["visit 1 of c-1, de"]
    assert any("values that are not texts" in note for note in first.notes)
    asked.invoke("Hi again", "s-1")
    # Prompt attributes live one turn; the session's live on.
    assert results_of(model.requests[3]) == ["visit 2 of c-1, None"]


@BOTH
def test_a_portfolio_with_a_body_and_path(family: Family, tmp_path: Path) -> None:
    code = """
def handler_of(event):
    company = next(p["value"] for p in event["parameters"] if p["name"] == "company")
    return {"company": company, **properties(event)}

def lambda_handler(event, context):
    return api_reply(event, json.dumps(handler_of(event)), status="201")
"""
    made = api_group(tmp_path, code, "/companies/{company}/orders", "post", body=("kind", "count"))
    turn = Turn(family, made, company="acme", kind="buy", count="3").run()
    assert turn.read() == '{"company": "acme", "kind": "buy", "count": "3"}'
    assert any("`httpStatusCode` is a text" in note for note in turn.reply.notes)


def test_a_house_that_says_what_is_wrong_with_a_status(tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    return api_reply(event, json.dumps({"error": "no such lamp"}), status=404)
"""
    turn = Turn(NATIVE, api_group(tmp_path, code, "/lamps/{lamp}", "put"), lamp="l-9").run()
    assert turn.read() == '{"error": "no such lamp"}'
    assert any("the HTTP status is 404" in note for note in turn.reply.notes)


def test_an_energy_forecast_in_api_gateways_form(tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    return {"statusCode": 200, "body": json.dumps({"kWh": [1.5, 2]})}
"""
    turn = Turn(NATIVE, api_group(tmp_path, code, "/forecast", "get")).run()
    assert turn.read() == '{"kWh": [1.5, 2]}'


def test_text_toys_that_answer_for_another_function(tmp_path: Path) -> None:
    code = """
def lambda_handler(event, context):
    text = given(event)["text"][::-1]
    answer = reply(event, text)
    answer["response"]["function"] = "reverse_string"
    return answer
"""
    turn = Turn(XML, group(tmp_path, code, function("text")), text="abc").run()
    assert turn.read() == "cba"
    assert any("`function` is 'reverse_string', not 'act'" in note for note in turn.reply.notes)


def test_a_contract_assistant_that_ends_the_program(tmp_path: Path) -> None:
    code = """
import sys
def lambda_handler(event, context):
    sys.exit("no template")
"""
    turn = Turn(NATIVE, group(tmp_path, code, function("kind")), kind="lease")
    with pytest.raises(DependencyFailed, match="raised SystemExit"):
        turn.run()


MORTGAGE = """
import os, datetime
LIMITS = {"income": 5, "deposit": 0.1}

def rate(event):
    years = int(given(event).get("years", "30"))
    return {"years": years, "rate": 0.031 if years > 15 else 0.027}

def documents(event):
    return ["passport", "pay slips", datetime.date(2026, 1, 31)]

def application(event):
    values = given(event)
    values["approved"] = float(values["income"]) * LIMITS["income"] > float(values["price"])
    return values

def lambda_handler(event, context):
    print(f"{context.function_name} {event['actionGroup']}::{event['function']}")
    body = globals()[event["function"]](event)
    return reply(event, str(body))
"""
NUMBERS = {"price": {"type": "number", "required": True}, "income": {"type": "number"}}


@pytest.mark.parametrize("executor", [LambdaHandler, LambdaProcess])
def test_one_handler_for_several_groups_of_a_mortgage_desk(
    tmp_path: Path, executor: type[LambdaHandler]
) -> None:
    (tmp_path / "lambda_function.py").write_text(REPLY + MORTGAGE)
    handler = executor(tmp_path / "lambda_function.py")
    groups = [
        ActionGroup(name, functions=functions, executor=handler)
        for name, functions in {
            "offers": [{"name": "rate", "parameters": {"years": {"type": "integer"}}}],
            "papers": [{"name": "documents"}, {"name": "application", "parameters": NUMBERS}],
        }.items()
    ]
    calls = NATIVE.calls(
        ("offers::rate", {"years": 10}),
        ("papers::documents", {}),
        ("papers::application", {"price": 200000, "income": 50000}),
    )
    model = NATIVE.model([calls, answer("Approved.")])
    assert agent(model, groups).invoke("A mortgage?", "s-1").text == "Approved."
    results = [block["toolResult"]["content"][0]["text"] for block in _results(model)]
    assert results == [
        "{'years': 10, 'rate': 0.027}",
        "['passport', 'pay slips', datetime.date(2026, 1, 31)]",
        "{'price': '200000', 'income': '50000', 'approved': True}",
    ]


def _results(model: Any) -> list[dict[str, Any]]:
    return [it for it in model.requests[1].messages[-1]["content"] if "toolResult" in it]


STAFF = """
import urllib.parse
BUDGETS = {"sales": {"year": 2026, "left": 1200.5}}

def find(event, name, default=None):
    for one in event.get("parameters") or []:
        if one["name"] == name:
            return urllib.parse.unquote(one["value"])
    return default

def lambda_handler(event, context):
    path, verb = event["apiPath"], event["httpMethod"]
    if (verb, path) == ("GET", "/budgets/{team}"):
        body = BUDGETS.get(find(event, "team"), {})
    elif (verb, path) == ("POST", "/vacations"):
        body = properties(event)
        body["days"] = len(body["dates"].strip("[]").split(","))
    else:
        return api_reply(event, "not found", status=404)
    return api_reply(event, body)
"""


@pytest.mark.parametrize("executor", [LambdaHandler, LambdaProcess])
@pytest.mark.parametrize(
    ("path", "verb", "body", "values", "read"),
    [
        ("/budgets/{team}", "get", (), {"team": "sales"}, '{"year": 2026, "left": 1200.5}'),
        ("/pay/{person}", "get", (), {"person": "E-7"}, "not found"),
        (
            *("/vacations", "post", ("dates",), {"dates": "[2026-08-03,2026-08-04]"}),
            '{"dates": "[2026-08-03,2026-08-04]", "days": 2}',
        ),
    ],
)
def test_budgets_pay_and_vacations_of_a_staff_office(
    tmp_path: Path,
    executor: type[LambdaHandler],
    path: str,
    verb: str,
    body: tuple[str, ...],
    values: dict[str, Any],
    read: str,
) -> None:
    made = api_group(tmp_path, STAFF, path, verb, body=body)
    made.executor = executor(tmp_path / "lambda_function.py")
    assert Turn(NATIVE, made, **values).run().read() == read


@pytest.mark.parametrize("executor", [LambdaHandler, LambdaProcess])
def test_a_profile_that_somebody_has_to_approve(
    tmp_path: Path, executor: type[LambdaHandler]
) -> None:
    code = """
PROFILES = {"u-1": {"name": "Ana", "newsletter": False}}

def lambda_handler(event, context):
    profile = PROFILES[event["sessionAttributes"]["user"]]
    profile.update(given(event))
    return {**reply(event, profile), "sessionAttributes": {"user": "u-1", "changed": "yes"}}
"""
    functions = function("newsletter")
    functions[0]["requireConfirmation"] = "ENABLED"
    made = group(tmp_path, code, functions)
    made.executor = executor(tmp_path / "lambda_function.py")
    model = NATIVE.model([NATIVE.calls(("actions::act", {"newsletter": "on"})), answer("Done.")])
    asked = agent(model, [made])
    reply = asked.invoke("I want news.", "s-1", session_attributes={"user": "u-1"})
    assert reply.return_control is not None
    confirmed = reply.return_control.answer({"act": True})
    assert asked.invoke(session_id="s-1", results=confirmed).text == "Done."
    assert results_of(model.requests[1]) == ['{"name": "Ana", "newsletter": "on"}']
