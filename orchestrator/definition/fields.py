"""What all parts of a definition have in common: spelling, strictness, texts and names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from orchestrator.actions.names import check_text
from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Source

# AWS: patterns of the API reference; what they refuse would be refused by CreateAgent.
AGENT_ID_PATTERN = r"^[0-9a-zA-Z]{10}$"
NAME_PATTERN = r"^([0-9a-zA-Z][_-]?){1,100}$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
VERSION_PATTERN = r"^(([0-9]{1,8})|(DRAFT))$"

State = Literal["ENABLED", "DISABLED"]

T = TypeVar("T")

# A list of `T` in a document; a tuple in Python, because a definition is a value.
Many = Annotated[tuple[T, ...], Field(strict=False)]


class Part(BaseModel):
    """A part of a definition: immutable, strict, without unknown members.

    Members are written as Bedrock writes them (`agentName`) or as Python does (`agent_name`), in
    any mixture. Values are not converted: a text stays a text and `3` is no text.

    Attributes:
        READ_ONLY: Members that Bedrock's own answers carry besides, which the loader drops.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # YAML reads `3` as a number; taken for a text it would hide a mistake until Bedrock sees
        # it.
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        # A definition may hold credentials, which no message repeats.
        hide_input_in_errors=True,
    )

    READ_ONLY: ClassVar[frozenset[str]] = frozenset()

    # A member that is null counts as left out, unless null is a value itself (no limit).
    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict) or None not in data.values():
            return data
        optional = [(name, field) for name, field in cls.model_fields.items() if not field.default]
        empty = {key for name, field in optional for key in (name, field.alias)}
        return {key: it for key, it in data.items() if it is not None or key not in empty}


class Document(Part):
    """A whole definition; it knows where it was read from."""

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        """Where the definition was read from; empty when it was made in Python."""
        return self._source


def mistake(message: str, *at: str | int) -> PydanticCustomError:
    """A validator's complaint about the member at `at`, counted from the validated value."""
    return PydanticCustomError("mistake", "{text}", {"text": message, "at": at})


def find_duplicate(names: Iterable[str]) -> tuple[int, str] | None:
    """The first name that was there before, and its index."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            return index, name
        seen.add(name)
    return None


def _check_readable(text: str) -> str:
    try:
        return check_text(text, "it")
    except DefinitionError as error:
        raise mistake(error.message) from None


# Bedrock's pattern of names; tool names are made of them, so it holds for local agents too.
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

# A text that a model will read; whoever reviews it must see all of it.
Text = Annotated[str, AfterValidator(_check_readable)]
