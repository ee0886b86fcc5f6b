"""`serve --workbench`: the same pages beside the server's endpoints, for its own machine alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from workbench_support import MODEL, Client, answer, enter, made_calls, price, write_shop

from orchestrator import ValidationError
from orchestrator.server.serving import serve, serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.workbench.projects import Project
from orchestrator.server.workbench.served_agents import ServedProjects
from orchestrator.testing import ScriptedModel


@contextmanager
def serving(folder: Path, script: list[Any]) -> Iterator[tuple[str, ServerState, Client, Client]]:
    """A server with its workbench: URL, state, and clients with the token and without it."""
    settings = Settings(port=0, agents=folder, workbench=True, price=[f"{MODEL}=3,15"])
    model = ScriptedModel(script, model_id=MODEL)
    with ServerState(settings, models={"*": model}) as state, serve_in_thread(state) as url:
        assert state.workbench.startswith(f"{url}/workbench/#t=")
        yield url, state, *enter(state.workbench)


def connect(url: str, service: str) -> Any:
    import boto3

    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return boto3.client(service, region_name="us-east-1", endpoint_url=url, **keys)


def test_turns_of_the_api_and_of_the_page_are_the_same_sessions(tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    script = [price(), answer("Twelve."), answer("Hello.")]
    with serving(own, script) as (url, _, client, _):
        (agent,) = client.get("/").json["agents"]
        assert (agent["name"], agent["folder"]) == ("shop", str(own))
        runtime = connect(url, "bedrock-agent-runtime")
        asked = runtime.invoke_agent(
            agentId=agent["key"], agentAliasId="TSTALIASID", sessionId="s-1", inputText="Tea?"
        )
        text = b"".join(it["chunk"]["bytes"] for it in asked["completion"] if "chunk" in it)
        runtime.close()
        assert text == b"Twelve."
        at = f"/agents/{agent['key']}"
        assert [it["id"] for it in client.get(at).json["sessions"]] == ["s-1"]
        told = client.post(f"{at}/sessions/s-1/ask", {"question": "Hi"})
        assert told.lines[-1]["text"] == "Hello."
        turns = client.get(f"{at}/sessions/s-1").json["turns"]
        assert [it["text"] for it in turns] == ["Twelve.", "Hello."]
        turn = f"{at}/sessions/s-1/turns/{turns[0]['id']}"
        assert "You answer questions" in client.get(f"{turn}/steps/1").json["prompt"]["system"]
        assert client.get(turn).json["costs"]["dollars"] is not None
        assert client.page(f"{at}/definition").status == 200
        assert made_calls(own) == ["tea"]


def test_an_agent_made_through_the_api_is_there_and_has_no_folder(tmp_path: Path) -> None:
    with serving(write_shop(tmp_path), [answer("Hi.")]) as (url, _, client, _):
        control = connect(url, "bedrock-agent")
        role = "arn:aws:iam::000000000000:role/x"
        made = control.create_agent(
            agentName="made",
            agentResourceRoleArn=role,
            foundationModel=MODEL,
            instruction="You greet whoever it is, with all due politeness.",
        )["agent"]["agentId"]
        control.prepare_agent(agentId=made)
        alias = control.create_agent_alias(agentId=made, agentAliasName="live")["agentAlias"]
        control.close()
        keys = [it["key"] for it in client.get("/").json["agents"]]
        assert keys[1:] == [made, f"{made}.{alias['agentAliasId']}"]
        at = f"/agents/{made}/sessions/s-1"
        assert client.post(f"{at}/ask", {"question": "Hello?"}).lines[-1]["text"] == "Hi."
        assert client.page(f"/agents/{made}/definition").status == 200
        assert client.get(f"/agents/{made}/evaluations").status == 400
        assert "evaluations" not in client.page(f"/agents/{made}").text
        assert [it["kind"] for it in client.get("/import").json["places"]] == ["agent"]
        turn = client.get(at).json["turns"][0]["id"]
        save = client.post(f"{at}/turns/{turn}/steps/1/save", {"template": "{}"})
        assert save.status in (400, 422)
        missing = client.get("/agents/nobody")
        assert (missing.status, missing.json["message"]) == (
            404,
            "the server has no agent 'nobody'",
        )


def test_an_agent_that_is_wrong_says_why(tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    with serving(own, []) as (_, state, client, _):
        (own / "agent.yaml").write_text("agentName: shop\nfoundationModel: [1]\n")
        state.agents.folders.refresh()
        (agent,) = client.get("/").json["agents"]
        assert "foundationModel" in client.get(f"/agents/{agent['key']}").json["wrong"]


def test_nobody_enters_without_the_token(tmp_path: Path) -> None:
    with serving(write_shop(tmp_path), []) as (_, _, client, stranger):
        for path in ("", "/", "/agents/x", "/static", "/../agents/"):
            assert stranger.get(path).status == 401, path
        assert stranger.send("GET", f"{client.root}/").status == 401
        foreign = client.get("/", Host="evil.example")
        assert foreign.status == 403
        assert client.get("/", Origin="http://evil.example").status == 403
        # What only begins like it is the API's.
        assert stranger.send("GET", "/workbenches").status == 404
        assert "content-security-policy" in stranger.get("/").headers


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"host": "0.0.0.0", "open": True}, "others than this machine"),
        ({"open": True}, "with --open the server is for others"),
        ({"keys": Path("keys.yaml")}, "with --keys the server is for others"),
        ({"workers": 2, "state": Path("s.sqlite")}, "one process, and not in 2"),
    ],
)
def test_a_server_for_others_has_no_workbench(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        serve(Settings(port=0, workbench=True, **options), lambda url, state: None)


def test_prices_are_for_the_workbench() -> None:
    with pytest.raises(ValidationError, match="give --workbench"):
        serve(Settings(port=0, price=["m=1,2"]), lambda url, state: None)


def test_without_the_option_there_is_none(tmp_path: Path) -> None:
    settings = Settings(port=0, agents=write_shop(tmp_path))
    with ServerState(settings) as state, serve_in_thread(state) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        assert state.workbench == ""
        assert Client(host, int(port)).send("GET", "/workbench/").status == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("sessions/s-1/ask", {"question": "Hi"}),
        ("sessions/s-1/fork", {"turn": "x"}),
        ("sessions/s-1/end", {}),
        ("sessions/s-1/delete", {}),
        ("sessions/s-1/turns/x/steps/1/run", {}),
        ("memory/forget", {"memory": "ana"}),
        ("evaluations/start", {"cases": "x"}),
        ("evaluations/x/resume", {}),
        ("evaluations/x/watch", {}),
        ("evaluations/x/stop", {}),
        ("evaluations/x/delete", {}),
    ],
)
def test_no_agent_is_compiled_on_the_event_loop(
    path: str, body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_loop: list[bool] = []
    list_all = ServedProjects.all

    def watch(projects: ServedProjects) -> list[Project]:
        on_loop.append(asyncio._get_running_loop() is not None)
        return list_all(projects)

    with serving(write_shop(tmp_path), [answer("Hello.")]) as (_, _, client, _):
        (agent,) = client.get("/").json["agents"]
        monkeypatch.setattr(ServedProjects, "all", watch)
        client.post(f"/agents/{agent['key']}/{path}", body)
    assert on_loop
    assert not any(on_loop)
