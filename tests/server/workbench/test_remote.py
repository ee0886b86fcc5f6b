"""Agents of a remote server in the workbench: through Bedrock's API, and nothing but that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from result_form_agents import set_stock, write_stock
from waiting import until
from workbench_support import MODEL, Client, answer, enter, price, write_shop

from orchestrator import ValidationError
from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.prices import parse_prices
from orchestrator.server.operations import Caller
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.remote.server import RemoteServer
from orchestrator.server.workbench.remote.sessions import RemoteSessions, RemoteTurn
from orchestrator.server.workbench.run import run_in_thread
from orchestrator.testing import ScriptedModel

HOSTILE = "<script>alert(1)</script>"


class Waiting(ScriptedModel):
    """A model that answers when it is let."""

    def __init__(self) -> None:
        super().__init__([answer("Late.")], model_id=MODEL)
        self.asked, self.go = Event(), Event()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        assert self.go.wait(60)
        return super().complete(request)


@contextmanager
def remote(
    folder: Path, script: list[Any], model: ScriptedModel | None = None
) -> Iterator[tuple[Client, ScriptedModel, str, ServerState]]:
    """A workbench that knows a server's address alone: client, model, the agent's key, server."""
    model = model or ScriptedModel(script, model_id=MODEL)
    with (
        ServerState(Settings(port=0, agents=folder), models={"*": model}) as state,
        serve_in_thread(state) as url,
        closing(
            Projects((), servers=[RemoteServer(url)], prices=parse_prices([f"{MODEL}=3,15"]))
        ) as projects,
        run_in_thread(projects, Settings(port=0)) as address,
    ):
        client, _ = enter(address)
        (server,) = client.get("/").json["servers"]
        assert (server["url"], server["wrong"]) == (url, "")
        yield client, model, server["agents"][0]["key"], state


def test_one_talks_and_sees_every_step(tmp_path: Path) -> None:
    script = [price(), answer(f"Twelve. {HOSTILE}"), answer("Hello.")]
    with remote(write_shop(tmp_path), script) as (client, model, key, _):
        at = f"/agents/{key}/sessions/s-1"
        told = client.post(f"{at}/ask", {"question": "How much is tea?"}).lines
        assert [it["kind"] for it in told if it["type"] == "step"][:4] == [
            "modelInvocationInput",
            "modelInvocationOutput",
            "rationale",
            "invocationInput",
        ]
        assert (told[-1]["text"], told[-1]["stop_reason"]) == (f"Twelve. {HOSTILE}", "end_turn")
        assert client.post(f"{at}/ask", {"question": "Hi"}).lines[-1]["text"] == "Hello."
        # The server has the conversation, and the page what it has seen.
        assert "How much is tea?" in str(model.requests[2].messages)
        first, second = client.get(at).json["turns"]
        assert [(it["name"], it["arguments"]) for it in first["calls"]] == [
            ("prices::get_price", {"item": "tea"})
        ]
        assert first["thoughts"][0]["text"] == "I look."
        assert second["text"] == "Hello."
        turn = f"{at}/turns/{first['id']}"
        steps = client.get(turn).json["steps"]
        assert [(it["kind"], it["name"]) for it in steps] == [
            ("model", MODEL),
            ("action", "prices::get_price"),
            ("model", MODEL),
        ]
        assert all(it["began"] <= it["ended"] for it in steps)
        assert client.get(turn).json["costs"]["unpriced"] == []
        step = client.get(f"{turn}/steps/1").json
        assert "You answer questions about the prices" in step["prompt"]
        parts = [client.get(f"{turn}/steps/{n}/parts").json["parts"] for n in (1, 2, 3)]
        assert [it for one in parts for it in one] == client.get(f"{turn}/trace").json
        for path in ("", at, turn, f"{turn}/steps/1", f"{turn}/steps/2", f"{turn}/steps/1/parts"):
            page = client.page(path or f"/agents/{key}")
            assert page.status == 200, path
            assert HOSTILE not in page.text
            assert "through Bedrock's API" in page.text or path.endswith("parts")
        assert [it["id"] for it in client.get(f"/agents/{key}").json["sessions"]] == ["s-1"]


def test_what_the_server_s_api_does_not_give_is_said(tmp_path: Path) -> None:
    with remote(write_shop(tmp_path), [answer("Hello.")]) as (client, _, key, _):
        at = f"/agents/{key}/sessions/s-1"
        client.post(f"{at}/ask", {"question": "Hi"})
        turn = client.get(at).json["turns"][0]["id"]
        for path in (
            f"/agents/{key}/definition",
            f"{at}/turns/{turn}/steps/1/what-if",
        ):
            assert client.get(path).status == 404
            assert "does not give this" in client.get(path).json["message"]
        forked = client.post(f"{at}/fork", {"turn": turn})
        assert (forked.status, "does not give this" in forked.json["message"]) == (404, True)
        page = client.page(f"{at}/turns/{turn}").text
        assert "what-if, forks and earlier sessions are the server's own" in page
        assert "What if…" not in client.page(f"{at}/turns/{turn}/steps/1").text
        assert "Edit and fork" not in client.page(at).text


def test_memories_are_shown_and_forgotten_by_their_id(tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    with (own / "agent.yaml").open("a") as file:
        file.write("memoryConfiguration:\n  enabledMemoryTypes: [SESSION_SUMMARY]\n")
    summary = f"<summary><topic name='tea'>{HOSTILE} Likes tea.</topic></summary>"
    with remote(own, [answer("Noted."), summary]) as (client, _, key, state):
        at = f"/agents/{key}/memory"
        assert "The API does not list memories" in client.page(at).text
        assert "Nothing is remembered under this id" in client.page(f"{at}?id=ana").text
        (folder,) = state.agents.folders.all()
        agent = state.agents.resolve_alias(Caller(), folder.agent_id, "TSTALIASID")
        agent.invoke("I like tea.", "s-1", memory_id="ana")
        agent.end_session("s-1")
        (memory,) = client.get(f"{at}?id=ana").json["memories"]
        (session,) = memory["sessions"]
        assert session["sessionSummary"]["sessionId"] == "s-1"
        assert "Likes tea" in session["sessionSummary"]["summaryText"]
        page = client.page(f"{at}?id=ana").text
        assert "Likes tea" in page
        assert HOSTILE not in page
        assert client.post(f"{at}/forget", {}).status == 400
        assert client.post(f"{at}/forget", {"memory": "ana"}).status == 200
        assert client.get(f"{at}?id=ana").json["memories"] == []
        refused = client.page(f"{at}?id=%20n%20o")
        assert (refused.status, "does not give this memory" in refused.text) == (200, True)


def test_calls_are_handed_over_with_the_form_of_the_server_s_schema(tmp_path: Path) -> None:
    with remote(write_stock(tmp_path), [set_stock(), answer("Seven.")]) as (client, model, key, _):
        at = f"/agents/{key}/sessions/s-1"
        told = client.post(f"{at}/ask", {"question": "Seven teas."}).lines
        assert told[-1]["stop_reason"] == "return_control"
        (turn,) = client.get(at).json["turns"]
        (form,) = turn["forms"]
        assert [it["name"] for it in form["result"]["fields"]][:2] == ["id", "count"]
        assert form["parameters"][1]["description"] == "How many."
        wrong = client.post(f"{at}/ask", {"results": []})
        assert (wrong.status, "1 calls wait" in wrong.json["message"]) == (400, True)
        done = client.post(f"{at}/ask", {"results": ['{"count": 7}'], "states": [""]})
        assert done.lines[-1]["text"] == "Seven."
        assert '{"count": 7}' in str(model.requests[1].messages).replace('\\"', '"')
        (turn,) = client.get(at).json["turns"]
        assert (turn["is_open"], turn["text"]) == (False, "Seven.")
        assert turn["calls"][0]["outcome"] == "carried out by you"
        none = client.post(f"{at}/ask", {"results": ["again"]})
        assert (none.status, none.json["message"]) == (400, "session 's-1' waits for no results")


def test_attributes_go_along_and_sessions_end(tmp_path: Path) -> None:
    script = [answer("Yes."), answer("No.")]
    with remote(write_shop(tmp_path), script) as (client, model, key, _):
        at = f"/agents/{key}/sessions/s-1"
        body = {"question": "So?", "prompt_attributes": {"unit": "euros"}}
        assert client.post(f"{at}/ask", body).lines[-1]["text"] == "Yes."
        assert "euros" in model.requests[0].system + str(model.requests[0].messages)
        bad = client.post(f"{at}/ask", {"question": "x", "attributes": {"a": 1}})
        assert (bad.status, bad.json["message"]) == (400, "'attributes' must be an object of texts")
        assert client.post(f"{at}/end", {}).status == 200
        client.post(f"{at}/ask", {"question": "Again?"})
        assert "So?" not in str(model.requests[1].messages)
        assert client.post(f"{at}/delete", {}).status == 200
        assert client.get(at).json["turns"] == []


def test_a_turn_that_fails_says_why(tmp_path: Path) -> None:
    with remote(write_shop(tmp_path), []) as (client, _, key, _):
        at = f"/agents/{key}/sessions/s-1"
        told = client.post(f"{at}/ask", {"question": "Hi"}).lines
        assert told[-1]["type"] == "error"
        unknown = client.post(
            "/agents/remote-0-AAAAAAAAAA-TSTALIASID/sessions/s-1/ask", {"question": "Hi"}
        )
        assert "AAAAAAAAAA" in unknown.lines[-1]["message"]
        missing = client.get("/agents/remote-7-AAAAAAAAAA-TSTALIASID")
        assert (missing.status, missing.json["message"]) == (404, "the workbench has no server 7")


def test_to_stop_a_turn_stops_it_at_the_server(tmp_path: Path) -> None:
    model = Waiting()
    with remote(write_shop(tmp_path), [], model) as (client, _, key, state):
        at = f"/agents/{key}/sessions/s-1"
        headers = {**client.headers, "Content-Type": "application/json", "X-Workbench": "1"}
        with closing(HTTPConnection(client.host, client.port, timeout=60)) as connection:
            body = json.dumps({"question": "Tea?"})
            connection.request("POST", f"{client.root}{at}/ask", body, headers)
            reply = connection.getresponse()
            assert json.loads(reply.readline())["kind"] == "modelInvocationInput"
            busy = client.post(f"{at}/ask", {"question": "And?"})
            assert (busy.status, "is busy" in busy.json["message"]) == (409, True)
            reply.close()
        until(lambda: client.get(at).json["turns"] != [])
        assert client.get(at).json["turns"][0]["stop_reason"] == "interrupted"
        # The server has given the turn up, although its model has not answered yet.
        agent = state.agents.folders.all()[0].agent()
        until(lambda: [it.stop_reason for it in agent.turns("s-1")] == ["cancelled"])
        model.go.set()


def test_a_server_that_is_not_there_leaves_the_other_agents(tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    server = RemoteServer("http://127.0.0.1:9")
    with (
        closing(Projects([own], servers=[server])) as projects,
        run_in_thread(projects, Settings(port=0)) as address,
    ):
        client, _ = enter(address)
        home = client.get("/").json
        assert [it["name"] for it in home["agents"]] == ["shop"]
        assert home["servers"][0]["agents"] == []
        assert home["servers"][0]["wrong"]
        assert client.page("/").status == 200


def test_no_address_of_a_page_is_asked(tmp_path: Path) -> None:
    # A page names a server by its number; what an address has in it is never another host.
    with remote(write_shop(tmp_path), []) as (client, _, key, _):
        for other in ("remote-0-http:%2F%2Fevil-TSTALIASID", "remote-0-..%2F..%2Fx-TSTALIASID"):
            assert client.get(f"/agents/{other}").status == 404
        assert client.get(f"/agents/{key}?server=http://evil.example").status == 200


@pytest.mark.parametrize(
    "url", ["http://me:secret@localhost:1", "http://me@localhost:1", "http://localhost:1?k=secret"]
)
def test_an_address_with_a_password_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="password") as found:
        RemoteServer(url)
    assert "secret" not in str(found.value)


def test_texts_count_to_what_is_kept_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.server.workbench.remote.sessions._MOST_KEPT", 1000)
    sessions = RemoteSessions()
    for id, turn in (
        ("text", RemoteTurn("q", text="x" * 600)),
        ("question", RemoteTurn("x" * 600)),
        ("citations", RemoteTurn("q", citations=["x" * 600])),
        ("waits", RemoteTurn("q", waits=[{"x": "x" * 600}])),
    ):
        sessions.keep("agent", sessions.open("agent", id), turn)
        assert [one.id for one in sessions.list("agent")] == [id]  # the one before made room
