"""Choices of several items, and biases of tokens: what models are held to, and what is read."""

from __future__ import annotations

from typing import Any

import pytest
from flow_support import CLAUDE, PLAIN, script, scripted, texts

from orchestrator import FlowError
from orchestrator.flows.choice_tool import build_bias_fields
from orchestrator.flows.ppe.choices import Choice

LOCAL = "local:some-model"


def picked(*names: str) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": "1", "name": "choose", "input": {"choice": list(names)}}}]


def test_several_are_chosen_by_a_forced_tool_with_a_list() -> None:
    model = scripted(picked("c", "a"))
    result = script("user: q", "assistant: '[[F:|a|b|c:2]]'").run(model=model)
    assert result.output == "c,a"
    (tool,) = model.requests[0].tools
    schema = tool["toolSpec"]["inputSchema"]["json"]["properties"]["choice"]
    items = {"type": "string", "enum": ["a", "b", "c"]}
    assert schema == {"type": "array", "items": items, "minItems": 1, "maxItems": 2}
    assert model.requests[0].tool_choice == {"tool": {"name": "choose"}}


def test_the_list_stands_beside_the_text() -> None:
    model = scripted("b; a", "end", model_id=PLAIN)
    result = script(
        "user: q",
        "assistant: \"I take [[F:|a|b|c:2:' and ']].\"",
        "user: '{{ F }} {{ F_list|length }} {{ F_list[0] }}'",
    ).run(model=model)
    assert result.variables["F"] == "b and a"
    assert result.variables["F_list"] == ["b", "a"]
    assert texts(model.requests[1]) == ["q", "I take b and a.", "b and a 2 b"]


def test_reading_the_list_runs_the_choice() -> None:
    model = scripted("b", model_id=PLAIN)
    lines = ["user: q", "assistant: '[[F:|a|b|c:2]]'", "$for: F_list", "do: {$set: {s: '?=item'}}"]
    result = script(*lines, "$echo: '?=s'").run(model=model)
    assert result.output == "b"
    assert script(*lines[:2], "$get: F_list").run(model=scripted("c", model_id=PLAIN)).output == [
        "c"
    ]


def test_a_chain_gets_both() -> None:
    model = scripted("b,a", model_id=PLAIN)
    lines = ["user: q", "assistant: '[[F:|a|b|c:2]]'", "-> f"]
    result = script(*lines).run(model=model, tools={"f": lambda **given: given})
    assert result.output == {"0": "b,a", "F": "b,a", "F_list": ["b", "a"], "content": "b,a"}


def test_one_of_several_has_no_list() -> None:
    result = script("user: q", "assistant: '[[F:|a|b]]'").run(model=scripted("b", model_id=PLAIN))
    assert "F_list" not in result.variables


@pytest.mark.parametrize(
    ("reply", "item"),
    [
        ("我选香蕉。", "香蕉"),
        ("リンゴです", "リンゴ"),
        ("apple派", "apple"),
        ("香", None),
        ("香蕉苹果", None),
        ("我不要香蕉", None),
        ("リンゴではない", None),
    ],
)
def test_an_item_is_found_where_words_have_no_spaces_between(reply: str, item: str | None) -> None:
    found = Choice(("香蕉", "苹果", "リンゴ", "apple")).read(reply)
    assert found == ([item] if item else f"{reply!r} is not one of them.")


def test_chance_gives_a_list_too() -> None:
    result = script("user: q", "assistant: '[[F:|a|b|c:3:minPick=3:random]]'").run(
        model=scripted(), seed=1
    )
    assert sorted(result.variables["F_list"]) == ["a", "b", "c"]
    assert result.output == ",".join(result.variables["F_list"])


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("a,b", ["a,b"]),
        ("a,b,c", ["a,b", "c"]),
        ("c; a,b", ["c", "a,b"]),
        ("c\na,b\n", ["c", "a,b"]),
        ("C and A B", "'C and A B' is not one of them."),
        ('["c", "d e"]', ["c", "d e"]),
        ("c、d e", ["c", "d e"]),
        ("c, c", ["c"]),
        ("c, d e, a,b", "That names 3 of them."),
    ],
)
def test_what_replies_mean(reply: str, found: Any) -> None:
    assert Choice(("a,b", "c", "d e"), 2).read(reply) == found


def test_too_few_and_too_many_are_asked_again() -> None:
    model = scripted("a", "a,b,c", "a,b", model_id=PLAIN)
    result = script("user: q", "assistant: '[[F:|a|b|c:2:minPick=2]]'").run(model=model)
    assert result.output == "a,b" and len(model.requests) == 3
    assert "That names 3 of them." in texts(model.requests[2])[-1]


# Biases


def biased(text: str, **options: Any) -> Any:
    model = scripted("A", model_id=LOCAL)
    script(f"user: '{text}'").run(model=model, **options)
    return model.requests[0]


@pytest.mark.parametrize(
    ("written", "shown", "bias"),
    [
        ("a ((joy:2)) b", "a joy b", [["joy", 2.0], [" joy", 2.0]]),
        ("a ((joy: -1.5)) b", "a joy b", [["joy", -1.5], [" joy", -1.5]]),
        ("((joy:0%))", "joy", [["joy", 0.0], [" joy", 0.0]]),
        ("((!joy:false))x", "x", [["joy", False], [" joy", False]]),
        ("((joy:never))", "joy", [["joy", False], [" joy", False]]),
        ("((joy:-100%))", "joy", [["joy", False], [" joy", False]]),
        ("((very glad:1))", "very glad", [["very glad", 1.0], [" very glad", 1.0]]),
        ("\\(\\(joy:1\\)\\)", "((joy:1))", None),
        ("~((joy:1))", "((joy:1))", None),
        ("((joy)) ((a:b)) ((:1))", "((joy)) ((a:b)) ((:1))", None),
        ("((joy:true))", "((joy:true))", None),
    ],
)
def test_how_a_bias_is_written(written: str, shown: str, bias: Any) -> None:
    request = biased(written)
    assert texts(request) == [shown]
    assert request.additional.get("logit_bias") == bias


def test_a_percentage_multiplies_the_odds() -> None:
    ((_, value), _) = biased("((joy:20%))").additional["logit_bias"]
    assert value == pytest.approx(0.1823, abs=1e-4)  # ln 1.2


def test_biases_of_all_messages_that_are_sent_hold() -> None:
    model = scripted("A", "B", model_id=LOCAL)
    script(
        "system: '((!s:1))'",
        "---",
        "user: '((!u:2))'",
        "assistant: '[[A]]((!late:3))'",
        "---",
        "user: q",
    ).run(model=model)
    first, second = (dict(it.additional["logit_bias"]) for it in model.requests)
    assert first == {"s": 1.0, " s": 1.0, "u": 2.0, " u": 2.0, "late": 3.0, " late": 3.0}
    assert second == {"s": 1.0, " s": 1.0}


@pytest.mark.parametrize("model_id", [CLAUDE, PLAIN, "openai:gpt-4o@http://127.0.0.1:1"])
def test_hosted_models_take_no_bias_and_are_not_asked(model_id: str) -> None:
    model = scripted("A", model_id=model_id)
    with pytest.raises(FlowError, match=r"\(\(joy:\.\.\.\)\) biases tokens") as caught:
        script("user: hi", "$AI", "user: 'a ((joy:20%))'").run(model=model)
    assert caught.value.line == 3 and "仅内嵌模型支持" in caught.value.message_zh
    assert model.requests == []


def test_no_value_biases() -> None:
    request = biased("{{ said }}", arguments={"said": "((joy:5))"})
    assert texts(request) == ["((joy:5))"]
    assert "logit_bias" not in request.additional


def test_a_word_is_biased_where_a_space_is_before_it_too() -> None:
    assert build_bias_fields([]) == {}
    assert build_bias_fields([("joy", 1.0), (" joy", None)]) == {
        "logit_bias": [["joy", 1.0], [" joy", False]]
    }
