"""The AWS CLI, unmodified, against the server.

It pins a botocore of its own, and so lives in an environment of its own: `AWS_CLI` names its `aws`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState

CLI = os.environ.get("AWS_CLI", "")
pytestmark = pytest.mark.skipif(not CLI, reason="AWS_CLI does not name the AWS CLI's `aws`")


class Shell:
    """Runs `aws` against a server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._environment = {
            "PATH": os.environ["PATH"],
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "x" * 20,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_PAGER": "",
            "AWS_CONFIG_FILE": os.devnull,
        }

    def run(self, service: str, command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        given = [CLI, service, command, "--endpoint-url", self._url, "--output", "json"]
        for name, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            given += [f"--{name.replace('_', '-')}", text]
        return subprocess.run(
            given, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )

    def told(self, service: str, command: str, **options: Any) -> Any:
        """What a command that goes well prints."""
        done = self.run(service, command, **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "null")


@pytest.fixture(scope="module")
def aws() -> Iterator[Shell]:
    with ServerState(Settings()) as world, serve_in_thread(world) as url:
        yield Shell(url)


def test_the_life_of_an_agent(aws: Shell) -> None:
    made = aws.told(
        "bedrock-agent",
        "create-agent",
        agent_name="vacations",
        instruction="You help employees with their vacations, and with nothing else.",
        foundation_model="anthropic.claude-3-5-sonnet-20240620-v1:0",
        agent_resource_role_arn="arn:aws:iam::000000000000:role/agents",
    )["agent"]
    agent = {"agent_id": made["agentId"]}
    aws.told(
        "bedrock-agent",
        "create-agent-action-group",
        **agent,
        agent_version="DRAFT",
        action_group_name="days",
        action_group_executor={"customControl": "RETURN_CONTROL"},
        function_schema={"functions": [{"name": "left", "description": "Days that are left."}]},
    )
    assert aws.told("bedrock-agent", "prepare-agent", **agent)["agentId"] == made["agentId"]
    alias = aws.told("bedrock-agent", "create-agent-alias", **agent, agent_alias_name="live")
    names = aws.told("bedrock-agent", "list-agent-aliases", **agent)["agentAliasSummaries"]
    assert alias["agentAlias"]["agentAliasId"] in [it["agentAliasId"] for it in names]
    arn = {"resource_arn": made["agentArn"]}
    aws.told("bedrock-agent", "tag-resource", **arn, tags={"team": "hr"})
    tags = aws.told("bedrock-agent", "list-tags-for-resource", **arn)["tags"]
    assert tags == {"team": "hr"}
    found = aws.told("bedrock-agent", "get-agent", **agent)["agent"]
    assert found["agentName"] == "vacations"
    while found["agentStatus"] == "PREPARING":  # for a second
        found = aws.told("bedrock-agent", "get-agent", **agent)["agent"]
    assert found["agentStatus"] == "PREPARED"
    gone = aws.run("bedrock-agent", "get-agent", agent_id="NOSUCHAGNT")
    assert gone.returncode != 0 and "ResourceNotFoundException" in gone.stderr


def test_the_sessions_api(aws: Shell) -> None:
    made = aws.told("bedrock-agent-runtime", "create-session")
    session = {"session_identifier": made["sessionId"]}
    listed = aws.told("bedrock-agent-runtime", "list-sessions")["sessionSummaries"]
    assert [it["sessionArn"] for it in listed] == [made["sessionArn"]]
    aws.told("bedrock-agent-runtime", "end-session", **session)
    found = aws.told("bedrock-agent-runtime", "get-session", **session)
    assert found["sessionStatus"] == "ENDED"


def test_what_is_not_there_is_named(aws: Shell) -> None:
    done = aws.run("bedrock-runtime", "list-async-invokes")
    assert "(ValidationException)" in done.stderr
    assert "ListAsyncInvokes of bedrock-runtime" in done.stderr
