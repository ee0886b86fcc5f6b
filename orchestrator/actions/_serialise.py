"""Arguments of an API operation as a path, a query, headers and a body (OpenAPI: `style`).

Every value is percent-encoded for its place, so that none can be more than one value. What cannot
be where it should be is a `SerialisationError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from orchestrator.actions.base import Call, Parameter
from orchestrator.actions.lambda_contract import value_text

_SEPARATOR = re.compile(r"[/\\;]")
# How often a path is decoded at most on its way, by proxies and by the server.
_DECODINGS = 3


class SerialisationError(Exception):
    """A value cannot be where it should be; the text is for the model."""


def path_of(call: Call) -> str:
    """The operation's path with its values, which may not change its segments."""
    path, names = call.operation.path, []
    for parameter in _iter_parameters(call, "path"):
        names.append(parameter.name)
        value = call.arguments[parameter.name]
        if parameter.style == "matrix" and parameter.explode:
            _check_keys(call, parameter, value)
        text = _path_text(parameter, value)
        if not text or _has_dot_segments(text):
            raise SerialisationError(
                f"The argument {parameter.name} may not be empty, '.' or '..', nor have such a "
                "part between slashes: it names one thing. Please correct it and try again."
            )
        path = path.replace(f"{{{parameter.name}}}", text)
    if len(names) > 1 and _has_dot_segments(path):
        raise SerialisationError(
            f"The arguments {', '.join(names)} may not make '.' or '..' together. Please correct "
            "them and try again."
        )
    return quote(path, safe="/%:@!$&'()*+,;=-._~")


def _has_dot_segments(path: str) -> bool:
    # Encoded, such a part is one value for us; some servers decode first, and then look for parts.
    for _ in range(_DECODINGS + 1):
        if any(part in (".", "..") for part in _SEPARATOR.split(path)):
            return True
        path = unquote(path)
    return False


def query_of(call: Call) -> str:
    """The query, without its question mark; an object may not write another parameter."""
    return "&".join(
        f"{name}={value}"
        for parameter in _iter_parameters(call, "query")
        for name, value in _query_pairs(call, parameter)
    )


def headers_of(call: Call) -> dict[str, str]:
    """The headers that are parameters; a value may have the characters of headers only."""
    headers = {}
    for parameter in _iter_parameters(call, "header"):
        text = _plain(parameter, call.arguments[parameter.name], str)
        if not (text.isprintable() and text.isascii()):
            raise SerialisationError(
                f"The argument {parameter.name} may have printable ASCII characters only. Please "
                "correct it and try again."
            )
        headers[parameter.name] = text
    return headers


def body_of(call: Call) -> bytes | None:
    """The request body in the operation's content type, or `None` for none."""
    operation = call.operation
    values = {one.name: call.arguments[one.name] for one in _iter_parameters(call, "body")}
    bodiless = operation.verb in ("GET", "HEAD", "OPTIONS", "DELETE")
    if not operation.content_type or (bodiless and not values):
        return None
    if operation.content_type == "application/json":
        return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")
    pairs = (
        f"{_percent_encode(name)}={_percent_encode(value_text(one))}"
        for name, value in values.items()
        for one in (value if isinstance(value, list) else [value])
    )
    return "&".join(pairs).encode()


def _iter_parameters(call: Call, location: str) -> Iterator[Parameter]:
    for parameter in call.operation.parameters:
        if parameter.location == location and parameter.name in call.arguments:
            yield parameter


def _percent_encode(value: Any) -> str:
    return quote(value_text(value), safe="", errors="replace")


def _path_text(parameter: Parameter, value: Any) -> str:
    if parameter.style == "label":
        return "." + _plain(parameter, value, _percent_encode, "." if parameter.explode else ",")
    if parameter.style != "matrix":
        return _plain(parameter, value, _percent_encode)
    name = _percent_encode(parameter.name)
    if parameter.explode and isinstance(value, Mapping):
        return "".join(f";{key}={one}" for key, one in _encode_pairs(value))
    if parameter.explode and isinstance(value, list):
        return "".join(f";{name}={_percent_encode(one)}" for one in value)
    return f";{name}={_plain(parameter, value, _percent_encode)}"


def _encode_pairs(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((_percent_encode(key), _percent_encode(one)) for key, one in value.items())


# The members of an exploded object become parameters of their own: one with the name of another
# parameter would replace its value, which was checked.
def _check_keys(call: Call, parameter: Parameter, value: Any) -> None:
    if not isinstance(value, Mapping):
        return
    others = {
        one.name.casefold()
        for one in call.operation.parameters
        if one.location == parameter.location and one is not parameter
    }
    for key in value:
        if str(key).casefold() in others:
            raise SerialisationError(
                f"The argument {parameter.name} may not have the member {key!r:.80}, which is an "
                "argument of its own. Please correct it and try again."
            )


def _plain(parameter: Parameter, value: Any, write: Any, between: str = ",") -> str:
    if parameter.style == "json":
        return str(write(json.dumps(value, ensure_ascii=write is not _percent_encode)))
    as_text = write if write is _percent_encode else value_text
    if isinstance(value, list):
        return between.join(as_text(one) for one in value)
    if isinstance(value, Mapping):
        equals = "=" if parameter.explode else between
        return between.join(f"{as_text(key)}{equals}{as_text(one)}" for key, one in value.items())
    return str(as_text(value))


_BETWEEN = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def _query_pairs(call: Call, parameter: Parameter) -> Iterator[tuple[str, str]]:
    value = call.arguments[parameter.name]
    name, between = _percent_encode(parameter.name), _BETWEEN.get(parameter.style, ",")
    explode = parameter.explode
    if explode is None:
        explode = parameter.style in ("", "form")
    if parameter.style == "json":
        yield name, _percent_encode(json.dumps(value, ensure_ascii=False))
    elif parameter.style == "deepObject" and isinstance(value, Mapping):
        yield from ((f"{name}[{key}]", one) for key, one in _encode_pairs(value))
    elif isinstance(value, list):
        if explode or parameter.style == "deepObject":
            yield from ((name, _percent_encode(one)) for one in value)
        else:
            yield name, between.join(map(_percent_encode, value))
    elif isinstance(value, Mapping):
        if explode:
            _check_keys(call, parameter, value)
            yield from _encode_pairs(value)
        else:
            yield name, between.join(part for pair in _encode_pairs(value) for part in pair)
    else:
        yield name, _percent_encode(value)
