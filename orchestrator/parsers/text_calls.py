"""Calls that a model writes as text: in XML, as a function's call, and in `<fnCall>`.

A value is text, and nothing in it is ever expanded. Markup inside a value of an XML call stays text
as it is (a nested `<item>` list, JSON, HTML); only the five XML entities, character references and
CDATA sections are decoded, by an XML parser that refuses document types. What is no XML (a bare `&`
or `<`) is taken literally.

In `verb::group::/path(a="x", b=1)` a value is what stands between its quotes, or the text of a
number, list or object. Commas, equal signs and parentheses may stand in it, and so may quotes,
escaped or not: a value ends at a quote that the next parameter or the end of the call follows.
Backslashes stay, unless the value's quotes are escaped: then it is read as a JSON text.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from orchestrator.support.safe_json import json_or

# Longest value that an XML parser gets to see; a longer one is decoded by hand.
_MOST_XML = 65_536
# Most `<` in such a value, which bounds its depth.
_MOST_TAGS = 512
# Elements without an end tag, after which the call counts as unreadable.
_MOST_UNCLOSED = 8

_FLAGS = re.IGNORECASE | re.ASCII
# These are only looked for ahead of every other element: behind one they may stand in its value.
_NAME = re.compile(
    r"[^<{]*<tool_name(?:[ \t\r\n][^<>]{0,256})?>([^<]*)(?:</tool_name[ \t\r\n]*>)?", _FLAGS
)
_NAME_ATTRIBUTE = re.compile(r"""[ \t\r\n]name\s{0,8}=\s{0,8}["']([^"'<>]*)["']""", _FLAGS)
_PARAMETERS = re.compile(r"([^<{]*)<parameters(?:[ \t\r\n][^<>]{0,256})?>", _FLAGS)
_NO_PARAMETERS = re.compile(r"<parameters[ \t\r\n]{0,8}/>", _FLAGS)
_PARAMETERS_END = "</parameters>"
_ELEMENT = re.compile(r"<([^\s<>/!?&]{1,256})((?:\s[^<>]{0,256})?)(/?)>")
_NO_DECLARATIONS = "a document type is not allowed in a call"
_DECLARATION = re.compile(r"<!(?:DOCTYPE|ENTITY)", _FLAGS)
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos);")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class TextCall(NamedTuple):
    """A call as it was written."""

    name: str  # the tool name; empty when there is none
    # The values by parameter name: texts, or what JSON holds where they were written as one JSON
    # object; `None` when they cannot be read.
    values: dict[str, Any] | None
    notes: list[str]


def read_invoke(tag: str, body: str) -> TextCall:
    """Reads an XML call.

    `tag` opened it: `<invoke>`, `<invoke name="...">` or `<__function=...>`; `body` ends before its
    end.
    """
    notes: list[str] = []
    name, rest = _tool_name(tag, body)
    if name and "<" not in rest:
        return TextCall(name, _read_bare(rest, notes), notes)
    opened = _PARAMETERS.match(rest)
    if opened is None:
        return TextCall(name, _read_elements(_NO_PARAMETERS.sub("", rest), notes), notes)
    outside, inner = opened[1], rest[opened.end() :]
    end = inner.rfind(_PARAMETERS_END)
    if end >= 0:
        outside += inner[end + len(_PARAMETERS_END) :]
        inner = inner[:end]
    if _DECLARATION.search(outside):
        return TextCall(name, None, [_NO_DECLARATIONS])
    return TextCall(name, _read_elements(inner, notes), notes)


def _tool_name(tag: str, body: str) -> tuple[str, str]:
    # The name, and what of the body may hold parameters.
    if tag[:3] == "<__":
        name = tag[1:-1].partition("=")[2].split(None, 1)
        return (name[0].strip("\"'") if name else ""), body
    found = _NAME.match(body)
    if found is not None:
        return decode(found[1]), body[found.end() :]
    attribute = _NAME_ATTRIBUTE.search(tag)
    return (decode(attribute[1]) if attribute else ""), body


def _read_bare(text: str, notes: list[str]) -> dict[str, Any] | None:
    # Parameters without any element: none, or one JSON object.
    text = text.strip()
    if not text:
        return {}
    if text[0] == "{":
        value = json_or(text, None)
        if isinstance(value, dict):
            notes.append("parameters were written as JSON")
            return value
    notes.append("text between the parameters was ignored")
    return {}


def _read_elements(text: str, notes: list[str]) -> dict[str, Any] | None:
    found = _ELEMENT.search(text)
    if found is None or text.lstrip()[:1] == "{":
        value = _read_bare(text, notes) if not _DECLARATION.search(text) else None
        if found is None or value:
            return value
    reader = _Elements(text)
    position = 0
    values: dict[str, Any] = {}
    while found is not None:
        if not reader.between(position, found.start()):
            notes.append(_NO_DECLARATIONS)
            return None
        key, tag = _read_key(found)
        if found[3]:
            raw, position = "", found.end()
        else:
            raw, position = reader.value(tag, found.end())
        if reader.unclosed > _MOST_UNCLOSED:
            return None
        if key in values and not notes:
            notes.append(f"the parameter {key!r} is given twice: the last one counts")
        values[key] = decode(raw)
        found = _ELEMENT.search(text, position)
    if not reader.between(position, len(text)):
        return None
    return values


def _read_key(found: re.Match[str]) -> tuple[str, str]:
    """The parameter's name, and the name of the element that holds it."""
    tag = found[1]
    if tag.startswith("__parameter="):
        return tag[12:], "__parameter"
    attribute = _NAME_ATTRIBUTE.search(found[2]) if tag == "parameter" else None
    return (attribute[1] if attribute else tag), tag


class _Elements:
    """Finds the ends of elements, looking at every character a bounded number of times."""

    __slots__ = ("_nested", "_sections", "_text", "unclosed")

    def __init__(self, text: str) -> None:
        self._text = text
        self._nested = self._sections = True
        self.unclosed = 0

    def between(self, start: int, end: int) -> bool:
        """Whether the text between two elements is harmless."""
        return "<!" not in self._text[start:end] or not _DECLARATION.search(self._text, start, end)

    def value(self, tag: str, start: int) -> tuple[str, int]:
        """The text of the element that was opened before `start`, and where the next may begin."""
        text, close = self._text, f"</{tag}>"
        end = text.find(close, self._after_cdata(start))
        if end < 0:
            return self._read_unclosed(start)
        if self._nested and text.find(f"<{tag}>", start, end) >= 0:
            end = self._outer_end(tag, start, end)
        return text[start:end], end + len(close)

    def _after_cdata(self, start: int) -> int:
        if not self._sections:
            return start
        if not self._text[start : start + 64].lstrip().startswith("<![CDATA["):
            return start
        end = self._text.find("]]>", start)
        self._sections = end >= 0
        return max(end, start)

    def _outer_end(self, tag: str, start: int, first: int) -> int:
        opening, close = f"<{tag}>", f"</{tag}>"
        end = first
        open_ones = self._text.count(opening, start, end)
        while open_ones:
            following = self._text.find(close, end + len(close))
            if following < 0:
                self._nested = False
                return first
            open_ones += self._text.count(opening, end, following) - 1
            end = following
        return end

    def _read_unclosed(self, start: int) -> tuple[str, int]:
        # Up to whatever end tag comes first, or to the end of the text.
        self.unclosed += 1
        text = self._text
        end = text.find("</", start)
        if end < 0:
            return text[start:], len(text)
        after = text.find(">", end)
        return text[start:end], after + 1 if after >= 0 else len(text)


def decode(raw: str) -> str:
    """The text of a value: trimmed, entities and CDATA sections decoded; nested markup stays."""
    raw = raw.strip()
    if "&" not in raw and "<!" not in raw:
        return raw  # nothing to decode, whatever markup it has
    if raw[0] in "[{" and json_or(raw, None) is not None:
        return raw
    if len(raw) <= _MOST_XML and raw.count("<") <= _MOST_TAGS:
        text = _xml_text(raw)
        if text is not None:
            return text
    return _ENTITY.sub(lambda found: _ENTITIES[found[1]], raw)


def _xml_text(raw: str) -> str | None:
    # The text when `raw` is well formed; nested elements stay as they are written.
    from defusedxml.ElementTree import fromstring

    try:
        element = fromstring(f"<v>{raw}</v>", forbid_dtd=True)
    except (ValueError, SyntaxError):  # what defusedxml forbids, and what is no XML
        return None
    return raw if len(element) else element.text or ""


_WHITE = r"[ \t\r\n]{0,128}"
_PARAMETER = r"[^ \t\r\n=,:;\"'()\[\]{}<>]{1,256}"
_ARGUMENT = re.compile(rf"[ \t\r\n,]*({_PARAMETER}){_WHITE}={_WHITE}(?=(.?))", re.DOTALL)
_ENDS = rf"(?={_WHITE}(?:,{_WHITE}{_PARAMETER}{_WHITE}=|,?{_WHITE}\Z))"
_CLOSES = {quote: re.compile(rf"\\.|{quote}{_ENDS}", re.DOTALL) for quote in ('"', "'")}
_BARE_END = re.compile(rf",(?={_WHITE}{_PARAMETER}{_WHITE}=)|\Z")
_END = "</function_call>"
_AFTER_CALL = " \t\r\n;"
_FUNCTION = re.compile(r"[^\s()<>\"']{1,512}")


def read_function(body: str, *, closed: bool = False) -> TextCall:
    """Reads `name(a="x", b=1)`; the parentheses may be missing.

    The end of the reply may cut off the second one. If the call is `closed` by a tag without it,
    the tag stood in a value: where that ends nobody knows, and what follows is no call.
    """
    body = body.strip()
    found = _FUNCTION.match(body)
    if found is None:
        return TextCall("", None, [])
    name, rest = found[0], body[found.end() :].strip()
    if not rest:
        return TextCall(name, {}, [])
    if rest[0] != "(" or (closed and not rest.rstrip(_AFTER_CALL).endswith(")")):
        return TextCall(name, None, [])
    values = _read_arguments(_inside(rest))
    if values is None and _END in rest:
        # The tag was taken for a part of a value whose last quote only looks escaped.
        values = _read_arguments(_inside(rest.partition(_END)[0]))
    return TextCall(name, values, [])


def _inside(rest: str) -> str:
    # What stands between the parentheses; the second may be cut off.
    return rest[1:].rstrip(_AFTER_CALL).removesuffix(")")


def _read_arguments(text: str) -> dict[str, Any] | None:
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
            return _unescape(text[start : found.start()], quote, escaped), found.end()
        escaped = escaped or found[0][1] == quote
    if text.endswith("\\" + quote) and len(text) - 1 > start:
        # A path that ends with a backslash: its quote only looks escaped.
        return text[start:-1], len(text)
    return None, start


def _unescape(text: str, quote: str, escaped: bool) -> str:
    if not escaped:
        return text
    value = json_or(f'"{text}"', None) if quote == '"' else None
    return value if isinstance(value, str) else text.replace("\\" + quote, quote)


def read_fncall(body: str, *, closed: bool = False) -> list[TextCall]:
    """Reads what `<fnCall>` holds.

    That is a `<tool_name>` with `<parameters>` as in an `<invoke>`, JSON objects with `name` and
    `parameters` (or other usual names of these), or a function's call. Blank text is no call.
    """
    body = body.strip()
    if not body:
        return []
    if body[0] == "<":
        return [read_invoke("<invoke>", body)]
    if body[0] in "{[":
        value = json_or(body, None)
        calls = value if isinstance(value, list) else [value]
        return [_read_object(call) for call in calls]
    return [read_function(body, closed=closed)]


def _read_object(call: Any) -> TextCall:
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
