"""JSON of others: read, or refused, whatever they hold."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from model_servers import Loopback, json_answer

from orchestrator import ActionGroup, Agent
from orchestrator.message import clean
from orchestrator.models.openai import OpenAIModel
from orchestrator.support.safe_json import (
    MOST_JSON_LEVELS,
    json_or,
    load_json,
    read_json,
    read_json_at,
)


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"a": Infinity}', "[" * 100_000, "1" * 10_000, "\ufeff{}", "{} {}"]
)
def test_what_is_no_json_is_the_other_value(text: str) -> None:
    assert json_or(text, "other") == "other"


def test_json_is_its_value() -> None:
    assert json_or(' {"a": [1, null]} ', "other") == {"a": [1, None]}


READERS = [json_or, read_json, read_json_at, load_json]


def read(reader: Callable[..., Any], text: str) -> Any:
    if reader is json_or:
        return json_or(text, "too deep")
    found = reader(text.encode() if reader is load_json else text)
    return found[0] if reader is read_json_at else found


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[0,", "]")])
def test_json_has_no_more_levels_than_can_be_walked(
    reader: Callable[..., Any], opening: str, closing: str
) -> None:
    def nest(levels: int) -> str:
        return opening * (levels - 1) + "[]" + closing * (levels - 1)

    deepest = read(reader, nest(MOST_JSON_LEVELS))
    assert deepest == json.loads(nest(MOST_JSON_LEVELS)) == clean(deepest)
    # From Python 3.12 on, `json` reads that.
    for levels in (MOST_JSON_LEVELS + 1, 5_000):
        try:
            assert read(reader, nest(levels)) == "too deep"
        except RecursionError:
            pass


DEEPEST = "[" * (MOST_JSON_LEVELS - 1) + "]" * (MOST_JSON_LEVELS - 1)


@pytest.mark.parametrize("more", [0, 1, 320])
def test_so_may_arguments_within_a_turn(more: int) -> None:
    def work(values: list[Any]) -> str:
        """Works."""
        return f"{str(values).count('[')} levels"

    value = "[" * more + DEEPEST + "]" * more
    call = {"name": "work__work", "arguments": f'{{"values": {value}}}'}
    message = {"tool_calls": [{"id": "t-1", "type": "function", "function": call}]}
    answers = [message, {"content": "<answer>Done.</answer>"}]
    with Loopback([json_answer({"choices": [{"message": it}]}) for it in answers]).running() as at:
        group = ActionGroup("work", actions=[work])
        agent = Agent("a", "You help.", OpenAIModel("m", at.url), action_groups=[group])
        assert agent.invoke("Hi").text == "Done."
    result = at.asked[1].json["messages"][-1]["content"]
    assert ("199 levels" in result) is (more == 0)


def test_many_values_beside_each_other_are_no_levels() -> None:
    assert len(read_json("[" + "[[]]," * 5_000 + "{}]")) == 5_001
