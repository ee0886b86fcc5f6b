"""Lists that are told page by page."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from orchestrator.server.operations import Fault

T = TypeVar("T")

Page = tuple[list[T], str | None]
"""Some of a list, in its order, and the token that the next page is asked for with, if any."""

_MOST_RESULTS = 1000  # (Bedrock: MaxResults)


def paginate(
    items: Iterable[tuple[Sequence[Any], T]],
    max_results: int | None = None,
    next_token: str | None = None,
    scope: str = "",
) -> Page[T]:
    """Some of a list that is made as it is asked for; see `Documents.page`.

    Args:
        items: All of them, each with a key of texts and numbers; they are given by their keys'
            order, and no two keys are the same.
        max_results: How many; as many as a page may have when left out.
        next_token: Goes on after an earlier page of the same list.
        scope: Tells the list from others, to which its tokens do not belong.

    Raises:
        Fault: ValidationException, when the token is not one of this list's.
    """
    after = decode_token(next_token, scope)
    most = clamp_page_size(max_results)
    ordered = sorted(((list(key), it) for key, it in items), key=lambda pair: pair[0])
    try:
        found = [pair for pair in ordered if after is None or pair[0] > after]
    except TypeError as error:
        raise invalid_token_error() from error
    more = encode_token(found[most - 1][0], scope) if len(found) > most else None
    return [it for _, it in found[:most]], more


def clamp_page_size(asked: int | None) -> int:
    """How many results a page has: what was asked for, as far as it may be."""
    return _MOST_RESULTS if asked is None else max(1, min(asked, _MOST_RESULTS))


def encode_token(key: Sequence[Any], scope: str) -> str:
    """The token of the page after a key, in a list that its scope tells from others."""
    text = json.dumps([_hash_scope(scope), list(key)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str | None, scope: str) -> list[Any] | None:
    """The key of a token, of which nothing more is known; `None` without one.

    Raises:
        Fault: ValidationException, when the token is not one of this list's.
    """
    if token is None:
        return None
    try:
        told = json.loads(base64.urlsafe_b64decode(token.encode() + b"=="))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise invalid_token_error() from error
    if not isinstance(told, list) or len(told) != 2 or told[0] != _hash_scope(scope):
        raise invalid_token_error()
    if not isinstance(told[1], list):
        raise invalid_token_error()
    return told[1]


def decode_offset(token: str | None, scope: str) -> int:
    """The place in a list that is the one number of a token's key; 0 without one.

    Raises:
        Fault: ValidationException, when the token is not one of this list's.
    """
    match decode_token(token, scope):
        case None:
            return 0
        case [int(place)] if type(place) is int and place >= 0:
            return place
    raise invalid_token_error()


def _hash_scope(scope: str) -> str:
    return sha256(scope.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def invalid_token_error() -> Fault:
    """The error that says that a token is not one of a list's."""
    return Fault(
        "ValidationException",
        "the nextToken is not one that this list gave; ask for the first page without one",
    )
