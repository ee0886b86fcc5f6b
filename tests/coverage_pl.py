"""Rows of COVERAGE.md: what the workflow language has, each tried in a program that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator import Flow, FlowError, FlowResult
from orchestrator.testing import ScriptedModel

__all__ = ["language"]

_CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def _whole(flow: Flow, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    return flow.run(given, **options).output


def _resumed(mode: Any = "continue", text: str = "") -> Callable[..., Any]:
    def run(flow: Flow, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        result: FlowResult = flow.run(given, **options)
        while result.paused is not None:
            result = flow.resume(result.paused, mode=mode, text=text, **options)
        return result.output

    return run


def _stepped(flow: Flow, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    result, count = flow.run(given, step=True, **options), 0
    while result.paused is not None:
        result, count = flow.resume(result.paused, mode="step", **options), count + 1
    return count


def _events(kind: str) -> Callable[..., Any]:
    def run(flow: Flow, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        return [it.type for it in flow.stream(given, **options)].count(kind)

    return run


@dataclass(frozen=True)
class _Tried:
    construct: str
    program: str
    output: Any
    replies: tuple[Any, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    how: Callable[..., Any] = _whole
    more: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> str:
        """Whether the program comes to what it should."""
        options = {"model": ScriptedModel(list(self.replies), _CLAUDE), **self.more}
        options["tools"] = {"echo": lambda *args, **kwargs: [list(args), kwargs], "same": _same}
        try:
            made = self.how(Flow.from_text(self.program, "pl"), self.given, options)
        except FlowError as error:
            return "works" if self.output is FlowError else f"fails: {error.reason}"
        return "works" if made == self.output else f"gives {made!r}"


def _same(value: Any) -> Any:
    return value


_MAP = "FOR $x in [1, 2, 3]{}:\n    @same($x) >> out\nEND\n@same($out) -> all"
_TALK = "@agent(type='prompt-based', task='Talk.') -> talk"
_TEAM = "@agent(type='bambo', task='w', roles={'Ed': 'edits'}, tools=['same']) -> team"
_PLAYED = ('=>@Ed: hm\n=>$same: {"value": 1}', "=>@Bambo: done")
_TRIED = (
    _Tried("`text -> name`, over several lines", "Say\n\nit -> a", "A", ("A",)),
    _Tried("`$name`, Chinese text behind it", "@same('把$a发') -> b", "把1发", given={"a": 1}),
    _Tried("`${a.b[0]}`, `${a[-1]}`", "@same(${a.b[-1]}) -> c", 2, given={"a": {"b": [1, 2]}}),
    _Tried("paths in `FOR` and `IF`", "FOR $x in ${a.b}:\n    IF ${x.c[0]} == 1:\n        "
           "@same($x) -> y\n    END\nEND", {"c": [1]}, given={"a": {"b": [{"c": [1]}]}}),
    _Tried("values that look like variables stay values", "@same('$a') -> b", "$b ${a}",
           given={"a": "$b ${a}"}),
    _Tried("`->`, `-> $name`, `-> None`", "@same(1) -> None\n@same(2) -> $a\n@same($a) -> b", 2),
    _Tried("`>>`", "@same(1) >> a\n@same([2, 3]) >> a\n@same($a) -> b", [1, 2, 3]),
    _Tried("`@function(args, name=...)`, with lists, maps, variables",
           "@echo($a, [1, {'k': true}], k='x=1') -> r",
           [[{"b": 2}, [1, {"k": True}]], {"k": "x=1"}], given={"a": {"b": 2}}),
    _Tried("the model calls functions", "Help -> a", 5,
           ([{"toolUse": {"toolUseId": "1", "name": "same", "input": {"value": 5}}}],)),
    _Tried("`@code`: Python, in a sandbox", "@code(```python\npython_res = $a + 1\n```) -> b", 2,
           given={"a": 1}),
    _Tried("`@code`: JSON", '@code(```json\n{"a": [1]}\n```) -> b', {"a": [1]}),
    _Tried("`@code`: words", "@code(what's 1 + 1) -> b", 2, ("```python\nresult = 1 + 1\n```",)),
    _Tried("`@condition_judge`", '@condition_judge("x", ["a", "b"]) -> c', "b",
           ([{"toolUse": {"toolUseId": "1", "name": "choose", "input": {"choice": "b"}}}],)),
    _Tried("`@exit`", "@exit(msg='bye $a')\nnever -> b", "bye 1", given={"a": 1}),
    _Tried("`FOR` over lists and keys; in loops", "FOR $x in $a:\n    FOR $y in ['b', 'c']:\n"
           "        @same('$x$y') >> out\n    END\nEND\n@same($out) -> all", ["kb", "kc"],
           given={"a": {"k": 1}}),
    _Tried("`FOR` over a text is refused", "FOR $x in 'bc':\n    @same($x) -> a\nEND", FlowError),
    _Tried("`IF`, `elif`, `else`; `and or not in < == …`", "IF $a > 3 and not 'x' in $b:\n    "
           "@same(1) -> c\nelif $a in [1, 2]:\n    @same(2) -> c\nelse:\n    @same(3) -> c\nEND", 2,
           given={"a": 2, "b": []}),
    _Tried("`FOR … PARALLEL`, `PARALLEL 2`", _MAP.format(" PARALLEL 2"), [1, 2, 3]),
    _Tried("`parallel=` of a run", _MAP.format(""), [1, 2, 3], more={"parallel": 3}),
    _Tried("items that need each other are refused",
           "FOR $x in [1] PARALLEL:\n    @same($a) -> a\nEND", FlowError),
    _Tried("`@agent`: `auto-decision`", "@agent(task='t', tools=[]) -> a", "A", ("A",)),
    _Tried("`@agent`: `bambo`, its roles as events", _TEAM, 2, _PLAYED, how=_events("role_switch")),
    _Tried("`@agent`: `prompt-based`, the user's turn", _TALK, "Hi?", ("Hi?",),
           how=_resumed(text="exit")),
    _Tried("agents are functions afterwards", "@agent(task='t', tools=[]) -> a\n@a('u') -> b", "B",
           ("A", "B")),
    _Tried("`(bp)`, `@(bp)`, also in loops", "FOR $x in [1, 2]:\n    (bp)\n    @same($x) -> a\nEND",
           2, how=_resumed()),
    _Tried("step by step", "@same(1) -> a\n@same(2) -> b", 2, how=_stepped),
    _Tried("events of every stage", "Say -> a", 1, ("A",), how=_events("token")),
    _Tried("the whole program is read first", "Say -> a\nFOR $x in $y\n    Say -> b\nEND",
           FlowError),
)  # fmt: skip


def language() -> Iterator[tuple[str, str]]:
    """What the language has, and whether it works."""
    for tried in _TRIED:
        yield tried.construct.replace("|", "\\|"), tried.state()
