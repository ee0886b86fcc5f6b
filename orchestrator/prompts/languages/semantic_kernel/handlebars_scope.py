"""What names mean in a Handlebars template: the contexts that its blocks are in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.prompts.jinja_pieces import tag_origin
from orchestrator.prompts.languages.semantic_kernel.engine import Caller
from orchestrator.prompts.languages.semantic_kernel.handlebars_grammar import (
    Call,
    Expression,
    Literal,
    Path,
)
from orchestrator.prompts.languages.semantic_kernel.helpers import HELPERS
from orchestrator.prompts.languages.semantic_kernel.values import origin_of
from orchestrator.prompts.source import Source
from orchestrator.prompts.work import STEP, Work

# What is at a path where nothing is.
MISSING = object()


@dataclass(slots=True)
class Context:
    """What names mean."""

    this: Any
    data: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)


class Scope:
    """Where names are looked up: the innermost context, and what the template has set."""

    __slots__ = ("_contexts", "_set")

    def __init__(self, inputs: dict[str, Any]) -> None:
        """Begins with the inputs."""
        self._contexts = [Context(inputs)]
        self._set: dict[str, Any] = {}

    @property
    def this(self) -> Any:
        """The innermost context."""
        return self._contexts[-1].this

    @property
    def inputs(self) -> dict[str, Any]:
        """The outermost context."""
        inputs: dict[str, Any] = self._contexts[0].this
        return inputs

    @contextmanager
    def inside(self, context: Context) -> Iterator[None]:
        """Looks names up in another context for a while."""
        self._contexts.append(context)
        try:
            yield
        finally:
            self._contexts.pop()

    def set(self, name: str, value: Any) -> None:
        """Gives a name a value, for the rest of the template."""
        self._set[name] = value
        if name in self.inputs:
            self.inputs[name] = value

    def look_up(self, path: Path) -> Any:
        """What is at a path, or `MISSING`."""
        if path.up >= len(self._contexts):
            return MISSING
        context = self._contexts[-1 - path.up]
        if path.data:
            data = {"root": self._contexts[0].this, **context.data}
            return _look_up_parts(data, path.parts) if path.parts else MISSING
        if not path.parts:
            return context.this
        first, *others = path.parts
        if first in context.names and not path.up:
            return _look_up_parts(context.names[first], others)
        found = _look_up_parts(context.this, (first,))
        if found is MISSING and not path.up:
            found = self._set.get(first, MISSING)
        if found is MISSING and first.startswith("$"):  # Semantic Kernel's own way to write it
            found = _look_up_parts(context.this, (first[1:],))
        return found if found is MISSING else _look_up_parts(found, others)


def _look_up_parts(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


class Evaluator:
    """Looks values up, and calls helpers and functions, in one rendering."""

    __slots__ = ("_caller", "_helpers", "_scope", "_source", "_work")

    def __init__(self, source: Source, caller: Caller, scope: Scope, work: Work) -> None:
        """Begins a rendering."""
        self._source = source
        self._caller = caller
        self._scope = scope
        self._work = work
        self._helpers: Mapping[str, Callable[[Call], Any]] = {
            "set": self._set,
            "get": self._get,
            "log": lambda call: None,
        }

    def evaluate(self, expression: Expression) -> Any:
        """What an expression comes to; `None` where there is nothing of the name."""
        found = self._find_value(expression)
        return None if found is MISSING else found

    def evaluate_shown(self, expression: Expression) -> Any:
        """The same, of an expression that is shown: there must be something of the name."""
        found = self._find_value(expression)
        if found is not MISSING or not isinstance(expression, Path):
            return None if found is MISSING else found
        further_out = expression.parts[:1] and expression.parts[0] in self._scope.inputs
        hint = f"; write ../{expression.text}, or @root.{expression.text}" if further_out else ""
        raise self._source.error(f"there is no {expression.text!r} here{hint}", expression.at)

    def _find_value(self, expression: Expression) -> Any:
        self._work.spend(STEP // 2)
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, Call):
            return self.call(expression)
        found = self._scope.look_up(expression)
        if found is not MISSING:
            return found
        name = expression.text
        if name in self._helpers or name in HELPERS or self._find_function(name) is not None:
            return self.call(Call(expression, (), {}, expression.at))
        return MISSING

    def call(self, call: Call) -> Any:
        """What a call gives: of a helper, or of a function."""
        self._work.spend(STEP)
        name = call.path.text
        if name in self._helpers:
            return self._helpers[name](call)
        given = [self._evaluate_argument(one) for one in call.given]
        if name in HELPERS:
            return self._call_helper(call, given)
        function = self._find_function(name)
        if function is not None or self._scope.look_up(call.path) is MISSING:
            arguments = {key: self._evaluate_argument(one) for key, one in call.named.items()}
            shown = function or name
            result = self._caller.call(shown, call.at, given, arguments)
            return tag_origin(result, origin_of(shown))
        if given or call.named:
            raise self._source.error(f"{name!r} is a value and takes no arguments", call.at)
        return self._scope.look_up(call.path)

    def _evaluate_argument(self, expression: Expression) -> Any:
        """What a helper or a function is given, and so looks at."""
        value = self.evaluate(expression)
        self._work.measure(value, data=False)
        return value

    def _call_helper(self, call: Call, given: Sequence[Any]) -> Any:
        name = call.path.text
        if call.named:
            raise self._source.error(f"{name!r} takes no arguments by name", call.at)
        try:
            made = HELPERS[name](*given)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._source.error(f"{name!r} failed: {error}", call.at) from None
        except ValidationError as error:
            raise self._source.error(f"{name!r} failed: {error.message}", call.at) from None
        self._work.spend(len(made) if isinstance(made, str | list) else 0)
        return made

    def _find_function(self, name: str) -> str | None:
        """The function that a name means: `plugin-function`, or as it was given."""
        dotted = name.replace("-", ".", 1)
        return next((it for it in (name, dotted) if self._caller.has(it)), None)

    def _set(self, call: Call) -> None:
        given = [self.evaluate(one) for one in call.given]
        if {"name", "value"} <= set(call.named):
            given = [self.evaluate(call.named["name"]), self.evaluate(call.named["value"])]
        if len(given) != 2 or not isinstance(given[0], str):
            raise self._source.error("set takes a name and a value: {{set 'name' value}}", call.at)
        self._scope.set(str(given[0]), given[1])

    def _get(self, call: Call) -> Any:
        name = str(self.evaluate(call.given[0])) if call.given else ""
        found = self._scope.look_up(Path((name,), 0, False, call.at, name))
        return "" if found is MISSING else found
