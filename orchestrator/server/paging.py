"""Lists that are told page by page."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from orchestrator.server.operations import Fault

__all__ = ["Page", "foreign", "key_of", "most_of", "paged", "place_of", "token_of"]

T = TypeVar("T")

Page = tuple[list[T], str | None]
"""Some of a list, in its order, and the token that the next page is asked for with, if any."""

_MOST_RESULTS = 1000  # (Bedrock: MaxResults)


def paged(
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
    after = key_of(next_token, scope)
    most = most_of(max_results)
    ordered = sorted(((list(key), it) for key, it in items), key=lambda pair: pair[0])
    try:
        found = [pair for pair in ordered if after is None or pair[0] > after]
    except TypeError as error:
        raise foreign() from error
    more = token_of(found[most - 1][0], scope) if len(found) > most else None
    return [it for _, it in found[:most]], more


def most_of(asked: int | None) -> int:
    """How many results a page has: what was asked for, as far as it may be."""
    return _MOST_RESULTS if asked is None else max(1, min(asked, _MOST_RESULTS))


def token_of(key: Sequence[Any], scope: str) -> str:
    """The token of the page after a key, in a list that its scope tells from others."""
    text = json.dumps([_scope(scope), list(key)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def key_of(token: str | None, scope: str) -> list[Any] | None:
    """The key of a token, of which nothing more is known; `None` without one.

    Raises:
        Fault: ValidationException, when the token is not one of this list's.
    """
    if token is None:
        return None
    try:
        told = json.loads(base64.urlsafe_b64decode(token.encode() + b"=="))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise foreign() from error
    if not isinstance(told, list) or len(told) != 2 or told[0] != _scope(scope):
        raise foreign()
    if not isinstance(told[1], list):
        raise foreign()
    return told[1]


def place_of(token: str | None, scope: str) -> int:
    """The place in a list that is the one number of a token's key; 0 without one.

    Raises:
        Fault: ValidationException, when the token is not one of this list's.
    """
    match key_of(token, scope):
        case None:
            return 0
        case [int(place)] if type(place) is int and place >= 0:
            return place
    raise foreign()


def _scope(scope: str) -> str:
    return sha256(scope.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def foreign() -> Fault:
    """The error that says that a token is not one of a list's."""
    return Fault(
        "ValidationException",
        "the nextToken is not one that this list gave; ask for the first page without one",
    )
