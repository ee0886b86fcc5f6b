"""Rows of COVERAGE.md: what the language of PPE scripts has, each tried in a script that runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator import FlowError, load_flow
from orchestrator.testing import ScriptedModel

__all__ = ["language"]

_CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
_PLAIN = "mistral.mistral-7b-instruct-v0:2"


@dataclass(frozen=True)
class _Tried:
    construct: str
    script: str
    output: Any
    replies: tuple[Any, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    model_id: str = _PLAIN

    def state(self) -> str:
        """Whether the script comes to what it should."""
        tools = {
            "double": lambda content=0, **_: content * 2,
            "shout": lambda event, text: f"{text}!",
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**self.files, "main": self.script}.items():
                (Path(folder) / f"{name}.ai.yaml").write_text(text, encoding="utf-8")
            model = ScriptedModel(list(self.replies), self.model_id)
            try:
                result = load_flow(Path(folder) / "main.ai.yaml").run(model=model, tools=tools)
            except FlowError as error:
                return "works" if self.output is FlowError else f"fails: {error.reason}"
        return "works" if result.output == self.output else f"gives {result.output!r}"


def _choice(name: Any) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": "1", "name": "choose", "input": {"choice": name}}}]


_ELF = {"elf": "---\ntype: char\nname: Dobby\n---\n"}
_ADD = {"add": "$ret: '?=content + 1'"}
_TRIED = (
    _Tried(
        "messages, `[[VAR]]`, prefill", "user: q\nassistant: 'So: [[A]].'", "So: yes.", ("yes",)
    ),
    _Tried("`---` and `***`", "user: a\n$AI\n---\nuser: '{{ RESPONSE }}?'", "B", ("A", "B")),
    _Tried("`[[VAR:temperature=…]]`", "user: q\nassistant: '[[A:top_p=0.5]]'", "A", ("A",)),
    _Tried("templates: `hf`", "---\na: 1\n---\n$format: '{{ a }}'", "1"),
    _Tried(
        "templates: `fstring`",
        "$format: {template: '{a}', data: {a: 1}, templateFormat: fstring}",
        "1",
    ),
    _Tried(
        "templates: `golang`",
        "$format: {template: '{{.a}}', data: {a: 1}, templateFormat: golang}",
        "1",
    ),
    _Tried("immediate `!` `#`, never `~`", "user: '!{{ 1 }}'\n- '~{{ 2 }}'", "A", ("A",)),
    _Tried(
        "choice of one: a forced tool",
        "user: q\nassistant: '[[F:|a|b]]'",
        "b",
        (_choice("b"),),
        model_id=_CLAUDE,
    ),
    _Tried(
        "choice of several, and its list",
        "user: q\nassistant: '[[F:|a|b|c:2]]'\n$get: F_list",
        ["c", "a"],
        (_choice(["c", "a"]),),
        model_id=_CLAUDE,
    ),
    _Tried(
        "choice: told, checked, asked again", "user: q\nassistant: '[[F:|a|b]]'", "a", ("x", "a")
    ),
    _Tried("choice by chance", "user: q\nassistant: '[[F:|a|a:random]]'", "a"),
    _Tried("`((text:20%))`: refused by hosted models", "user: '((a:20%))'", FlowError),
    _Tried("`((text:20%))`: embedded models", "user: '((a:20%))'", "A", ("A",), model_id="local:x"),
    _Tried("`[[@script(args)]]`", "$format: '[[@add(1)]]'", "2", files=_ADD),
    _Tried("`[[@$function(args)]]`", "$format: '[[@$double(content=2)]]'", "4"),
    _Tried("`[[/regex/:VAR]]`", "---\nv: a12\n---\n$format: '[[/[0-9]+/:v]]'", "12"),
    _Tried("`$if`", "$if: '1 > 0'\nthen: {$echo: 1}\nelse: {$echo: 2}", 1),
    _Tried(
        "`$for`, `$while`, `$break`, `$continue`",
        "$for: 9\ndo:\n  - $if: 'item == 3'\n    then: $break\n  - $echo: '?=item'",
        2,
    ),
    _Tried(
        "`$match`",
        "---\nm: {a: 5}\n---\n$match(m):\n  ':{a=1..5}': {$echo: 'in'}\n  _: {$echo: 'out'}",
        "in",
    ),
    _Tried(
        "`$match`: `allMatches`; `parallel` (branches that may run at the same time run in order)",
        "---\nv: 5\n---\n$match(v, allMatches=true, parallel=true):\n"
        "  ':> 1': {$set: {a: 1}}\n  ':5': {$set: {b: 2}}\n$echo: '?=a + b'",
        3,
    ),
    _Tried(
        "`$set`, `$get`, `$echo`, `$ret`, `?=`",
        "$set: {a.b: '?=1 + 1'}\n$ret: '?=a.b'\n$echo: 3",
        2,
    ),
    _Tried(
        "`->`, `$pipe`, `$\\|name`",
        "- $echo: 1\n- $pipe\n- $double\n- $|double\n- -> add",
        5,
        files=_ADD,
    ),
    _Tried("`$exec`", "$exec: {id: add, args: 4}", 5, files=_ADD),
    _Tried(
        "`$on`, `$once`, `$off`, `$emit`",
        "$on: {event: e, callback: shout}\n$emit: {event: e, args: hi}",
        "hi!",
    ),
    _Tried(
        "events of calls, models and chats",
        "$on: {event: llm, callback: shout}\nuser: q",
        "A!",
        ("A",),
    ),
    _Tried(
        "group chats",
        "---\nroles: {dobby: elf}\n---\nuser[@dobby(PM)]: hi",
        "hello",
        ("hello",),
        _ELF,
    ),
    _Tried(
        "`tools`, `permissions`",
        "---\ntools: [double]\n---\nuser: q",
        "8",
        ([{"toolUse": {"toolUseId": "1", "name": "double", "input": {"content": 4}}}], "8"),
        model_id=_CLAUDE,
    ),
    _Tried("`shouldThink`", "---\nshouldThink: first\n---\nuser: q", "A", ("<Think>hm</Think>A",)),
    _Tried(
        "`input`, `output`, repaired once",
        "---\noutput: {type: number}\nforceJson: true\n---\nuser: q",
        5,
        ("x", "5"),
    ),
    _Tried(
        "`type`: inheritance",
        "---\ntype: base\na: 2\n---\n$ret: '?=a + b'",
        7,
        files={"base": "---\na: 1\nb: 5\n---\n"},
    ),
    _Tried("`import` of scripts", "---\nimport: {add.ai.yaml: plus}\n---\n$plus: 1", 2, files=_ADD),
    _Tried("edits: `#:`, `#[`, `#+`", "- user: a\n- '#:b'\n- '#+[0:system]s'", "A", ("A",)),
    _Tried("`!fn`, `import: js:`: refused", "---\nimport: js:x\n---\nuser: q", FlowError),
)


def language() -> Iterator[tuple[str, str]]:
    """Constructs, and whether they work."""
    for one in _TRIED:
        yield one.construct, one.state()
