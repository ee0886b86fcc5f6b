"""What a remote server sends is not believed: it breaks no page, and has bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from workbench_support import Client, enter

from orchestrator.server.settings import Settings
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.remote import asking, sessions
from orchestrator.server.workbench.remote.server import RemoteServer
from orchestrator.server.workbench.run import run_in_thread

KEY = "remote-0-ABCDEFGHIJ-TSTALIASID"
AT = f"/agents/{KEY}/sessions/s-1"


class Events:
    """A stream of events, which may break off."""

    _raw_stream = None

    def __init__(self, events: list[Any]) -> None:
        self._events = events
        self.is_closed = False

    def __iter__(self) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def close(self) -> None:
        self.is_closed = True


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, *events: Any) -> Iterator[tuple[Client, Events]]:
    """A workbench whose remote server's answer is a list of events."""
    stream = Events(list(events))
    server = RemoteServer("http://127.0.0.1:9")
    monkeypatch.setattr(server._runtime, "invoke_agent", lambda **_: {"completion": stream})
    with (
        closing(Projects((), servers=[server])) as projects,
        run_in_thread(projects, Settings(port=0)) as address,
    ):
        yield enter(address)[0], stream


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([{"returnControl": {"invocationId": "i", "invocationInputs": [{}]}}], "has no name"),
        (
            [{"returnControl": {"invocationInputs": [{"functionInvocationInput": {}}]}}],
            "has no name",
        ),
        ([{"chunk": {"bytes": b"half"}}, ValueError("no frame")], "broke off (ValueError)"),
    ],
)
def test_nonsense_ends_the_turn_with_a_reason(
    events: list[Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch, *events) as (client, stream):
        last = client.post(f"{AT}/ask", {"question": "Hi"}).lines[-1]
        assert last["type"] == "error"
        assert reason in last["message"]
        assert stream.is_closed
        page = client.page(AT)
        assert (page.status, "failed" in page.text) == (200, True)


def test_parts_without_a_trace_are_kept_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [{"trace": {}}, {"trace": {"trace": {}}}, {"files": {"files": [{}]}}, {"other": 1}]
    with answering(monkeypatch, *events, {"chunk": {"bytes": b"Hi\xff"}}) as (client, _):
        last = client.post(f"{AT}/ask", {"question": "Hi"}).lines[-1]
        assert (last["type"], last["text"]) == ("end", "Hi\ufffd")
        (turn,) = client.get(AT).json["turns"]
        assert client.get(f"{AT}/turns/{turn['id']}/trace").json == [{}, {"trace": {}}]
        assert client.page(f"{AT}/turns/{turn['id']}").status == 200


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_MOST_TEXT", 100)
    events = [{"chunk": {"bytes": b"x" * 60}}] * 3
    with answering(monkeypatch, *events) as (client, _):
        last = client.post(f"{AT}/ask", {"question": "Hi"}).lines[-1]
        assert "more than 100 bytes" in last["message"]


def test_citations_without_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_MOST_TEXT", 1000)
    citation = {"generatedResponsePart": {"textResponsePart": {"text": "x" * 600}}}
    events = [{"chunk": {"bytes": b"", "attribution": {"citations": [citation]}}}] * 3
    with answering(monkeypatch, *events) as (client, _):
        last = client.post(f"{AT}/ask", {"question": "Hi"}).lines[-1]
        assert "more than 1,000 bytes" in last["message"]


def test_a_trace_without_end_is_not_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_TRACE", 50)
    part = {"trace": {"orchestrationTrace": {"rationale": {"text": "x" * 60}}}}
    with answering(monkeypatch, *[{"trace": part}] * 3, {"chunk": {"bytes": b"Hi"}}) as (client, _):
        last = client.post(f"{AT}/ask", {"question": "Hi"}).lines[-1]
        assert last["notes"] == ["3 trace parts were too large to keep"]


def test_old_sessions_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_SESSIONS", 2)
    kept = sessions.RemoteSessions()
    for id in ("a", "b", "c"):
        kept.keep("agent", kept.open("agent", id), sessions.RemoteTurn("Hi"))
    assert [one.id for one in kept.list("agent")] == ["c", "b"]
