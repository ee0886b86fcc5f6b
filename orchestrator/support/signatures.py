"""The parameters that a user's function must have for how it is called: checked as it is loaded."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.support.user_code import find_code, find_signature

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallShape:
    """What a kind of function is called with.

    Attributes:
        what: The kind of function, for messages.
        parameters: The names of the arguments, in their order.
        optional: How many of the last ones it may do without.
    """

    what: str
    parameters: tuple[str, ...]
    optional: int = 0

    def check(self, function: Callable[..., Any]) -> None:
        """Checks that a function can be called so.

        Raises:
            DefinitionError: It cannot; the message has its file and line.
        """
        if not any(accepts(function, count) for count in self._counts):
            code = find_code(function)
            name = getattr(function, "__name__", code.co_name if code else type(function).__name__)
            file, line = (code.co_filename, code.co_firstlineno) if code else (None, None)
            has_self = code is not None and code.co_varnames[:1] == ("self",)
            raise DefinitionError(self._describe(name, has_self), file=file, line=line)

    def check_source(self, definition: Definition, file: Path) -> None:
        """The same for a function that has not been run yet, unless a decorator may change it.

        Raises:
            DefinitionError: It cannot be called so.
        """
        if definition.decorator_list:
            return
        if not any(_takes(definition.args, count) for count in self._counts):
            raise DefinitionError(
                self._describe(definition.name), file=file, line=definition.lineno
            )

    @property
    def _counts(self) -> range:
        count = len(self.parameters)
        return range(count - self.optional, count + 1)

    def _describe(self, name: str, has_self: bool = False) -> str:
        called = ", ".join(self.parameters)
        parameters = f"self, {called}" if has_self else called
        written = f"def {name}({parameters}):" if name.isidentifier() else f"lambda {called}: ..."
        return (
            f"the {self.what} {name!r} is called with ({called}), but cannot take them: write "
            f"`{written}`"
        )


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments, as far as its signature says."""
    signature = find_signature(function)
    if signature is None:
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def find_definition(tree: ast.Module, name: str) -> Definition | None:
    """The `def` of a module that alone gives a name its value; `None` if something else may."""
    named = [it for it in ast.walk(tree) if _binds(it, name)]
    only = named[0] if len(named) == 1 else None
    return only if isinstance(only, Definition) and only in tree.body else None


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name == name
        case ast.Name(id=found, ctx=ast.Store()):
            return found == name
        case ast.alias():
            return name in (node.asname, node.name) or node.name == "*"
        case ast.ExceptHandler(name=found) | ast.MatchAs(name=found) | ast.MatchStar(name=found):
            return found == name
        case ast.MatchMapping(rest=found):
            return found == name
    return False


def _takes(arguments: ast.arguments, count: int) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    least = positional - len(arguments.defaults)
    enough = count <= positional or arguments.vararg is not None
    return least <= count and enough and None not in arguments.kw_defaults
