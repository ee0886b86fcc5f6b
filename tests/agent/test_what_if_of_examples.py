"""What if nothing is changed: each example, run again from any step, sends the same prompts."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from left_out import sampled

from orchestrator import Agent, SQLiteStore, load_flow
from orchestrator.actions import ActionResult, Call, CallContext, Executor
from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.engine.trace.past_turns import PastTurn
from orchestrator.knowledge import LocalKnowledgeBase
from orchestrator.models import ModelRequest
from orchestrator.server.workbench.what_if import Changes, WhatIf, find_model_step
from orchestrator.testing import ScriptedModel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def use(name: str, **values: Any) -> list[dict[str, Any]]:
    """A reply that calls a function."""
    return [{"toolUse": {"toolUseId": f"t-{name[-9:]}", "name": name, "input": values}}]


def send(recipient: str, content: str) -> list[dict[str, Any]]:
    return use("AgentCommunication__sendMessage", recipient=recipient, content=content)


def answer(text: str) -> str:
    return f"<thinking>I know it.</thinking><answer>{text}</answer>"


def load_folder(name: str, folder: Path, model: ScriptedModel) -> Agent:
    ignored = shutil.ignore_patterns(".orchestrator", "__pycache__", "tests")
    copy = shutil.copytree(EXAMPLES / name, folder / name, ignore=ignored)
    return Agent.load(copy, model=model, sessions=SQLiteStore(folder / "s.sqlite"))


def load_minimal(_: str, folder: Path, model: ScriptedModel) -> Agent:
    made: Agent = runpy.run_path(str(EXAMPLES / "minimal/agent.py"))["build"](model)
    return made


def load_program(name: str, folder: Path, model: ScriptedModel) -> Agent:
    """An agent whose turns one of the example programs orchestrates."""
    known = runpy.run_path(str(EXAMPLES / "flows/tools.py"))
    tools = {name: known[name] for name in ("find_papers", "note", "track", "score")}
    program = load_flow(EXAMPLES / "flows" / name).as_orchestration(tools)
    sessions = SQLiteStore(folder / "s.sqlite")
    return Agent("flow", "You follow a program.", model, orchestration=program, sessions=sessions)


@dataclass(frozen=True)
class Story:
    """A conversation: what its users say, and what its model replies."""

    name: str
    questions: Sequence[str]
    replies: Sequence[Any]
    attributes: Mapping[str, str] = field(default_factory=dict)  # of the session
    arguments: Mapping[str, str] = field(default_factory=dict)  # prompt session attributes
    results: Mapping[str, Any] = field(default_factory=dict)  # of calls that are handed over
    load: Callable[[str, Path, ScriptedModel], Agent] = load_folder


OPEN = {"damage": "water", "description": "A pipe burst in the kitchen."}
VISIT = {"trade": "plumber", "day": "2026-12-01", "claim_id": "H-1001"}
STORIES = [
    Story(
        "insurance",
        ["Remind Elena Petrova.", "And how much is claim-902?"],
        [
            use("GET__claims__listClaims", status="open"),
            use("GET__claims__listMissingDocuments", claimId="claim-857"),
            use("POST__claims__sendReminder", claimId="claim-857"),
            answer("She was reminded of three documents."),
            use("GET__claims__getClaimDetails", claimId="claim-902"),
            answer("23,800 euros."),
        ],
    ),
    Story(
        "hr",
        ["Book me 14 to 18 June.", "How many days are left? 😀"],
        [
            use("vacations__request_vacation", start_date="2023-06-14", end_date="2023-06-18"),
            use("vacations__request_vacation", start_date="2027-06-14", end_date="2027-06-18"),
            answer("Your vacation is planned."),
            use("vacations__get_available_vacation_days"),
            answer("Not many."),
        ],
        attributes={"employeeId": "e-1101"},
    ),
    Story(
        "handbook",
        ["What does error VPN-809 mean?", "And how do I get a monitor?"],
        [
            use("GET__x_amz_knowledgebase_handbook__Search", searchQuery="error VPN-809"),
            answer("Your certificate has expired."),
            use("GET__x_amz_knowledgebase_handbook__Search", searchQuery="monitor"),
            answer("Ask for one."),
        ],
    ),
    Story(
        "starter",
        ["Where is 1042?", "Cancel order 1043."],
        [
            use("GET__orders__getOrder", orderId="1042"),
            answer("On its way."),
            use("POST__orders__cancelOrder", orderId="1043"),
            answer("It is cancelled."),
        ],
        results={"/orders/{orderId}/cancellation": True},
    ),
    Story(
        "team",
        ["A pipe burst in my kitchen. Is my bill paid?", "Send me a plumber."],
        [
            send("claims", "A pipe burst in the kitchen. Please open a claim."),
            use("claims__get_policy"),
            use("claims__open_claim", **OPEN),
            answer("Claim H-1001 is open."),
            send("billing", "Is there an unpaid invoice?"),
            use("invoices__list_invoices", unpaid_only=True),
            answer("Invoice B-88 was due on 2026-10-01."),
            answer("Your claim is H-1001, and invoice B-88 is unpaid."),
            send("appointments", "Send a plumber for claim H-1001."),
            use("calendar__free_days", trade="plumber"),
            use("visits__book_visit", **VISIT),
            answer("A plumber comes on 2026-12-01."),
            answer("A plumber comes on 1 December."),
        ],
        attributes={"policyId": "p-301"},
        results={"book_visit": "booked"},
    ),
    Story(
        "minimal",
        ["Can I borrow Dune?"],
        [use("library__copies_available", title="dune"), answer("Two copies are there.")],
        load=load_minimal,
    ),
    *(
        Story(
            name,
            ["Hurry up."],
            ["Eile auf.", "- wrong verb", "Beeil dich."],
            arguments={"text": "Hurry up.", "language": "German"},
            load=load_program,
        )
        for name in ("reflection.pl", "reflection.ai.yaml")
    ),
    Story(
        "papers.pl",
        ["Go."],
        ["Naps help.", "Phones keep awake.", "Sleep matters."],
        arguments={"topic": "sleep"},
        load=load_program,
    ),
    Story(
        "routing.pl",
        ["Go."],
        ["delivery", "Sorry!"],
        arguments={"message": "Where is it?", "order": "1042"},
        load=load_program,
    ),
    Story("routing.ai.yaml", ["A page is torn."], ["refund", "A photo."], load=load_program),
    Story(
        "fan_in.pl",
        ["Go."],
        ["Night.", "Noise.", "Cost.", "All agree."],
        arguments={"plan": "A new bus"},
        load=load_program,
    ),
    Story(
        "optimise.pl",
        ["Go."],
        ["Wake up now! It is time to go to work!", "Wake up!", "Wakes softly."],
        arguments={"product": "a clock"},
        load=load_program,
    ),
]


class Noted:
    """Carries calls out, and notes them."""

    def __init__(self, executor: Executor, made: list[str]) -> None:
        self._executor, self._made = executor, made

    def call(self, call: Call, context: CallContext) -> ActionResult:
        self._made.append(call.operation.xml_name)
        return self._executor.call(call, context)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The calls and searches that were carried out, in files of the test's own."""
    for name in ("REMINDERS_FILE", "HR_DATABASE", "CLAIMS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    made: list[str] = []
    retrieve = LocalKnowledgeBase.retrieve

    def note(self: LocalKnowledgeBase, *args: Any, **options: Any) -> Any:
        made.append("search")
        return retrieve(self, *args, **options)

    monkeypatch.setattr(LocalKnowledgeBase, "retrieve", note)
    return made


def written(request: ModelRequest) -> bytes:
    """All of a request that a model reads."""
    members = (request.system, list(request.messages), list(request.tools))
    settings = (dict(request.inference), dict(request.additional), request.tool_choice)
    return json.dumps([request.stage, *members, *settings]).encode()


def converse(agent: Agent, story: Story, question: str, session: str) -> str:
    """One turn, with what the caller does for it."""
    options: dict[str, Any] = {}
    if question:
        options = {"session_attributes": story.attributes}
        options |= {"prompt_session_attributes": story.arguments}
    reply = agent.invoke(question, session, **options)
    while (control := reply.return_control) is not None:
        calls = [next(iter(one.values())) for one in control.invocation_inputs]
        names = [call.get("function") or call["apiPath"] for call in calls]
        results = control.answer({name: story.results.get(name, True) for name in names})
        reply = agent.invoke("", session, results=results)
    return reply.text


def run_again(
    agent: Agent, story: Story, turn: PastTurn, step: PastStep, at: slice, made: list[str]
) -> tuple[str, list[ModelRequest]]:
    """An unchanged run from a step, as the workbench makes it; who must decide decides nothing."""
    model = ScriptedModel(story.replies[at], agent.plan.orchestration.model.model_id)
    changed = Changes(step.stage).apply_to(agent)
    session = changed.fork("s-1", turn.id, find_model_step(turn, step.index).call)
    run = WhatIf(turn, step, run_all=False)
    run.stop()
    again = changed.with_models(lambda _: model).with_executors(lambda it: Noted(it, made))
    return converse(run.prepare(again), story, "", session), model.requests


CASES = [*((story, CLAUDE) for story in STORIES), *sampled((it, "local") for it in STORIES)]


@pytest.mark.parametrize(("story", "model_id"), CASES, ids=lambda it: getattr(it, "name", it))
def test_an_unchanged_run_from_any_step_sends_the_same_and_calls_nothing(
    story: Story, model_id: str, made: list[str], tmp_path: Path
) -> None:
    model = ScriptedModel(story.replies, model_id)
    agent = story.load(story.name, tmp_path, model)
    asked = agent.with_executors(lambda executor: Noted(executor, made))
    texts = [converse(asked, story, question, "s-1") for question in story.questions]
    sent = list(map(written, model.requests))
    # The embedded model's dialect asks the user before some of the calls.
    assert len(sent) == len(story.replies) or model_id == "local"
    turns, first = agent.turns("s-1"), 0
    for turn, text in zip(turns, texts, strict=True):
        calls = [step for step in turn.steps() if step.kind == "model"]
        last = first + len(calls)
        for step in calls:
            at = slice(first + step.call - 1, last)
            searches = [it for it in turn.steps() if it.kind == "search" and it.index > step.index]
            made.clear()
            told, requests = run_again(agent, story, turn, step, at, made)
            assert told == text
            assert list(map(written, requests)) == sent[at]
            assert made == ["search"] * len(searches)
            shown = step.prompt()
            assert [shown.system, shown.messages] == [requests[0].system, [*requests[0].messages]]
        first = last
    assert [turn.id for turn in agent.turns("s-1")] == [turn.id for turn in turns]
