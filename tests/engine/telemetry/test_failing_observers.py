"""What observes a turn and fails takes nothing from it: above all not the record of an action."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import ActionGroup, Agent, TextDelta
from orchestrator.engine.run.observation import Step, Watch
from orchestrator.testing import ScriptedModel

CLAUDE_35 = "anthropic.claude-3-5-sonnet-20240620-v1:0"
CALLS = ("begin_turn", "begin_model", "begin_action", "attach", "note_chunk", "detach", "end")
SECRET = "canary-5f1c"


class Failing:
    """An observer of which one call raises; it notes what it was told all the same."""

    def __init__(self, call: str) -> None:
        self.call, self.seen = call, set[str]()

    def hear(self, call: str) -> None:
        self.seen.add(call)
        if call == self.call:
            raise OSError(28, f"No space left for {SECRET}")

    def begin_turn(self, run: Any) -> Watch:
        self.hear("begin_turn")
        return FailingWatch(self)


class FailingStep(Step):
    has_context = True

    def __init__(self, observer: Failing) -> None:
        self.hear = observer.hear
        self.observer = observer

    def attach(self) -> str:
        self.hear("attach")
        return "token"

    def detach(self, token: Any) -> None:
        assert token == "token"
        self.hear("detach")

    def note_chunk(self) -> None:
        self.hear("note_chunk")

    def end(self, record: Any, error: Any) -> None:
        self.hear("end")


class FailingWatch(FailingStep, Watch):
    def begin_model(self, run: Any, effect: Any) -> Step:
        self.hear("begin_model")
        return FailingStep(self.observer)

    def begin_action(self, run: Any, call: Any) -> Step:
        self.hear("begin_action")
        return FailingStep(self.observer)

    def end_turn(self, run: Any, error: Any) -> None:
        self.hear("end_turn")


@pytest.mark.parametrize("call", [*CALLS, "end_turn"])
def test_an_observer_that_raises_takes_nothing_from_a_turn(
    call: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paid: list[int] = []

    def pay() -> str:
        """Pays."""
        paid.append(1)
        return "paid"

    asks = [{"toolUse": {"toolUseId": "t-1", "name": "shop__pay", "input": {}}}]
    model = ScriptedModel([asks, "<answer>It is paid.</answer>"], CLAUDE_35)
    group = ActionGroup("shop", actions=[pay])
    sessions = str(tmp_path / "s.sqlite")
    other, failing = Failing("nothing"), Failing(call)
    with Agent("shop", "You help.", model, action_groups=[group], sessions=sessions) as agent:
        agent.sessions.observers = (failing, other)
        events = list(agent.stream("Pay.", "s-1"))
        (turn,) = agent.turns("s-1")
    assert [it["kind"] for it in turn.records] == [
        *("turn", "model", "intent", "action", "model", "end")
    ]
    said = "".join(it.text for it in events if isinstance(it, TextDelta))
    assert (said, turn.stop_reason) == ("It is paid.", "end_turn")
    assert paid == [1] and call in failing.seen
    # The other one has heard of all; the log has one line, without what the error says.
    assert other.seen == {*CALLS, "end_turn"}
    lines = [it.getMessage() for it in caplog.records if it.name == "orchestrator.telemetry"]
    assert len(lines) == 1 and call in lines[0] and "OSError" in lines[0]
    assert SECRET not in caplog.text


SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from orchestrator import ActionGroup, Agent
from orchestrator.engine.telemetry.workflows import trace_workflow
from orchestrator.testing import ScriptedModel

class Broken(SpanProcessor):
    def on_start(self, span, parent_context=None): {start}
    def on_end(self, span): raise RuntimeError("the exporter is broken")

provider = TracerProvider()
provider.add_span_processor(Broken())
trace.set_tracer_provider(provider)

def pay() -> str:
    "Pays."
    return "paid"

asks = [{{"toolUse": {{"toolUseId": "t-1", "name": "shop__pay", "input": {{}}}}}}]
model = ScriptedModel([asks, "<answer>ok"], "anthropic.claude-3-5-sonnet-20240620-v1:0")
with Agent("shop", "Help.", model, action_groups=[ActionGroup("shop", actions=[pay])]) as agent:
    with trace_workflow("FLOW000001"):
        print(agent.invoke("Pay.", "s-1").text)
    (turn,) = agent.turns("s-1")
print(*(record["kind"] for record in turn.records))
"""


@pytest.mark.parametrize("start", ["pass", "raise RuntimeError"])
def test_a_span_processor_that_raises(start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPANS.format(start=start)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == ["ok", "turn model action model end"], done.stderr
