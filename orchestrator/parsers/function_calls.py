"""Calls written as a function's, `verb::group::/path(a="x", b=1)`, and calls in `<fnCall>`.

A value is text: what stands between its quotes, or the text of a number, list or object. Commas,
equal signs and parentheses may stand in it, and so may quotes, escaped or not: a value ends at a
quote that the next parameter or the end of the call follows. Backslashes stay, unless the value's
quotes are escaped: then it is read as a JSON text.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from orchestrator.parsers.xml_calls import read_invoke
from orchestrator.support.safe_json import json_or

_WHITE = r"[ \t\r\n]{0,128}"
_PARAMETER = r"[^ \t\r\n=,:;\"'()\[\]{}<>]{1,256}"
_ARGUMENT = re.compile(rf"[ \t\r\n,]*({_PARAMETER}){_WHITE}={_WHITE}(?=(.?))", re.DOTALL)
_ENDS = rf"(?={_WHITE}(?:,{_WHITE}{_PARAMETER}{_WHITE}=|,?{_WHITE}\Z))"
_CLOSES = {quote: re.compile(rf"\\.|{quote}{_ENDS}", re.DOTALL) for quote in ('"', "'")}
_BARE_END = re.compile(rf",(?={_WHITE}{_PARAMETER}{_WHITE}=)|\Z")
_END = "</function_call>"
_NAME = re.compile(r"[^\s()<>\"']{1,512}")


class TextCall(NamedTuple):
    """A call as it was written."""

    name: str  # the tool name; empty when there is none
    values: dict[str, Any] | None  # the values by parameter name; `None` when they cannot be read
    notes: list[str]


def read_function(body: str) -> TextCall:
    """Reads `name(a="x", b=1)`; the parentheses may be missing or cut off."""
    body = body.strip()
    found = _NAME.match(body)
    if found is None:
        return TextCall("", None, [])
    name, rest = found[0], body[found.end() :].strip()
    if not rest:
        return TextCall(name, {}, [])
    if rest[0] != "(":
        return TextCall(name, None, [])
    values = _arguments(_inside(rest))
    if values is None and _END in rest:
        # The tag was taken for a part of a value whose last quote only looks escaped.
        values = _arguments(_inside(rest.partition(_END)[0]))
    return TextCall(name, values, [])


def _inside(rest: str) -> str:
    # What stands between the parentheses; the second may be cut off.
    return rest[1:].rstrip(" \t\r\n;").removesuffix(")")


def _arguments(text: str) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    text = text.strip()
    position = 0
    while position < len(text):
        found = _ARGUMENT.match(text, position)
        if found is None:
            return values if not text[position:].strip(" \t\r\n,") else None
        name, quote = found[1], found[2]
        if quote in _CLOSES:
            value, position = _read_quoted(text, found.end() + 1, quote)
            if value is None:
                return None
        else:
            end = _BARE_END.search(text, found.end())
            stop = end.start() if end else len(text)
            value, position = text[found.end() : stop].strip(), stop
        values[name] = value
    return values


def _read_quoted(text: str, start: int, quote: str) -> tuple[str | None, int]:
    # The value that the quote before `start` opens, and where it ends.
    escaped = False
    for found in _CLOSES[quote].finditer(text, start):
        if found[0] == quote:
            return _plain(text[start : found.start()], quote, escaped), found.end()
        escaped = escaped or found[0][1] == quote
    if text.endswith("\\" + quote) and len(text) - 1 > start:
        # A path that ends with a backslash: its quote only looks escaped.
        return text[start:-1], len(text)
    return None, start


def _plain(text: str, quote: str, escaped: bool) -> str:
    if not escaped:
        return text
    value = json_or(f'"{text}"', None) if quote == '"' else None
    return value if isinstance(value, str) else text.replace("\\" + quote, quote)


def read_fncall(body: str) -> list[TextCall]:
    """Reads what `<fnCall>` holds.

    That is a `<tool_name>` with `<parameters>` as in an `<invoke>`, JSON objects with `name` and
    `parameters` (or other usual names of these), or a function's call. Blank text is no call.
    """
    body = body.strip()
    if not body:
        return []
    if body[0] == "<":
        return [TextCall(*read_invoke("<invoke>", body))]
    if body[0] in "{[":
        value = json_or(body, None)
        calls = value if isinstance(value, list) else [value]
        return [_object(call) for call in calls]
    return [read_function(body)]


def _object(call: Any) -> TextCall:
    if not isinstance(call, dict):
        return TextCall("", None, [])
    if isinstance(call.get("function"), dict):
        call = call["function"]
    name = _first(call, ("name", "tool_name", "function_name", "function", "tool"), "")
    values = _first(call, ("parameters", "arguments", "input", "args"), {})
    if isinstance(values, str):
        values = json_or(values, None) if values.strip() else {}
    return TextCall(
        name.strip() if isinstance(name, str) else "",
        values if isinstance(values, dict) else None,
        [],
    )


def _first(call: dict[str, Any], names: tuple[str, ...], otherwise: Any) -> Any:
    return next((call[name] for name in names if call.get(name) is not None), otherwise)
