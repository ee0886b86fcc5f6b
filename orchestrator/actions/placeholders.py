"""Values that a definition does not hold itself: `${env:NAME}` and `${session:NAME}`."""

from __future__ import annotations

import os
import re

from orchestrator.actions.base import CallContext
from orchestrator.errors import AccessDenied, DefinitionError

_REFERENCE = re.compile(r"\$\{(?:(env|session):([A-Za-z_][A-Za-z0-9_.-]*)|[^}]*)\}")


class PlaceholderText:
    """A text with references, filled when it is needed, so that a definition holds no secret."""

    __slots__ = ("_literal", "_text", "_what", "is_secret")

    def __init__(
        self, what: str, text: str, *, session: bool = True, credential: bool = False
    ) -> None:
        """Reads the text, which messages call `what`; `session` allows `${session:NAME}`.

        `credential` says that the text is one even without a reference.
        """
        if not isinstance(text, str):
            raise DefinitionError(f"{what} must be a text, not {type(text).__name__}; quote it")
        if not text.isprintable():
            raise DefinitionError(f"{what} has a character that cannot be sent")
        for found in _REFERENCE.finditer(text):
            if found[1] is None or (found[1] == "session" and not session):
                kinds = "${env:NAME} and ${session:NAME}" if session else "${env:NAME}"
                raise DefinitionError(f"{what} has the reference {found[0]!r}; known: {kinds}")
        self._what = what
        self._text = text
        # A text with references may be a credential once it is filled.
        filled = _REFERENCE.search(text) is not None
        self._literal = text if credential and not filled else ""
        self.is_secret = filled or bool(self._literal)

    def fill(self, context: CallContext | None, resource: str) -> str:
        """The text with its values; `context` has the session attributes, `resource` is for errors.

        Raises:
            AccessDenied: A value is missing, or has characters that cannot be sent.
        """
        return _REFERENCE.sub(lambda found: self._value(found, context, resource), self._text)

    def credentials(self, context: CallContext | None, *, session: bool) -> list[str]:
        """The values that the text is filled with and that nobody else may read.

        `session` says whether session attributes are credentials here; else they may be what a
        result is about.
        """
        values = [
            self._value(found, context, "")
            for found in _REFERENCE.finditer(self._text)
            if session or found[1] == "env"
        ]
        # Of `Bearer x` the scheme is none.
        return [*values, *self._literal.split()[-1:]]

    def _value(self, found: re.Match[str], context: CallContext | None, resource: str) -> str:
        kind, name = found[1], found[2]
        if kind == "env":
            value, where = os.environ.get(name), f"the environment variable {name!r}"
        else:
            attributes = context.session_attributes if context is not None else {}
            value, where = attributes.get(name), f"the session attribute {name!r}"
        if not value:
            raise AccessDenied(f"{self._what} needs {where}, which is not set", resource=resource)
        # A line end in a header would begin another header.
        if not (value.isprintable() and value.isascii()):
            raise AccessDenied(
                f"{where} cannot be sent in {self._what}: it has a line end, or characters that "
                "are not ASCII",
                resource=resource,
            )
        return value
