"""Agents and searches that name a guardrail of the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from control_support import (
    CLAUDE,
    INSTRUCTION,
    Served,
    refused,
    says,
    served,
    write_agent,
)
from guardrail_support import MESSAGES, create


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A server whose agents, and whose answers from a handbook, say what is to be masked."""
    folder = write_agent(
        tmp_path / "agents" / "helper",
        {
            "agentId": "HELPER0001",
            "agentName": "helper",
            "foundationModel": CLAUDE,
            "instruction": INSTRUCTION,
            "knowledgeBases": [
                {
                    "knowledgeBaseId": "HANDBOOK01",
                    "description": "Rules.",
                    "folder": "handbook",
                    "embedder": None,
                }
            ],
        },
    )
    (folder / "handbook").mkdir()
    (folder / "handbook" / "mail.md").write_text("# Mail\n\nWrite to ana@example.com.\n")

    def answer(request: Any) -> str:
        return says("Write to ana@example.com.")

    with served(answer, agents=tmp_path / "agents") as running:
        yield running


def configuration(made: dict[str, Any], version: str = "DRAFT") -> dict[str, Any]:
    return {"guardrailIdentifier": made["guardrailId"], "guardrailVersion": version}


def test_an_agent_has_a_guardrail_of_the_server(server: Served) -> None:
    made = create(server)
    control = server.client("bedrock")
    id = server.ready(guardrailConfiguration=configuration(made))
    assert server.ask(id) == "Write to {EMAIL}."
    assert server.ask(id, text="Which stock?") == MESSAGES["blockedInputMessaging"]
    # The draft is what it is now; a version stays as it was.
    control.create_guardrail_version(guardrailIdentifier=made["guardrailId"])
    control.update_guardrail(
        guardrailIdentifier=made["guardrailId"],
        name="other",
        wordPolicyConfig={"wordsConfig": [{"text": "hello"}]},
        **MESSAGES,
    )
    assert server.ask(id, text="Which stock?") == "Write to ana@example.com."
    fixed = {"guardrailIdentifier": made["guardrailArn"], "guardrailVersion": "1"}
    other = server.ready("other", guardrailConfiguration=fixed)
    assert server.ask(other) == "Write to {EMAIL}."
    trace = server.runtime.invoke_agent(
        agentId=other,
        agentAliasId="TSTALIASID",
        sessionId="s-traced",
        inputText="Which stock?",
        enableTrace=True,
    )
    parts = [it["trace"]["trace"] for it in trace["completion"] if "trace" in it]
    (guarded,) = [it["guardrailTrace"] for it in parts if "guardrailTrace" in it]
    assert guarded["inputAssessments"] == [
        {
            "topicPolicy": {
                "topics": [{"name": "Investment advice", "type": "DENY", "action": "BLOCKED"}]
            }
        }
    ]
    # A guardrail that is gone lets nothing through.
    control.delete_guardrail(guardrailIdentifier=made["guardrailId"], guardrailVersion="1")
    with refused("resourceNotFoundException", "has no version"):
        server.ask(other, sessionId="s-late")


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_checked_while_it_streams_or_else_at_its_end(
    server: Served, streams: bool
) -> None:
    id = server.ready(guardrailConfiguration=configuration(create(server)))
    answer = server.runtime.invoke_agent(
        agentId=id,
        agentAliasId="TSTALIASID",
        sessionId="s-1",
        inputText="Whom?",
        enableTrace=True,
        streamingConfigurations={"streamFinalResponse": streams, "applyGuardrailInterval": 500},
    )
    with closing(answer["completion"]) as stream:
        events = list(stream)
    told = []
    for event in events:
        if "trace" in event:
            ((_, trace),) = event["trace"]["trace"].items()
            told.append(next(name for name in trace if name != "traceId"))
        else:
            told.append(event["chunk"]["bytes"].decode())
    begin = ["action", "modelInvocationInput"]
    text = "Write to {EMAIL}."
    if streams:  # recorded: a check before each chunk, and all before the reply
        rest = ["action", text, "modelInvocationOutput", "rationale", "observation"]
    else:
        rest = ["modelInvocationOutput", "rationale", "action", "observation", text]
    assert told == begin + rest


def test_an_agent_of_no_guardrail_cannot_be_prepared(server: Served) -> None:
    made = create(server)
    id = server.create(guardrailConfiguration=configuration(made, "7"))
    agent = server.prepare(id)
    assert agent["agentStatus"] == "FAILED"
    assert "has no version" in agent["failureReasons"][0]


def test_an_inline_agent_has_one(server: Served) -> None:
    made = create(server)
    answer = server.runtime.invoke_inline_agent(
        foundationModel=CLAUDE,
        instruction=INSTRUCTION,
        sessionId="s-1",
        inputText="Hello?",
        guardrailConfiguration=configuration(made),
    )
    text = b"".join(it["chunk"]["bytes"] for it in answer["completion"] if "chunk" in it)
    assert text == b"Write to {EMAIL}."


def test_a_folders_agent_has_one(tmp_path: Path) -> None:
    file = tmp_path / "guardrail.yaml"
    file.write_text(
        "name: mail\n"
        "sensitiveInformationPolicyConfig:\n"
        "  piiEntitiesConfig: [{type: EMAIL, action: ANONYMIZE}]\n"
        "blockedInputMessaging: No.\n"
        "blockedOutputsMessaging: No.\n"
    )
    write_agent(
        tmp_path / "agents" / "own",
        {
            "agentId": "OWNAGENT01",
            "agentName": "own",
            "foundationModel": CLAUDE,
            "instruction": INSTRUCTION,
            "guardrailConfiguration": {
                "guardrailIdentifier": "gr1a2b3c4d5e",
                "guardrailVersion": "3",
            },
        },
    )
    with served(
        lambda request: says("Write to ana@example.com."),
        agents=tmp_path / "agents",
        guardrails={"gr1a2b3c4d5e": file},
    ) as server:
        assert server.ask("OWNAGENT01") == "Write to {EMAIL}."


def test_a_search_has_one(server: Served) -> None:
    made = create(server)
    guardrail = {"guardrailId": made["guardrailId"], "guardrailVersion": "DRAFT"}
    answer = server.runtime.retrieve(
        knowledgeBaseId="HANDBOOK01",
        retrievalQuery={"text": "mail"},
        guardrailConfiguration=guardrail,
    )
    assert "{EMAIL}" in answer["retrievalResults"][0]["content"]["text"]
    assert answer["guardrailAction"] == "INTERVENED"
    generated = server.runtime.retrieve_and_generate(
        input={"text": "Which stock?"},
        retrieveAndGenerateConfiguration={
            "type": "KNOWLEDGE_BASE",
            "knowledgeBaseConfiguration": {
                "knowledgeBaseId": "HANDBOOK01",
                "modelArn": CLAUDE,
                "generationConfiguration": {"guardrailConfiguration": guardrail},
            },
        },
    )
    assert generated["output"] == {"text": MESSAGES["blockedInputMessaging"]}
    assert generated["guardrailAction"] == "INTERVENED"
    missing = {**guardrail, "guardrailVersion": "9"}
    with refused("ResourceNotFoundException", "has no version"):
        server.runtime.retrieve(
            knowledgeBaseId="HANDBOOK01",
            retrievalQuery={"text": "mail"},
            guardrailConfiguration=missing,
        )
