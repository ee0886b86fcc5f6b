"""What an XML model reads of its own steps: its thinking and its calls, and nothing else."""

from __future__ import annotations

import pytest
from whole_agents import XML

from orchestrator import ActionGroup, Agent, action
from orchestrator.testing import ScriptedModel

CALL = (
    "<function_calls>\n<invoke>\n<tool_name>shop::get_price</tool_name>\n<parameters>"
    "<item>pen</item></parameters>\n</invoke>\n</function_calls>"
)


@action
def get_price(item: str) -> int:
    """Get the price of an item."""
    return 3


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (
            f"Sure! <thinking>I look.</thinking> Here: {CALL}",
            f"<thinking>I look.</thinking>\n{CALL}",
        ),
        (f"<thinking>I look.</thinking>{CALL}", f"<thinking>I look.</thinking>{CALL}"),
        (f"I look it up.\n{CALL}", CALL),
        (f"<thinking>a</thinking> b <thinking>c</thinking>{CALL}\nDone.", None),
    ],
)
def test_the_thinking_and_the_calls_are_kept(written: str, kept: str | None) -> None:
    model = ScriptedModel([written, "<answer>3 euros."], XML.model_id)
    shop = ActionGroup("shop", actions=[get_price])
    agent = Agent("shop", "You tell prices.", model, action_groups=[shop])
    assert agent.invoke("A pen?", "s-1").text == "3 euros."
    _, step, results = model.requests[1].messages
    if kept is None:
        kept = f"<thinking>a</thinking>b<thinking>c</thinking>{CALL}"
    assert step == {"role": "assistant", "content": [{"text": kept}]}
    assert "<stdout>3</stdout>" in results["content"][0]["text"]
