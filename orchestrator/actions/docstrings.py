"""A docstring in Google's style: what it says of a function, and of each argument."""

from __future__ import annotations

import inspect
import re

__all__ = ["read_docstring"]

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Attributes|Examples?|Notes?|See Also|"
    r"Warnings?|Todo|References):\s*"
)
_ARGUMENTS = ("Args", "Arguments", "Parameters")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the description before the first section, and the arguments' descriptions."""
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    arguments: list[str] = []
    target: list[str] | None = description
    for line in lines:
        section = _SECTION.fullmatch(line)
        if section:
            target = arguments if section[1] in _ARGUMENTS else None
        elif target is arguments and line and not line.startswith((" ", "\t")):
            target = None
        elif target is not None:
            target.append(line)
    return _paragraphs(description), _arguments(arguments)


def _paragraphs(lines: list[str]) -> str:
    """The lines as prose: line breaks only between paragraphs."""
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n".join(" ".join(part.split()) for part in paragraphs if part.strip())


def _arguments(lines: list[str]) -> dict[str, str]:
    filled = [line for line in lines if line.strip()]
    if not filled:
        return {}
    margin = min(len(line) - len(line.lstrip()) for line in filled)
    found: dict[str, str] = {}
    name = ""
    for line in filled:
        start = _ARGUMENT.fullmatch(line[margin:])
        if start:
            name = start[1]
            found[name] = start[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
