"""Lists that are told page by page."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import TypeVar

from orchestrator.errors import ValidationError

__all__ = ["page", "place_of", "token_for"]

T = TypeVar("T")

_DIGEST = 16


def page(
    items: Sequence[T], most: int, token: str | None, *, name: str
) -> tuple[Sequence[T], str | None]:
    """One page of a list.

    Args:
        items: The whole list.
        most: How many items a page has.
        token: The token of the page before; `None` for the first page.
        name: What the list is of: a token is good for no other list.

    Returns:
        The items, and the token of the next page, if there is one.

    Raises:
        ValidationError: The token is not of this list.
    """
    start = place_of(token, name)
    end = start + most
    return items[start:end], token_for(end, name) if end < len(items) else None


def token_for(place: int, name: str) -> str:
    """The token of the page that begins at a place of a list."""
    raw = hashlib.sha256(name.encode()).digest()[:_DIGEST] + str(place).encode()
    return base64.urlsafe_b64encode(raw).decode()


def place_of(token: str | None, name: str) -> int:
    """Where the page of a token begins; 0 without one.

    Raises:
        ValidationError: It is not a token of this list.
    """
    if token is None:
        return 0
    try:
        raw = base64.urlsafe_b64decode(token.encode())
    except (binascii.Error, ValueError):
        raw = b""
    place = raw[_DIGEST:]
    if raw[:_DIGEST] != hashlib.sha256(name.encode()).digest()[:_DIGEST] or not place.isdigit():
        raise ValidationError("the nextToken is not one of this list; leave it out to begin anew")
    return int(place)
