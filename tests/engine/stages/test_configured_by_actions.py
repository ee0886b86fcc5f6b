"""What an action's Lambda says of later searches: `knowledgeBasesConfiguration` of its response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stage_support import Handbook, sound
from whole_agents import BOTH, NATIVE, Family, agent, answer

from orchestrator import ActionGroup
from orchestrator.actions import ActionResult, LambdaHandler
from orchestrator.actions.base import Call, CallContext

MINE = {"vectorSearchConfiguration": {"filter": {"equals": {"key": "owner", "value": "ana"}}}}
FEW = {"vectorSearchConfiguration": {"numberOfResults": 2}}


def told(*configurations: Any) -> list[dict[str, Any]]:
    return [
        {"knowledgeBaseId": "HANDBOOK01", "retrievalConfiguration": it} for it in configurations
    ]


def group(executor: Any) -> ActionGroup:
    return ActionGroup(
        "who", functions=[{"name": "am_i", "description": "Who."}], executor=executor
    )


class Returning:
    """An executor that gives a result."""

    def __init__(self, result: ActionResult) -> None:
        self.result = result

    def call(self, call: Call, context: CallContext) -> ActionResult:
        return self.result


def searches(family: Family) -> list[Any]:
    search = family.calls(("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "days"}))
    return [search, family.calls(("who::am_i", {})), search, answer("27.")]


@BOTH
def test_searches_after_the_action_are_made_as_it_says(family: Family, tmp_path: Path) -> None:
    file = tmp_path / "handler.py"
    file.write_text(SOURCE.format(told(MINE)))
    base = Handbook()
    one = agent(
        family.model([*searches(family), *searches(family)[:1], answer("27.")]),
        groups=[group(LambdaHandler(file))],
        knowledge_bases=[base],
    )
    reply = one.invoke("How many?", "s-1", knowledge_bases={"HANDBOOK01": FEW})
    assert base.asked == [("days", FEW), ("days", MINE)]
    sound(reply)
    assert one.turns("s-1")[0].trace == reply.trace
    one.invoke("And now?", "s-1")  # it was about that turn
    assert base.asked[2:] == [("days", None)]


SOURCE = """
def lambda_handler(event, context):
    body = {{"responseBody": {{"TEXT": {{"body": "You are ana."}}}}}}
    inner = {{"actionGroup": "who", "function": "am_i", "functionResponse": body}}
    return {{
        "messageVersion": "1.0", "response": inner, "knowledgeBasesConfiguration": {}
    }}
"""


def test_an_executor_of_ones_own_says_it_too() -> None:
    base = Handbook()
    result = ActionResult("ana", knowledge_bases={"HANDBOOK01": MINE})
    one = agent(
        NATIVE.model(searches(NATIVE)),
        groups=[group(Returning(result))],
        knowledge_bases=[base],
    )
    one.invoke("How many?", "s-1")
    assert base.asked == [("days", None), ("days", MINE)]
