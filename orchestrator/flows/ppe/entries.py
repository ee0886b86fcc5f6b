"""The top level of a script: front matter, and then entries, which are no one YAML document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.flows.ppe.data import Source

__all__ = ["Entry", "entries", "split_front_matter"]

SEPARATOR = re.compile(r"(?:-{3,}|\*{3,})[ \t]*(?:#.*)?$")
"""A line, or an item of a list, that separates dialogues."""

_PARTS = re.compile(r"(?:then|else|do|as)[ \t]*:")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the body.

    Attributes:
        source: Its text.
        separator: Whether it separates dialogues.
    """

    source: Source
    separator: bool = False


def split_front_matter(text: str, file: str | None) -> tuple[Source | None, Source]:
    """The front matter, if the first line begins one, and the body.

    Raises:
        FlowError: It has no end.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return None, Source("\n".join(lines), 1, file)
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        whole = Source(text, 1, file)
        whole.fail(
            whole.place(0),
            "the front matter has no end; write --- below it",
            "front matter 没有结束，请在其下方写 ---",
        )
    front = Source("\n".join(lines[1:end]), 2, file)
    return front, Source("\n".join(lines[end + 1 :]), end + 2, file)


def entries(body: Source) -> Iterator[Entry]:
    """The entries of the body, in order."""
    lines = body.text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            at += 1
            continue
        if SEPARATOR.match(line):
            yield Entry(Source(line, body.first + at, body.file), True)
            at += 1
            continue
        end = at + 1
        while end < len(lines) and _goes_on(lines[end]):
            end += 1
        yield Entry(Source("\n".join(lines[at:end]), body.first + at, body.file))
        at = end


def _goes_on(line: str) -> bool:
    """Whether a line belongs to the entry before it."""
    return not line.strip() or line[0] in " \t" or _PARTS.match(line) is not None
