"""The pytest plugin: fixtures for tests of agents; pytest finds it by itself.

Nothing is imported for them before a test asks for one.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from orchestrator.support.lazy_imports import describe_missing_extra

if TYPE_CHECKING:
    from orchestrator.testing.bedrock import BedrockAgents
    from orchestrator.testing.cassettes import Cassette
    from orchestrator.testing.fakes import FakeClock


_PASSED = pytest.StashKey[bool]()
_RAISED = pytest.StashKey[list[Exception]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--bedrock-record`."""
    parser.getgroup("orchestrator").addoption(
        "--bedrock-record",
        action="store_true",
        help="ask the real models of `bedrock_cassette` and record what they answer",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        "bedrock_cassette(path): the file of the fixture's recording, beside the test's own",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes whether a test has passed, and shows what handlers of a failed one raised."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
        if report.failed:
            for error in item.stash.get(_RAISED, []):
                text = "".join(traceback.format_exception(error))
                report.sections.append(("Code that bedrock_agents called raised", text))
    return report


@pytest.fixture
def orchestrator_clock() -> FakeClock:
    """A clock that only the test moves."""
    from orchestrator.testing.fakes import FakeClock

    return FakeClock()


@pytest.fixture(scope="session")
def _bedrock_closing() -> Iterator[Callable[[Callable[[], None]], object]]:
    # Servers stop while the next tests run; whatever goes wrong then fails the last of them.
    from concurrent.futures import Future, ThreadPoolExecutor

    closing: list[Future[None]] = []
    with ThreadPoolExecutor(32, "bedrock-closing") as threads:
        yield lambda close: closing.append(threads.submit(close))
    for one in closing:
        one.result()


@pytest.fixture
def bedrock_agents(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    _bedrock_closing: Callable[[Callable[[], None]], object],
) -> Iterator[BedrockAgents]:
    """Amazon Bedrock in this process, for one test: see `orchestrator.testing.BedrockAgents`.

    In the environment of the test, boto3's three Bedrock services have its address, and the
    credentials open nothing: clients that the code under test makes for itself reach it, too.
    """
    try:
        from orchestrator.testing.bedrock import BedrockAgents
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        needs = "the fixture 'bedrock_agents' needs"
        pytest.fail(describe_missing_extra(needs, "serve", error.name))

    bedrock = BedrockAgents(request.config.rootpath)
    request.node.stash[_RAISED] = bedrock.lambdas.raised
    set_environment(monkeypatch, bedrock.url, recording=_is_recording(request))
    yield bedrock
    _bedrock_closing(bedrock.close)


@pytest.fixture
def bedrock_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """Replays what a real model answered: `bedrock_cassette("<model id>")` is a model.

    With `--bedrock-record` the real model is asked and recorded. The recording is the file that
    `@pytest.mark.bedrock_cassette("<path>")` names, or `cassettes/<module>/<test>.jsonl` beside
    the test's own. A prompt that has changed since fails the test.
    """
    from orchestrator.testing.cassettes import Cassette, find_cassette_path

    node = request.node
    cassette = Cassette(
        find_cassette_path(node), recording=_is_recording(request), test=node.nodeid
    )
    yield cassette
    cassette.finish(passed=node.stash.get(_PASSED, False))


def _is_recording(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--bedrock-record"))


_REGION = "us-east-1"
_FAKE = "testing"


def set_environment(patch: pytest.MonkeyPatch, url: str, *, recording: bool) -> None:
    """Points boto3 to Amazon Bedrock at `url`, with credentials that open nothing."""
    # A recording asks real models, which need the user's credentials and their own address.
    # boto3 reads one variable a service (AWS: "Service-specific endpoints").
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
    # The test is shown what handlers in files raised. Elsewhere their messages may be secret.
    patch.setenv("ORCHESTRATOR_DEBUG", "1")
    # Without it boto3 looks for credentials at 169.254.169.254, and waits where nobody answers.
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _REGION
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):  # boto3 reads the second alone
        if not os.environ.get(name):
            patch.setenv(name, region)
    # Libraries differ in which spelling they read, so both are set.
    for name in ("NO_PROXY", "no_proxy"):
        others = os.environ.get(name)
        patch.setenv(name, f"{others},127.0.0.1" if others else "127.0.0.1")
