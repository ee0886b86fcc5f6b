"""Attack 17: a server's errors tell its callers nothing of where its files lie; its log does."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EventStreamError
from hypothesis import given
from hypothesis import strategies as st
from runtime_servers import AGENT_ID, ALIAS_ID, Runtime, definition, running, told, write_agent
from server_requests import client, send

from orchestrator.server.path_redaction import PathRedactor

BROKEN = definition(
    promptOverrideConfiguration={
        "promptConfigurations": [
            {"promptType": "ORCHESTRATION", "basePromptTemplateFile": "mine.json"}
        ]
    }
)
DEAR = {"role": "user", "content": "Dear"}


def heard_of(server: Runtime) -> list[str]:
    """What each door tells of an agent that cannot run."""
    agent = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "sessionId": "s-1"}
    with pytest.raises((ClientError, EventStreamError)) as error:
        told(server.client.invoke_agent(**agent, inputText="Hello"))
    found = [str(error.value.response)]
    for path, body in (
        ("/v1/chat/completions", {"model": "vacations", "messages": [DEAR]}),
        ("/v1/chat/completions", {"model": "vacations", "messages": [DEAR], "stream": True}),
        ("/invocations", {"prompt": "Hello", "agent": "vacations"}),
    ):
        found.append(send(server.url, path=path, body=json.dumps(body).encode()).body.decode())
    return found


def test_a_wrong_file_of_an_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_agent(tmp_path / "agents" / "own", BROKEN, **{"mine.json": '{"system": }'})
    with running(agents=tmp_path / "agents") as server, closing(client(server.url)) as control:
        agent = control.get_agent(agentId=AGENT_ID)["agent"]
        assert agent["failureReasons"][0].startswith("…/mine.json:1:")
        with pytest.raises(ClientError) as error:
            control.delete_agent(agentId=AGENT_ID)
        with pytest.raises(ClientError) as tagging:
            control.tag_resource(resourceArn=agent["agentArn"], tags={"a": "b"})
        heard = heard_of(server)
        assert "…/mine.json:1:" in heard[0]
        for refusal in (error.value, tagging.value):
            assert "'…/agent.yaml'" in str(refusal)
        assert str(tmp_path) not in f"{agent} {error.value} {tagging.value} {heard}"
    assert f"{folder / 'mine.json'}:1:" in caplog.text
    assert str(folder / "agent.yaml") in caplog.text


def test_a_broken_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_agent(tmp_path / "agents" / "own", definition())
    state = tmp_path / "state" / "sessions.sqlite"
    state.parent.mkdir()
    with running(agents=tmp_path / "agents", state=state) as server:
        with closing(sqlite3.connect(state)) as db:
            db.execute("DROP TABLE journal")
        with caplog.at_level(logging.WARNING):
            heard = heard_of(server)
        assert all("…/sessions.sqlite" in it or "\\u2026/sessions.sqlite" in it for it in heard)
        assert str(tmp_path) not in str(heard)
    assert str(state) in caplog.text


def test_a_turn_that_fails_tells_no_path_in_its_trace(tmp_path: Path) -> None:
    write_agent(tmp_path / "agents" / "own", definition(foundationModel="replay:asked.jsonl"))
    recording = tmp_path / "agents" / "own" / "asked.jsonl"
    recording.write_text("")
    with running(agents=tmp_path / "agents", models={}) as server:
        events = []
        with pytest.raises((ClientError, EventStreamError)) as error:
            answer = server.client.invoke_agent(
                agentId=AGENT_ID,
                agentAliasId=ALIAS_ID,
                sessionId="s-1",
                inputText="Hello",
                enableTrace=True,
            )
            with closing(answer["completion"]) as stream:
                events.extend(stream)
        heard = f"{error.value} {events}"
        assert "asked.jsonl" in heard and str(tmp_path) not in heard


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0}/agents/a/agent.yaml:3:1: no", "…/agent.yaml:3:1: no"),
        ("in '{0}/agents', and {0}/agents.", "in '…/agents', and …/agents."),
        ("{0}/a folder/x.json:3:1: no", "…/x.json:3:1: no"),
        ("'{0}/a folder/x.json' is wrong", "'…/x.json' is wrong"),
        ("file://{0}/agents/a", "…/a"),
        ("{0}", "…/{1}"),
        ("({0}/x/)", "(…/x)"),
        (r"C:\\Users\\ann\\a.json:1: no", "…/a.json:1: no"),
        ("of x{0}/agents/a", "of x{0}/agents/a"),
        ("https://example.com{0}/a", "https://example.com{0}/a"),
        ("GET {0} of 'POST {0}/y'", "GET {0} of 'POST {0}/y'"),
        ("paths.{0}, #{0}, a/b and 1/2", "paths.{0}, #{0}, a/b and 1/2"),
        ("no path", "no path"),
    ],
)
@pytest.mark.parametrize("real", [True, False])
def test_paths_in_texts(tmp_path: Path, text: str, expected: str, real: bool) -> None:
    # What is read does not tell whether a path is one of the server's.
    place = tmp_path if real else Path("/nowhere") / tmp_path.name
    found = PathRedactor().redact(text.format(place))
    assert found == expected.format(place, tmp_path.name)


@given(st.text("/\\\\ ab.:'\"\n~", max_size=200))
def test_whatever_is_redacted_is_redacted_once(text: str) -> None:
    redact = PathRedactor().redact
    assert len(redact(text)) <= len(text) + text.count("/") + text.count("\\")


def test_a_guess_at_a_folder_is_never_confirmed(tmp_path: Path) -> None:
    write_agent(tmp_path / "agents" / "own", definition())
    (tmp_path / "shelf").mkdir()
    said = set()
    with running(
        agents=tmp_path / "agents", buckets={"b": tmp_path / "shelf"}, models={}
    ) as server:
        for guess in ("shelf", "agents", "gone", "away"):
            name = f"{tmp_path}/{guess}/{guess}.gguf"
            body = {"model": name, "messages": [DEAR]}
            answer = send(server.url, path="/v1/chat/completions", body=json.dumps(body).encode())
            said.add(answer.body.decode().replace(guess, "guess"))
    assert len(said) == 1, said
