"""What a flavour of Semantic Kernel's templates renders with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.diagnostics import Diagnostic
from orchestrator.prompts.jinja import VALUE
from orchestrator.prompts.languages.message_tags import Hole, Markup
from orchestrator.prompts.languages.semantic_kernel_content import Filling
from orchestrator.prompts.languages.semantic_kernel_values import Caller

__all__ = ["Rendering", "TemplateEngine"]


@dataclass(frozen=True, slots=True)
class Rendering:
    """One rendering.

    Attributes:
        inputs: The inputs, with defaults.
        caller: Calls functions.
        trusted: The inputs and functions whose texts are read as the author's own, since the
            author says so (Semantic Kernel: `allow_dangerously_set_content`); `None` for all.
    """

    inputs: Mapping[str, Any]
    caller: Caller
    trusted: Collection[str] | None = ()

    def trusts(self, name: str) -> bool:
        """Whether the text of an input or a function is read as the author's own."""
        return self.trusted is None or name in self.trusted

    def trusts_texts_of(self, origin: str) -> bool:
        """Whether a text of this origin is: none that was calculated of what is not told."""
        return self.trusted is None or (origin != VALUE and origin in self.trusted)


class TemplateEngine(Protocol):
    """A template engine that Semantic Kernel has."""

    @property
    def names(self) -> Mapping[str, int]:
        """The template's inputs and where each is used first, in this order."""
        ...

    @property
    def calls(self) -> Mapping[str, int]:
        """The functions that it calls, and where each is called first."""
        ...

    @property
    def parts(self) -> Sequence[Markup | Hole] | None:
        """What it is made of, where that is known before it is rendered."""
        ...

    @property
    def straight(self) -> bool:
        """Whether it shows texts as they are, and asks of them only whether they are empty."""
        ...

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """What is doubtful about it."""
        ...

    def render(self, rendering: Rendering) -> tuple[Sequence[Markup | Hole], Sequence[Filling]]:
        """What a rendering is made of, and what its holes are filled with.

        Raises:
            TemplateError: It cannot be rendered, with its place.
            ValidationError: A value is no plain data.
        """
        ...
