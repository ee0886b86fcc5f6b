"""Attack 12: a guardrail of one tenant is neither read, changed nor used by another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from control_support import CLAUDE, Served, refused, served, write_keys

from orchestrator.server.agents import store

SECRET = "s" * 40
WORDS = {"wordsConfig": [{"text": "swordfish"}]}
MESSAGES = {"blockedInputMessaging": "No.", "blockedOutputsMessaging": "No."}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(store, "PREPARING_SECONDS", 0.0)
    keys = write_keys(tmp_path / "keys.json", SECRET, one=[], two=[])
    with served(lambda request: "Yes.", keys=keys) as running:
        yield running


def test_anothers_guardrail_is_not_there(server: Served) -> None:
    one, two = (server.client("bedrock", f"AKID{name}", SECRET) for name in ("ONE", "TWO"))
    made = one.create_guardrail(name="mine", wordPolicyConfig=WORDS, **MESSAGES)
    id, arn = made["guardrailId"], made["guardrailArn"]
    one.create_guardrail_version(guardrailIdentifier=id)
    assert two.list_guardrails()["guardrails"] == []
    for identifier in (id, arn):
        for call, given in (
            (two.get_guardrail, {}),
            (two.get_guardrail, {"guardrailVersion": "1"}),
            (two.update_guardrail, {"name": "x", **MESSAGES}),
            (two.delete_guardrail, {}),
            (two.create_guardrail_version, {}),
            (two.list_guardrails, {}),
        ):
            with refused("ResourceNotFoundException"):
                call(guardrailIdentifier=identifier, **given)
    for call, given in (
        (two.list_tags_for_resource, {}),
        (two.tag_resource, {"tags": [{"key": "a", "value": "b"}]}),
        (two.untag_resource, {"tagKeys": ["a"]}),
    ):
        with refused("ResourceNotFoundException"):
            call(resourceARN=arn, **given)
    assert two.create_guardrail(name="mine", wordPolicyConfig=WORDS, **MESSAGES)["version"]
    assert one.get_guardrail(guardrailIdentifier=id)["wordPolicy"] == {
        "words": [{"text": "swordfish"}]
    }


def test_anothers_guardrail_is_not_used(server: Served) -> None:
    """Whether it is there is not seen either: an id may be of AWS, which the key may not use."""
    one = server.client("bedrock", "AKIDONE", SECRET)
    made = one.create_guardrail(name="mine", wordPolicyConfig=WORDS, **MESSAGES)
    models = server.client("bedrock-runtime", "AKIDTWO", SECRET)
    agents = server.control_as("AKIDTWO", SECRET)
    for identifier, name in (
        (made["guardrailArn"], "ResourceNotFoundException"),
        (made["guardrailId"], "AccessDeniedException"),
        ("nowhere", "AccessDeniedException"),
    ):
        guardrail = {"guardrailIdentifier": identifier, "guardrailVersion": "DRAFT"}
        with refused(name):
            models.apply_guardrail(
                source="INPUT", content=[{"text": {"text": "swordfish"}}], **guardrail
            )
        with refused(name):
            models.converse(
                modelId=CLAUDE,
                messages=[{"role": "user", "content": [{"text": "Hello"}]}],
                guardrailConfig=guardrail,
            )
        with refused(name):
            models.invoke_model(
                modelId=CLAUDE, body=b'{"prompt": "a", "max_tokens_to_sample": 9}', **guardrail
            )
        agent = agents.create_agent(
            agentName=f"a-{len(identifier)}",
            foundationModel=CLAUDE,
            instruction="You help employees with their vacations, and with nothing else.",
            agentResourceRoleArn="arn:aws:iam::123456789012:role/AgentRole",
            guardrailConfiguration=guardrail,
        )["agent"]["agentId"]
        agents.prepare_agent(agentId=agent)
        agents.get_agent(agentId=agent)
        assert agents.get_agent(agentId=agent)["agent"]["agentStatus"] == "FAILED"
    assert server.model.requests == []
