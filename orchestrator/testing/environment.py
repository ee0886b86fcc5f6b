"""The environment of a test that uses Amazon Bedrock within this process."""

from __future__ import annotations

import os

import pytest

__all__ = ["set_environment"]

_REGION = "us-east-1"
_FAKE = "testing"


def set_environment(patch: pytest.MonkeyPatch, url: str, *, recording: bool) -> None:
    """Has boto3 find Amazon Bedrock at `url`, and no credentials that open anything.

    Args:
        patch: Undoes it when the test has ended.
        url: Where Amazon Bedrock is.
        recording: Whether real models are asked: they need the credentials that there are, and
            their own address.
    """
    services = ["BEDROCK_AGENT_RUNTIME", "BEDROCK_AGENT"]
    if not recording:
        services.append("BEDROCK_RUNTIME")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, _FAKE)
        for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
            patch.delenv(name, raising=False)
        patch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    for service in services:
        patch.setenv(f"AWS_ENDPOINT_URL_{service}", url)
    patch.delenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", raising=False)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _REGION
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):  # boto3 reads the second alone
        if not os.environ.get(name):
            patch.setenv(name, region)
    for name in ("NO_PROXY", "no_proxy"):
        others = os.environ.get(name)
        patch.setenv(name, f"{others},127.0.0.1" if others else "127.0.0.1")
