"""What the expressions of a Handlebars template come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.prompts.jinja import tag_origin
from orchestrator.prompts.languages.handlebars_helpers import HELPERS
from orchestrator.prompts.languages.handlebars_scanner import Call, Expression, Literal, Path
from orchestrator.prompts.languages.handlebars_scope import MISSING, Scope
from orchestrator.prompts.languages.semantic_kernel_source import Source
from orchestrator.prompts.languages.semantic_kernel_values import Caller, origin_of
from orchestrator.prompts.work import STEP, Work

__all__ = ["Evaluator"]


class Evaluator:
    """Looks values up, and calls helpers and functions, in one rendering."""

    __slots__ = ("_caller", "_helpers", "_scope", "_source", "_work")

    def __init__(self, source: Source, caller: Caller, scope: Scope, work: Work) -> None:
        """Begins a rendering.

        Args:
            source: The template.
            caller: Calls functions.
            scope: What names mean.
            work: Counts what is done.
        """
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
        """What an expression comes to; `None` where there is nothing of the name.

        Raises:
            TemplateError: A helper or a function is not there, or failed.
        """
        found = self._find_value(expression)
        return None if found is MISSING else found

    def evaluate_shown(self, expression: Expression) -> Any:
        """The same, of an expression that is shown: there must be something of the name.

        Raises:
            TemplateError: There is nothing.
        """
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
        """What a call gives: of a helper, or of a function.

        Raises:
            TemplateError: It is not there, or failed.
        """
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
