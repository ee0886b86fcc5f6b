from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "models"))  # the loopback servers of models' tests

from model_servers import Loopback


@pytest.fixture
def serve() -> Iterator[Callable[..., Loopback]]:
    """Starts loopback servers that answer with what they are given."""
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Loopback(list(answers)).running())


@pytest.fixture
def aws(canaries: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An environment with credentials that open nothing, and no endpoint of its own."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    return canaries
