"""What an answer's model does not allow is logged once, and shortly."""

from __future__ import annotations

import logging

import pytest

from orchestrator.server.wire.responses import check_problems, get_stream_writer
from orchestrator.server.wire.values import Problems


def test_an_observation_of_the_code_interpreter_is_as_the_service_tells_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    output = {"executionOutput": "42"}
    kind = "ACTION_GROUP_CODE_INTERPRETER"
    observation = {"type": kind, "codeInterpreterInvocationOutput": output}
    trace = {"trace": {"orchestrationTrace": {"observation": observation}}}
    with caplog.at_level(logging.WARNING, "orchestrator.server"):
        writer = get_stream_writer("bedrock-agent-runtime", "InvokeAgent")
        assert kind.encode() in writer.encode_event("trace", trace)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("Member must satisfy regular expression pattern: " + "a|" * 350, "another form"),
        ("Member must satisfy regular expression pattern: [a-z]+", "[a-z]+"),
    ],
)
def test_a_long_pattern_is_not_logged(
    caplog: pytest.LogCaptureFixture, wrong: str, told: str
) -> None:
    with caplog.at_level(logging.WARNING, "orchestrator.server"):
        for _ in range(2):
            problems = Problems()
            problems.add((None, "modelId"), wrong, "mine", limit=True)
            check_problems(problems, f"Log{len(wrong)}")
    (message,) = [it.getMessage() for it in caplog.records]
    caplog.clear()  # else the room's own check finds it
    assert told in message
    assert "modelId" in message
    assert len(message) < 250
