"""Agents of Bedrock over the wire: real event-stream frames from a loopback server."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from threading import Thread
from typing import Any

import pytest
from botocore_shapes import problems
from model_servers import Answer, aws_error, event, failure
from whole_agents import NATIVE, agent, answer, members

from orchestrator import Agent, Collaborator, DefinitionError, SQLiteStore
from orchestrator.agent.bedrock_agent import BedrockAgent
from orchestrator.engine.plan import RemoteAgent
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ThrottlingError,
    ValidationError,
)

pytestmark = pytest.mark.usefixtures("aws")

ARN = "arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID"
CITED = [
    {
        "generatedResponsePart": {
            "textResponsePart": {"text": "Paid.", "span": {"start": 0, "end": 4}}
        },
        "retrievedReferences": [
            {
                "content": {"text": "Claims are paid.", "type": "TEXT"},
                "location": {"type": "S3", "s3Location": {"uri": "s3://b/k"}},
            }
        ],
    }
]
TRACE = {
    "agentId": "ABCDEFGHIJ",
    "agentAliasId": "TSTALIASID",
    "agentVersion": "1",
    "sessionId": "their-session",
    "callerChain": [{"agentAliasArn": ARN}],
    "eventTime": "2026-11-21T10:11:12.123456789Z",
    "trace": {"orchestrationTrace": {"rationale": {"text": "I pay.", "traceId": "t-0"}}},
}
FINISH = {
    **TRACE,
    "trace": {
        "orchestrationTrace": {
            "observation": {
                "type": "FINISH",
                "traceId": "t-0",
                "finalResponse": {
                    "text": "Paid.",
                    "metadata": {
                        "startTime": "2026-11-21T10:11:12.000000001Z",
                        "endTime": "2026-11-21T10:11:13.000000001Z",
                        "operationTotalTimeMs": 1000,
                    },
                },
            }
        }
    },
}


def chunk(text: str, citations: list[Any] | None = None) -> bytes:
    payload: dict[str, Any] = {"bytes": base64.b64encode(text.encode()).decode()}
    if citations:
        payload["attribution"] = {"citations": citations}
    return event("chunk", payload)


def stream(*frames: bytes, cut: bool = False) -> Answer:
    headers = {
        "Content-Type": "application/vnd.amazon.eventstream",
        "x-amz-bedrock-agent-session-id": "their-session",
        "x-amzn-bedrock-agent-content-type": "application/json",
    }
    return Answer(list(frames), headers=headers, cut=cut)


def ask(remote: BedrockAgent) -> Any:
    return remote.invoke("Pay.", "s-1", {"user": "ann"}, {"day": "Monday"})


def test_an_answer(serve: Callable[..., Any]) -> None:
    server = serve(
        stream(event("trace", TRACE), chunk("Pa"), chunk("id.", CITED), event("trace", FINISH))
    )
    remote = BedrockAgent(ARN, endpoint_url=server.url)
    assert isinstance(remote, RemoteAgent)
    reply = ask(remote)
    assert reply.text == "Paid."
    assert reply.citations == CITED
    assert [problems(dict(part)) for part in reply.trace] == [[], []]
    assert reply.trace[0]["eventTime"] == "2026-11-21T10:11:12.123456000Z"
    json.dumps(reply.trace)  # plain values
    (asked,) = server.asked
    assert asked.path == "/agents/ABCDEFGHIJ/agentAliases/TSTALIASID/sessions/s-1/text"
    assert asked.json == {
        "inputText": "Pay.",
        "enableTrace": True,
        "sessionState": {
            "sessionAttributes": {"user": "ann"},
            "promptSessionAttributes": {"day": "Monday"},
        },
    }
    assert "/eu-central-1/bedrock/aws4_request" in asked.headers["authorization"]


def test_another_region_and_a_client_of_the_callers(serve: Callable[..., Any]) -> None:
    server = serve(stream(chunk("Hi.")))
    ask(BedrockAgent(ARN, region="us-west-2", endpoint_url=server.url))
    assert "/us-west-2/" in server.asked[0].headers["authorization"]
    import boto3

    own = boto3.client("bedrock-agent-runtime", region_name="us-east-1", endpoint_url=server.url)
    assert ask(BedrockAgent(ARN, client=own)).text == "Hi."
    assert "/us-east-1/" in server.asked[1].headers["authorization"]


def test_a_text_that_is_cut_within_a_character(serve: Callable[..., Any]) -> None:
    text = "größer".encode()
    frames = [
        event("chunk", {"bytes": base64.b64encode(piece).decode()})
        for piece in (text[:3], text[3:])
    ]
    assert ask(BedrockAgent(ARN, endpoint_url=serve(stream(*frames)).url)).text == "größer"


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([event("trace", TRACE)], "ended its answer without any text"),
        (
            [event("returnControl", {"invocationId": "i", "invocationInputs": []})],
            "returned control, which an agent in Bedrock cannot do as a collaborator here",
        ),
        ([chunk("Half")[:-6]], "ended its answer without any text"),
    ],
    ids=["nothing", "return of control", "half a frame"],
)
def test_what_is_no_answer(serve: Callable[..., Any], frames: list[bytes], text: str) -> None:
    server = serve(stream(*frames))
    with pytest.raises(DependencyFailed, match=text) as failed:
        ask(BedrockAgent(ARN, endpoint_url=server.url))
    assert failed.value.resource == ARN
    assert len(server.asked) == 1  # the agent may have acted


def test_a_stream_that_is_cut_is_no_answer(serve: Callable[..., Any]) -> None:
    """Nobody knows what the agent did."""
    server = serve(stream(chunk("Half"), cut=True))
    with pytest.raises(ActionOutcomeUnknown, match="did not arrive as a whole") as lost:
        ask(BedrockAgent(ARN, endpoint_url=server.url))
    assert lost.value.resource == ARN


class _HangUp(BaseRequestHandler):
    """Reads a request, and closes the connection."""

    def handle(self) -> None:
        self.request.recv(65_536)
        self.server.asked.append(1)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("no_waiting")
def test_a_connection_that_breaks_is_no_answer_either() -> None:
    with TCPServer(("127.0.0.1", 0), _HangUp) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            boss = team(f"http://127.0.0.1:{server.server_address[1]}", SEND, DONE)
            with pytest.raises(ActionOutcomeUnknown) as lost:
                boss.invoke("Pay it", "s-1")
        finally:
            server.shutdown()
            thread.join()
        assert server.asked == [1]  # type: ignore[attr-defined]
    assert lost.value.undecided is not None
    assert boss.decide("s-1", happened={"payer": "Paid."}).text == "Done: paid."


KINDS = {
    "accessDeniedException": AccessDenied,
    "badGatewayException": DependencyFailed,
    "conflictException": SessionConflict,
    "dependencyFailedException": DependencyFailed,
    "internalServerException": DependencyFailed,
    "modelNotReadyException": ModelNotReady,
    "resourceNotFoundException": ResourceNotFound,
    "serviceQuotaExceededException": ThrottlingError,
    "throttlingException": ThrottlingError,
    "validationException": ValidationError,
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_errors_in_the_stream(
    name: str, kind: type[OrchestratorError], serve: Callable[..., Any]
) -> None:
    server = serve(stream(chunk("Pa"), failure(name, "It says why.")))
    with pytest.raises(OrchestratorError) as failed:
        ask(BedrockAgent(ARN, endpoint_url=server.url))
    assert type(failed.value) is kind
    code = name[0].upper() + name[1:]
    assert "the agent ABCDEFGHIJ/TSTALIASID in eu-central-1" in failed.value.message
    assert code in failed.value.message or kind is SessionConflict
    assert str(failed.value.__context__) in (code, "None")  # AWS may repeat what was sent


@pytest.mark.parametrize(
    ("answered", "kind", "text", "times"),
    [
        (
            aws_error("AccessDeniedException", "not authorized to InvokeAgent", 403),
            AccessDenied,
            r"was denied \(AccessDeniedException, request req-1\): not authorized .* allow",
            1,
        ),
        (aws_error("ResourceNotFoundException", "no", 404), ResourceNotFound, "check the alias", 1),
        (aws_error("ValidationException", "canary"), ValidationError, "refused the request", 1),
        (aws_error("ExpiredTokenException", "x", 403), AccessDenied, "have expired", 1),
        (aws_error("ThrottlingException", "slow", 429), ThrottlingError, "refused more", 4),
        (aws_error("InternalServerException", "x", 500), DependencyFailed, "failed", 1),
    ],
    ids=["denied", "not there", "invalid", "expired", "throttled", "broken"],
)
@pytest.mark.usefixtures("no_waiting")
def test_errors_before_the_stream(
    answered: Answer, kind: type[Exception], text: str, times: int, serve: Callable[..., Any]
) -> None:
    server = serve(answered)
    with pytest.raises(kind, match=text) as failed:
        ask(BedrockAgent(ARN, endpoint_url=server.url))
    assert len(server.asked) == times
    assert "canary" not in str(failed.value)


def test_an_agent_that_cannot_be_reached() -> None:
    with pytest.raises(DependencyFailed, match="could not be reached"):
        ask(BedrockAgent(ARN, endpoint_url="http://127.0.0.1:9"))


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    server = serve(stream(chunk("x")))
    with pytest.raises(
        AccessDenied, match=r"no AWS credentials were found for the agent .* set AWS_P"
    ):
        ask(BedrockAgent(ARN, endpoint_url=server.url))
    assert server.asked == []


@pytest.mark.parametrize(
    "arn", ["", "ABCDEFGHIJ", ARN[:-1], f"{ARN}/x", ARN.replace("alias/", "/")]
)
def test_what_is_no_alias(arn: str) -> None:
    with pytest.raises(DefinitionError, match="is not the ARN of an agent's alias"):
        BedrockAgent(arn)


SEND = NATIVE.calls(("AgentCommunication::sendMessage", {"recipient": "payer", "content": "Pay."}))
DONE = answer("Done: paid.")


def team(url: str, *script: Any, **options: Any) -> Agent:
    payer = Collaborator(BedrockAgent(ARN, endpoint_url=url), "Pays.", "payer")
    return agent(NATIVE.model(list(script)), collaborators=[payer], **options)


def test_a_supervisor_and_a_collaborator_in_bedrock(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    server = serve(stream(event("trace", TRACE), chunk("Paid.", CITED), event("trace", FINISH)))
    store = tmp_path / "s.db"
    boss = team(server.url, SEND, DONE, SEND, DONE, sessions=SQLiteStore(store))
    reply = boss.invoke("Pay it", session_id="s-1", session_attributes={"user": "ann"})
    assert reply.text == "Done: paid."
    assert members(reply.trace) == [
        *("modelInvocationInput", "modelInvocationOutput", "rationale", "invocationInput"),
        *("rationale", "observation FINISH", "observation AGENT_COLLABORATOR"),
        *("modelInvocationInput", "modelInvocationOutput", "rationale", "observation FINISH"),
    ]
    assert [problems(part) for part in reply.trace] == [[]] * len(reply.trace)
    theirs = [part for part in reply.trace if part.get("collaboratorName")]
    assert [part["collaboratorName"] for part in theirs] == ["payer", "payer"]
    chain = [{"agentAliasArn": boss.plan.alias_arn}, {"agentAliasArn": ARN}]
    assert theirs[0]["callerChain"] == chain
    output = reply.trace[6]["trace"]["orchestrationTrace"]["observation"]
    told = output["agentCollaboratorInvocationOutput"]
    assert told["agentCollaboratorAliasArn"] == ARN
    assert told["output"] == {"type": "TEXT", "text": "Paid."}
    assert server.asked[0].json["sessionState"]["sessionAttributes"] == {"user": "ann"}
    # Their session is one for all turns of ours; and it is read back from the journal.
    boss.invoke("Again", session_id="s-1")
    assert len({asked.path for asked in server.asked}) == 1
    again = team(server.url, sessions=SQLiteStore(store))
    assert again.turns("s-1")[0].trace == reply.trace


@pytest.mark.parametrize("routed", [False, True])
def test_its_citations_and_files_reach_the_user(
    routed: bool, serve: Callable[..., Any], tmp_path: Path
) -> None:
    made = {"name": "bill.txt", "type": "text/plain"}
    files = {"files": [{**made, "bytes": base64.b64encode(b"40").decode()}]}
    server = serve(stream(chunk("Paid.", CITED), event("files", files)))
    store = SQLiteStore(tmp_path / "s.db")
    if routed:
        script: list[Any] = ["<a>payer</a>"]
        boss = team(server.url, *script, collaboration="SUPERVISOR_ROUTER", sessions=store)
    else:
        boss = team(server.url, SEND, DONE, sessions=store)
    reply = boss.invoke("Pay it", session_id="s-1")
    assert reply.citations == (CITED if routed else [])  # a supervisor says itself what it cites
    assert reply.files == [{**made, "bytes": b"40"}]
    again = team(server.url, sessions=SQLiteStore(tmp_path / "s.db"))
    assert again.turns("s-1")[0].files == reply.files


def test_files_without_end(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.agent.bedrock_agent._LARGEST", 100)
    data = base64.b64encode(b"x" * 60).decode()
    frame = event("files", {"files": [{"name": "a", "type": "text/plain", "bytes": data}]})
    with pytest.raises(DependencyFailed, match="answered with more than 100 bytes"):
        ask(BedrockAgent(ARN, endpoint_url=serve(stream(chunk("x"), frame, frame)).url))


def test_its_failure_is_the_turns(serve: Callable[..., Any]) -> None:
    server = serve(stream(event("returnControl", {"invocationId": "i", "invocationInputs": []})))
    with pytest.raises(DependencyFailed, match="returned control") as failed:
        team(server.url, SEND).invoke("Pay it", session_id="s-1")
    assert failed.value.reply is not None
    assert members(failed.value.reply.trace)[-1] == "failureTrace"


def test_one_in_a_definition(
    serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(stream(chunk("Paid.")))
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME", server.url)
    (tmp_path / "agent.yaml").write_text(
        "agentName: boss\ninstruction: You lead.\nfoundationModel: local\n"
        "agentCollaboration: SUPERVISOR\nagentCollaborators:\n"
        "  - collaboratorName: payer\n    collaborationInstruction: Pays.\n"
        f"    agentDescriptor: {{aliasArn: '{ARN}'}}\n"
    )
    boss = Agent.load(tmp_path, model=NATIVE.model([SEND, DONE]))
    assert boss.invoke("Pay it", session_id="s-1").text == "Done: paid."
    assert re.fullmatch(r"[0-9a-f-]{36}", server.asked[0].path.split("/")[-2])
