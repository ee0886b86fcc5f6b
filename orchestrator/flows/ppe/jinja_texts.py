"""Templates of messages: Jinja2 that prints values as PPE does, with JavaScript's pure members."""

from __future__ import annotations

import json
from functools import cache, wraps
from typing import Any, cast

from jinja2 import Undefined

from orchestrator.flows.members import call_member, has_length, has_member
from orchestrator.flows.tree import ScriptError
from orchestrator.prompts.jinja import Jinja
from orchestrator.prompts.jinja_limits import get_work
from orchestrator.prompts.work import Refused


def value_text(value: Any) -> str:
    """What `{{ value }}` prints (PPE: the hf dialect's texts)."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(map(value_text, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _finalize(value: Any) -> str:
    """What a template prints; an item that a list does not have is a mistake, a name is not."""
    if isinstance(value, Undefined) and isinstance(value._undefined_obj, list):
        value._fail_with_undefined_error()
    return value_text(value)


def _to_json(value: Any, indent: int | None = None) -> str:
    get_work().measure(value)
    return json.dumps(value, ensure_ascii=False, indent=None if indent is None else min(indent, 8))


class _Member:
    """A pure member of a text or a list, before it is called."""

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self.name = name


class _PpeJinja(Jinja):
    """An environment in which texts and lists have the members that expressions know, too."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A member of data, Jinja2's own before JavaScript's."""
        if has_length(obj, attribute):
            return len(obj)
        value = super().getattr(obj, attribute)
        missing = isinstance(value, Undefined) and has_member(obj, attribute)
        return _Member(obj, attribute) if missing else value

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls what templates may call."""
        if not isinstance(__obj, _Member):
            return super().call(__context, __obj, *args, **kwargs)
        try:
            return call_member(__obj.value, __obj.name, args, get_work())
        except ScriptError as wrong:
            raise Refused(wrong.message) from None


@cache
def jinja() -> Jinja:
    """The environment of all templates."""
    made = _PpeJinja(_finalize, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["tojson"] = cast(Any, _to_json)
    joined = made.filters["join"]

    @wraps(joined)
    def with_commas(environment: Any, value: Any, d: str = ",", attribute: Any = None) -> Any:
        items = value if attribute is not None else map(value_text, value)
        return joined(environment, items, d, attribute)

    made.filters["join"] = cast(Any, with_commas)  # (PPE: as a list itself is printed)
    return made
