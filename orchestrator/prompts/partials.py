"""Small Jinja2 templates that render one structured placeholder each."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, nodes
from jinja2.environment import Template as JinjaTemplate
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestrator.errors import TemplateError
from orchestrator.support.user_code import find_innermost

_MAX_CHARS = 100_000
_MAX_OUTPUT = 10_000_000
# Compiled ones that stay: all of the shipped dialects, and users' own.
_MOST = 128
# A piece costs this much of the output beside its characters: empty rounds of a loop take time.
_PIECE_COST = 10
# Without calls, assignments and arithmetic the output of a partial is bounded by its own length
# times its input. Every value is printed with `&`, `<` and `>` encoded, so that it cannot open or
# close a tag.
_ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.Name, nodes.Const),
    *(nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Test, nodes.CondExpr, nodes.Compare),
    *(nodes.Operand, nodes.And, nodes.Or, nodes.Not),
)
_TESTS = ("defined", "undefined", "none", "string", "mapping", "sequence", "boolean", "number")
_Data = str | int | float | None


class Encoded(str):
    """A text that is encoded already and is printed as it is."""


def encode(text: str) -> str:
    """`text` with `&`, `<` and `>` encoded, as XML text."""
    return html.escape(text, quote=False)


def _finalize(value: _Data) -> str:
    """What `{{ value }}` prints."""
    if isinstance(value, str):
        return value if isinstance(value, Encoded) else encode(value)
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, StrictUndefined):
        return str(value)  # raises, with the name
    raise SecurityError(f"only texts and numbers can be printed, not a {type(value).__name__}")


class _Environment(ImmutableSandboxedEnvironment):
    # Templates get the members of dicts and lists. Attributes of Python objects lead to code
    # (`''.__class__`), so there are none.
    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and attribute in ("first", "last", "index", "index0"):
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, StrictUndefined):
            return str(obj)  # raises, with the name that is missing
        try:
            if isinstance(obj, dict) or (isinstance(obj, list | tuple) and type(argument) is int):
                return obj[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(obj=obj, name=argument)


@cache
def _environment() -> _Environment:
    environment = _Environment(
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.globals.clear()
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.filters = {
        "default": environment.filters["default"],
        "items": lambda mapping: list(mapping.items()),
        "json": lambda value: json.dumps(value, ensure_ascii=False),
        "length": len,
        "lower": str.lower,
        "trim": str.strip,
        "upper": str.upper,
    }
    return environment


class Partial:
    """A compiled partial.

    If it renders only a list, item by item, `list_name` is that list: its text is then that of each
    item alone, one after the other.
    """

    def __init__(self, template: JinjaTemplate, file: str, list_name: str = "") -> None:
        self.list_name = list_name
        self._template = template
        self._render: Callable[..., Any] = template.root_render_func
        self._file = file

    def __call__(self, context: Mapping[str, Any]) -> str:
        """The partial's text."""
        pieces, budget = [], _MAX_OUTPUT
        try:
            for piece in self._render(self._template.new_context(dict(context))):
                budget -= len(piece) + _PIECE_COST
                if budget < 0:
                    raise SecurityError("too many characters or loop rounds")
                pieces.append(piece)
        except (UndefinedError, SecurityError, TypeError, AttributeError, ValueError) as error:
            place = find_innermost(error, str(self._template.filename).__eq__)
            line = self._template.get_corresponding_lineno(place[1]) if place else None
            raise TemplateError(str(error), file=self._file, line=line) from error
        return "".join(pieces)


@lru_cache(_MOST)
def compile_partial(text: str, file: str) -> Partial:
    """Compiles a partial; agents of one dialect share it."""
    if len(text) > _MAX_CHARS:
        raise TemplateError(f"the partial has more than {_MAX_CHARS:,} characters", file=file)
    environment = _environment()
    try:
        tree = environment.parse(text, filename=file)
        _check(tree, file)
        list_name = _find_only_list(tree)
        code = environment.compile(tree, filename=file)
    except TemplateSyntaxError as error:
        raise TemplateError(error.message or "not Jinja2", file=file, line=error.lineno) from error
    except (RecursionError, SyntaxError, MemoryError) as error:
        raise TemplateError("the partial is nested too deeply", file=file) from error
    return Partial(JinjaTemplate.from_code(environment, code, {}), file, list_name)


def _find_only_list(tree: nodes.Template) -> str:
    match tree.body:
        case [nodes.For(iter=nodes.Name(name=str(name)), else_=[]) as loop]:
            used = [one.name for one in loop.find_all(nodes.Name) if one.ctx == "load"]
            return name if used.count(name) == 1 and "loop" not in used else ""
    return ""


def _is_allowed(node: nodes.Node) -> bool:
    if isinstance(node, nodes.For):
        return not (node.test or node.recursive)
    if isinstance(node, nodes.Tuple):  # the names of `for name, value in ...`
        return node.ctx == "store"
    return isinstance(node, _ALLOWED)


def _check(node: nodes.Node, file: str) -> None:
    for child in node.iter_child_nodes():
        if not _is_allowed(child):
            kind = type(child).__name__
            raise TemplateError(
                f"a partial may not use {kind!r}: it has only text, {{{{ values }}}}, 'if', 'for' "
                "and the filters default, items, json, length, lower, trim, upper",
                file=file,
                line=child.lineno,
            )
        if isinstance(child, nodes.For):
            # A piece for every round, so that the budget of the output is one of rounds, too.
            child.body.insert(0, nodes.Output([nodes.TemplateData("")]))
        _check(child, file)
