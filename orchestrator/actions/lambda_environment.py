"""What a handler finds around it, as in AWS Lambda: environment variables, and its context.

`os.environ` is one mapping for the whole process, and handlers, boto3 and other libraries read it
directly. It stays the same object, but its class learns to look first into the variables of the
handler that the current context runs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from orchestrator.errors import DefinitionError
from orchestrator.support.forks import ForkSafeLock

_current: ContextVar[dict[str, str | None] | None] = ContextVar("handler_environment", default=None)


# `None` stands for a variable that the handler has deleted. Subprocesses, C libraries and threads
# that a handler starts see the process's variables only (hand them `dict(os.environ)` or
# `contextvars.copy_context().run`).
class _Environ(os._Environ[str]):
    def __getitem__(self, key: str) -> str:
        own = _current.get()
        if own is None or key not in own:
            return super().__getitem__(key)
        value = own[key]
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: str) -> None:
        own = _current.get()
        if own is None:
            super().__setitem__(key, value)
        elif isinstance(key, str) and isinstance(value, str):
            own[key] = value
        else:
            raise TypeError("environment variables and their values are texts")

    def __delitem__(self, key: str) -> None:
        own = _current.get()
        if own is None:
            super().__delitem__(key)
        else:
            self[key]
            own[key] = None

    def __iter__(self) -> Iterator[str]:
        own = _current.get()
        if own is None:
            yield from super().__iter__()
            return
        names = dict.fromkeys(super().__iter__())
        names.update(dict.fromkeys(own))
        yield from (name for name in names if own.get(name, "") is not None)

    def __len__(self) -> int:
        return super().__len__() if _current.get() is None else sum(1 for _ in self)


_lock = ForkSafeLock()


def _install() -> None:
    with _lock:
        if type(os.environ) is not _Environ:
            os.environ.__class__ = _Environ


class Variables:
    """A handler's own variables, over those of the process."""

    __slots__ = ("_own",)

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._own: dict[str, str | None] = dict(variables)

    @contextmanager
    def active(self) -> Iterator[None]:
        """In this block, and only in this thread or task, they are what `os.environ` shows."""
        _install()
        token = _current.set(self._own)
        try:
            yield
        finally:
            _current.reset(token)


LONGEST_SECONDS = 900.0  # (AWS: the longest that a Lambda function may run)


class LambdaContext:
    """The second argument of a Lambda handler (AWS: "Lambda context object in Python")."""

    function_version = "$LATEST"
    memory_limit_in_mb = "128"
    identity = None
    client_context = None

    def __init__(
        self, function_name: str, request_id: str, seconds: float | None, arn: str = ""
    ) -> None:
        """`arn` is that of the Lambda function which the handler stands for; it names it, too."""
        own = arn or f"arn:aws:lambda:us-east-1:000000000000:function:{function_name}"
        self.function_name = own.split(":")[6]
        self.aws_request_id = request_id
        self.invoked_function_arn = own
        self.log_group_name = f"/aws/lambda/{self.function_name}"
        self.log_stream_name = "orchestrator"
        self._deadline = time.monotonic() + (LONGEST_SECONDS if seconds is None else seconds)

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds that the action still has."""
        return max(int((self._deadline - time.monotonic()) * 1000), 0)


def lambda_variables(
    file: Path, function: str, about: LambdaContext, own: Mapping[str, str]
) -> dict[str, str]:
    """The variables that AWS Lambda sets for a handler, and its `own`, which win.

    (AWS: "Defined runtime environment variables".) `LAMBDA_TASK_ROOT` is the folder of the
    handler's file. Credentials are those of the process. An empty region counts as none.
    """
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return {
        "LAMBDA_TASK_ROOT": str(file.parent),
        "_HANDLER": f"{file.stem}.{function}",
        "AWS_LAMBDA_FUNCTION_NAME": about.function_name,
        "AWS_LAMBDA_FUNCTION_VERSION": about.function_version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": about.memory_limit_in_mb,
        "AWS_LAMBDA_LOG_GROUP_NAME": about.log_group_name,
        "AWS_LAMBDA_LOG_STREAM_NAME": about.log_stream_name,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{python}",
        **own,
        **_get_regions(own),
    }


def _get_regions(own: Mapping[str, str]) -> dict[str, str]:
    # Of its own ones, one counts for both: boto3 reads only AWS_DEFAULT_REGION.
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    given = own if any(map(own.get, names)) else os.environ
    known = next((it for it in map(given.get, names) if it), "") or _find_profile_region()
    return {name: given.get(name) or known for name in names}


@cache
def _find_profile_region() -> str:
    # What boto3 would take; Lambda always has a region, and handlers count on it.
    from botocore.exceptions import BotoCoreError
    from botocore.session import get_session

    try:
        region = get_session().get_config_variable("region")
    except (BotoCoreError, OSError, ValueError):  # a broken configuration is boto3's to report
        region = None
    return str(region) if region else "us-east-1"


def check_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Environment variables, when all are texts; else raises `DefinitionError`."""
    for name, value in environment.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise DefinitionError(
                f"the environment variable {name!r} must have a name without '=' and a text as "
                f"value, not {type(value).__name__}; quote it"
            )
    return environment
