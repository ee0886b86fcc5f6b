"""Agents and servers of the runtime API's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from model_servers import aws_error
from runtime_servers import CLAUDE, Runtime, definition, running, write_agent

from orchestrator.testing import ScriptedModel

Start = Callable[..., Runtime]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server of one agent, whose model answers from a script."""
    with ExitStack() as stack:

        def started(
            script: list[Any] | Any, members: dict[str, Any] | None = None, **options: Any
        ) -> Runtime:
            model = ScriptedModel(script, CLAUDE) if isinstance(script, list) else script
            write_agent(tmp_path / "agents" / "own", definition(**(members or {})))
            agents = tmp_path / "agents"
            return stack.enter_context(running(model, agents, **options))

        yield started


@pytest.fixture
def handbook(tmp_path: Path) -> dict[str, Any]:
    """The members of an agent that has a knowledge base of three documents."""
    folder = tmp_path / "agents" / "own" / "handbook"
    folder.mkdir(parents=True)
    texts = {
        "days": "Everybody has thirty vacation days.",
        "pay": "Vacation days that are left are paid.",
        "dogs": "Dogs may come along on Fridays, and on vacation days.",
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
        attributes = {"metadataAttributes": {"about": name}}
        (folder / f"{name}.md.metadata.json").write_text(json.dumps(attributes))
    base = {
        "knowledgeBaseId": "HANDBOOK01",
        "description": "The handbook.",
        "folder": "handbook",
        "embedder": None,
    }
    return {"knowledgeBases": [base]}


@pytest.fixture
def missing_in_aws(serve: Any, aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account of AWS that has no knowledge bases: that is where others are looked for."""
    service = serve(aws_error("ResourceNotFoundException", "there is none", 404))
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME", service.url)


@pytest.fixture
def inline_arns(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The service's own ARN of inline agents is not one that its model allows (recorded)."""
    yield
    about = "agentAliasArn: Member must satisfy regular expression"
    logged = [it.getMessage() for it in caplog.get_records("call")]
    if any(about in it for it in logged):
        caplog.clear()
