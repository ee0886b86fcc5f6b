"""InvokeAgent through boto3: nothing is asked twice, and its events are JSON again."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from orchestrator.support.aws.failures import is_unsent


def disable_unsafe_retries(client: Any) -> None:
    """Has a client of `bedrock-agent-runtime` never repeat an invocation that may have arrived."""
    # An agent may already have acted on a message whose answer was lost.
    client.meta.events.register_first("needs-retry.bedrock-agent-runtime.InvokeAgent", _may_repeat)


def _may_repeat(response: Any = None, caught_exception: Any = None, **_: Any) -> bool | None:
    # False, as the first answer, ends the retries; None leaves them to botocore's own handler.
    # Only what certainly did not arrive, or was throttled, is sent again.
    if caught_exception is not None:
        return None if is_unsent(caught_exception) else False
    return None if response is None or response[0].status_code == 429 else False


def restore_json(value: Any) -> Any:
    """A value of an event as the JSON that it was: boto3 makes datetimes of times, for one."""
    if isinstance(value, dict):
        return {name: restore_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [restore_json(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value
