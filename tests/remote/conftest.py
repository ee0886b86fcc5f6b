"""A loopback server that speaks InvokeAgent, and credentials that open nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from model_servers import Loopback


@pytest.fixture
def serve() -> Iterator[Callable[..., Loopback]]:
    """Starts loopback servers that answer with what they are given."""
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Loopback(list(answers)).running())


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials that open nothing, and nobody's configuration files."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-session-token")


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between retries are not waited."""
    import botocore.endpoint

    class Clock:
        def __getattr__(self, name: str) -> object:
            import time

            return getattr(time, name)

        def sleep(self, seconds: float) -> None:
            pass

    monkeypatch.setattr(botocore.endpoint, "time", Clock())
