"""The words that a name is made of."""

from __future__ import annotations

import re

_HTTP_VERB = re.compile(r"^(?:GET|PUT|POST|PATCH|DELETE|HEAD|OPTIONS)__(?=.+__)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def part_camel_case(name: str) -> str:
    """A name with a blank before each word that begins with a capital: `send Reminder`."""
    return _CAMEL.sub(" ", name)


def drop_http_verb(name: str) -> str:
    """A tool's name without its HTTP verb.

    The verb comes first in Bedrock's names (`POST__claims__sendReminder`), where a small model
    would have to choose it before it has thought of the function.
    """
    return _HTTP_VERB.sub("", name)
