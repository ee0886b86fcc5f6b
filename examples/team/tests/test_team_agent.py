"""The whole team, with models whose replies are written beforehand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.errors import DependencyFailed
from orchestrator.testing import ScriptedModel

FOLDER = Path(__file__).resolve().parents[1]
TOOL_USE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
CUSTOMER = {"policyId": "p-301"}


@pytest.fixture(autouse=True)
def claims_file(tmp_path, monkeypatch):
    file = tmp_path / "claims.jsonl"
    monkeypatch.setenv("CLAIMS_FILE", str(file))
    return file


def calls(*named):
    """A reply with calls: `("claims__get_policy", {...})`, or a message `(agent, text)`."""
    content = []
    for number, (name, given) in enumerate(named):
        if isinstance(given, str):
            name, given = (
                "AgentCommunication__sendMessage",
                {"recipient": name, "content": given},
            )
        use = {"toolUseId": f"t-{number}-{name[:8]}", "name": name, "input": given}
        content.append({"toolUse": use})
    return content


def answer(text):
    return f"<answer>{text}</answer>"


def load(*replies, **options):
    """The team; one script for all of its models, so one of them is asked at a time."""
    model = ScriptedModel(replies, model_id=TOOL_USE)
    return Agent.load(FOLDER, model=model, **options), model


def told(trace):
    """Whose trace it is, part by part, without the repetitions."""
    names = [part.get("collaboratorName", "home-insurer") for part in trace]
    return [name for at, name in enumerate(names) if not at or names[at - 1] != name]


OPEN = {"damage": "water", "description": "A pipe burst in the kitchen."}
DAMAGE = [
    calls(("claims", "A pipe burst in the kitchen. Please open a claim.")),
    calls(("claims__get_policy", {})),
    calls(("claims__open_claim", OPEN)),
    answer("Claim H-1001 is open. The customer pays 150 EUR."),
    calls(("billing", "Is there an unpaid invoice?")),
    calls(("invoices__list_invoices", {"unpaid_only": True})),
    answer("Invoice B-88 over 212.40 EUR was due on 2026-10-01."),
    answer("Your claim is H-1001; you pay 150 EUR of it. Invoice B-88 is still unpaid."),
]
VISIT = {"trade": "plumber", "day": "2026-12-01", "claim_id": "H-1001"}
PLUMBER = [
    calls(("appointments", "Send a plumber for claim H-1001.")),
    calls(("calendar__free_days", {"trade": "plumber"})),
    calls(("visits__book_visit", VISIT)),
    answer("A plumber comes on 2026-12-01."),
    answer("A plumber comes on 1 December."),
]


def test_two_agents_answer_one_question(claims_file):
    agent, model = load(*DAMAGE)
    reply = agent.invoke(
        "A pipe burst in my kitchen. Is my bill paid?", "s-1", session_attributes=CUSTOMER
    )
    assert reply.text.startswith("Your claim is H-1001")
    assert told(reply.trace) == [
        "home-insurer",
        "claims",
        "home-insurer",
        "billing",
        "home-insurer",
    ]
    (claim,) = map(json.loads, claims_file.read_text().splitlines())
    assert (claim["policy"], claim["damage"]) == ("p-301", "water")
    assert "212.40" in json.dumps(model.requests[6].messages)
    # The supervisor knows what the agents have said, and nothing of how they found out.
    last = json.dumps(model.requests[-1].messages)
    assert "Claim H-1001 is open." in last and "customerPaysEUR" not in last
    # Who the customer is, no model is told.
    for request in model.requests:
        assert "p-301" not in json.dumps([request.system, request.messages])


def test_the_application_books_the_visit():
    agent, model = load(*DAMAGE, *PLUMBER)
    agent.invoke("A pipe burst.", "s-1", session_attributes=CUSTOMER)
    reply = agent.invoke("Send me a plumber.", "s-1")
    (call,) = reply.return_control.invocation_inputs
    visit = call["functionInvocationInput"]
    assert (visit["collaboratorName"], visit["function"]) == ("appointments", "book_visit")
    assert {it["name"]: it["value"] for it in visit["parameters"]} == VISIT
    # It reads the conversation with the user, because it is relayed.
    relayed = json.dumps(model.requests[9].messages)
    assert "A pipe burst." in relayed and "you pay 150 EUR" in relayed
    # The earliest free day comes first, however the file has them.
    assert '2026-12-01\\", \\"2026-12-03' in json.dumps(model.requests[10].messages)
    reply = agent.invoke(session_id="s-1", results=reply.return_control.answer("booked"))
    assert reply.text == "A plumber comes on 1 December."
    assert told(reply.trace) == ["home-insurer", "appointments", "home-insurer"]


def test_the_visit_is_booked_after_a_restart(tmp_path):
    sessions = tmp_path / "sessions.sqlite"
    agent, _ = load(*DAMAGE, *PLUMBER[:3], sessions=sessions)
    agent.invoke("A pipe burst.", "s-1", session_attributes=CUSTOMER)
    control = agent.invoke("Send me a plumber.", "s-1").return_control
    # Another process has its own models, and the same sessions.
    again, model = load(*PLUMBER[3:], sessions=sessions)
    reply = again.invoke(session_id="s-1", results=control.answer("booked"))
    assert reply.text == "A plumber comes on 1 December."
    assert len(model.requests) == 2
    assert "H-1001" in json.dumps(model.requests[0].messages)


def test_damage_that_is_not_covered_opens_no_claim(claims_file):
    agent, model = load(
        calls(("claims", "A window broke.")),
        calls(("claims__open_claim", {"damage": "glass", "description": "A window."})),
        answer("Glass is not covered."),
        answer("Broken glass is not covered by your policy."),
    )
    reply = agent.invoke("My window broke.", "s-1", session_attributes=CUSTOMER)
    assert reply.text == "Broken glass is not covered by your policy."
    assert "it covers water, fire, storm" in json.dumps(model.requests[2].messages)
    assert not claims_file.exists()


def test_customers_see_their_own_claims_and_bills():
    agent, model = load(
        *DAMAGE,
        calls(("claims", "How does claim H-1001 stand?")),
        calls(("claims__get_claim", {"claim_id": "h-1001"})),
        answer("There is no such claim."),
        calls(("billing", "Which invoices are there?")),
        calls(("invoices__list_invoices", {})),
        answer("One, and it is paid."),
        answer("You have no such claim, and your invoice is paid."),
    )
    agent.invoke("A pipe burst.", "s-1", session_attributes=CUSTOMER)
    agent.invoke("And H-1001?", "s-2", session_attributes={"policyId": "p-302"})
    assert "The customer has no claim" in json.dumps(model.requests[10].messages)
    invoices = json.dumps(model.requests[13].messages)
    assert "B-79" in invoices and "B-71" not in invoices


def test_without_a_customer_the_application_is_told_what_to_set():
    agent, _ = load(calls(("claims", "Open a claim.")), calls(("claims__get_policy", {})))
    with pytest.raises(DependencyFailed, match="policyId"):
        agent.invoke("A pipe burst.", "s-1")


def test_each_agent_can_be_tried_alone():
    model = ScriptedModel(
        [calls(("invoices__list_invoices", {})), answer("Two invoices.")], model_id=TOOL_USE
    )
    agent = Agent.load(FOLDER / "billing", model=model)
    assert agent.invoke("Which invoices?", "s-1", session_attributes=CUSTOMER).text


def test_on_the_command_line(tmp_path):
    script = tmp_path / "replies.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in DAMAGE))
    words = [
        *("invoke", str(FOLDER), "A pipe burst. Is my bill paid?", "--json"),
        *("--attribute", "policyId=p-301", f"--model=scripted:{script}@{TOOL_USE}"),
    ]
    program = "from orchestrator.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["text"].startswith("Your claim is H-1001")
    assert {part.get("collaboratorName") for part in reply["trace"]} == {None, "claims", "billing"}


def test_free_days_are_looked_up_without_asking():
    # The embedded model's dialect asks before a call whose name does not say that it only reads.
    model = ScriptedModel(
        [calls(("calendar__free_days", {"trade": "plumber"})), answer("On the first.")],
        model_id="local",
    )
    reply = Agent.load(FOLDER / "appointments", model=model).invoke("When can a plumber come?")
    assert reply.return_control is None
    assert reply.text == "On the first."


@pytest.mark.parametrize(
    "attributes, said", [({}, "is signed in"), ({"policyId": "P-1"}, "no policy 'P-1'")]
)
def test_a_wrong_policy_is_named(attributes, said):
    model = ScriptedModel([calls(("claims__get_policy", {}))], model_id=TOOL_USE)
    with pytest.raises(DependencyFailed, match=said):
        Agent.load(FOLDER / "claims", model=model).invoke(
            "Is water covered?", session_attributes=attributes
        )
