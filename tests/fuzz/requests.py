"""HTTP: requests of every operation, a little spoilt, to a server on loopback.

Every answer is what the operation's contract knows, never a failure of the server, and the server
is there for the next one.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from botocore.eventstream import EventStreamBuffer
from chat_support import CLAUDE, function, group
from hypothesis import strategies as st
from journal_cases import Script
from server_requests import signed, write_keys
from shape_values import ALL, CALLED, STREAMED, Operation, sent, values

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.wire.faults import UNMODELLED
from orchestrator.server.wire.shapes import operation_model
from orchestrator.support.safe_json import json_or

from . import mutations
from .batch import Property

AGENT = "FUZZEDAGNT"
"""An agent of a folder."""

GUARDRAIL = "fuzzed"
"""A guardrail of a file."""

MADE = "MADEBYHTTP"
"""Stands in paths for an agent that was made over HTTP, whose id is another each time."""

_KNOWN: Mapping[str, str] = {
    "agentId": AGENT,
    "agentAliasId": "TSTALIASID",
    "agentVersion": "DRAFT",
    "sessionId": "s-1",
    "sessionIdentifier": "s-1",
    "modelId": CLAUDE,
    "foundationModel": CLAUDE,
    "guardrailIdentifier": GUARDRAIL,
}
_MODELLED = {shape.name for it in ALL for shape in operation_model(*it).error_shapes}
_ERRORS = {*UNMODELLED, *_MODELLED} - {"InternalServerException"}
_SECONDS = 15


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Door:
    """A server that runs, and what it logged of its own failures."""

    def __init__(self, url: str) -> None:
        self.url = url
        host, port = url.removeprefix("http://").split(":")
        self.address = host, int(port)
        self.failures: list[str] = []
        self.made = MADE

    def make_agent(self) -> None:
        """Makes the agent that `MADE` stands for, where callers need no keys."""
        answer = self.ask(written(("bedrock-agent", "CreateAgent"), {**_CHANGED, **_ROLE}))
        assert answer is not None
        self.made = json.loads(answer.body)["agent"]["agentId"]

    def ask(self, asked: Asked) -> Answer | None:
        """The answer; `None` where such a request cannot be written at all."""
        with closing(HTTPConnection(*self.address, timeout=_SECONDS)) as connection:
            try:
                path = asked.path.replace(MADE, self.made)
                connection.putrequest(asked.method, path, skip_accept_encoding=True)
                headers = {**asked.headers, "content-length": str(len(asked.body))}
                for name, value in headers.items():
                    connection.putheader(name, value.encode("latin-1"))
                connection.endheaders(asked.body)
            except (ValueError, HTTPException):
                return None
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            try:
                return Answer(response.status, headers, response.read())
            except ConnectionResetError:
                # Refused before all of it was read: what was left unread took the answer back.
                return None

    def check(self, asked: Asked) -> None:
        """Sends a request, and checks what the answer says and whether the server lives."""
        self.failures.clear()
        answer = self.ask(asked)
        if answer is None:
            return
        told = f"{answer.status} {answer.body[:300]!r} {''.join(self.failures)}"
        assert 200 <= answer.status < 500, told
        assert not self.failures, told
        if asked.method != "HEAD":
            _check_answer(answer)
        self.check_alive()

    def check_alive(self) -> None:
        ping = self.ask(Asked("GET", "/ping", {}, b""))
        assert ping is not None and ping.status == 200, ping

    def send_raw(self, data: bytes) -> None:
        """Sends bytes that need not be HTTP, and reads until the server has had enough of them."""
        self.failures.clear()
        with closing(socket.create_connection(self.address, timeout=_SECONDS)) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionError:
                answer = b""
        assert not answer or answer[9:10] in b"24", answer[:300] + "".join(self.failures).encode()
        assert not self.failures, self.failures
        self.check_alive()


def _check_answer(answer: Answer) -> None:
    kind, content = answer.headers.get("x-amzn-errortype"), answer.headers.get("content-type", "")
    if kind is not None:
        assert kind in _ERRORS and json.loads(answer.body)["message"], answer
    elif "vnd.amazon.eventstream" in content:
        buffer = EventStreamBuffer()
        buffer.add_data(answer.body)
        kinds = [event.headers.get(":exception-type") for event in buffer]
        assert "internalServerException" not in kinds, answer
    elif content.startswith("text/event-stream"):
        assert answer.body.endswith(b"\n\n"), answer
    elif content.startswith("application/json"):
        json.loads(answer.body or b"null")


class _Failures(logging.Handler):
    """Keeps what the server logs as errors of its own."""

    def __init__(self, door: _Door) -> None:
        super().__init__(logging.ERROR)
        self._door = door

    def emit(self, record: logging.LogRecord) -> None:
        self._door.failures.append(record.getMessage()[-3000:])


@contextmanager
def _served(folder: Path, **settings: Any) -> Iterator[_Door]:
    own = folder / "agents" / "own"
    own.mkdir(parents=True, exist_ok=True)
    members = {
        "agentId": AGENT,
        "agentName": "vacations",
        "foundationModel": CLAUDE,
        "instruction": "You help employees with their vacations, and with nothing else at all.",
        "actionGroups": [group(function("days"), function("book", confirms=True))],
    }
    (own / "agent.yaml").write_text(json.dumps(members))
    guardrail = folder / "guardrail.json"
    guardrail.write_text(json.dumps({"name": "fuzzed", **_POLICIES}))
    places = {"agents": folder / "agents", "guardrails": {GUARDRAIL: guardrail}}
    given = Settings(port=0, **places, **settings)
    model = Script({"hr__days": {"employee": "E-1"}})
    with ServerState(given, models={"*": model}) as state, serve_in_thread(state) as url:
        door = _Door(url)
        handler, log = _Failures(door), logging.getLogger("orchestrator.server")
        log.addHandler(handler)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # "Invalid HTTP request"
        try:
            yield door
        finally:
            log.removeHandler(handler)


# Inputs


_CONVERSE = {
    "modelId": CLAUDE,
    "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
    "system": [{"text": "Be kind."}],
    "inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "stopSequences": ["x"]},
    "toolConfig": {
        "tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}],
        "toolChoice": {"auto": {}},
    },
}
_INVOKE = {
    "agentId": AGENT,
    "agentAliasId": "TSTALIASID",
    "sessionId": "s-1",
    "inputText": "How many?",
    "enableTrace": True,
    "memoryId": "ana",
    "sessionState": {
        "sessionAttributes": {"a": "b"},
        "promptSessionAttributes": {"c": "d"},
        "conversationHistory": {"messages": _CONVERSE["messages"]},
    },
    "streamingConfigurations": {"streamFinalResponse": True},
}
_GROUP = group(function("days"), function("book", confirms=True))
_CHANGED = {
    "agentName": "other",
    "foundationModel": CLAUDE,
    "instruction": "You answer questions of all kinds, as well as you can, and nothing else.",
}
_ROLE = {"agentResourceRoleArn": "arn:aws:iam::000000000000:role/r"}
_GROUPED = {"agentId": MADE, "agentVersion": "DRAFT", **_GROUP}
_BODY = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
_GUARDED = {"guardrailIdentifier": GUARDRAIL, "guardrailVersion": "DRAFT"}
_POLICIES = {
    "topicPolicyConfig": {"topicsConfig": [{"name": "Sport", "definition": "d", "type": "DENY"}]},
    "wordPolicyConfig": {"wordsConfig": [{"text": "darn"}]},
    "sensitiveInformationPolicyConfig": {
        "piiEntitiesConfig": [{"type": "EMAIL", "action": "ANONYMIZE"}],
        "regexesConfig": [{"name": "b", "pattern": "BK-[0-9]+", "action": "BLOCK"}],
    },
    "blockedInputMessaging": "No.",
    "blockedOutputsMessaging": "No.",
}
_VARIANT = {
    "name": "v",
    "templateType": "TEXT",
    "templateConfiguration": {
        "text": {"text": "Hi {{name}}", "inputVariables": [{"name": "name"}]}
    },
    "modelId": CLAUDE,
    "inferenceConfiguration": {"text": {"temperature": 0.5}},
}
_BY_SERVICE: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    "bedrock-agent-runtime": [
        ("InvokeAgent", _INVOKE),
        ("InvokeInlineAgent", {**_CHANGED, "sessionId": "s-2", "inputText": "Hi"}),
        (
            "InvokeInlineAgent",
            {**_CHANGED, "sessionId": "s-3", "inputText": "Hi", "actionGroups": [_GROUP]},
        ),
        (
            "GetAgentMemory",
            {"agentId": AGENT, "agentAliasId": "TSTALIASID", "memoryId": "ana"}
            | {"memoryType": "SESSION_SUMMARY"},
        ),
        ("CreateSession", {"sessionMetadata": {"a": "b"}}),
        ("ListSessions", {"maxResults": 3}),
    ],
    "bedrock-runtime": [
        (
            "ApplyGuardrail",
            {**_GUARDED, "source": "INPUT", "content": [{"text": {"text": "darn a@b.example"}}]},
        ),
        (
            "InvokeGuardrailChecks",
            {
                "messages": [{"role": "user", "content": [{"text": "a@b.example"}]}],
                "checks": {"sensitiveInformation": {"entities": [{"type": "EMAIL"}]}},
            },
        ),
        ("Converse", {**_CONVERSE, "guardrailConfig": {**_GUARDED, "trace": "enabled"}}),
        ("ConverseStream", {**_CONVERSE, "guardrailConfig": {**_GUARDED, "trace": "enabled"}}),
        ("Converse", _CONVERSE),
        ("ConverseStream", _CONVERSE),
        ("InvokeModel", {"modelId": CLAUDE, "body": json.dumps(_BODY)}),
        ("InvokeModelWithResponseStream", {"modelId": CLAUDE, "body": json.dumps(_BODY)}),
    ],
    "bedrock": [
        ("CreateGuardrail", {"name": "third", **_POLICIES}),
        ("GetGuardrail", {"guardrailIdentifier": GUARDRAIL}),
        ("ListGuardrails", {"maxResults": 3}),
        ("ListFoundationModels", {"byProvider": "Anthropic"}),
    ],
    "bedrock-agent": [
        ("CreatePrompt", {"name": "p", "variants": [_VARIANT], "defaultVariant": "v"}),
        ("ListPrompts", {"maxResults": 3}),
        ("CreateAgent", {**_CHANGED, **_ROLE, "agentName": "third", "tags": {"a": "b"}}),
        ("UpdateAgent", {"agentId": MADE, **_CHANGED, **_ROLE}),
        ("GetAgent", {"agentId": AGENT}),
        ("ListAgents", {"maxResults": 3}),
        ("PrepareAgent", {"agentId": MADE}),
        ("CreateAgentAlias", {"agentId": MADE, "agentAliasName": "live"}),
        ("CreateAgentActionGroup", _GROUPED),
        ("ListAgentActionGroups", {"agentId": MADE, "agentVersion": "DRAFT"}),
    ],
}
GOOD = [((service, name), params) for service, all in _BY_SERVICE.items() for name, params in all]


@st.composite
def _good(draw: st.DrawFn, operations: list[Operation]) -> Asked:
    """A request that is carried out; most of them a little spoilt."""
    known = [it for it in GOOD if it[0] in operations]
    operation, params = draw(st.sampled_from(known))
    asked = written(operation, params)
    return draw(_spoilt(asked, 2)) if draw(st.integers(0, 3)) else asked


def written(operation: Operation, params: dict[str, Any]) -> Asked:
    """The request that boto3 sends."""
    method, path, query, headers, body = sent(operation_model(*operation), params)
    return Asked(method, path + (f"?{query}" if query else ""), headers, body)


@st.composite
def _asked(draw: st.DrawFn, operations: list[Operation]) -> Asked:
    """Any request of boto3's, most of which name what there is; half of them spoilt."""
    operation = draw(st.sampled_from(operations))
    model = operation_model(*operation)
    params = draw(values(model.input_shape)) if model.input_shape is not None else {}
    for name, known in _KNOWN.items():
        if name in params and draw(st.integers(0, 9)):
            params[name] = known
    asked = written(operation, params)
    return draw(_spoilt(asked)) if draw(st.booleans()) else asked


@st.composite
def _spoilt(draw: st.DrawFn, asked: Asked, most: int = 4) -> Asked:
    """The request with another body, path, method or header."""
    where = draw(st.sampled_from(("tree", "tree", "tree", "body", "path", "header", "method")))
    body = json_or(asked.body.decode("utf-8", "replace"), None)
    if where == "tree" and isinstance(body, dict | list):
        tree = draw(mutations.trees([body], most))
        # Halves of characters stay escapes, and infinite numbers are no JSON.
        return asked._replace(body=json.dumps(tree).encode())
    if where == "path":
        path = draw(mutations.texts([asked.path], ("/", "?", "%00", "//", "&", "=", ";")))
        return asked._replace(path=path.replace(" ", "%20"))
    if where == "method":
        methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X")
        return asked._replace(method=draw(st.sampled_from(methods)))
    if where == "header":
        name = draw(st.sampled_from([*asked.headers, "authorization", "x-session-id", "expect"]))
        value = draw(mutations.texts([asked.headers.get(name, "1")]))
        return asked._replace(headers={**asked.headers, name: value})
    body = draw(mutations.texts([asked.body.decode("utf-8", "replace")]))
    return asked._replace(body=body.encode("utf-8", "surrogatepass"))


_CHAT: dict[str, Any] = {
    "model": "vacations",
    "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "How many?"}],
    "stream": True,
    "temperature": 0.5,
    "user": "ana",
    "metadata": {"a": "b"},
    "stream_options": {"include_usage": True},
}
_TOOLED: dict[str, Any] = {
    **_CHAT,
    "stream": False,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "hr__days", "arguments": '{"employee": "E-1"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "12"},
    ],
}
_INVOCATION: dict[str, Any] = {
    "prompt": "How many?",
    "enableTrace": True,
    "endSession": False,
    "memoryId": "ana",
    "sessionState": {"sessionAttributes": {"a": "b"}, "promptSessionAttributes": {"c": "d"}},
}
_JSON = {"content-type": "application/json"}


@st.composite
def _chats(draw: st.DrawFn) -> Asked:
    """A request of a chat client, or of AgentCore's."""
    path, good = draw(
        st.sampled_from(
            [
                ("/v1/chat/completions", _CHAT),
                ("/v1/chat/completions", _TOOLED),
                ("/invocations", _INVOCATION),
                ("/v1/models/vacations", {}),
            ]
        )
    )
    body = json.dumps(draw(mutations.trees([good], 2))).encode()
    asked = Asked("POST" if good else "GET", path, dict(_JSON), body if good else b"")
    return asked if draw(st.integers(0, 2)) else draw(_spoilt(asked))


@st.composite
def _signatures(draw: st.DrawFn) -> Asked:
    """A signed request with one of its signed parts spoilt."""
    prepared = signed(url="http://127.0.0.1:1/agents/?a=b", headers=_JSON, method="PUT")
    headers = {
        name.lower(): value if isinstance(value, str) else value.decode()
        for name, value in prepared.headers.items()
    }
    name = draw(st.sampled_from([*headers, "authorization", "authorization", "x-amz-date"]))
    pieces = ("AWS4-HMAC-SHA256 ", "Credential=", "SignedHeaders=", "Signature=", ",", "/", ";")
    headers[name] = draw(mutations.texts([headers[name]], pieces))
    return Asked("PUT", "/agents/?a=b", headers, b"{}")


_RAW = (
    "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}",
    "GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\n\r\n",
    "PUT /agents/ HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2\r\n{}\r\n0\r\n\r\n",
    "POST /invocations HTTP/1.0\r\nHost: 127.0.0.1:80\r\nExpect: 100-continue\r\n"
    'Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{"prompt":"a"}',
    "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
)
_RAW_PIECES = ("\r\n", "\r\n\r\n", ": ", "HTTP/2.0", "chunked", "Content-Length: 99999999999\r\n")


@contextmanager
def opened_door() -> Iterator[_Door]:
    """A server whose callers nobody knows."""
    with TemporaryDirectory() as folder, _served(Path(folder), body_seconds=5) as door:
        door.make_agent()
        yield door


@contextmanager
def opened() -> Iterator[list[Property]]:
    """The properties of a server whose callers nobody knows, and of one that has keys."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        door = stack.enter_context(opened_door())
        locked = stack.enter_context(_served(folder, keys=write_keys(folder)))
        raw = mutations.texts(_RAW, _RAW_PIECES).map(
            lambda text: text.encode("utf-8", "surrogatepass")
        )
        streams = [it for it in STREAMED if it in CALLED]
        yield [
            Property("operations", _asked(CALLED) | _good(CALLED), door.check),
            Property("streams", _asked(streams) | _good(streams), door.check),
            Property("chats", _chats(), door.check),
            Property("signatures", _signatures(), locked.check),
            Property("bytes", raw, door.send_raw),
        ]
