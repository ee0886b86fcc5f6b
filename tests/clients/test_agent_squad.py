"""agent-squad: its agent for Amazon Bedrock, whole and streaming."""

from __future__ import annotations

import asyncio
from typing import Any

import boto3
from agent_squad.agents import AmazonBedrockAgent, AmazonBedrockAgentOptions

from tests.clients.conftest import GROUP, INSTRUCTION, MODEL, ROLE, Serve, call

REPLIES = [
    call("vacations__get_days", employee="7"),
    "<answer>You have 12 days left.</answer>",
    "<answer>Twelve.</answer>",
]


def _made(streaming: bool) -> AmazonBedrockAgent:
    control = boto3.client("bedrock-agent")
    agent = control.create_agent(
        agentName="vacations",
        foundationModel=MODEL,
        instruction=INSTRUCTION,
        agentResourceRoleArn=ROLE,
    )["agent"]["agentId"]
    control.create_agent_action_group(agentId=agent, agentVersion="DRAFT", **GROUP)
    control.prepare_agent(agentId=agent)
    options = AmazonBedrockAgentOptions(
        name="vacations",
        description="Knows vacations.",
        agent_id=agent,
        agent_alias_id="TSTALIASID",
        enableTrace=True,
        streaming=streaming,
        callbacks=None,
    )
    return AmazonBedrockAgent(options)


def test_a_conversation_with_an_action(serve: Serve) -> None:
    serve(REPLIES)
    agent = _made(streaming=False)

    def ask(text: str) -> Any:
        return asyncio.run(agent.process_request(text, "user", "s-1", [])).content

    assert ask("How many days do I have? I am 7.") == [{"text": "You have 12 days left."}]
    assert ask("Say it in a word.") == [{"text": "Twelve."}]


def test_a_streamed_answer(serve: Serve) -> None:
    serve(REPLIES)
    agent = _made(streaming=True)

    async def ask() -> list[Any]:
        told = await agent.process_request("How many? I am 7.", "user", "s-1", [])
        return [part async for part in told]

    *texts, last = asyncio.run(ask())
    assert "".join(part.text for part in texts) == "You have 12 days left."
    assert last.final_message.content == [{"text": "You have 12 days left."}]
