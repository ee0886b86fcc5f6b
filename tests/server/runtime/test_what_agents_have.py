"""What agents have besides, over HTTP: knowledge, guardrails, collaborators, memory, programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from model_servers import json_answer
from runtime_servers import (
    AGENT_ID,
    ALIAS_ID,
    CLAUDE,
    calls,
    definition,
    kinds,
    says,
    write_agent,
)

from orchestrator.models import Model, ModelReply, ModelRequest

KNOWLEDGE = {
    "knowledgeBases": [
        {
            "knowledgeBaseId": "HANDBOOK01",
            "description": "The handbook.",
            "folder": "handbook",
            "embedder": None,
        }
    ]
}


class Citing(Model):
    """Searches, then answers with a citation of the first source that it was shown."""

    model_id = CLAUDE

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if len(self.requests) == 1:
            query = {"searchQuery": "vacation days"}
            return ModelReply(calls("GET__x_amz_knowledgebase_HANDBOOK01__Search", query))
        source = re.search(r"<source>\s*(\w+)", str(request.messages).replace("\\n", "\n"))
        assert source is not None
        part = f"<text>Thirty days.</text><sources><source>{source[1]}</source></sources>"
        return ModelReply([{"text": f"<answer><answer_part>{part}</answer_part></answer>"}])


@pytest.mark.parametrize("stream", [False, True])
def test_citations_of_a_knowledge_base(start: Any, tmp_path: Path, stream: bool) -> None:
    folder = tmp_path / "agents" / "own" / "handbook"
    folder.mkdir(parents=True)
    (folder / "days.md").write_text("# Vacation\n\nEverybody has thirty vacation days.\n")
    server = start(Citing(), KNOWLEDGE)
    configuration = {"vectorSearchConfiguration": {"numberOfResults": 1}}
    given = {"knowledgeBaseId": "HANDBOOK01", "retrievalConfiguration": configuration}
    answer = server.invoke(
        "How many days?",
        enableTrace=True,
        streamingConfigurations={"streamFinalResponse": stream},
        sessionState={"knowledgeBaseConfigurations": [given]},
    )
    assert answer["text"] == "Thirty days."
    (citation,) = answer["chunks"][-1]["attribution"]["citations"]
    part = citation["generatedResponsePart"]["textResponsePart"]
    assert part == {"text": "Thirty days.", "span": {"start": 0, "end": 11}}
    (reference,) = citation["retrievedReferences"]
    assert "thirty vacation days" in reference["content"]["text"]
    assert reference["location"]["customDocumentLocation"]["id"] == "days.md"
    assert "invocationInput" in kinds(answer)


GUARDED = {"guardrailConfiguration": {"file": "guardrail.yaml"}}
GUARDRAIL = {
    "name": "words",
    "blockedInputMessaging": "I cannot talk about that.",
    "blockedOutputsMessaging": "I must not say that.",
    "wordPolicyConfig": {"wordsConfig": [{"text": "bomb"}]},
}


def test_a_guardrail_blocks(start: Any, tmp_path: Path) -> None:
    write_agent(tmp_path / "agents" / "own", {}, **{"guardrail.yaml": json.dumps(GUARDRAIL)})
    server = start([says("A bomb.")], GUARDED)
    blocked = server.invoke("How is a bomb made?", enableTrace=True)
    assert blocked["text"] == "I cannot talk about that."
    (trace, _) = blocked["events"]
    assert trace["trace"]["trace"]["guardrailTrace"]["action"] == "INTERVENED"
    said = server.invoke("What is that?", streamingConfigurations={"applyGuardrailInterval": 10})
    assert said["text"] == "I must not say that."


def test_a_supervisor_and_whom_it_leads(start: Any, tmp_path: Path) -> None:
    led = definition(agentId="LEDAGENT01", agentName="payroll")
    write_agent(tmp_path / "agents" / "own" / "payroll", led)
    team = {
        "agentCollaboration": "SUPERVISOR",
        "agentCollaborators": [
            {
                "collaboratorName": "payroll",
                "collaborationInstruction": "All about pay.",
                "agentDescriptor": {"folder": "payroll"},
            }
        ],
    }
    sent = {"recipient": "payroll", "content": "What is paid?"}
    server = start(
        [calls("AgentCommunication__sendMessage", sent), says("100."), says("It is 100.")], team
    )
    answer = server.invoke("Ask payroll", enableTrace=True)
    assert answer["text"] == "It is 100."
    traced = [it["trace"] for it in answer["events"] if "trace" in it]
    assert {it.get("collaboratorName") for it in traced} == {None, "payroll"}
    chains = {len(it["callerChain"]) for it in traced}
    assert chains == {1, 2}


SUMMARY = "<summary><topic name='days'>e7 has 12 days.</topic></summary>"
REMEMBERS = {
    "memoryConfiguration": {"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 30},
}


def memories(server: Any, **params: Any) -> dict[str, Any]:
    given = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "memoryType": "SESSION_SUMMARY"}
    found: dict[str, Any] = server.client.get_agent_memory(**given, memoryId="m-1", **params)
    return found


def test_memory_across_sessions(start: Any) -> None:
    server = start([says("12 days."), SUMMARY, says("I do.")], REMEMBERS)
    first = server.invoke("I am e7", "s-1", memoryId="m-1", endSession=True)
    assert first["memoryId"] == "m-1"
    (content,) = memories(server)["memoryContents"]
    summary = content["sessionSummary"]
    assert summary["sessionId"] == "s-1"
    assert "12 days" in summary["summaryText"]
    assert (summary["sessionExpiryTime"] - summary["sessionStartTime"]).days == 30
    server.invoke("Do you remember me?", "s-2", memoryId="m-1")
    told = server.model.requests[2]
    assert "e7 has 12 days." in told.system + str(told.messages)


def test_a_remembered_session_ends_without_a_question(start: Any) -> None:
    server = start([says("12 days."), SUMMARY], REMEMBERS)
    server.invoke("I am e7", memoryId="m-1")
    assert memories(server)["memoryContents"] == []
    server.invoke("", memoryId="m-1", endSession=True)
    (content,) = memories(server)["memoryContents"]
    assert "12 days" in content["sessionSummary"]["summaryText"]


def test_memories_are_told_page_by_page_and_forgotten(start: Any) -> None:
    server = start([it for _ in range(3) for it in (says("12 days."), SUMMARY)], REMEMBERS)
    for session_id in ("s-1", "s-2", "s-3"):
        server.invoke("I am e7", session_id, memoryId="m-1", endSession=True)
    first = memories(server, maxItems=2)
    second = memories(server, maxItems=2, nextToken=first["nextToken"])
    ids = [it["sessionSummary"]["sessionId"] for it in first["memoryContents"]]
    assert (ids, len(second["memoryContents"])) == (["s-3", "s-2"], 1)
    assert "nextToken" not in second
    with pytest.raises(ClientError) as caught:
        memories(server, nextToken="bm9uc2Vuc2U=")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    given = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "memoryId": "m-1"}
    answer = server.client.delete_agent_memory(**given, sessionId="s-2")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    left = [it["sessionSummary"]["sessionId"] for it in memories(server)["memoryContents"]]
    assert left == ["s-3", "s-1"]
    server.client.delete_agent_memory(**given)
    assert memories(server)["memoryContents"] == []


INTERPRETER = {
    "actionGroups": [
        {
            "actionGroupName": "Programs",
            "parentActionGroupSignature": "AMAZON.CodeInterpreter",
        }
    ]
}


def test_files_in_and_out(start: Any) -> None:
    code = "text = open('in.csv').read()\nopen('out.txt', 'w').write(text.upper())"
    server = start(
        [calls("get__codeinterpreteraction__execute", {"code": code}), says("See the file.")],
        INTERPRETER,
    )
    source = {
        "sourceType": "BYTE_CONTENT",
        "byteContent": {"mediaType": "text/csv", "data": b"plum"},
    }
    file = {"name": "in.csv", "source": source, "useCase": "CODE_INTERPRETER"}
    answer = server.invoke("Capitals, please", sessionState={"files": [file]})
    assert kinds(answer) == ["chunk", "files"]
    (made,) = answer["events"][1]["files"]["files"]
    assert (made["name"], made["bytes"]) == ("out.txt", b"PLUM")


def test_a_file_of_a_bucket_that_a_folder_stands_for(start: Any, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "note.txt").write_text("the word is plum")
    (tmp_path / "secret.txt").write_text("canary")
    server = start([says("Read.")] * 2, buckets={"inbox": bucket})

    def ask(uri: str) -> None:
        source = {"sourceType": "S3", "s3Location": {"uri": uri}}
        file = {"name": "note.txt", "source": source, "useCase": "CHAT"}
        server.invoke("Read it", sessionState={"files": [file]})

    ask("s3://inbox/note.txt")
    assert "plum" in str(server.model.requests[0].messages)
    for uri in ("s3://inbox/none.txt", "s3://inbox/../secret.txt", "s3://inbox//etc/passwd"):
        with pytest.raises(ClientError) as caught:
            ask(uri)
        assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
    assert len(server.model.requests) == 1


def test_latency_of_models_that_are_not_bedrocks(start: Any) -> None:
    server = start([says("Quick.")])
    configurations = {"performanceConfig": {"latency": "optimized"}}
    assert server.invoke("Hi", bedrockModelConfigurations=configurations)["text"] == "Quick."


CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": says("Quick.")}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}


@pytest.mark.parametrize("latency", ["standard", "optimized"])
def test_latency_of_bedrocks_models(
    start: Any, serve: Any, aws: Any, monkeypatch: pytest.MonkeyPatch, latency: str
) -> None:
    service = serve(json_answer(CONVERSED))
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", service.url)
    configurations = {"performanceConfig": {"latency": latency}}
    server = start([], models={})
    assert server.invoke("Hi", bedrockModelConfigurations=configurations)["text"] == "Quick."
    asked = service.asked[0].json.get("performanceConfig")
    assert asked == ({"latency": "optimized"} if latency == "optimized" else None)
