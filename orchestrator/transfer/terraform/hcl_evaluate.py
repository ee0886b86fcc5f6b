"""The values of Terraform's expressions, as far as the sources alone tell them.

Nothing runs: references are followed, and functions of texts and lists are worked out, within a
bound of steps and of what they make. What cannot be known is an `Unknown`, never a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from orchestrator.errors import DefinitionError
from orchestrator.support.safe_json import json_or
from orchestrator.transfer.terraform.hcl import iter_nodes, name_of, unescape, unwrap
from orchestrator.transfer.terraform.hcl_functions import FUNCTIONS

_MOST_DEPTH = 90
_MOST_STEPS = 200_000
_MOST_MADE = 10_000_000  # characters and items
_SPLAT = 10  # what following a reference for one more item counts, as it takes longer
_MOST_PARTS = 200_000  # values in one list or mapping, inner ones too

Step = str | int | None
"""A step of a reference: a member, an index, or `None` for each of a list (`[*]`)."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that the sources do not tell."""

    what: str  # the reference or function, such as `aws_kms_key.main.arn`
    why: str = "is known only when applied"
    way: str = "change it in agent.yaml"
    fails: bool = False  # whether Terraform fails here, too, which `try` and `can` catch


class Handle(Protocol):
    """Something whose members are looked up one by one, such as a resource."""

    def get_member(self, name: str) -> Any:
        """The value of a member."""


class Scope(Protocol):
    """What names mean where an expression stands."""

    def look_up(self, root: str, steps: Sequence[Step]) -> tuple[Any, Sequence[Step]]:
        """The value that a reference begins with, and the steps that are left."""

    def call(self, name: str, arguments: list[Any]) -> Any:
        """What a function makes that needs files, or that is not known."""

    def assume(self, unknown: Unknown) -> str:
        """The text that stands for what is not known."""


@dataclass(slots=True)
class Budget:
    """What evaluating one project may take."""

    depth: int = 0
    steps: int = 0
    made: int = 0

    @contextmanager
    def nest(self) -> Iterator[None]:
        """One level of expressions in expressions, or of references to references."""
        self.depth += 1
        self.steps += 1
        try:
            if self.depth > _MOST_DEPTH:
                raise DefinitionError("values refer to each other without end, or too deeply")
            if self.steps > _MOST_STEPS:
                raise DefinitionError("the sources take too long to work out")
            yield
        finally:
            self.depth -= 1

    def count(self, value: Any) -> Any:
        """Counts what was made, which is returned."""
        self.spend(len(value) if isinstance(value, (str, list, dict)) else 1)
        return value

    def spend(self, count: int) -> None:
        """Counts characters and items that are made or looked at.

        Raises:
            DefinitionError: They are too many.
        """
        self.made += count
        if self.made > _MOST_MADE:
            raise DefinitionError("the sources' functions make too much: they are not an agent's")

    def measure(self, *values: Any) -> None:
        """Checks how much is in values: a list in lists, named again and again, is small to write.

        Raises:
            DefinitionError: It is too much.
        """
        waiting = [*values]
        count = size = 0
        while waiting:
            value = waiting.pop()
            count += 1
            if isinstance(value, str):
                size += len(value)
            elif isinstance(value, dict):
                waiting += value.values()
                size += sum(len(str(key)) for key in value)
            elif isinstance(value, list):
                waiting += value
            if count + len(waiting) > _MOST_PARTS or size > _MOST_MADE:
                raise DefinitionError("the sources make lists that are no agent's: too large")
        # Looking takes time, too, and may be asked for again and again.
        self.spend(count)


def find_unknown(value: Any) -> Unknown | None:
    """What is not known in a value, if anything."""
    if isinstance(value, Unknown):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for it in inner if (found := find_unknown(it)) is not None), None)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Works out expressions in one scope; `bindings` has the names of `for` and `dynamic`."""

    scope: Scope
    budget: Budget
    bindings: Mapping[str, Any] = field(default_factory=dict)

    def bind(self, **bindings: Any) -> Evaluator:
        """The same with further names."""
        return Evaluator(self.scope, self.budget, {**self.bindings, **bindings})

    def evaluate(self, node: Any) -> Any:
        """The value of a node of the parser's tree.

        Raises:
            DefinitionError: It refers to itself, or takes too long or too much.
        """
        with self.budget.nest():
            node = unwrap(node)
            name = name_of(node)
            function = _NODES.get(name)
            if function is None:
                return Unknown(f"this expression ({name})", "is not worked out here")
            return self.budget.count(function(self, node))

    def _evaluate_literal(self, node: Any) -> Any:
        return {"true": True, "false": False, "null": None}[str(node.children[0])]

    def _evaluate_number(self, node: Any) -> Any:
        text = str(node.children[0])
        number = json_or(text if len(text) < 40 else "", None)
        return number if isinstance(number, (int, float)) else Unknown(text[:40], "is no number")

    def _evaluate_string(self, node: Any) -> Any:
        parts = []
        for part in node.children[1:-1]:
            text = self._evaluate_part(part.children[0])
            if isinstance(text, Unknown):
                return text
            parts.append(text)
        # See `hcl_scan`: what begins with a line feed of the source (and no `\\n`) was a heredoc.
        if parts and str(node.children[1].children[0]).startswith("\n"):
            parts[0] = parts[0].removeprefix("\n")
        return self.budget.count("".join(parts))

    def _evaluate_part(self, part: Any) -> Any:
        match name_of(part):
            case "STRING_CHARS":
                return unescape(str(part))
            case "ESCAPED_INTERPOLATION" | "ESCAPED_DIRECTIVE":
                return unescape(str(part)[1:])
            case "interpolation":
                return self.to_text(self.evaluate(part.children[1]))
        return Unknown("a %{…} directive in a text", "is not worked out here")

    def to_text(self, value: Any) -> str | Unknown:
        """What a value is in a text."""
        if isinstance(value, Unknown):
            return self.scope.assume(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (str, int, float)):
            return str(value)
        return Unknown("a list or mapping in a text", "has no text")

    def _evaluate_tuple(self, node: Any) -> list[Any]:
        return [self.evaluate(it) for it in iter_nodes(node) if name_of(it) not in _BRACKETS]

    def _evaluate_object(self, node: Any) -> Any:
        members = {}
        for element in iter_nodes(node):
            if name_of(element) == "object_elem":
                key, _, value = iter_nodes(element)
                name = self._evaluate_key(key.children[0])
                if not isinstance(name, str):
                    return name if isinstance(name, Unknown) else Unknown("a key", "is no text")
                members[name] = self.evaluate(value)
        return members

    def _evaluate_key(self, node: Any) -> Any:
        # Terraform: a bare word is a text, in parentheses it is a reference.
        inner = node.children[0] if name_of(node) == "expr_term" else node
        if name_of(inner) in ("identifier", "keyword", "literal_value", "int_lit"):
            return str(inner.children[0])
        return self.to_text(self.evaluate(node))

    def _evaluate_reference(self, node: Any) -> Any:
        root, steps = self._flatten(node)
        if not isinstance(root, str):
            return follow(self.evaluate(root), steps, self.budget)
        if root in self.bindings:
            return follow(self.bindings[root], steps, self.budget)
        value, rest = self.scope.look_up(root, steps)
        return follow(value, rest, self.budget)

    def _flatten(self, node: Any) -> tuple[Any, list[Step]]:
        """The name or expression that a reference begins with, and its steps."""
        steps: list[Step] = []  # the last one first
        while True:
            with self.budget.nest():
                name = name_of(node)
                if name == "expr_term" and len(node.children) == 1:
                    node = node.children[0]
                elif name.endswith("_expr_term") and name in _NODES:
                    node, last = iter_nodes(node)
                    steps += reversed(self._read_steps(last))
                else:
                    root = str(node.children[0]) if name == "identifier" else node
                    return root, steps[::-1]

    def _read_steps(self, node: Any) -> list[Step]:
        match name_of(node):
            case "get_attr":
                inner = node.children[1]
                return [str(inner.children[0])]
            case "short_index":
                return [int(str(node.children[1])[:9])]
            case "braces_index":
                [inner] = [it for it in iter_nodes(node) if name_of(it) not in _BRACKETS]
                index = self.evaluate(inner)
                return [index if isinstance(index, (str, int)) else "?"]
        rest = [it for it in node.children if name_of(it) not in ("ATTR_SPLAT", "FULL_SPLAT_START")]
        return [None, *(step for it in rest for step in self._read_steps(it))]

    def _evaluate_call(self, node: Any) -> Any:
        parts = [it for it in iter_nodes(node) if name_of(it) in ("identifier", "arguments")]
        name = "::".join(str(it.children[0]) for it in parts if name_of(it) == "identifier")
        given = [it for part in parts if name_of(part) == "arguments" for it in iter_nodes(part)]
        if name in ("try", "can"):
            return self._attempt(name, given)
        arguments = [self.evaluate(it) for it in given if name_of(it) != "ELLIPSIS"]
        if any(name_of(it) == "ELLIPSIS" for it in given) and isinstance(arguments[-1], list):
            arguments = [*arguments[:-1], *arguments[-1]]
        return self._call(name, arguments)

    def _attempt(self, name: str, given: Sequence[Any]) -> Any:
        # `try`: the first that does not fail; `can`: whether there is one.
        found: Any = Unknown(f"{name}()", "has no arguments", fails=True)
        for it in given:
            found = self.evaluate(it)
            unknown = find_unknown(found)
            if unknown is None or not unknown.fails:
                return found if name == "try" else True
        return found if name == "try" else False

    def _call(self, name: str, arguments: list[Any]) -> Any:
        self.budget.measure(*arguments)
        if name in ("jsonencode", "yamlencode"):
            # YAML's texts are a superset of JSON's.
            return encode_json(self.fill(arguments[0] if arguments else None))
        function = FUNCTIONS.get(name)
        if function is None:
            return self.scope.call(name, arguments)
        missing = next((it for it in arguments if isinstance(it, Unknown)), None)
        if missing is not None:
            return missing
        try:
            return function(*arguments)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return Unknown(f"{name}(…)", "cannot be worked out from the sources", fails=True)

    def fill(self, value: Any) -> Any:
        """The value with texts for what is not known, as a document needs them."""
        if isinstance(value, Unknown):
            return self.scope.assume(value)
        if isinstance(value, dict):
            return {key: self.fill(it) for key, it in value.items()}
        if isinstance(value, list):
            return [self.fill(it) for it in value]
        plain = value is None or isinstance(value, (str, int, float))
        return value if plain else self.scope.assume(Unknown("a whole resource"))

    def _evaluate_conditional(self, node: Any) -> Any:
        condition, _, one, _, other = iter_nodes(node)
        chosen = self.evaluate(condition)
        if isinstance(chosen, Unknown):
            # Parts that depend on what is not known are kept, as CloudFormation's are.
            value = self.evaluate(one)
            return value if value not in (None, 0, "", []) else self.evaluate(other)
        return self.evaluate(one if is_true(chosen) else other)

    def _evaluate_unary(self, node: Any) -> Any:
        sign, operand = iter_nodes(node)
        value = self.evaluate(operand)
        if isinstance(value, Unknown):
            return value
        if str(sign) == "!":
            return not is_true(value)
        return -value if isinstance(value, (int, float)) else Unknown("-", "needs a number")

    def _evaluate_binary(self, node: Any) -> Any:
        left, term = iter_nodes(node)
        sign, right = iter_nodes(term)
        one, other = self.evaluate(left), self.evaluate(right)
        for value in (one, other):
            if isinstance(value, Unknown):
                return value
        self.budget.measure(one, other)
        try:
            return _OPERATORS[str(sign.children[0]).strip()](one, other)
        except (ArithmeticError, KeyError, TypeError):
            return Unknown("an expression", "cannot be worked out", fails=True)

    def _evaluate_for(self, node: Any) -> Any:
        parts = [it for it in iter_nodes(node) if hasattr(it, "data")]
        names = [str(it.children[0]) for it in parts[0].children if name_of(it) == "identifier"]
        source = next(it for it in reversed(parts[0].children) if hasattr(it, "data"))
        items = self.evaluate(source)
        condition = parts[-1] if name_of(parts[-1]) == "for_cond" else None
        bodies = [it for it in parts[1:] if it is not condition]
        if not isinstance(items, (list, dict)):
            return items if isinstance(items, Unknown) else Unknown("for", "needs a list")
        made = []
        for key, value in pair_items(items):
            own = self.bind(
                **dict(zip(names, (key, value) if names[1:] else (value,), strict=False))
            )
            if condition is None or is_true(own.evaluate(list(iter_nodes(condition))[1])):
                made.append([own.evaluate(it) for it in bodies])
        if name_of(node) == "for_object_expr":
            groups = any(name_of(it) == "ELLIPSIS" for it in iter_nodes(node))
            return _group_values(made) if groups else _build_object(made)
        return [value for [value] in made]


def _group_values(pairs: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """All values of each key, which `...` after the value asks for."""
    found: dict[str, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(str(key), []).append(value)
    return found


def _build_object(pairs: Sequence[Sequence[Any]]) -> dict[str, Any] | Unknown:
    found = {str(key): value for key, value in pairs}
    return found if len(found) == len(pairs) else Unknown("for", "gives a key twice", fails=True)


def pair_items(items: list[Any] | dict[str, Any]) -> list[tuple[Any, Any]]:
    """Keys and values of a mapping, or indexes and items of a list."""
    return list(items.items() if isinstance(items, dict) else enumerate(items))


def follow(value: Any, steps: Sequence[Step], budget: Budget) -> Any:
    """The value that steps lead to.

    Raises:
        DefinitionError: They lead to too many.
    """
    for number, step in enumerate(steps):
        if isinstance(value, Unknown):
            names = "".join(f".{it}" for it in steps[number:] if it is not None)
            return replace(value, what=value.what + names)
        if step is None:
            items = value if isinstance(value, list) else [] if value is None else [value]
            budget.spend(_SPLAT * len(items))
            return [follow(it, steps[number + 1 :], budget) for it in items]
        value = _take(value, step)
    return value


def _take(value: Any, step: str | int) -> Any:
    if isinstance(value, dict) and str(step) in value:
        return value[str(step)]
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        return value[step]
    if hasattr(value, "get_member") and isinstance(step, str):
        return value.get_member(step)
    return Unknown(str(step), "is not in what it is taken from", fails=True)


def is_true(value: Any) -> bool:
    """Whether a condition holds; of one that is not known, it does."""
    return value not in (False, "false")


def encode_json(value: Any) -> str:
    """Terraform's `jsonencode`."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check_number(value: Any) -> int | float:
    # Numbers that are multiplied again and again would grow without end.
    if isinstance(value, (int, float)) and abs(value) < 1e15:
        return value
    raise TypeError("no number")


_BRACKETS = ("LSQB", "RSQB")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    ">=": lambda one, other: one >= other,
    "&&": lambda one, other: is_true(one) and is_true(other),
    "||": lambda one, other: is_true(one) or is_true(other),
    "+": lambda one, other: _check_number(one) + _check_number(other),
    "-": lambda one, other: _check_number(one) - _check_number(other),
    "*": lambda one, other: _check_number(one) * _check_number(other),
    "/": lambda one, other: _check_number(one) / _check_number(other),
    "%": lambda one, other: _check_number(one) % _check_number(other),
}
_NODES: dict[str, Callable[[Evaluator, Any], Any]] = {
    "literal_value": Evaluator._evaluate_literal,
    "int_lit": Evaluator._evaluate_number,
    "float_lit": Evaluator._evaluate_number,
    "string": Evaluator._evaluate_string,
    "tuple": Evaluator._evaluate_tuple,
    "object": Evaluator._evaluate_object,
    "identifier": Evaluator._evaluate_reference,
    "get_attr_expr_term": Evaluator._evaluate_reference,
    "index_expr_term": Evaluator._evaluate_reference,
    "attr_splat_expr_term": Evaluator._evaluate_reference,
    "full_splat_expr_term": Evaluator._evaluate_reference,
    "function_call": Evaluator._evaluate_call,
    "conditional": Evaluator._evaluate_conditional,
    "unary_op": Evaluator._evaluate_unary,
    "binary_op": Evaluator._evaluate_binary,
    "for_tuple_expr": Evaluator._evaluate_for,
    "for_object_expr": Evaluator._evaluate_for,
}
