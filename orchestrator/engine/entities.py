"""Answers of small models that copy what was encoded for them: `R&amp;D` where `R&D` was found.

What a search finds stands in the prompt with `&`, `<` and `>` encoded, so that no text can look
like a part of the prompt. An entity of an answer is turned back where a found text has its
character, and the entity itself stands neither in one nor in the question, the instruction or a
prompt session attribute. (Earlier turns and results of actions are not looked at.) That is done
after the reply was parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.engine.state import Turn

_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
_ENTITY = re.compile(r"&(?:amp|lt|gt);")
# What may yet become one.
_BEGUN = re.compile(r"&[a-z]{0,3}$")


def find_copied(turn: Turn) -> Mapping[str, str]:
    """The entities that an answer of the turn can only have from the encoded results of searches.

    None in a team, whose agents read answers for tags, or with a loop of the user's own.
    """
    plan, start = turn.plan, turn.start
    if not turn.dialect.decodes_answers or not turn.sources or start.path:
        return {}
    if plan.collaborators or plan.features.orchestration is not None:
        return {}
    found = [it["content"].get("text") or "" for it in turn.sources.values()]
    written = [*found, turn.question, plan.instruction, *turn.prompt_attributes.values()]
    return {
        entity: character
        for entity, character in _ENTITIES.items()
        if any(character in text for text in found) and not any(entity in text for text in written)
    }


def decode_copied(text: str, entities: Mapping[str, str]) -> str:
    """A text with the characters in the place of these entities."""
    return _ENTITY.sub(lambda it: entities.get(it[0], it[0]), text) if entities else text


class DecodedStream:
    """The same for a text that comes piece by piece."""

    __slots__ = ("_entities", "_held")

    def __init__(self, entities: Mapping[str, str]) -> None:
        self._entities = entities
        self._held = ""

    def feed(self, piece: str) -> str:
        """Takes the next piece; what may be shown now."""
        text = self._held + piece
        begun = _BEGUN.search(text)
        end = begun.start() if begun else len(text)
        self._held = text[end:]
        return decode_copied(text[:end], self._entities)

    def finish(self) -> str:
        """The rest."""
        text, self._held = self._held, ""
        return text
