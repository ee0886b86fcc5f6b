"""What a turn has read of each id, and whether an answer tells of one what was read of another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from orchestrator.message import Message
from orchestrator.models.grounds import render_result
from orchestrator.support.content_words import find_content_words

_CLAUSE = re.compile(r"[,;:.!?]\s|\s(?:and|but|while|whereas|und|aber|während|et|mais|y|pero)\s")


class ReadById:
    """The results of a turn's calls, by the ids that the calls had."""

    def __init__(self, messages: Sequence[Message]) -> None:
        """Reads the last turn of a conversation."""
        self._words = {id: find_content_words(text, shortest=4) for id, text in _read(messages)}

    def swaps(self, sentence: str) -> bool:
        """Whether a clause about one id has words of another one's result, and none of its own."""
        if len(self._words) < 2:
            return False
        return any(map(self._is_of_another, _CLAUSE.split(sentence)))

    def _is_of_another(self, clause: str) -> bool:
        named = [
            id for id in self._words if re.search(rf"(?<![\w-]){re.escape(id)}(?![\w-])", clause)
        ]
        if len(named) != 1:
            return False
        own = self._words[named[0]]
        others = set[str]().union(*(words for id, words in self._words.items() if id != named[0]))
        words = find_content_words(clause, shortest=4)
        return bool(words & others - own) and not words & own - others


def _read(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Each id that a turn's calls had, with the text of all its results."""
    asked: dict[str, Mapping[str, object]] = {}
    results: dict[str, str] = {}
    for message in reversed(messages):
        blocks = message["content"]
        if message["role"] == "user" and not any("toolResult" in one for one in blocks):
            break
        for block in blocks:
            if "toolResult" in block:
                results[block["toolResult"]["toolUseId"]] = render_result(block)
            elif "toolUse" in block:
                asked[block["toolUse"]["toolUseId"]] = block["toolUse"]["input"]
    found: dict[str, str] = {}
    for use, values in asked.items():
        for value in values.values():
            if isinstance(value, str) and re.search(r"\d", value):
                found[value] = f"{found.get(value, '')}\n{results.get(use, '')}"
    return [*found.items()]
