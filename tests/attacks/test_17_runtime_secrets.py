"""Row 17: what callers of the runtime API tell in confidence stays out of logs, traces, errors."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from runtime_servers import (
    AGENT_ID,
    ALIAS_ID,
    BY_LAMBDA,
    CLAUDE,
    LAMBDA,
    calls,
    definition,
    running,
    write_agent,
)

from orchestrator.testing import ScriptedModel

SECRET = "canary-of-the-caller-77aa"


def failing(event: Any, context: Any) -> Any:
    raise RuntimeError(f"connection refused for {event['sessionAttributes']['token']}")


def test_attributes_and_errors(tmp_path: Path, caplog: Any, capfd: Any, canaries: Any) -> None:
    caplog.set_level(logging.DEBUG, "orchestrator")
    write_agent(tmp_path / "agents" / "own", definition(actionGroups=[BY_LAMBDA]))
    model = ScriptedModel([calls("hr__get_days", {"employee": "e7"})] * 2, CLAUDE)
    told: list[Any] = []
    given = {"sessionAttributes": {"token": SECRET}}
    with running(model, tmp_path / "agents", lambdas={LAMBDA: failing}) as server:
        ids = {"agentId": AGENT_ID, "agentAliasId": ALIAS_ID, "sessionId": "s-1"}
        answer = server.client.invoke_agent(
            **ids, inputText="How many?", enableTrace=True, sessionState=given
        )
        with closing(answer["completion"]) as stream, pytest.raises(EventStreamError) as caught:
            told.extend(stream)
        told += [caught.value, caught.value.response]
        with pytest.raises(ClientError) as refused:
            server.inline(
                "Hi",
                actionGroups=[{"actionGroupName": "a", "apiSchema": {"payload": SECRET}}],
                inlineSessionState=given,
            )
        told += [refused.value, refused.value.response]
    out, err = capfd.readouterr()
    texts = [caplog.text, out, err, *map(str, told), str(model.requests)]
    assert not [text for text in texts if SECRET in text]
    canaries.nowhere_in("log", caplog.text, out, err)


def test_an_input_that_the_server_cannot_take(tmp_path: Path, caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG, "orchestrator")
    write_agent(tmp_path / "agents" / "own", definition())
    with running(None, tmp_path / "agents") as server, pytest.raises(ClientError) as caught:
        state = {
            "conversationHistory": {"messages": [{"role": "robot", "content": [{"text": SECRET}]}]}
        }
        server.invoke(SECRET, sessionState=state)
    out, err = capfd.readouterr()
    assert SECRET not in f"{caught.value} {caplog.text} {out} {err}"
