"""A server of sessions, and one who calls it through boto3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState


@contextmanager
def served(**settings: Any) -> Iterator[str]:
    """A server's address."""
    with ServerState(Settings(port=0, **settings)) as world, serve_in_thread(world) as url:
        yield url


def refused(call: Callable[..., Any], **params: Any) -> str:
    """The code of the error that a call ends with."""
    with pytest.raises(ClientError) as error:
        call(**params)
    return str(error.value.response["Error"]["Code"])


def words(*texts: str) -> dict[str, Any]:
    """A step's payload."""
    return {"contentBlocks": [{"text": text} for text in texts]}
