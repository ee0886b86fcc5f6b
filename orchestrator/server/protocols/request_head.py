"""From the headers of an HTTP/2 request to the scope of an ASGI application."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

# (RFC 9110, section 5.6.2.) `h2` lets more pass.
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
# A path, as HTTP/1.1 has it: `*` and absolute addresses are for proxies.
_TARGET = re.compile(rb"/[\x21-\x7e]*")

Headers = list[tuple[bytes, bytes]]


class MalformedRequest(Exception):
    """Headers of a request that HTTP/1.1 could not have."""


def _read_head(headers: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], Headers]:
    # `h2` has seen to it that no name is in upper case and no header is about the connection.
    pseudo: dict[bytes, bytes] = {}
    rest: Headers = []
    for name, value in headers:
        if not _VALUE.fullmatch(value):
            raise MalformedRequest("a value has control characters")
        if name.startswith(b":"):
            pseudo[name] = value
        elif not _TOKEN.fullmatch(name):
            raise MalformedRequest("a name has characters of other kinds")
        else:
            rest.append((name, value))
    return pseudo, rest


def _check(pseudo: Mapping[bytes, bytes], rest: Headers, has_body: bool) -> None:
    method = pseudo.get(b":method", b"")
    if method == b"CONNECT" or not _TOKEN.fullmatch(method):
        raise MalformedRequest("a method of another kind")
    if pseudo.get(b":scheme") not in (b"http", b"https"):
        raise MalformedRequest("a scheme of another kind")
    if not _TARGET.fullmatch(pseudo.get(b":path", b"")):
        raise MalformedRequest("a target of another kind")
    lengths = [value for name, value in rest if name == b"content-length"]
    # `h2` compares the length with what comes, where something comes.
    if len(lengths) > 1 or (lengths and not has_body and int(lengths[0])):
        raise MalformedRequest("lengths that differ")


def build_scope(
    headers: Iterable[tuple[bytes, bytes]], common: Mapping[str, Any], *, has_body: bool
) -> dict[str, Any]:
    """The scope of a request; `common` is what all those of a connection have.

    What `:authority` says is the `host`, and there is no other one; `h2` has seen to it that the
    two do not differ.

    Raises:
        MalformedRequest: It is no request that HTTP/1.1 could be used for.
    """
    pseudo, rest = _read_head(headers)
    _check(pseudo, rest, has_body)
    authority = pseudo.get(b":authority")
    if authority is not None:
        rest = [(b"host", authority), *(one for one in rest if one[0] != b"host")]
    raw_path, _, query = pseudo[b":path"].partition(b"?")
    root: str = common["root_path"]
    return {
        **common,
        "type": "http",
        "http_version": "2",
        "method": pseudo[b":method"].decode("ascii"),
        "path": root + unquote(raw_path.decode("ascii")),
        "raw_path": root.encode("ascii") + raw_path,
        "query_string": query,
        "headers": rest,
        "state": dict(common["state"]),
    }


def build_response_headers(
    status: int, headers: Iterable[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """The headers of an answer.

    Raises:
        ValueError: One of them would be more than one, in HTTP/1.1; `h2` does not look.
    """
    lines = [(name.lower(), value) for name, value in headers]
    if not all(_TOKEN.fullmatch(name) and _VALUE.fullmatch(value) for name, value in lines):
        raise ValueError("a header of the answer has control characters")
    return [(b":status", str(status).encode()), *lines]
