"""The words that a name is made of."""

from __future__ import annotations

import re

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def part_camel_case(name: str) -> str:
    """A name with a blank before each word that begins with a capital: `send Reminder`."""
    return _CAMEL.sub(" ", name)
