"""Recordings of the real service, replayed: with `aws_compat` the whole trace is equal to its.

Equal are all members of all parts, the raw replies and the messages of the prompts. Only times,
random ids, names of the AWS account and the templates' own words are left out.
"""

from __future__ import annotations

from typing import Any

import pytest
from golden_recordings import (
    RecordedBase,
    RecordedGuardrail,
    comparable,
    final_text,
    members,
    recording,
    replies,
    traces,
)

from orchestrator import ActionGroup, Agent, Collaborator
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.guardrails import Verdict
from orchestrator.testing import ScriptedModel

CLAUDE, NOVA = "anthropic.claude-3-5-sonnet-20240620-v1:0", "amazon.nova-pro-v1:0"
INSTRUCTION = "You answer the questions of customers with what you find for them."
NUMBER = {"type": "number", "description": "A number.", "required": True}
FUNCTIONS = [
    {"name": "add_two_numbers", "description": "Adds.", "parameters": {"n1": NUMBER, "n2": NUMBER}},
    {"name": "get_time", "description": "The time of day.", "parameters": {}},
]


class Recorded:
    """An executor that returns the recorded outputs."""

    def __init__(self, *recordings: dict[str, Any]) -> None:
        observed = [members(part) for recorded in recordings for part in traces(recorded)]
        self.outputs = [
            value["actionGroupInvocationOutput"]["text"]
            for _, member, value in observed
            if member == "observation" and "actionGroupInvocationOutput" in value
        ]

    def call(self, call: Call, context: CallContext) -> ActionResult:
        return ActionResult(self.outputs.pop(0))


def make_agent(*recordings: dict[str, Any], **options: Any) -> Agent:
    script = [reply for recorded in recordings for reply in replies(recorded)]
    numbers = ActionGroup(
        "action_group_quick_start_6gq19", functions=FUNCTIONS, executor=Recorded(*recordings)
    )
    model = ScriptedModel(script, CLAUDE)
    return Agent(
        "golden", INSTRUCTION, model, action_groups=[numbers], aws_compat=["trace"], **options
    )


def replay(agent: Agent, recorded: dict[str, Any], *, streams: bool = False) -> None:
    """Asks again, and checks that the trace and the answer are the recorded ones."""
    question = recorded["request"]["inputText"]
    if streams:
        events = list(agent.stream(question, "s-1"))
        parts = [event.part for event in events if type(event).__name__ == "TracePart"]
        text = events[-1].reply.text
    else:
        reply = agent.invoke(question, "s-1")
        parts, text = reply.trace, reply.text
    assert [*map(comparable, parts)] == [*map(comparable, traces(recorded))]
    assert text == final_text(recorded)


@pytest.mark.parametrize("streams", [False, True])
def test_two_turns_of_a_session_with_calls(streams: bool) -> None:
    first = recording("tool_calls_with_input_params")
    second = recording("tool_calls_without_input_params")
    agent = make_agent(first, second)
    replay(agent, first, streams=streams)
    replay(agent, second, streams=streams)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("stage", "name"),
    [("PRE_PROCESSING", "preprocessing_trace"), ("POST_PROCESSING", "post_processing_trace")],
)
def test_the_stages_around_the_loop(stage: str, name: str, streams: bool) -> None:
    recorded = recording(name)
    agent = make_agent(recorded, prompts={stage: {"promptState": "ENABLED"}})
    replay(agent, recorded, streams=streams)


def test_an_inline_agent() -> None:
    recorded = recording("invoke_inline_agent")
    inline = Agent.inline(
        model=ScriptedModel(replies(recorded), CLAUDE),
        foundationModel=CLAUDE,
        instruction=recorded["request"]["instruction"],
        awsCompat=["trace"],
    )
    replay(inline, recorded)


@pytest.mark.parametrize("streams", [False, True])
def test_a_router_that_cannot_decide(streams: bool) -> None:
    recorded = recording("routing_classifier_trace")
    other = Agent("agentaws", INSTRUCTION, ScriptedModel([], NOVA))
    supervisor = Agent(
        "supervisor",
        INSTRUCTION,
        ScriptedModel(replies(recorded), NOVA),
        collaborators=[Collaborator(other, "Use agentaws to test function call tracing.")],
        collaboration="SUPERVISOR_ROUTER",
        aws_compat=["trace"],
    )
    replay(supervisor, recorded, streams=streams)


def test_a_guardrail_that_intervenes() -> None:
    recorded = recording("guardrail_intervention")
    assessments = traces(recorded)[0]["trace"]["guardrailTrace"]["inputAssessments"]
    verdict = Verdict("INTERVENED", final_text(recorded), True, assessments)
    model, guardrail = ScriptedModel([], CLAUDE), RecordedGuardrail(verdict)
    agent = Agent("guarded", INSTRUCTION, model, guardrail=guardrail, aws_compat=["trace"])
    replay(agent, recorded)


def test_an_answer_from_passages() -> None:
    recorded = recording("knowledge_base_results")
    _, _, seen = members(traces(recorded)[1])
    references = seen["knowledgeBaseLookupOutput"]["retrievedReferences"]
    agent = Agent(
        "kb",
        INSTRUCTION,
        ScriptedModel(replies(recorded), CLAUDE),
        knowledge_bases=[RecordedBase(references)],
        aws_compat=["single_knowledge_base", "trace"],
    )
    replay(agent, recorded)
    _, _, asked = members(agent.turns("s-1")[0].trace[2])
    _, _, recorded_prompt = members(traces(recorded)[2])
    order = [
        sorted(
            range(len(references)),
            key=lambda index: text.index(references[index]["content"]["text"][:80]),
        )
        for text in (asked["text"], recorded_prompt["text"])
    ]
    assert order[0] == order[1] == [*reversed(range(len(references)))]  # the best one last
