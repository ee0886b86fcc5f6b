"""A stage has a model of its own: its requests, its dialect and its traces are that model's."""

from __future__ import annotations

from typing import Any

import pytest
from stage_support import KB_STAGE, Handbook, agent, asked, cited, lookup, sound, stages
from whole_agents import NATIVE, XML, answer, members

import orchestrator.agent.agent
from orchestrator import Agent
from orchestrator.agent.overrides import build_overrides
from orchestrator.agent.source import AgentSource
from orchestrator.definition import parse_definition
from orchestrator.engine.plan import Memory, Override
from orchestrator.memory import InMemoryMemory
from orchestrator.models import resolve_model
from orchestrator.testing import ScriptedModel

NOVA = "amazon.nova-pro-v1:0"
TITAN = "amazon.titan-text-premier-v1:0"


def foundation_models(trace: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    for part in trace:
        for one in part["trace"].values():
            if "modelInvocationInput" in one:
                told = one["modelInvocationInput"]
                found.append((told["type"], told["foundationModel"]))
    return found


def test_each_stage_asks_its_own_model_in_its_own_dialect() -> None:
    base = Handbook()
    pre = ScriptedModel(["<category>D</category>"], NOVA)
    loop = NATIVE.model([NATIVE.calls(lookup("a")), cited(("Twelve.", base.source("a")))])
    kb = ScriptedModel([cited(("Twelve.", base.source("a")))], TITAN)
    post = XML.model(["<final_response>12.</final_response>"])
    memory = ScriptedModel(["<summary><topic name='days'>asked</topic></summary>"], XML.model_id)
    subject = agent(
        loop,
        knowledge_bases=[base],
        memory=Memory(InMemoryMemory()),
        prompts={
            "PRE_PROCESSING": Override(enabled=True, model=pre),
            KB_STAGE: Override(enabled=True, model=kb),
            "POST_PROCESSING": Override(enabled=True, model=post),
            "MEMORY_SUMMARIZATION": Override(model=memory),
        },
    )
    reply = subject.invoke("How many?", "s-1", memory_id="ana", end_session=True)
    assert reply.text == "12."
    assert [stages(model) for model in (pre, kb, post, memory)] == [
        ["PRE_PROCESSING"],
        [KB_STAGE],
        ["POST_PROCESSING"],
        ["MEMORY_SUMMARIZATION"],
    ]
    assert stages(loop) == ["ORCHESTRATION"] * 2
    assert foundation_models(sound(reply)) == [
        ("PRE_PROCESSING", NOVA),
        ("ORCHESTRATION", NATIVE.model_id),
        (KB_STAGE, TITAN),
        ("ORCHESTRATION", NATIVE.model_id),
        ("POST_PROCESSING", XML.model_id),
    ]
    # Tools are told in each dialect's own grammar; only the loop gives them to its model.
    assert [bool(one.tools) for one in (pre.requests[0], loop.requests[0])] == [False, True]
    assert "GET__x_amz_knowledgebase_HANDBOOK01__Search" in asked(pre.requests[0])
    assert subject.memories("ana")[0]["sessionSummary"]["summaryText"] == "days: asked"


def test_values_are_rendered_by_the_dialect_of_the_stage(tmp_path: Any) -> None:
    # The dialect of the stage's model has partials of its own.
    for name, mark in (("titan", "TITAN"), ("tool-use", "CLAUDE")):
        (tmp_path / name).mkdir()
        for partial, loop in (("search_results", "results"), ("conversation", "turns")):
            text = f"{mark}:{{{{ {loop}|length }}}}"
            (tmp_path / name / f"{partial}.j2").write_text(text)
    base = Handbook()
    kb = ScriptedModel([cited(("Twelve.", base.source("a")))], TITAN)
    memory = ScriptedModel(["<summary></summary>"], TITAN)
    subject = agent(
        NATIVE.model([NATIVE.calls(lookup("a")), answer("12")]),
        knowledge_bases=[base],
        templates=tmp_path,
        memory=Memory(InMemoryMemory()),
        prompts={
            KB_STAGE: Override(template="$search_results$ $query$", model=kb),
            "MEMORY_SUMMARIZATION": Override(template="$conversation$", model=memory),
        },
    )
    subject.invoke("q", "s-1", memory_id="ana", end_session=True)
    assert "TITAN:1" in asked(kb.requests[0])
    assert "TITAN:2" in asked(memory.requests[0])


def test_a_definition_names_models_of_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    pre = ScriptedModel(["<category>A</category>"], NOVA)
    known = {"amazon.nova-pro-v1:0": pre}
    monkeypatch.setattr(
        orchestrator.agent.agent,
        "resolve_model",
        lambda spec: known.get(spec) or resolve_model(spec),
    )
    model = XML.model([])
    reply = Agent(
        "hr",
        "You help.",
        model,
        prompts={"PRE_PROCESSING": {"promptState": "ENABLED", "foundationModel": NOVA}},
    ).invoke("q", "s-1")
    assert (reply.stop_reason, stages(pre), stages(model)) == ("refused", ["PRE_PROCESSING"], [])
    assert foundation_models(sound(reply)) == [("PRE_PROCESSING", NOVA)]


def test_one_model_for_all_replaces_them() -> None:
    definition = parse_definition(
        "agentName: a\ninstruction: You help.\nfoundationModel: local\n"
        "promptOverrideConfiguration:\n  promptConfigurations:\n"
        "  - {promptType: PRE_PROCESSING, promptState: ENABLED, foundationModel: local}\n"
    )
    own = build_overrides(AgentSource(definition))["PRE_PROCESSING"]
    assert own.model is not None
    replaced = build_overrides(AgentSource(definition, model="local"))["PRE_PROCESSING"]
    assert replaced.model is None


def test_the_stream_of_a_stage_with_another_model() -> None:
    post = ScriptedModel(["<final_response>Twelve days.</final_response>"], NOVA, chunk=4)
    loop = NATIVE.model([answer("12")], chunk=1)
    subject = agent(loop, prompts={"POST_PROCESSING": Override(enabled=True, model=post)})
    events = list(subject.stream("q", "s-1"))
    texts = [event.text for event in events if type(event).__name__ == "TextDelta"]
    assert "".join(texts) == "Twelve days."  # and nothing of the draft
    assert members(sound(events[-1].reply))[-1] == "postProcessing.modelInvocationOutput"
