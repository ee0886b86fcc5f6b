from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from model_servers import Answer, Loopback


@pytest.fixture
def serve() -> Iterator[Callable[..., Loopback]]:
    """Starts loopback servers that answer with what they are given."""
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Loopback(list(answers)).running())


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """An environment with credentials that open nothing, and nobody's configuration files."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-session-token")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits between retries are noted instead of waited."""
    waits: list[float] = []

    class Clock:
        def __getattr__(self, name: str) -> object:
            import time

            return getattr(time, name)

        def sleep(self, seconds: float) -> None:
            waits.append(seconds)

    import botocore.endpoint

    monkeypatch.setattr(botocore.endpoint, "time", Clock())
    return waits


__all__ = ["Answer"]
