"""Costs of steps, turns and sessions, where prices were given."""

from __future__ import annotations

from pathlib import Path

import pytest
from workbench_support import MODEL, answer, price, workbench

from orchestrator import ValidationError
from orchestrator.models.base import ModelReply, Usage
from orchestrator.models.prices import Price, find_price, parse_prices
from orchestrator.server.workbench.costs import format_dollars
from orchestrator.testing import ScriptedModel

AT = "/agents/shop/sessions/s-1"


def counted(content: object, tokens: tuple[int, ...]) -> ModelReply:
    """A reply with its tokens."""
    blocks = [{"text": content}] if isinstance(content, str) else content
    return ModelReply(blocks, "end_turn", Usage(*tokens, calls=1))  # type: ignore[arg-type]


def make_model() -> ScriptedModel:
    calls = [
        counted(price(), (1_000, 100)),
        counted(answer("Twelve."), (200, 50, 1_000, 0)),
        counted(answer("Hello."), (100, 10)),
    ]
    return ScriptedModel(calls, model_id=MODEL)


def test_each_step_turn_and_session_has_its_cost(tmp_path: Path) -> None:
    prices = parse_prices([f"{MODEL}=3,15,0.3"])
    with workbench(tmp_path, model=make_model(), prices=prices) as bench:
        bench.agent.invoke("How much is tea?", "s-1")
        bench.agent.invoke("Hello", "s-1")
        first = f"{AT}/turns/{bench.agent.turns('s-1')[0].id}"
        told = bench.client.get(first).json
        assert [it["dollars"] for it in told["steps"]] == [
            pytest.approx(0.0045),
            None,
            pytest.approx(0.00165),
        ]
        assert told["costs"] == {"dollars": pytest.approx(0.00615), "unpriced": []}
        session = bench.client.get(AT).json
        assert [it["costs"]["dollars"] for it in session["turns"]] == [
            pytest.approx(0.00615),
            pytest.approx(0.00045),
        ]
        assert session["costs"]["dollars"] == pytest.approx(0.0066)
        assert "All turns together: $0.006600" in bench.client.page(AT).text
        assert "$0.004500" in bench.client.page(first).text
        assert "$0.001650" in bench.client.page(f"{first}/steps/3").text


def test_no_price_is_made_up(tmp_path: Path) -> None:
    with workbench(tmp_path, model=make_model()) as bench:
        bench.agent.invoke("How much is tea?", "s-1")
        turn = f"{AT}/turns/{bench.agent.turns('s-1')[0].id}"
        assert bench.client.get(turn).json["costs"] == {"dollars": None, "unpriced": [MODEL]}
        page = bench.client.page(turn).text
        assert f"not known: no price of {MODEL} was given" in page
        assert "$" not in bench.client.page(AT).text


def test_a_price_is_that_of_a_spec_or_an_id() -> None:
    prices = parse_prices(["openai:small=1,2", "big=3,4,5,6"])
    assert prices["big"] == Price(3, 4, 5, 6)
    assert find_price(prices, "small") == Price(1, 2)
    assert find_price(prices, "openai:small") == Price(1, 2)
    assert find_price(prices, "", "mall", "bigger") is None
    for wrong in ("big", "=1,2", "big=1", "big=1,x", "big=-1,2", "big=nan,1", "big=1,2,3,4,5"):
        with pytest.raises(ValidationError, match="MODEL=INPUT,OUTPUT"):
            parse_prices([wrong])


def test_sums_are_written_with_the_digits_that_count() -> None:
    shown = [format_dollars(it) for it in (0, 0.00000001, 0.0045, 0.0123456, 12, 1234.5)]
    assert shown == ["$0.00", "< $0.000001", "$0.004500", "$0.0123", "$12.00", "$1,234.50"]
