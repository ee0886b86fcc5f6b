"""langchain-aws: agents as runnables, with tools that return control."""

from __future__ import annotations

from typing import Any

from langchain_aws.agents.base import BedrockAgentsRunnable, BedrockInlineAgentsRunnable
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from tests.clients.conftest import INSTRUCTION, MODEL, ROLE, Serve, call


@tool("vacations::get_days")
def get_days(employee: str) -> str:
    """The vacation days that an employee has left."""
    return {"7": "12"}[employee]


REPLIES = [
    call("vacations__get_days", employee="7"),
    "<answer>You have 12 days left.</answer>",
    "<answer>Twelve.</answer>",
]


def test_an_agent_is_created_and_talks(serve: Serve) -> None:
    served = serve(REPLIES)
    agent = BedrockAgentsRunnable.create_agent(
        agent_name="vacations",
        agent_resource_role_arn=ROLE,
        foundation_model=MODEL,
        instruction=INSTRUCTION,
        tools=[get_days],
        region_name="us-east-1",
        bedrock_endpoint_url=served.url,
        runtime_endpoint_url=served.url,
        enable_trace=True,
    )
    asked: Any = agent.invoke({"input": "How many days do I have? I am 7.", "session_id": "s-1"})
    (action,) = asked
    assert (action.tool, action.tool_input) == ("vacations::get_days", {"employee": "7"})
    told = get_days.invoke(action.tool_input)
    answered: Any = agent.invoke({"input": "", "intermediate_steps": [(action, told)]})
    assert answered.return_values["output"] == "You have 12 days left."
    assert "orchestrationTrace" in str(answered.trace_log)
    again: Any = agent.invoke({"input": "Say it in a word.", "session_id": action.session_id})
    assert again.return_values["output"] == "Twelve."


def test_an_inline_agent_talks(serve: Serve) -> None:
    served = serve(REPLIES)
    agent = BedrockInlineAgentsRunnable.create(
        region_name="us-east-1",
        endpoint_url=served.url,
        inline_agent_config={
            "foundation_model": MODEL,
            "instruction": INSTRUCTION,
            "tools": [get_days],
            "enable_trace": True,
        },
    )
    question = HumanMessage("How many days do I have? I am 7.")
    asked = agent.invoke([question])
    assert isinstance(asked, AIMessage)
    (wanted,) = asked.tool_calls
    assert wanted["args"] == {"employee": "7"}
    result = ToolMessage(get_days.invoke(wanted["args"]), tool_call_id=wanted["id"])
    answered = agent.invoke([question, asked, result])
    assert answered.content == "You have 12 days left."
