"""What somebody who writes a first test may get wrong, or have set."""

from __future__ import annotations

import boto3
import pytest

from orchestrator.errors import ValidationError
from orchestrator.testing import BedrockAgents
from orchestrator.testing.plugin import set_environment


def test_one_text_is_no_list_of_replies(bedrock_agents: BedrockAgents) -> None:
    with pytest.raises(ValidationError, match="replies are a list"):
        bedrock_agents.script("m", "text")


def test_a_region_of_other_sdks_is_boto3s_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    set_environment(monkeypatch, "http://127.0.0.1:1", recording=False)
    assert boto3.Session().region_name == "eu-west-1"
