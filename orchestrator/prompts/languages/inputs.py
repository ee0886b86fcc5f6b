"""Inputs that a template reads and nobody gives, or that are given and it reads not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches

from orchestrator.diagnostics import Diagnostic
from orchestrator.prompts.languages.base import Document, Input
from orchestrator.prompts.source import Source, warn

# Findings of each kind: comparing names takes time, and callers may give any number of them.
_MOST = 100


def check_declared_inputs(document: Document) -> Iterator[Diagnostic]:
    """What is doubtful about the inputs that a template declares and reads.

    Only a template that declares inputs can have a wrong one; it may read others besides. Threads
    that it does not place come last, and so are used.
    """
    unread = [
        one for one in document.inputs if one.declared and not one.used and one.kind != "thread"
    ]
    names = [one.name for one in unread]
    for one in document.inputs[:_MOST]:
        if one.used and not one.declared and (close := _find_close(one.name, names)):
            message = f"the template reads {one.name!r}, which it does not declare"
            yield _warn(document, "undeclared-input", message, f"did you mean {close!r}?", one)
    for one in unread[:_MOST]:
        message = f"the template declares the input {one.name!r} and does not read it"
        yield _warn(document, "unused-input", message, "write it where it belongs")


def check_given_inputs(document: Document, given: Collection[str]) -> Iterator[Diagnostic]:
    """What is doubtful about the inputs that a rendering is given."""
    known = {one.name for one in document.inputs}
    missing = [
        one
        for one in document.inputs
        if one.used and one.name not in given and one.default is None and one.kind != "thread"
    ]
    for name in list(given)[:_MOST]:
        if name not in known:
            close = _find_close(name, [one.name for one in missing]) or _find_close(name, known)
            names = ", ".join(one.name for one in document.inputs[:20])
            others = f"it reads {names}" if names else "it has no inputs"
            instead = f"did you mean {close!r}?" if close else others
            yield _warn(document, "unknown-input", f"the template reads no {name!r}", instead)
    for one in missing[:_MOST]:
        message = f"nothing gives {one.name!r}, which is empty here"
        yield _warn(document, "missing-input", message, f"give {one.name}=...", one)


def _find_close(name: str, names: Collection[str]) -> str:
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.7)), "")


def _warn(
    document: Document, code: str, message: str, suggestion: str, at: Input | None = None
) -> Diagnostic:
    place = (at.line, at.column) if at is not None else ()
    return warn(code, message, suggestion, document.source, *place)


_TAG = re.compile(r"\{\{(?:(?!\{\{).)*?\}\}|\{%(?:(?!\{%).)*?%\}", re.DOTALL)
_WORD = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|(?<![.\w])[A-Za-z_]\w*")


def first_uses(text: str, names: Collection[str], line: int = 1) -> dict[str, tuple[int, int]]:
    """The line and column of each name's first use, in the order of these uses."""
    source = Source(text, line=line)
    found: dict[str, tuple[int, int]] = {}
    for tag in _TAG.finditer(text):
        for word in _WORD.finditer(tag[0]):
            if word[0] in names and word[0] not in found:
                found[word[0]] = source.place(tag.start() + word.start())
    return found
