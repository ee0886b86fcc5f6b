"""Property: a program whose loops run side by side comes to the same as one after the other."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from flow_support import Echo
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import Flow, FlowError
from orchestrator.support.user_code import keep_causes


@pytest.fixture(autouse=True, scope="module")
def debugging() -> Iterator[None]:
    """Errors keep what a function raised."""
    with keep_causes():
        yield


NAMES = st.sampled_from(["a", "b", "c"])
READ = st.sampled_from(["a", "b", "c", "x", "y", "question", "nowhere"])
ARROWS = st.sampled_from(["->", ">>"])
ANSWERS = ("yes", "no", "$a", "(bp)", '["x"]')


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def together(blocks: list[list[str]]) -> list[str]:
    return [line for block in blocks for line in block]


@st.composite
def statements(draw: Any, depth: int = 0) -> list[str]:
    kind = draw(st.integers(0, 8 if depth < 3 else 4))
    name, arrow, read = draw(NAMES), draw(ARROWS), draw(READ)
    if kind <= 1:
        return [f"Say ${read} {arrow} {name}"]
    if kind == 2:
        return [f"@note(${read}, k=[1, '$x']) {arrow} {name}"]
    if kind == 3:
        return [f'@condition_judge(${read}, ["yes", "no"]) -> {name}']
    if kind == 4:
        tools = draw(st.sampled_from(["", ", tools=[]", ", tools=['note']"]))
        return [f"@agent(task='On ${read}'{tools}) -> {name}"]
    body = together(draw(st.lists(statements(depth + 1), min_size=1, max_size=3)))
    if kind <= 7:
        items = draw(st.sampled_from(["[1, 2, 3]", "$xs", "${xs[0]}", "[]"]))
        return [f"FOR ${draw(st.sampled_from('xy'))} in {items}:", *indented(body), "END"]
    return [f'IF ${read} == "yes":', *indented(body), "else:", *indented(body), "END"]


@st.composite
def programs(draw: Any) -> str:
    blocks = draw(st.lists(statements(), min_size=1, max_size=4))
    body = together(draw(st.lists(statements(1), min_size=1, max_size=4)))
    return "\n".join(
        [*together(blocks), "FOR $x in $xs:", *indented(body), "END", "End $a $b -> c"]
    )


def answer(text: str) -> str:
    """The same to the same, and now and then what conditions look for."""
    drawn = hashlib.sha256(text.encode()).digest()[0] % (len(ANSWERS) + 2)
    return ANSWERS[drawn] if drawn < len(ANSWERS) else f"<{text[-40:]}>"


def note(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


@given(programs(), st.integers(2, 4), st.booleans())
def test_side_by_side_comes_to_the_same(text: str, most: int, loop: bool) -> None:
    flow = Flow.from_text(text, "pl")
    arguments = {"question": "Who?\n(bp)\n$a -> b", "xs": ["yes", 2, ["$a"]], "b": "before"}

    def run(parallel: int | None) -> tuple[Any, ...]:
        model = Echo(answer)
        given: dict[str, Any] = {"model": model, "tools": {"note": note}, "parallel": parallel}
        try:
            if loop and parallel:
                result = asyncio.run(flow.arun(arguments, **given))
            else:
                result = flow.run(arguments, **given)
        except FlowError as error:
            return error.message, error.line, error.message_zh
        return result.output, result.variables, sorted(model.asked), result.usage.calls

    assert run(most) == run(None)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9), st.integers(2, 5))
def test_the_first_failure_in_order_that_is_known_is_told(items: list[int], most: int) -> None:
    def risky(x: int, at: int) -> int:
        if x == 0:
            raise ValueError(f"no {at}")
        return x

    text = "FOR $x in $xs PARALLEL:\n    @risky(${x.v}, ${x.at}) >> done\nEND"
    given = {"xs": [{"v": value, "at": at} for at, value in enumerate(items)]}
    flow = Flow.from_text(text, "pl")
    failing = [at for at, value in enumerate(items) if value == 0]
    try:
        result = flow.run(given, model=Echo(), tools={"risky": risky}, parallel=most)
    except FlowError as error:
        told = repr(error.__cause__)
        assert any(f"no {at}" in told for at in failing[:most])
        assert error.line == 2
    else:
        assert not failing
        assert result.variables["done"] == items
