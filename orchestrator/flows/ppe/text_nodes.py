"""What an author's text may have besides templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.flows.ppe.choices import Choice
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Argument


@dataclass(frozen=True, slots=True)
class Inline:
    """A call, or a regular expression, in a text."""

    kind: str  # `script`, `instruction` or `regex`
    place: Place  # where it is
    name: str  # what is called, or the variable that is searched
    written: str  # how it is written
    arguments: Sequence[Argument] = ()  # the call's arguments
    pattern: str = ""  # the regular expression
    flags: str = ""  # its flags
    group: str = ""  # its group; empty for the first, or for the whole match
    bare: bool = False  # whether it has no brackets: then it may have been no expression


@dataclass(frozen=True, slots=True)
class Substitution:
    """`[[VAR:...]]`: the model's text is put here."""

    place: Place  # where it is
    name: str  # the variable
    choice: Choice | None  # the only replies that are right; `None` for any
    parameters: Sequence[Argument]  # model parameters

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
    """`((text:20%))`: a text that the model shall say more often, less often, or never."""

    place: Place  # where it is
    text: str  # the text
    value: float | None  # what is added to the logits of its tokens; `None` for never
    shown: str  # what of it stands in the message


@dataclass(frozen=True, slots=True)
class TextMatch:
    """What was found."""

    at: int  # where it begins
    end: int  # where it ends
    made: Inline | Substitution | Bias | str  # what it is; a text for what stands for itself
