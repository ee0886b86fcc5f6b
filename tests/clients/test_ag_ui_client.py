"""AG-UI's own client of npm, which verifies the order of events, against an agent."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import boto3
import pytest

from tests.clients.conftest import (
    GROUP,
    INSTRUCTION,
    MODEL,
    NODE,
    ROLE,
    Serve,
    call,
    find_node_trouble,
)

pytestmark = pytest.mark.skipif(bool(find_node_trouble()), reason=find_node_trouble())

ANSWER = "<answer>You have 12 days left.</answer>"
CALL = [{"text": "<thinking>I look it up.</thinking>"}, *call("vacations__get_days", employee="7")]
OLDEST = "ag-ui-client-0.0.42"
CLIENTS = ["@ag-ui/client", "ag-ui-client-0.0.59", OLDEST]


def run(serve: Serve, client: str, group: dict[str, Any]) -> Any:
    """What a client saw of a run of an agent with this group."""
    served = serve([CALL, ANSWER])
    control = boto3.client("bedrock-agent")
    agent = control.create_agent(
        agentName="vacations",
        foundationModel=MODEL,
        instruction=INSTRUCTION,
        agentResourceRoleArn=ROLE,
    )["agent"]["agentId"]
    control.create_agent_action_group(agentId=agent, agentVersion="DRAFT", **group)
    control.prepare_agent(agentId=agent)
    by = "tool" if client == OLDEST else "resume"
    given = {"CLIENT": client, "ANSWER_BY": by}
    given |= {"URL": f"{served.url}/ag-ui", "QUESTION": "How many days? I am 7.", "RESULT": "12"}
    done = subprocess.run(
        ["node", "--no-warnings", "ag_ui.mjs"],
        cwd=NODE,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("client", CLIENTS)
def test_an_agent_runs(serve: Serve, client: str) -> None:
    assert run(serve, client, GROUP) == {
        "outcomes": [""] if client == OLDEST else ["success"],
        "text": "You have 12 days left.",
        "calls": ["vacations::get_days"],
        "thoughts": ["I look it up."],
        "failed": False,
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_a_return_of_control_is_an_interrupt(serve: Serve, client: str) -> None:
    group = {**GROUP, "actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}
    assert run(serve, client, group) == {
        "outcomes": ["", ""] if client == OLDEST else ["interrupt", "success"],
        "text": "You have 12 days left.",
        "calls": ["vacations__get_days"],
        "thoughts": ["I look it up."],
        "failed": False,
    }
