"""Row 17: what chat clients and AgentCore's callers say is in no log and no error."""

from __future__ import annotations

import json
import logging
from http.client import HTTPConnection
from typing import Any

import pytest

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
CANARY = "c4n4ry-7731"
KEY = f"key-{CANARY}-0123456789"
AGENT = {
    "agentName": "vacations",
    "instruction": "You help employees with their vacations, and with nothing else at all.",
    "foundationModel": CLAUDE,
}
CHAT = "/v1/chat/completions"
BODIES = [
    (CHAT, {"model": "vacations", "messages": [{"role": "user", "content": CANARY}]}),
    (
        CHAT,
        {
            "model": "vacations",
            "stream": True,
            "messages": [
                {"role": "system", "content": CANARY},
                {"role": "user", "content": CANARY},
            ],
        },
    ),
    (CHAT, {"model": "vacations", "messages": [{"role": "user", "content": {"x": CANARY}}]}),
    (CHAT, {"model": "vacations", "messages": [{"role": "robot", "content": CANARY}]}),
    (
        CHAT,
        {
            "model": "vacations",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": f"http://{CANARY}"}}],
                }
            ],
        },
    ),
    ("/invocations", {"prompt": CANARY}),
    ("/invocations", {"prompt": "x", "sessionState": {"sessionAttributes": {"a": CANARY}}}),
    ("/invocations", {"prompt": "x", "sessionState": {"sessionAttributes": CANARY}}),
    ("/invocations", {"question": CANARY}),
]


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_nothing_that_was_sent_is_told_elsewhere(tmp_path, caplog, path, body):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"apiKey": KEY, "tenant": "a", "allow": ["*"]}]))
    keys.chmod(0o600)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "agent.yaml").write_text(json.dumps(AGENT))
    model = ScriptedModel([RuntimeError(CANARY)], CLAUDE)
    settings = Settings(port=0, agents=tmp_path / "agent", keys=keys)
    with (
        caplog.at_level(logging.DEBUG, logger="orchestrator"),
        ServerState(settings, models={"*": model}) as world,
        serve_in_thread(world) as url,
    ):
        said = _post(url, path, body)
    assert said
    assert CANARY not in said
    assert CANARY not in caplog.text


def _post(url: str, path: str, body: Any) -> str:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        headers = {"Authorization": f"Bearer {KEY}"}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()
