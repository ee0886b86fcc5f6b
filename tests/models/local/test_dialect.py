"""The dialect of the embedded model, as agents use it; needs no weights."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import ActionGroup, Agent, action
from orchestrator.actions import USER_INPUT
from orchestrator.models.base import ModelRequest
from orchestrator.models.grounds import collect_grounds
from orchestrator.models.tool_calls import turns
from orchestrator.prompts import compile_template, dialect_for, load_dialect
from orchestrator.testing import ScriptedModel

STAGES = (
    "PRE_PROCESSING",
    "ORCHESTRATION",
    "KNOWLEDGE_BASE_RESPONSE_GENERATION",
    "POST_PROCESSING",
)


@action
def get_claim(claim_id: str) -> dict[str, str]:
    """Details of one claim.

    Args:
        claim_id: Id of the claim, for example claim-857.
    """
    return {"claim_id": claim_id, "note": "<b>R-9</b>"}


def use(name: str, **given: Any) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": given}}]


def agent(*replies: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies, "local:test")
    groups = [ActionGroup("claims", actions=[get_claim]), ActionGroup("ask", signature=USER_INPUT)]
    return Agent(name="c", instruction="You help.", model=model, action_groups=groups), model


@pytest.mark.parametrize("model_id", ["local", "local:qwen2.5-coder-1.5b-instruct", "my.gguf"])
def test_embedded_models_get_the_local_dialect(model_id: str) -> None:
    assert dialect_for(model_id) == "local"


@pytest.mark.parametrize("stage", STAGES)
def test_every_template_is_without_errors(stage: str) -> None:
    dialect = load_dialect("local")
    made = compile_template(dialect.stages[stage].template, stage=stage, dialect=dialect)
    assert [found for found in made.diagnostics if found.severity == "error"] == []


def test_the_functions_are_listed_one_a_line_and_asking_is_none_of_them() -> None:
    made, _ = agent()
    system = made.render("ORCHESTRATION", "Hi", session_id="s-1").system
    (line,) = [line for line in system.splitlines() if line.startswith('{"type": "function"')]
    assert '"claims__get_claim"' in line
    assert "user__askuser" not in system


def test_values_are_grounded_in_the_conversation_and_not_in_examples() -> None:
    made, model = agent(use("claims__get_claim", claim_id="claim-7"), "<answer>Done.</answer>")
    attributes = {"office": "B-3"}
    made.invoke("What about claim-7?", session_id="s-1", prompt_session_attributes=attributes)
    asked = model.requests[-1]
    assert isinstance(asked, ModelRequest)
    grounds = collect_grounds(asked)
    texts = "\n".join((*grounds.said, *grounds.returned))
    assert all(word in texts for word in ("claim-7", "R-9", "B-3"))
    assert not any(word in texts for word in ("claim-857", "B-204", "mem-31"))


def test_the_prompt_only_grows_at_its_end() -> None:
    made, model = agent(use("claims__get_claim", claim_id="claim-7"), "<answer>Done.</answer>")
    made.invoke("What about claim-7?", session_id="s-1")
    first, second = (turns(one.messages) for one in model.requests)
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2


def test_an_unknown_value_asks_the_user() -> None:
    made, _ = agent(use("claims__get_claim", claim_id="?"))
    reply = made.invoke("Look my claim up.", session_id="s-1")
    assert reply.stop_reason == "ask_user"
    assert reply.text == "Could you tell me the id of the claim?"
