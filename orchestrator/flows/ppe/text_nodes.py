"""What an author's text may have besides templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.flows.ppe.choices import Choice
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument


@dataclass(frozen=True, slots=True)
class Inline:
    """A call, or a regular expression, in a text.

    Attributes:
        kind: `script`, `instruction` or `regex`.
        place: Where it is.
        name: What is called, or the variable that is searched.
        written: How it is written.
        arguments: The call's arguments.
        pattern: The regular expression.
        flags: Its flags.
        group: Its group; empty for the first, or for the whole match.
        bare: Whether it has no brackets: then it may have been no expression.
    """

    kind: str
    place: Place
    name: str
    written: str
    arguments: Sequence[Argument] = ()
    pattern: str = ""
    flags: str = ""
    group: str = ""
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`[[VAR:...]]`: what the model says here.

    Attributes:
        place: Where it is.
        name: The variable.
        choice: What may be said, if not anything.
        parameters: Model parameters.
    """

    place: Place
    name: str
    choice: Choice | None
    parameters: Sequence[Argument]

    @property
    def list_name(self) -> str:
        """The variable with the list of what was chosen, where several may be; else empty."""
        several = self.choice is not None and self.choice.most > 1
        return f"{self.name}_list" if several else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that it sets."""
        return (self.name, self.list_name) if self.list_name else (self.name,)


@dataclass(frozen=True, slots=True)
class Bias:
    """`((text:20%))`: a text that the model shall say more often, less often, or never.

    Attributes:
        place: Where it is.
        text: The text.
        value: What is added to the logits of its tokens; `None` for never.
        shown: What of it stands in the message.
    """

    place: Place
    text: str
    value: float | None
    shown: str


@dataclass(frozen=True, slots=True)
class TextMatch:
    """What was found.

    Attributes:
        at: Where it begins.
        end: Where it ends.
        made: What it is; a text for what stands for itself.
    """

    at: int
    end: int
    made: Inline | Substitution | Bias | str
