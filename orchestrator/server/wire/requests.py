"""Reads an HTTP request as an operation's parameters, checked against its model.

The model says where a parameter lies (path, query, headers, body). All problems are reported at
once. Members of a body that the model does not know are ignored, as AWS does; a value of the wrong
kind is reported like any other that the model does not allow.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

from orchestrator.errors import ValidationError
from orchestrator.server.operations import Fault
from orchestrator.server.wire.shapes import get_read_walks, operation_model
from orchestrator.server.wire.values import NULL, Problems, Walk, walk_document
from orchestrator.support.safe_json import MOST_VALUES, TooManyValues, load_json

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MOST_FIELDS = 1000
_NOT_UTF8 = "The body is not UTF-8."


@cache
def get_request_reader(service: str, operation: str) -> RequestReader:
    """The reader of an operation's requests, compiled once."""
    return RequestReader(operation_model(service, operation))


class RequestReader:
    """Reads the requests of one operation."""

    def __init__(self, model: OperationModel) -> None:
        shape = model.input_shape
        members: Mapping[str, Shape] = shape.members if shape is not None else {}
        self._walks = get_read_walks(model.service_model.service_name)
        self._placed: dict[str, list[tuple[str, str, Shape, Walk]]] = {}
        for name, member in members.items():
            where = member.serialization.get("location")
            if where is not None:
                wire = member.serialization.get("name", name)
                walk = walk_document if _is_json(member) else self._walks.walk(member)
                result = (name, wire, member, walk)
                self._placed.setdefault(where, []).append(result)
        self._required = _find_required_params(shape)
        self._body = _build_body_reader(shape, self._walks) if shape is not None else _read_no_body

    def read(
        self, labels: Mapping[str, str], query: str, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        """The parameters of a request.

        Raises:
            Fault: `ValidationException` with all that is wrong, or `SerializationException` for a
                request that is no request at all.
        """
        problems = Problems()
        params: dict[str, Any] = {}
        for name, wire, shape, walk in self._placed.get("uri", ()):
            text = _unquote(labels[wire])
            params[name] = walk(_from_text(shape, text), (None, name), problems)
        if "querystring" in self._placed:
            self._read_query(query, params, problems)
        self._read_headers(headers, params, problems)
        for name in self._required:
            if name not in params:
                problems.add((None, name), NULL, None)
        params.update(self._body(body, problems))
        if problems:
            _refuse(problems)
        return params

    def _read_query(self, query: str, params: dict[str, Any], problems: Problems) -> None:
        fields: dict[str, list[str]] = {}
        for key, text in _parse_query(query):
            fields.setdefault(key, []).append(text)
        rest = None
        for name, wire, shape, walk in self._placed["querystring"]:
            value: Any
            if isinstance(shape, MapShape):
                rest = (name, shape, walk)
                continue
            values = fields.pop(wire, None)
            if values is None and not (name in self._required and isinstance(shape, ListShape)):
                continue
            # An empty list is not sent.
            values = values or []
            if isinstance(shape, ListShape):
                value = [_from_text(shape.member, each) for each in values]
            else:
                value = _from_text(shape, values[-1])
            params[name] = walk(value, (None, name), problems)
        if rest is not None and fields:
            name, shape, walk = rest
            many = isinstance(shape.value, ListShape)
            result = {key: values if many else values[-1] for key, values in fields.items()}
            params[name] = walk(result, (None, name), problems)

    def _read_headers(
        self, headers: Mapping[str, str], params: dict[str, Any], problems: Problems
    ) -> None:
        for name, wire, shape, walk in self._placed.get("header", ()):
            text = headers.get(wire.lower())
            if text is not None:
                params[name] = walk(_from_header(shape, text), (None, name), problems)
        for name, prefix, _, walk in self._placed.get("headers", ()):
            start = prefix.lower()
            found = {
                key[len(start) :]: text for key, text in headers.items() if key.startswith(start)
            }
            if found:
                params[name] = walk(found, (None, name), problems)


def _find_required_params(shape: StructureShape | None) -> tuple[str, ...]:
    """Required members that do not lie in the body, whose structure checks its own."""
    if shape is None:
        return ()
    payload = shape.serialization.get("payload")
    placed = {name for name, it in shape.members.items() if "location" in it.serialization}
    return tuple(n for n in shape.required_members if n in placed and n != payload)


_Body = Callable[[bytes, Problems], Mapping[str, Any]]


def _read_no_body(body: bytes, problems: Problems) -> Mapping[str, Any]:
    return {}


def _build_body_reader(shape: StructureShape, walks: Any) -> _Body:
    """What reads the body: a payload's raw bytes, one member's JSON, or the members' JSON."""
    payload = shape.serialization.get("payload")
    if payload is not None:
        return _build_payload_reader(shape, payload, walks)
    names = frozenset(n for n, it in shape.members.items() if "location" not in it.serialization)
    if not names:
        return _read_no_body
    structure = walks.structure(shape, names=names)

    def read(body: bytes, problems: Problems) -> Mapping[str, Any]:
        value = _parse_json(body) if body else {}
        if not isinstance(value, dict):
            raise Fault("SerializationException", "The body must be a JSON object.")
        read: Mapping[str, Any] = structure.walk(value, None, problems)
        return read

    return read


def _build_payload_reader(shape: StructureShape, name: str, walks: Any) -> _Body:
    member = shape.members[name]
    required = name in shape.required_members
    walk = walks.walk(member)

    def read(body: bytes, problems: Problems) -> Mapping[str, Any]:
        if not body:
            if required and member.type_name != "blob":
                problems.add((None, name), NULL, None)
            return {}
        if member.type_name == "blob":
            most = member.metadata.get("max")
            if most is not None and len(body) > most:
                wrong = f"Member must have length less than or equal to {most}"
                problems.add((None, name), wrong, limit=True)
            return {name: body}
        value = _decode_utf8(body) if member.type_name == "string" else _parse_json(body)
        return {name: walk(value, (None, name), problems)}

    return read


def _parse_json(body: bytes) -> Any:
    try:
        return load_json(body)
    except TooManyValues:
        wrong = f"The body has more than {MOST_VALUES:,} JSON values."
        raise Fault("SerializationException", wrong) from None
    except UnicodeDecodeError:
        raise Fault("SerializationException", _NOT_UTF8) from None
    except (ValueError, RecursionError):
        # The parser's own words quote the body.
        raise Fault("SerializationException", "The body is not valid JSON.") from None


def _decode_utf8(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise Fault("SerializationException", _NOT_UTF8) from None


def _unquote(text: str) -> str:
    if "%" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise Fault("SerializationException", "The address has a % that escapes nothing.")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Fault("SerializationException", "The address is not UTF-8.") from None


def _parse_query(query: str) -> list[tuple[str, str]]:
    if not query:
        return []
    if _BAD_ESCAPE.search(query):
        raise Fault("SerializationException", "The query string has a % that escapes nothing.")
    try:
        return parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        wrong = f"The query string is not UTF-8, or has over {_MOST_FIELDS} fields."
        raise Fault("SerializationException", wrong) from None


def _from_text(shape: Shape, text: str) -> Any:
    """A value from a path, a query or a header; what cannot be one stays text."""
    if shape.type_name in ("integer", "long"):
        return int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else text
    if shape.type_name in ("float", "double"):
        return _from_number(text)
    if shape.type_name == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if shape.type_name == "timestamp":
        number = _from_number(text)
        return number if isinstance(number, float) else text
    return text


def _from_number(text: str) -> Any:
    return float(text) if re.fullmatch(r"-?[\d.]{1,32}([eE][+-]?\d{1,3})?", text) else text


def _is_json(shape: Shape) -> bool:
    where = shape.serialization.get("location")
    return where == "header" and bool(shape.serialization.get("jsonvalue"))


def _from_header(shape: Shape, text: str) -> Any:
    if _is_json(shape):
        try:
            return _parse_json(b64decode(text, validate=True))
        except ValueError:
            raise Fault("SerializationException", "A header is not JSON in base64.") from None
    if isinstance(shape, ListShape):
        parts = _split_list(text) if shape.member.type_name == "string" else text.split(",")
        return [_from_text(shape.member, part.strip()) for part in parts]
    return _from_text(shape, text)


# Possessive, and matched from part to part: so that the time is linear in the header's length.
_PART = re.compile(r'\s*+(?:"((?:[^"\\]|\\.)*+)"|([^",]*+))\s*+(?:,|$)')


def _split_list(text: str) -> list[str]:
    """The parts of a list in a header; those with a comma are in quotes."""
    parts: list[str] = []
    at = 0
    while at < len(text) or not parts:
        found = _PART.match(text, at)
        if found is None:
            raise Fault("SerializationException", "A quote in a header's list is not closed.")
        parts.append(re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2])
        at = found.end()
    return parts


def _refuse(problems: Problems) -> NoReturn:
    fields = [{"name": it.place, "message": it.constraint} for it in problems.found]
    raise Fault("ValidationException", str(problems), fieldList=fields)


def read_members(
    service: str, operation: str, names: frozenset[str], fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Members as a boto3 caller would give them, checked against botocore's service model.

    Raises:
        ValidationError: A member is wrong.
    """
    problems = Problems()
    found: dict[str, Any] = _compile_walk(service, operation, names)(fields, None, problems)
    if problems:
        raise ValidationError(str(problems))
    return found


@cache
def _compile_walk(service: str, operation: str, names: frozenset[str]) -> Walk:
    shape: Any = operation_model(service, operation).input_shape
    return get_read_walks(service).structure(shape, names=names).walk
