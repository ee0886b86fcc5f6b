"""The metrics of a server, in the text format of Prometheus.

Every label has its values from a closed set: operations of botocore's models, statuses, kinds and
outcomes. No name, id or text of a caller is one, so that none can make series without end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from orchestrator.engine.run.observation import Step, Watch, describe_outcome, get_provider
from orchestrator.models.base import Usage
from orchestrator.server.request_context import RequestContext

if TYPE_CHECKING:
    from orchestrator.actions.base import Call
    from orchestrator.engine.effects import Branch, CallModel, Retrieve
    from orchestrator.engine.run.branches import BranchRun
    from orchestrator.engine.run.invocation import Run
    from orchestrator.sessions import Record

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which worker processes add up what they count."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
# How often the text is made anew, however many ask.
_FRESH = 1.0
_TOKENS = ("input", "output", "cache_read", "cache_write")
_REASONS = {
    "AccessDeniedException": "forbidden",
    "IncompleteSignatureException": "unauthenticated",
    "InvalidSignatureException": "unauthenticated",
    "MissingAuthenticationTokenException": "unauthenticated",
    "RequestEntityTooLargeException": "too_large",
    "RequestTimeoutException": "timeout",
    "ServiceUnavailableException": "shutting_down",
    "ThrottlingException": "throttled",
    "UnrecognizedClientException": "unauthenticated",
}


class ServerMetrics:
    """What a process counts, and the text of all processes; safe for many threads."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._rendered = b""
        self._until = 0.0

        # What a metric has for some values of its labels is found in a tenth of the time that the
        # library takes.
        def count(name: str, text: str, *labels: str) -> Callable[..., Counter]:
            return cache(Counter(f"orchestrator_{name}", text, labels, registry=registry).labels)

        def measure(name: str, text: str, *labels: str) -> Callable[..., Histogram]:
            name = f"orchestrator_{name}_seconds"
            metric = Histogram(name, text, labels, registry=registry, buckets=_SECONDS)
            return cache(metric.labels if labels else lambda: metric)

        def gauge(name: str, text: str) -> Gauge:
            full = f"orchestrator_{name}"
            return Gauge(full, text, registry=registry, multiprocess_mode="livesum")

        of_request = "service", "operation"
        self.requests = count("requests", "Requests answered.", *of_request, "status")
        self.request_seconds = measure("request", "Seconds to the end of an answer.", *of_request)
        self.requests_in_flight = gauge("requests_in_flight", "Requests that are being answered.")
        self.rejected = count("rejected_requests", "Requests that were turned away.", "reason")
        self.turns = count("turns", "Turns of agents, by how they ended.", "outcome")
        self.turn_seconds = measure("turn", "Seconds that a turn took.")
        self.turns_in_flight = gauge("turns_in_flight", "Turns that run; each holds a session.")
        self.model_calls = count(
            "model_calls", "Model calls of turns, by provider and outcome.", "provider", "outcome"
        )
        self.model_seconds = measure("model_call", "Seconds of a model call.", "provider")
        self.tokens = count("tokens", "Tokens of model calls, by type.", "type")
        self.actions = count("actions", "Actions, by outcome.", "outcome")
        self.action_seconds = measure("action", "Seconds of an action.")
        self.retrievals = count("retrievals", "Searches in knowledge bases.", "outcome")

    def note_request(self, request: RequestContext) -> None:
        """Counts a request that was answered, or whose client has gone."""
        what = request.service or "none", request.operation or "none"
        self.requests(*what, str(request.status or "gone")).inc()
        self.request_seconds(*what).observe(request.seconds)

    def note_refusal(self, name: str) -> None:
        """Counts a request that was turned away, by AWS's name of the error."""
        self.rejected(_REASONS.get(name, "invalid")).inc()

    def begin_turn(self, run: Run) -> Watch:
        """Observes a turn."""
        return _CountedTurn(self)

    def render(self) -> bytes:
        """The metrics of all worker processes, as they are or were a second ago; may block."""
        if time.monotonic() >= self._until:
            self._rendered = render(self._registry)
            self._until = time.monotonic() + _FRESH
        return self._rendered


def render(registry: CollectorRegistry | None = None) -> bytes:
    """The text of a registry, or of all worker processes where there are several."""
    directory = os.environ.get(DIRECTORY)
    if directory or registry is None:
        registry = CollectorRegistry()
        collect: Any = MultiProcessCollector  # which has no types
        collect(registry, directory)
    return generate_latest(registry)


def forget_process(pid: int | None) -> None:
    """Takes what a worker process that has ended was just doing out of the sums."""
    if pid is not None and os.environ.get(DIRECTORY):
        mark_dead: Any = mark_process_dead  # which has no types
        mark_dead(pid)


@contextmanager
def share_folder() -> Iterator[None]:
    """Has worker processes that start in the block add up what they count, in a folder of theirs.

    One that the environment names already is used as it is.
    """
    if os.environ.get(DIRECTORY):
        yield
        return
    with TemporaryDirectory(prefix="orchestrator-metrics-") as folder:
        os.environ[DIRECTORY] = folder
        try:
            yield
        finally:
            del os.environ[DIRECTORY]


class _CountedTurn(Watch):
    def __init__(self, metrics: ServerMetrics, *, is_branch: bool = False) -> None:
        self._metrics = metrics
        self._is_branch = is_branch
        self._began = time.perf_counter()
        if not is_branch:
            metrics.turns_in_flight.inc()

    def begin_model(self, run: Run, effect: CallModel) -> Step:
        return _CountedCall(self._metrics, get_provider(effect.stage.model))

    def begin_action(self, run: Run, call: Call) -> Step:
        return _CountedAction(self._metrics)

    def begin_retrieval(self, run: Run, effect: Retrieve) -> Step:
        return _CountedRetrieval(self._metrics)

    def begin_remote(self, run: Run, branch: Branch) -> Step:
        return Step()

    def begin_branch(self, run: BranchRun) -> Watch:
        return _CountedTurn(self._metrics, is_branch=True)

    def end_turn(self, run: Run, error: BaseException | None) -> None:
        if not self._is_branch:
            self._metrics.turns_in_flight.dec()
            self._metrics.turns(describe_outcome(run, error)).inc()
            self._metrics.turn_seconds().observe(time.perf_counter() - self._began)


class _CountedCall(Step):
    def __init__(self, metrics: ServerMetrics, provider: str) -> None:
        self._metrics, self._provider = metrics, provider
        self._began = time.perf_counter()

    def end(self, record: Record | None, error: BaseException | None) -> None:
        metrics, provider = self._metrics, self._provider
        metrics.model_calls(provider, _describe(error)).inc()
        metrics.model_seconds(provider).observe(time.perf_counter() - self._began)
        if record is not None:
            for kind, tokens in zip(_TOKENS, Usage(*record["usage"]), strict=False):
                if tokens:
                    metrics.tokens(kind).inc(tokens)


class _CountedAction(Step):
    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._began = time.perf_counter()

    def end(self, record: Record | None, error: BaseException | None) -> None:
        outcome = _describe(error)
        if record is not None:
            outcome = {"": "success", "REPROMPT": "reprompt"}.get(record.get("state", ""), "error")
            if record.get("error") == "ActionOutcomeUnknown":
                outcome = "unknown"
        self._metrics.actions(outcome).inc()
        self._metrics.action_seconds().observe(time.perf_counter() - self._began)


class _CountedRetrieval(Step):
    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def end(self, record: Record | None, error: BaseException | None) -> None:
        self._metrics.retrievals(_describe(error)).inc()


def _describe(error: BaseException | None) -> str:
    if error is None:
        return "success"
    return "error" if isinstance(error, Exception) else "cancelled"
