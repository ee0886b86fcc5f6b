"""Choices in `[[VAR:|a|b:2]]`: what may be chosen, how many, by whom, and what replies choose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from orchestrator.flows.expressions import QUOTED, parse_arguments
from orchestrator.flows.ppe.parameters import PARAMETERS
from orchestrator.flows.tree import Argument, ScriptError

_NAMES = ("type", "minPick", "maxPick", "separator", "prefix", "suffix")
_RANDOM = "random"
_BETWEEN = r"[\n,;，；、]|"


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be chosen."""

    # The items, in order; one that occurs twice is twice as likely to be drawn
    items: tuple[str, ...]
    most: int = 1  # how many may be chosen
    fewest: int = 1  # how many must be
    random: bool = False  # whether chance chooses, and not the model
    separator: str = ","  # what stands between several in the text
    prefix: str = ""  # what stands before each
    suffix: str = ""  # what stands behind each

    @property
    def picks(self) -> tuple[int, int]:
        """How many must be chosen, and how many may be."""
        return self.fewest, min(self.most, len(self.distinct_items))

    @property
    def distinct_items(self) -> list[str]:
        """The items, each once."""
        return list(dict.fromkeys(self.items))

    def draw(self, seed: int) -> list[str]:
        """Draws as many as may be: one, or from `fewest` to `most` without drawing one twice."""
        chance = Random(seed)
        count = chance.randint(self.fewest, min(self.most, len(self.distinct_items)))
        left, chosen = list(self.items), []
        for _ in range(count):
            chosen.append(chance.choice(left))
            left = [one for one in left if one != chosen[-1]]
        return chosen

    def text(self, chosen: Sequence[str]) -> str:
        """What was chosen, as the text that takes the substitution's place."""
        return self.separator.join(f"{self.prefix}{one}{self.suffix}" for one in chosen)

    def read(self, reply: str) -> list[str] | str:
        """What a reply chooses, or why it is wrong, as a text for the model."""
        parts = [reply]
        if self.most > 1:
            parts = self._exact(reply) or re.split(_BETWEEN + re.escape(self.separator), reply)
        found: list[str] = []
        for part in parts:
            if not part.strip():
                continue
            item = self._match_item(part)
            if item is None:
                return f"{part.strip()[:100]!r} is not one of them."
            if item not in found:
                found.append(item)
        if not self.fewest <= len(found) <= self.most:
            return f"That names {len(found)} of them."
        return found

    def _exact(self, reply: str) -> list[str]:
        """The items that a reply consists of, as they are written; empty when it does not."""
        known = sorted(self.distinct_items, key=len, reverse=True)
        found, at = [], 0
        between = re.compile(r"\s*(?:" + _BETWEEN + re.escape(self.separator) + r")\s*")
        while at < len(reply):
            item = next((one for one in known if reply.startswith(one, at)), None)
            if item is None:
                return []
            found.append(item)
            gap = between.match(reply, at + len(item))
            at = gap.end() if gap is not None else at + len(item)
            if gap is None and reply[at:].strip():
                return []
        return found

    def _match_item(self, part: str) -> str | None:
        """The one item that a text means: exactly, but for case and signs, or by having it."""
        known = self.distinct_items
        if part.strip() in known:
            return part.strip()
        plain = _plain(part)
        same = [one for one in known if _plain(one) == plain]
        if len(same) == 1:
            return same[0]
        inside = [one for one in known if _stands_in(one, part)]
        return inside[0] if len(inside) == 1 else None

    def instruction(self) -> str:
        """The instruction that the model gets."""
        count = "exactly one" if self.most == 1 else f"{self.fewest} to {self.most}"
        between = "" if self.most == 1 else f", with {self.separator!r} between them"
        listed = "\n".join(f"- {one}" for one in self.distinct_items)
        return (
            f"Choose {count} of these{between}:\n{listed}\n"
            "Reply with what you choose alone, exactly as it is written above."
        )


# Chinese and Japanese have no spaces between words: there each sign is a word.
_SIGN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_PLAIN_WORD = re.compile(rf"{_SIGN.pattern}|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_NEGATION = re.compile(r"[不没沒非未别別无無否勿]|ない|なく|ません")


def _stands_in(item: str, reply: str) -> bool:
    words = _plain(item)
    if not words or f" {words} " not in f" {_plain(reply)} ":
        return False
    # One sign may be a part of a longer word, and a negation says the opposite.
    return not _SIGN.search(item) or (" " in words and not _NEGATION.search(reply))


def _plain(text: str) -> str:
    return " ".join(_PLAIN_WORD.findall(text.casefold()))


def read_substitution(text: str) -> tuple[Choice | None, list[Argument]]:
    """What stands behind the colon of `[[VAR:...]]`: a choice, if any, and model parameters."""
    stripped = text.strip()
    if not stripped.startswith("|"):
        parameters = [_name_parameter(one) for one in parse_arguments(text, mixed=True)]
        if not all(one.name for one in parameters):
            raise ScriptError("a model parameter has a name: name=value", "模型参数须写作 名称=值")
        return None, parameters
    bars, *options = _split(stripped[1:], ":")
    items = tuple(_unquote(one) for one in _split(bars, "|"))
    settings: dict[str, object] = {}
    parameters = []
    for option in options:
        _take(option.strip(), settings, parameters)
    if not all(items):
        raise ScriptError("a choice has an empty item", "选项不能为空")
    most, fewest = settings.get("maxPick", 1), settings.get("minPick", 1)
    if not isinstance(most, int) or not isinstance(fewest, int) or not 1 <= fewest <= most:
        raise ScriptError(
            f"a choice of {fewest} to {most} items is none", f"不能选择 {fewest} 到 {most} 项"
        )
    if fewest > len(set(items)):
        there = len(set(items))
        raise ScriptError(
            f"a choice of {fewest} items has only {there}", f"须选 {fewest} 项，但只有 {there} 项"
        )
    kind = settings.get("type", "ai")
    if kind not in ("ai", _RANDOM):
        raise ScriptError(
            f"a choice has the type {kind!r}; it is 'ai' or 'random'",
            f"选择的 type 是 {kind!r}，应为 'ai' 或 'random'",
        )
    texts = {it: str(settings[it]) for it in ("separator", "prefix", "suffix") if it in settings}
    return Choice(items, most, fewest, kind == _RANDOM, **texts), parameters


def _name_parameter(argument: Argument) -> Argument:
    """`temperature` alone is `temperature=temperature`."""
    shorthand = not argument.name and argument.node.kind == "name"
    return Argument(argument.node.value, argument.node) if shorthand else argument


def _take(option: str, settings: dict[str, object], parameters: list[Argument]) -> None:
    """Takes one option: a count, a type, a separator in quotes, or `name=value`s."""
    for one in parse_arguments(option):
        if one.name and one.name not in _NAMES:
            parameters.append(one)
        elif one.node.kind == "name" and one.node.value in PARAMETERS:
            parameters.append(_name_parameter(one))
        elif one.node.kind in ("value", "text", "name"):
            usual = {"value": "maxPick", "text": "separator", "name": "type"}[one.node.kind]
            settings[one.name or usual] = one.node.value
        else:
            what = one.name or "an option"
            raise ScriptError(f"{what} of a choice is a constant", f"选择的 {what} 必须是常量")


def _split(text: str, sign: str) -> list[str]:
    """Splits at a sign that is not in quotes; quotes begin a part, or follow `=`."""
    parts: list[str] = []
    begins = at = 0
    fresh = True  # whether a quote here would begin a quoted text
    while at < len(text):
        quoted = QUOTED.match(text, at) if fresh and text[at] in "\"'" else None
        if quoted is not None:
            at, fresh = quoted.end(), False
            continue
        if text[at] == sign:
            parts.append(text[begins:at])
            begins, fresh = at + 1, True
        elif text[at] != " ":
            fresh = text[at] in "=|:,"
        at += 1
    return [*parts, text[begins:]]


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
