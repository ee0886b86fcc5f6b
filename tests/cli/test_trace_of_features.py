"""Traces told step by step: of teams, routing, guardrails, programs, one's own orchestrations."""

from __future__ import annotations

import json

import pytest
from cli_support import CLAUDE, call

from orchestrator import ActionGroup, Agent, Collaborator, ReturnControl, action
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.steps import describe_activity, list_steps
from orchestrator.cli.terminal import Terminal
from orchestrator.guardrails import LocalGuardrail, Pii, Regex, Topic, Word
from orchestrator.testing import ScriptedModel

GUARD = LocalGuardrail(
    topics=[Topic("wages")],
    words=[Word("bomb")],
    pii=[Pii("EMAIL", "ANONYMIZE", "ANONYMIZE")],
    regexes=[Regex("bill", "B-[0-9]+", "BLOCK", "BLOCK")],
)


@action
def status(bill: str) -> str:
    """Whether a bill is paid."""
    return "unpaid"


def agent(name, *replies, **options):
    return Agent(name, "You help.", ScriptedModel([*replies], CLAUDE), **options)


def message(recipient, content):
    return call("AgentCommunication__sendMessage", recipient=recipient, content=content)[0]


def team(**options):
    look = [{"text": "<thinking>I look.</thinking>"}, *call("bills__status", bill="88")]
    bills = ActionGroup("bills", actions=[status])
    both = [message("billing", "Is it paid?"), message("visits", "Book!")]
    both[1]["toolUse"]["toolUseId"] = "t-2"
    members = [
        agent("billing", look, "<answer>Unpaid.</answer>", action_groups=[bills]),
        agent("visits", "<answer>Booked.</answer>"),
    ]
    boss = [both, "<answer>Unpaid, and booked.</answer>"]
    return agent(
        "boss", *boss, collaborators=[Collaborator(it, it.name) for it in members], **options
    )


def told(reply):
    return [
        (step.agent, step.verb, step.subject, step.text)
        for step in list_steps(reply.trace)
        if step.verb != "passes the guardrail"
    ]


def test_a_team_is_told_in_the_order_of_its_talk():
    assert told(team().invoke("Paid?", "s-1")) == [
        ("", "thinks", "", ""),
        ("", "asks the agent", "billing", "Is it paid?"),
        ("", "asks the agent", "visits", "Book!"),
        ("billing", "thinks", "", "I look."),
        ("billing", "calls", "bills::status(bill=88)", "unpaid"),
        ("billing", "thinks", "", ""),
        ("billing", "answers", "", "Unpaid."),
        ("", "hears from", "billing", ""),
        ("visits", "thinks", "", ""),
        ("visits", "answers", "", "Booked."),
        ("", "hears from", "visits", ""),
        ("", "thinks", "", ""),
        ("", "answers", "", "Unpaid, and booked."),
    ]


def test_agents_at_work_at_the_same_time_are_not_taken_for_one_another():
    trace = team().invoke("Paid?", "s-1").trace
    of = {name: [it for it in trace if it.get("collaboratorName") == name] for name in NAMES}
    begins, ends = trace.index(of["billing"][0]), trace.index(of["visits"][-1]) + 1
    mixed = []
    while any(of.values()):  # one part of each in turn
        mixed += [parts.pop(0) for parts in of.values() if parts]
    outcomes = [it for it in trace[begins:ends] if it not in mixed]
    steps = list_steps([*trace[:begins], *mixed, *outcomes, *trace[ends:]])
    for name in NAMES:
        alone = [it for it in list_steps(trace) if it.agent == name]
        assert [it for it in steps if it.agent == name] == alone


NAMES = ("billing", "visits")


def test_an_agent_elsewhere_is_heard_with_its_answer():
    trace = [it for it in team().invoke("Paid?", "s-1").trace if "collaboratorName" not in it]
    heard = [step for step in list_steps(trace) if step.verb == "hears from"]
    assert [(it.subject, it.text) for it in heard] == [
        ("billing", "Unpaid."),
        ("visits", "Booked."),
    ]


def test_a_team_that_waits():
    book = [{"name": "book", "description": "Books."}]
    group = ActionGroup("calendar", functions=book, executor=ReturnControl())
    visits = agent(
        "visits", call("calendar__book"), "<answer>Done.</answer>", action_groups=[group]
    )
    boss = agent(
        "boss", [message("visits", "Book!")], collaborators=[Collaborator(visits, "Visits.")]
    )
    steps = told(boss.invoke("Book!", "s-1"))
    assert ("", "hears from", "visits", "its calls wait for the caller") in steps
    assert steps[-1] == ("visits", "hands over", "calendar::book()", "waits for the caller")


@pytest.mark.parametrize(
    ("choice", "steps"),
    [
        ("<a>billing</a>", [("chooses an agent", "billing"), ("asks the agent", "billing")]),
        ("<a>undecidable</a>", [("chooses no agent", ""), ("thinks", "")]),
        ("I do not know.", [("chooses no agent", ""), ("thinks", "")]),
    ],
)
def test_routing(choice, steps):
    billing = agent("billing", "<answer>Paid.</answer>")
    boss = agent(
        "boss",
        choice,
        "<answer>Paid.</answer>",
        collaborators=[Collaborator(billing, "Bills.")],
        collaboration="SUPERVISOR_ROUTER",
    )
    found = told(boss.invoke("Paid?", "s-1"))
    assert [(verb, subject) for _, verb, subject, _ in found[:2]] == steps


@pytest.mark.parametrize(
    ("question", "answer", "verb", "found"),
    [
        ("joe@x.com", "Hi.", "is masked by the guardrail", "in the input: EMAIL"),
        ("Hi.", "ann@x.com", "is masked by the guardrail", "in the output: EMAIL"),
        ("a bomb", "", "is stopped by the guardrail", "in the input: word 'bomb'"),
        ("Hi.", "my wages", "is stopped by the guardrail", "in the output: topic 'wages'"),
        (
            "B-88, a@b.com, c@d.com",
            "",
            "is stopped by the guardrail",
            "in the input: EMAIL, expression 'bill'",
        ),
    ],
)
def test_what_a_guardrail_found(question, answer, verb, found):
    guarded = agent("shop", f"<answer>{answer}</answer>", guardrail=GUARD)
    steps = told(guarded.invoke(question, "s-1"))
    assert [(it[1], it[2]) for it in steps if "guardrail" in it[1]] == [(verb, found)]
    assert not any("joe@" in text or "a@b" in text for step in steps for text in step)


def test_a_guardrail_that_says_nothing_of_why():
    part = {"trace": {"guardrailTrace": {"action": "INTERVENED", "traceId": "t"}}}
    (step,) = list_steps([part])
    assert (step.verb, step.subject) == ("is stopped by the guardrail", "")


def test_what_is_only_detected_is_not_told():
    topics = [{"name": "wages", "type": "DENY", "action": "NONE"}]
    filters = [{"type": "PROMPT_ATTACK", "confidence": "HIGH", "action": "BLOCKED"}]
    assessment = {"topicPolicy": {"topics": topics}, "contentPolicy": {"filters": filters}}
    trace = {"action": "INTERVENED", "inputAssessments": [assessment]}
    (step,) = list_steps([{"trace": {"guardrailTrace": trace}}])
    assert step.subject == "in the input: PROMPT_ATTACK (HIGH)"


def program(output):
    """Two parts of a program that was run."""
    given = {
        "invocationType": "ACTION_GROUP_CODE_INTERPRETER",
        "codeInterpreterInvocationInput": {"code": "import math\nprint(math.pi)"},
    }
    seen = {"type": "ACTION_GROUP", "codeInterpreterInvocationOutput": output}
    return [
        {"trace": {"orchestrationTrace": {"invocationInput": given}}},
        {"trace": {"orchestrationTrace": {"observation": seen}}},
    ]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"executionOutput": "3.14\n", "executionError": ""}, "3.14"),
        (
            {"executionOutput": "a\n", "executionError": "Traceback ...\nValueError: no\n"},
            "a; fails: ValueError: no",
        ),
        ({"executionTimeout": True}, "its time was up"),
    ],
)
def test_a_program_with_what_it_printed(output, text):
    files = {"files": ["plot.png"], "metadata": {"totalTimeMs": 54}}
    (step,) = list_steps(program({**output, **files}))
    assert (step.verb, step.subject) == ("runs code", "import math ⏎ print(math.pi)")
    assert (step.text, step.facts) == (text, ["54 ms", "plot.png"])


def test_a_program_and_an_action_at_the_same_time():
    calls = {"actionGroupName": "g", "function": "f", "executionType": "LAMBDA"}
    invoked = {"invocationInput": {"actionGroupInvocationInput": calls}}
    seen = {"type": "ACTION_GROUP", "actionGroupInvocationOutput": {"text": "done"}}
    begun, ended = program({"executionOutput": "3.14"})
    done = {"trace": {"orchestrationTrace": {"observation": seen}}}
    steps = list_steps([{"trace": {"orchestrationTrace": invoked}}, begun, ended, done])
    assert [(it.verb, it.text) for it in steps] == [("runs code", "3.14"), ("calls", "done")]


def test_what_an_orchestration_notes():
    def own(turn):
        yield turn.trace("I ask nobody.")
        return "Hello."

    assert told(agent("own", orchestration=own).invoke("Hi", "s-1"))[0] == (
        "",
        "notes",
        "",
        "I ask nobody.",
    )


def test_the_names_of_a_team_are_in_the_terminal(run):
    trace = team(guardrail=GUARD).invoke("Paid? joe@x.com", "s-1").trace
    done = run("trace", input=json.dumps(trace))
    lines = [line.split("  ")[0] for line in done.stdout.splitlines()]
    numbered = [line.lstrip() for line in lines if line.lstrip()[:1].isdigit() and ". " in line]
    assert "1. is masked by the guardrail in the input: EMAIL" in numbered
    assert "3. asks the agent billing" in numbered
    assert "6. billing calls bills::status(bill=88)" in numbered
    assert "    → unpaid" in done.stdout.splitlines()
    assert {line.index(". ") for line in lines if line.lstrip() in numbered} == {2}


def test_a_name_cannot_steer_the_terminal(run):
    asked = {"agentCollaboratorName": "\x1b[2Jx", "input": {"type": "TEXT", "text": "\x1b[31mHi"}}
    invoked = {"agentCollaboratorInvocationInput": asked}
    part = {
        "collaboratorName": "\x1b[1mboss",
        "trace": {"orchestrationTrace": {"invocationInput": invoked}},
    }
    assert "\x1b" not in run("trace", input=json.dumps([part])).stdout


def live(subject, capsys):
    terminal = Terminal()
    turn = LiveTurn(terminal, trace=True)
    turn.run(subject.stream("Paid?", "s-1"))
    turn.finish()
    return capsys.readouterr()


def test_a_collaborators_answer_is_told_as_it_does_not_stream(capsys):
    shown = live(team(), capsys)
    assert shown.out == "Unpaid, and booked.\n"
    assert "billing answers\n    Unpaid.\n" in shown.err
    assert "Unpaid, and booked." not in shown.err


def test_the_answer_of_a_chosen_agent_streams_and_is_told_once(capsys):
    billing = agent("billing", "<answer>It is paid.</answer>")
    boss = agent(
        "boss",
        "<a>billing</a>",
        collaborators=[Collaborator(billing, "Bills.")],
        collaboration="SUPERVISOR_ROUTER",
    )
    shown = live(boss, capsys)
    assert shown.out == "It is paid.\n"
    assert "It is paid." not in shown.err
    assert "chooses an agent billing" in shown.err


def test_what_a_team_is_doing():
    doing = [describe_activity(part) for part in team().invoke("Paid?", "s-1").trace]
    assert set(doing) >= {
        "reading and thinking",
        "asking the agent billing",
        "billing: reading and thinking",
        "billing: calling status with bill=88",
    }
