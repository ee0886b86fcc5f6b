"""Guards of all tests: no network but loopback, and secrets that must not turn up anywhere.

And what several rooms' tests need: AWS's environment, loopback servers, retries without waiting.
`left_out.py` says which tests run.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

import pytest
from dynamodb_server import dynamodb_server as dynamodb_server
from dynamodb_server import dynamodb_url as dynamodb_url
from left_out import pytest_addoption as pytest_addoption
from left_out import pytest_collection_modifyitems as pytest_collection_modifyitems
from left_out import pytest_runtest_setup as pytest_runtest_setup
from left_out import pytest_terminal_summary as pytest_terminal_summary
from postgres_server import postgres_server as postgres_server
from postgres_server import postgres_url as postgres_url

_LOCAL_NAMES = frozenset({None, "", "localhost", b"localhost", socket.gethostname()})


def pytest_configure(config: pytest.Config) -> None:
    with suppress(ImportError):  # they are not there where clients of others are tested
        chosen = "exhaustive" if config.getoption("exhaustive") else "quick"
        _set_profile(chosen, config.getoption("--hypothesis-seed", None) is not None)
        _keep_commands()
    # A shell lets what it starts in the background ignore Ctrl-C, and so would the programs that
    # tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # there is no garbage yet: all of it stays
    try:
        return (yield)
    finally:
        _freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, bool | None, bool | None]:
    result = yield
    if nextitem is None or nextitem.path != item.path:
        _freeze()
    return result


def _freeze() -> None:
    # What was collected, imported or cached stays: no collection of garbage has to go through it
    # again. At the end of a run there are millions of such objects, and some tests collect often.
    gc.collect()
    gc.freeze()


def _set_profile(name: str, has_seed: bool) -> None:
    from hypothesis import HealthCheck, settings

    # No property depends on the speed of the machine, nor on chance: a commit that has passed
    # passes everywhere. Other inputs are what `make fuzz` and `--hypothesis-seed` look for.
    anyhow: dict[str, Any] = {
        "deadline": None,
        "derandomize": not has_seed,
        "suppress_health_check": [HealthCheck.too_slow],
    }
    settings.register_profile("quick", max_examples=10, **anyhow)
    settings.register_profile("exhaustive", max_examples=200, **anyhow)
    settings.load_profile(name)


def _keep_commands() -> None:
    # Typer reads the signatures of all verbs anew at each call of a command.
    import typer.testing

    typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]


class _Guard:
    """Refuses connections to other machines, and remembers who tried and who connected."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        # By the socket's id: the test and the stack.
        self._connecting: dict[int, tuple[str, traceback.StackSummary]] = {}

    def check(self, host: Any) -> None:
        if host in _LOCAL_NAMES:
            return
        try:
            text = host.decode() if isinstance(host, bytes) else str(host)
            if ipaddress.ip_address(text.partition("%")[0]).is_loopback:
                return
        except ValueError:
            pass
        self.refused.append(str(host))
        raise PermissionError(f"tests may not reach {host!r}: only loopback is allowed")

    def connecting(self, sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            self.check(address[0])
            # Formatted only when it is asked for: a suite connects thousands of times.
            stack = traceback.StackSummary.extract(
                traceback.walk_stack(sys._getframe(2)), limit=12, lookup_lines=False
            )
            self._connecting[id(sock)] = os.environ.get("PYTEST_CURRENT_TEST", "no test"), stack

    def describe(self, sock: socket.socket) -> str:
        """Who connected a socket; empty when nobody did."""
        if id(sock) not in self._connecting:
            return ""
        test, stack = self._connecting[id(sock)]
        return f"connected in {test}\n{''.join(stack.format())}"


@pytest.fixture(scope="session")
def _guard() -> Iterator[_Guard]:
    guard = _Guard()
    patch = pytest.MonkeyPatch()
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    getaddrinfo = socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        guard.connecting(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        guard.connecting(self, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        guard.check(host)
        return getaddrinfo(host, *args, **options)

    # A client that a thread makes when its test is over finds no keys in the environment any more,
    # and would ask the metadata service of EC2 for some.
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setattr(socket.socket, "connect", guarded_connect)
    patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
    # Whoever collects a socket that was left open is another test than the one that left it.
    report = sys.unraisablehook

    def name_leak(unraisable: Any) -> None:
        report(unraisable)
        if isinstance(unraisable.object, socket.socket):
            print(f"{unraisable.object!r} was {guard.describe(unraisable.object)}", file=sys.stderr)

    patch.setattr(sys, "unraisablehook", name_leak)
    yield guard
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> Iterator[None]:
    """Servers in threads of a test look all the time whether they shall end.

    uvicorn looks ten times a second, and most of a test that starts one would be waiting for that.
    """
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ImportError):  # it is not there where clients of others are tested
            import uvicorn.server

            patch.setattr(uvicorn.server, "asyncio", _HurriedAsyncio())
        yield


class _HurriedAsyncio:
    """The module, but for the pauses of a server's loop."""

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 50)


@pytest.fixture(autouse=True)
def only_loopback(_guard: _Guard) -> Iterator[_Guard]:
    """Fails a test that tries to reach another machine, even if it survives the refusal."""
    _guard.refused.clear()
    yield _guard
    if _guard.refused:
        pytest.fail(f"the test tried to reach {', '.join(_guard.refused)}")


class Canaries:
    """Secrets by where they were planted; `nowhere_in` says where they must not be."""

    def __init__(self, planted: dict[str, str]) -> None:
        self.planted = planted

    def __getitem__(self, name: str) -> str:
        return self.planted[name]

    def nowhere_in(self, what: str, *texts: object) -> None:
        for name, secret in self.planted.items():
            for text in texts:
                # Half of it would be a leak, too.
                assert secret[:16] not in str(text), f"the {name} is in the {what}"


@pytest.fixture
def canaries(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Canaries:
    """Credentials of every kind in the environment, each recognisable."""
    planted = {
        "session attribute": "canary-attribute-5d1f0c",
        "AWS_ACCESS_KEY_ID": "AKIACANARY77E2B0Q4ZZ",
        "AWS_SECRET_ACCESS_KEY": "canary-secret-key-91ab33",
        "AWS_SESSION_TOKEN": "canary-session-token-07c2d8",
        "OPENAI_API_KEY": "sk-canary-openai-3f60aa12",
    }
    for name, secret in planted.items():
        if name.isupper():
            monkeypatch.setenv(name, secret)
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    return Canaries(planted)


@pytest.fixture
def aws(canaries: Canaries, monkeypatch: pytest.MonkeyPatch) -> Canaries:
    """An environment with credentials that open nothing, and no endpoint of its own."""
    for service in ("", "_BEDROCK_RUNTIME", "_BEDROCK_AGENT_RUNTIME"):
        monkeypatch.delenv(f"AWS_ENDPOINT_URL{service}", raising=False)
    return canaries


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of moto's S3, which has no buckets yet."""
    import boto3
    from moto import mock_aws

    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with mock_aws():
        yield boto3.client("s3", region_name="eu-central-1")


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """Starts loopback servers that answer with what they are given."""
    from model_servers import Loopback

    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Loopback(list(answers)).running())


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits between the tries of a request to AWS are noted instead of waited."""
    import botocore.endpoint

    from orchestrator.models.bedrock import direct

    waits: list[float] = []

    class Clock:
        def __getattr__(self, name: str) -> object:
            return getattr(time, name)

        def sleep(self, seconds: float) -> None:
            waits.append(seconds)

    async def asleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(botocore.endpoint, "time", Clock())
    monkeypatch.setattr(direct, "_sleep", waits.append)
    monkeypatch.setattr(direct, "_asleep", asleep)
    return waits


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Garbage waits until the test is over.

    Values that are nested too deep fill the stack. A collection of garbage just then finalizes the
    clients that earlier tests let go, and a finalizer that finds no stack left leaves their
    connections open.
    """
    gc.disable()
    yield
    gc.enable()
