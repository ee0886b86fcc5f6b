"""Trace parts of any server as steps, also of one that sends nonsense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.models.base import Usage
from orchestrator.server.workbench.remote.pages import split_prompt
from orchestrator.server.workbench.remote.trace_steps import list_trace_steps
from orchestrator.server.workbench.turn_view import build_turn_view

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)
PROMPTS = st.fixed_dictionaries(
    {"messages": JSON | st.lists(st.dictionaries(st.sampled_from(["role", "content"]), JSON))}
)
KINDS = st.sampled_from(
    ["orchestrationTrace", "guardrailTrace", "failureTrace", "routingClassifierTrace", "other"]
)
MEMBERS = st.sampled_from(
    ["modelInvocationInput", "modelInvocationOutput", "rationale", "invocationInput", "observation"]
)
CALLS = st.sampled_from(
    ["actionGroupInvocationInput", "actionGroupInvocationOutput", "knowledgeBaseLookupInput"]
)
BODIES = JSON | st.dictionaries(CALLS, JSON, max_size=2)
PARTS = st.fixed_dictionaries(
    {"trace": JSON | st.dictionaries(KINDS, JSON | st.dictionaries(MEMBERS, BODIES))},
    optional={"eventTime": JSON, "collaboratorName": JSON},
)


def part(member: str, value: Any, second: int, who: str = "") -> dict[str, Any]:
    made = {
        "eventTime": f"2026-01-02T03:04:{second:02}.500000000Z",
        "trace": {"orchestrationTrace": {member: value}},
    }
    return {**made, "collaboratorName": who} if who else made


def asks(name: str) -> dict[str, Any]:
    call = {
        "actionGroupName": "shop",
        "function": name,
        "parameters": [{"name": "a", "value": "1"}],
    }
    return {"invocationType": "ACTION_GROUP", "actionGroupInvocationInput": call}


def gives(text: str, **times: str) -> dict[str, Any]:
    return {
        "type": "ACTION_GROUP",
        "actionGroupInvocationOutput": {"text": text, "metadata": times},
    }


def test_calls_at_the_same_time_have_their_own_results() -> None:
    parts = [
        part("modelInvocationInput", {"text": "p", "foundationModel": "arn:x/claude"}, 0),
        part(
            "modelInvocationOutput",
            {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 2}}},
            1,
        ),
        part("rationale", {"text": "Hm."}, 1),
        part("invocationInput", asks("one"), 2),
        part("invocationInput", asks("two"), 2),
        part("observation", gives("1"), 3),
        part(
            "observation",
            gives("2", startTime="2026-01-02T03:04:02Z", endTime="2026-01-02T03:04:04.25Z"),
            5,
        ),
    ]
    model, one, two = list_trace_steps(parts)
    assert (model.name, model.usage, model.thought) == ("claude", Usage(5, 2), "Hm.")
    assert model.ended - model.began == 1_000_000_000
    assert [(it.name, it.text, it.arguments) for it in (one, two)] == [
        ("shop::one", "1", {"a": "1"}),
        ("shop::two", "2", {"a": "1"}),
    ]
    assert two.ended - two.began == 2_250_000_000
    assert [len(it.parts) for it in (model, one, two)] == [3, 2, 2]


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ('{"content": [{"text": "<answer>Twelve.</answer>"}, {"type": "tool_use"}]}', "Twelve."),
        ('{"output": {"message": {"content": [{"text": "Twelve."}, 1]}}}', "Twelve."),
        ('{"content": [{"type": "tool_use"}]}', "claude"),  # as a row of a journal's has the name
        ('{"content": "Twelve."}', '{"content": "Twelve."}'),
        ("Twelve.", "Twelve."),
    ],
)
def test_a_row_has_the_words_of_a_reply(content: str, row: str) -> None:
    parts = [
        part("modelInvocationInput", {"text": "p", "foundationModel": "arn:x/claude"}, 0),
        part("modelInvocationOutput", {"rawResponse": {"content": content}}, 1),
    ]
    (step,) = list_trace_steps(parts)
    assert step.text == content
    assert build_turn_view([step]).groups[0].rows[0].text == row


def test_a_collaborator_s_steps_are_its_own() -> None:
    asked = {"agentCollaboratorName": "b", "input": {"text": "Do it."}}
    done = {"agentCollaboratorName": "b", "output": {"text": "Done."}}
    parts = [
        part("invocationInput", {"agentCollaboratorInvocationInput": asked}, 0),
        part("modelInvocationInput", {"text": "p"}, 1, "b"),
        part("observation", {"agentCollaboratorInvocationOutput": done}, 3),
    ]
    agent, model = list_trace_steps(parts)
    assert (agent.kind, agent.name, agent.text, agent.branch) == ("agent", "b", "Done.", "")
    assert (model.kind, model.branch) == ("model", "b")
    rows = build_turn_view([agent, model]).groups[0].rows
    assert [(row.lane, row.depth) for row in rows] == [("", 0), ("b", 1)]


@given(st.lists(PARTS, max_size=8))
def test_nothing_that_a_server_sends_breaks_a_page(parts: list[dict[str, Any]]) -> None:
    steps = list_trace_steps(parts)
    assert sum(len(it.parts) for it in steps) == len(parts)
    build_turn_view(steps)
    for step in steps:
        step.as_dict()


@given(st.text(max_size=40) | JSON.map(json.dumps) | PROMPTS.map(json.dumps))
def test_any_prompt_is_shown(text: str) -> None:
    assert all(isinstance(one["text"], str) for one in split_prompt(text))


def test_a_prompt_is_split_into_its_messages() -> None:
    told = {"system": "Be.", "messages": [{"role": "user", "content": [{"text": "Hi"}, {"x": 1}]}]}
    assert split_prompt(json.dumps(told)) == [
        {"role": "system", "text": "Be."},
        {"role": "user", "text": 'Hi\n{"x": 1}'},
    ]
    assert split_prompt("plain") == [{"role": "", "text": "plain"}]
