"""The OpenAI library: any chat client can talk to an agent."""

from __future__ import annotations

import boto3
from openai import OpenAI

from tests.clients.conftest import GROUP, INSTRUCTION, MODEL, ROLE, Serve, call


def test_a_chat_client_talks_to_an_agent(serve: Serve) -> None:
    served = serve(
        [
            call("vacations__get_days", employee="7"),
            "<answer>You have 12 days left.</answer>",
            "<answer>Twelve.</answer>",
        ]
    )
    control = boto3.client("bedrock-agent")
    agent = control.create_agent(
        agentName="vacations",
        foundationModel=MODEL,
        instruction=INSTRUCTION,
        agentResourceRoleArn=ROLE,
    )["agent"]["agentId"]
    control.create_agent_action_group(agentId=agent, agentVersion="DRAFT", **GROUP)
    control.prepare_agent(agentId=agent)
    client = OpenAI(base_url=f"{served.url}/v1", api_key="none")
    assert "vacations" in [model.id for model in client.models.list()]
    question = {"role": "user", "content": "How many days do I have? I am 7."}
    whole = client.chat.completions.create(model="vacations", messages=[question])  # type: ignore
    answer = whole.choices[0].message.content
    assert answer == "You have 12 days left."
    told = [question, {"role": "assistant", "content": answer}]
    told.append({"role": "user", "content": "Say it in a word."})
    parts = client.chat.completions.create(model="vacations", messages=told, stream=True)  # type: ignore
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "Twelve."
