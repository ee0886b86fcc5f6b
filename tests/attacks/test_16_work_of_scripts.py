"""Row 16, for scripts: loops, values and renderings have one budget for a whole run.

Each part of these scripts is small, and allowed when it is looked at alone. Without one sum they go
on for minutes, need gigabytes, or, where a value holds another twice, never end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Agent, Flow, LimitExceeded, Limits, load_flow
from orchestrator.agent.flow_run import LIMITS
from orchestrator.errors import FlowError
from orchestrator.testing import ScriptedModel

SET = ["as: {value: it, index: at}", "do:", "  - $set: {x: VALUE}"]


def loop(over: str, value: str, *before: str) -> list[str]:
    return [*before, f"$for: {over}", *(line.replace("VALUE", value) for line in SET)]


PPE: dict[str, Sequence[str]] = {
    "loops in loops": ["$for: 1000", "do:", "  - $for: 1000", "    do:", "      - $set: {x: 1}"],
    "whiles in loops": [
        *("$for: 1000", "do:", "  - $while: 'true'", "    do:", "      - $set: {x: 1}"),
    ],
    "a list in itself": loop("60", "'?=[x, x]'", "$set: {x: [1]}"),
    "a map in itself": loop("60", "{a: '?=x', b: '?=x'}", "$set: {x: 1}"),
    "a printed list": [*loop("30", "'?=[x, x]'", "$set: {x: [1]}"), "$print: ?=x"],
    "lists that are passed on": loop("many", "'?=many'"),
    "lists that are joined": loop("many", "'?=many + many'"),
    "lists that are compared": loop("many", "'?=many == others'"),
    "lists that are searched": loop("many", "'?=[it, 1] in others'"),
    "texts that are joined": loop("many", "'?=text + text'"),
    "texts that are searched": loop("many", "'?=it in text'"),
    "rendered lists": loop("many", "'!{{ many }}'"),
    "rendered loops": loop("many", "'!{% for one in many %}{% endfor %}'"),
    "members of maps": [
        *("$set: {m: {a: '?=many'}}", "$for: many", "do:", "  - $set: {m.b: '?=m.a'}"),
    ],
    "data of the front matter": [
        "---", "all: [" + ", ".join(["'{{ x }}'"] * 300) + "]", "---", *loop("many", "'?=all'"),
    ],
    "messages": [
        *("$for: many", "do:", "  - user: '[[B:|c|d:type=random]]'", "  - $set: {x: '?=B'}"),
    ],
    "listeners": [
        *("$on: {event: e, callback: '?=1'}", "$for: many", "do:"),
        "  - $emit: {event: e, args: '?=[many]'}",
    ],
}  # fmt: skip
MANY = [f"item {number}" for number in range(3_000)]


def run(lines: Sequence[str], language: str, limits: Limits | None = None, **more: Any) -> Any:
    arguments = {"many": MANY, "others": list(MANY), "text": "a" * 400_000, **more}
    return Flow.from_text("\n".join(lines), language).run(
        arguments, model=ScriptedModel([]), limits=limits or small()
    )


def small(work: int = 1_000_000) -> Limits:
    return Limits(model_calls=99, script_work=work)


@pytest.mark.parametrize("lines", PPE.values(), ids=list(PPE))
def test_a_script_does_only_so_much_by_itself(lines: Sequence[str]) -> None:
    front = [] if lines[0] == "---" else ["---", "input: [many, others, text]", "---"]
    with pytest.raises(LimitExceeded, match=r"line \d+: the script does too much") as reached:
        run([*front, *lines], "ppe")
    assert reached.value.limit == "script_work"


PL: dict[str, Sequence[str]] = {
    "loops in loops": ["FOR $b in $many:", "  IF $b == 1:", "    @exit()", "  END", "END"],
    "lists that are compared": ["IF $many != $others:", "  @exit()", "END"],
    "lists that are searched": ["IF [$a] in $others:", "  @exit()", "END"],
    "texts": ['IF "$text$text" == $a:', "  @exit()", "END"],
    "lists in texts": ['IF "$many" == $a:', "  @exit()", "END"],
}


@pytest.mark.parametrize("lines", PL.values(), ids=list(PL))
def test_a_program_does_only_so_much_by_itself(lines: Sequence[str]) -> None:
    looped = ["FOR $a in $many:", *(f"  {line}" for line in lines), "END"]
    with pytest.raises(LimitExceeded, match="the script does too much") as reached:
        run(looped, "pl")
    assert reached.value.limit == "script_work"


def test_a_list_that_a_loop_reads_is_not_copied() -> None:
    """A round costs the same, however long the lists are that it names."""
    for value in ("'!{{ it }}-{{ many | length }}'", "'?=many[7]'", "'!{{ many[7] }}'"):
        lines = ["---", "input: [many]", "---", *loop("1000", value)]
        run(lines, "ppe", small(1_000_000))
        run(lines, "ppe", small(1_600_000), many=MANY * 10)
    with pytest.raises(LimitExceeded):
        run(["---", "input: [many]", "---", *PPE["messages"]], "ppe", small(100_000))


def test_the_scripts_that_a_script_calls_share_its_budget(tmp_path: Path) -> None:
    (tmp_path / "inner.ai.yaml").write_text("$for: 1000\ndo: {$set: {x: 1}}")
    (tmp_path / "main.ai.yaml").write_text("$for: 1000\ndo:\n  - $exec: inner")
    flow = load_flow(tmp_path / "main.ai.yaml")
    with pytest.raises(LimitExceeded, match="the script does too much"):
        flow.run({}, model=ScriptedModel([]), limits=small())


def test_a_value_is_not_nested_without_end() -> None:
    with pytest.raises(FlowError, match="nested more than 200 levels"):
        run(["---", "x: 1", "---", *loop("1000", "'?=[[[[x]]]]'")], "ppe")


def test_an_operator_may_allow_more() -> None:
    lines = ["$for: 3000", "do: {$set: {x: 1}}", "$ret: 7"]
    with pytest.raises(LimitExceeded):
        run(lines, "ppe", small(100_000))
    assert run(lines, "ppe", small(2_000_000)).output == 7
    assert LIMITS.script_work == Limits().script_work == 10_000_000
    agent = Agent("a", "You help.", ScriptedModel([]), limits=small(100_000),
                  orchestration=Flow.from_text("\n".join(lines), "ppe"))  # fmt: skip
    with pytest.raises(LimitExceeded):
        agent.invoke("Hi", session_id="s-1")
