"""AG-UI for clients of the time before its first version, which know fewer events."""

from __future__ import annotations

from chat_support import CLAUDE, calls, says, served, write_agent
from test_ag_ui import body, kinds, of

from orchestrator.testing import ScriptedModel

# What `@ag-ui/core` 0.0.42 knows; at any other event its client ends the run.
KNOWN = {
    *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TEXT_MESSAGE_CHUNK"),
    *("THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT"),
    *("THINKING_TEXT_MESSAGE_END", "THINKING_END"),
    *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
    *("STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "CUSTOM", "STEP_STARTED", "STEP_FINISHED"),
    *("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"),
}
SENT = {"recipient": "payroll", "content": "What is left?"}


def run(tmp_path, **members):
    member = {
        "collaboratorName": "payroll",
        "agentDescriptor": {"folder": "payroll"},
        "collaborationInstruction": "Knows what is left of the salary.",
    }
    team = {"agentCollaboration": "SUPERVISOR", "agentCollaborators": [member]}
    write_agent(tmp_path / "agents" / "vacations", "vacations", **team)
    write_agent(tmp_path / "agents" / "vacations" / "payroll", "payroll")
    script = [calls(("AgentCommunication__sendMessage", SENT)), says("100."), says("It is 100.")]
    with served(ScriptedModel(script, CLAUDE), tmp_path / "agents") as server:
        asked = {name: value for name, value in body(**members).items() if value is not None}
        return server.ask("POST", "/ag-ui/vacations", asked).events


def test_an_older_client_knows_every_event(tmp_path):
    events = run(tmp_path, protocolVersion=None)
    assert set(kinds(events)) <= KNOWN
    order = [kind for kind in kinds(events) if kind.startswith("THINKING")][:5]
    assert order == [
        *("THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT"),
        *("THINKING_TEXT_MESSAGE_END", "THINKING_END"),
    ]
    thought = of(events, "THINKING_TEXT_MESSAGE_CONTENT")
    assert {event["delta"] for event in thought} == {"I know it."}
    others = [event for event in of(events, "CUSTOM") if event["name"].startswith("SUBAGENT")]
    assert [event["name"] for event in others] == ["SUBAGENT_STARTED", "SUBAGENT_FINISHED"]
    assert others[0]["value"]["name"] == "payroll"
    assert others[0]["value"]["subagentRunId"] == others[1]["value"]["subagentRunId"]


def test_a_client_with_a_version_gets_the_events_of_today(tmp_path):
    events = run(tmp_path)
    (started,), (finished,) = of(events, "SUBAGENT_STARTED"), of(events, "SUBAGENT_FINISHED")
    assert started["subagentRunId"] == finished["subagentRunId"]
    assert (started["name"], finished["result"]) == ("payroll", "100.")
    assert of(events, "REASONING_START") and not of(events, "THINKING_START")
