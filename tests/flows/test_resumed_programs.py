"""Property: a program that is run step by step, through JSON, ends as if it had never waited."""

from __future__ import annotations

from typing import Any

from flow_support import as_stored, scripted
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import Flow, FlowError

NAMES = st.sampled_from(["a", "b", "c", "question"])
TEXTS = st.sampled_from(["Say $a", "${b} 和$c", "On $question", "text", "看${a[0]}", "cost $5"])
ARROWS = st.sampled_from(["->", ">>"])


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def statements(draw: Any, depth: int = 0) -> list[str]:
    kind = draw(st.integers(0, 6 if depth < 2 else 4))
    name, arrow = draw(NAMES), draw(ARROWS)
    if kind <= 1:
        return [f"{draw(TEXTS)} {arrow} {name}"]
    if kind == 2:
        return [f"@note(${draw(NAMES)}, k=[1, $a]) {arrow} {name}"]
    if kind == 3:
        return [draw(st.sampled_from(["(bp)", "@(bp)"]))]
    if kind == 4:
        return [f'@condition_judge(${name}, ["yes", "no"]) -> {draw(NAMES)}']
    body = [
        line
        for one in draw(st.lists(statements(depth + 1), min_size=1, max_size=3))
        for line in one
    ]
    if kind == 5:
        return ["FOR $item in [1, 2]:", *indented(body), "END"]
    return [f'IF ${name} == "yes":', *indented(body), "else:", *indented(body), "END"]


@st.composite
def programs(draw: Any) -> str:
    blocks = draw(st.lists(statements(), min_size=1, max_size=5))
    return "\n".join(line for block in blocks for line in block)


def note(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


def asked(model: Any) -> list[Any]:
    return [[it.system, [dict(one) for one in it.messages]] for it in model.requests]


@given(
    programs(),
    st.lists(st.sampled_from(["yes", "no", "a -> b", "(bp)", "$a"]), min_size=40, max_size=40),
)
def test_steps_come_to_the_same_as_the_whole(text: str, replies: list[str]) -> None:
    arguments = {"question": "Who?\n(bp)\n$a -> b"}
    flow = Flow.from_text(text, "pl")
    tools = {"note": note}

    def whole(mode: str, step: bool) -> tuple[Any, ...]:
        model = scripted(*replies)
        try:
            result = flow.run(arguments, model=model, tools=tools, step=step)
            while result.paused is not None:
                state = as_stored(result.paused)
                result = flow.resume(state, model=model, tools=tools, mode=mode)  # type: ignore[arg-type]
        except FlowError as error:
            return error.message, error.line, asked(model)
        return result.output, result.variables, asked(model)

    assert whole("step", True) == whole("continue", False)
