"""What a server counts, as Prometheus reads it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import reserve_port
from prometheus_client.parser import text_string_to_metric_families
from runtime_servers import BY_LAMBDA, CLAUDE, HumanResources, calls, definition, running, says
from runtime_servers import write_agent as write_vacations
from server_requests import send, send_signed, signed, write_keys
from serving_support import Start
from waiting import until

from orchestrator.testing import ScriptedModel

Sample = tuple[str, tuple[tuple[str, str], ...]]


def read(url: str) -> dict[Sample, float]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    return {
        (one.name.removeprefix("orchestrator_"), tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.server.metrics._FRESH", 0.0)


def test_a_turn_with_an_action_is_counted(tmp_path: Path) -> None:
    model = [calls("hr__get_days", {"employee": "E-1"}), says("12 days.")]
    agents = write_vacations(tmp_path / "a", definition(actionGroups=[BY_LAMBDA]))
    functions = {"vacations": HumanResources()}
    with running(ScriptedModel(model, CLAUDE), agents, lambdas=functions) as server:
        server.invoke("How many days?")
        send(server.url, "GET", "/agents/nobody-knows-this/")
        found = read(server.url)
    named = {"service": "bedrock-agent-runtime", "operation": "InvokeAgent"}
    assert value(found, "requests_total", status="200", **named) == 1
    assert value(found, "request_seconds_count", **named) == 1
    assert value(found, "turns_total", outcome="answer") == 1
    assert value(found, "turn_seconds_count") == 1
    assert value(found, "model_calls_total", provider="other", outcome="success") == 2
    assert value(found, "actions_total", outcome="success") == 1
    assert value(found, "tokens_total", type="output") > 0
    assert value(found, "turns_in_flight") == value(found, "requests_in_flight") - 1 == 0


def test_no_caller_makes_series() -> None:
    with running() as server:
        before = len(read(server.url))
        for number in range(50):
            send(server.url, "GET", f"/canary-{number}/x")
            send(server.url, "POST", f"/agents/A{number}/agentAliases/B/sessions/s-{number}/text")
        found = read(server.url)
    assert "canary" not in str(found)
    operations = {dict(labels).get("operation") for _, labels in found}
    assert operations == {None, "InvokeAgent", "none"}
    assert len(found) - before < 60  # two histograms of 18 series each, and a few counters


def test_with_keys_metrics_are_not_on_the_port_of_callers(tmp_path: Path) -> None:
    with running(keys=write_keys(tmp_path)) as server:
        assert send(server.url, "GET", "/metrics").status == 403
        url = f"{server.url}/metrics"
        assert send_signed(signed("GET", url, b"")).status == 404


@pytest.fixture
def port() -> Iterator[int]:
    with reserve_port() as port:
        yield port


@pytest.mark.exhaustive
def test_workers_are_added_up_on_a_port_of_their_own(
    start: Start, tmp_path: Path, port: int
) -> None:
    server = start(
        *("--state", tmp_path / "s.sqlite", "--workers", "2", "--keys", write_keys(tmp_path)),
        *("--metrics-port", port),
    )
    url = f"http://127.0.0.1:{port}"
    for number in range(6):
        assert send(server.url, "GET", "/livez").status == 200
        assert send(server.url, "GET", f"/agents/{number}/").status == 403
    until(lambda: value(read(url), "rejected_requests_total", reason="unauthenticated") == 6)
    assert send(url, "GET", "/livez").status == 404
    assert value(read(url), "requests_in_flight") == 0
    server.signal()
    assert server.end()[0] == 0
