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
CALL = call("vacations__get_days", employee="7")


def run(serve: Serve, group: dict[str, Any]) -> Any:
    """What the client saw of a run of an agent with this group."""
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
    given = {"URL": f"{served.url}/ag-ui", "QUESTION": "How many days? I am 7.", "RESULT": "12"}
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


def test_an_agent_runs(serve: Serve) -> None:
    assert run(serve, GROUP) == {
        "outcomes": ["success"],
        "text": "You have 12 days left.",
        "calls": ["vacations::get_days"],
        "failed": False,
    }


def test_a_return_of_control_is_an_interrupt(serve: Serve) -> None:
    group = {**GROUP, "actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}
    assert run(serve, group) == {
        "outcomes": ["interrupt", "success"],
        "text": "You have 12 days left.",
        "calls": ["vacations__get_days"],
        "failed": False,
    }
