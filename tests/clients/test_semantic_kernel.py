"""semantic-kernel: its agent for Amazon Bedrock, with a plugin of its own."""

from __future__ import annotations

import asyncio
from typing import Annotated

from semantic_kernel import Kernel
from semantic_kernel.agents import BedrockAgent
from semantic_kernel.functions import kernel_function

from tests.clients.conftest import INSTRUCTION, MODEL, ROLE, Serve, call


class Vacations:
    """What employees have left."""

    @kernel_function(name="get_days", description="The vacation days that an employee has left.")
    def get_days(self, employee: Annotated[str, "The employee's number."]) -> str:
        return {"7": "12"}[employee]


def test_a_conversation_with_an_action(serve: Serve) -> None:
    served = serve(
        [
            call("vacations_kernel_function__vacations-get_days", employee="7"),
            "<answer>You have 12 days left.</answer>",
            "<answer>Twelve.</answer>",
            "<answer>Twelve days.</answer>",
        ]
    )

    async def talk() -> list[str]:
        kernel = Kernel()
        kernel.add_plugin(Vacations(), "vacations")
        agent = await BedrockAgent.create_and_prepare_agent(
            "vacations",
            instructions=INSTRUCTION,
            agent_resource_role_arn=ROLE,
            foundation_model=MODEL,
            kernel=kernel,
        )
        await agent.create_kernel_function_action_group()
        await agent.prepare_agent_and_wait_until_prepared()
        first = await agent.get_response("How many days do I have? I am 7.")
        second = await agent.get_response("Say it in a word.", thread=first.thread)
        streamed = []
        async for part in agent.invoke_stream("Again.", thread=first.thread):
            streamed.append(str(part.message))
        await first.thread.delete()
        await agent.delete_agent()
        return [str(first.message), str(second.message), "".join(streamed)]

    assert served.url
    told = asyncio.run(talk())
    assert told == ["You have 12 days left.", "Twelve.", "Twelve days."]
