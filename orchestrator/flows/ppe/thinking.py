"""Thinking by request (`shouldThink`): a prompt asks for thoughts, which are cut out.

Models with built-in thinking have a setting for it; this is for all others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.flows.tree import ScriptError
from orchestrator.support.spelling import did_you_mean

THINKING = "THINKING"
"""The variable with the model's last thoughts."""

_MODES = ("off", "last", "first", "deep")
_MEMBERS = "mode visible depth steps thinkTag answerTag skipDefaultPrompt".split()
_THINK, _ANSWER = ("<Think>", "</Think>"), ("<Answer>", "</Answer>")


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model thinks."""

    mode: str  # `first`: thinks, then answers; `deep`: more of it; `last`: answers, then thinks
    visible: bool = True  # whether thoughts are shown while they stream
    most: int = 0  # how many steps it may think; 0 for any
    think: tuple[str, str] = _THINK  # what stands around thoughts
    answer: tuple[str, str] = _ANSWER  # what stands around the answer
    prompted: bool = True  # whether a prompt asks the model to think

    def instruction(self) -> str:
        """The instruction that the model gets."""
        (opens, closes), (begins, ends) = self.think, self.answer
        thoughts, answer = f"between {opens} and {closes}", f"between {begins} and {ends}"
        if self.mode == "last":
            return f"Write your answer {answer} first, and then why, {thoughts}."
        deep = self.mode == "deep"
        steps = f", in at most {self.most} steps" if self.most else ""
        how = "step by step, checking and revising each step" if deep else "it through"
        return f"Think {how}{steps}, {thoughts}. Then write your answer {answer}."

    def read(self, reply: str) -> tuple[str, str]:
        """The answer of a reply, and the thoughts; without its signs a reply is all answer."""
        thoughts, rest = _cut(reply, *self.think)
        answer, _ = _cut(rest, *self.answer)
        return (rest if answer is None else answer).strip(), (thoughts or "").strip()


def _cut(text: str, opens: str, closes: str) -> tuple[str | None, str]:
    """What stands between two signs, of which one may be missing, and the text without it."""
    begins, ends = _find(text, opens), _find(text, closes)
    if begins is None and ends is None:
        return None, text
    start, inner = begins or (0, 0)
    if ends is None or ends[0] < inner:
        ends = (len(text), len(text))
    return text[inner : ends[0]], text[:start] + text[ends[1] :]


def _find(text: str, sign: str) -> tuple[int, int] | None:
    found = re.search(re.escape(sign), text, re.I)
    return None if found is None else found.span()


def thinking_of(written: Any) -> Thinking | None:
    """What `shouldThink` means; `None` for no thinking."""
    if written is True:
        return Thinking("last")
    if written is None or written is False:
        return None
    settings: Mapping[str, Any] = written if isinstance(written, dict) else {"mode": written}
    for name in settings:
        if name not in _MEMBERS:
            raise ScriptError(
                f"'shouldThink' has no member {name!r}{did_you_mean(name, _MEMBERS)}",
                f"'shouldThink' 没有成员 {name!r}",
            )
    mode = str(settings.get("mode"))
    if mode not in _MODES:
        raise ScriptError(
            f"'shouldThink' is {mode!r}; it is one of {', '.join(_MODES)}",
            f"'shouldThink' 是 {mode!r}，应为 {', '.join(_MODES)} 之一",
        )
    if mode == "off":
        return None
    most = settings.get("steps", settings.get("depth", 0))
    return Thinking(
        mode,
        settings.get("visible") is not False,
        most if isinstance(most, int) else 0,
        _tag(settings.get("thinkTag"), _THINK),
        _tag(settings.get("answerTag"), _ANSWER),
        settings.get("skipDefaultPrompt") is not True,
    )


def _tag(written: Any, usual: tuple[str, str]) -> tuple[str, str]:
    if written is None:
        return usual
    if isinstance(written, list) and len(written) == 2 and all(map(str, written)):
        return str(written[0]), str(written[1])
    if isinstance(written, str) and written.isidentifier():
        return f"<{written}>", f"</{written}>"
    raise ScriptError(
        f"the tag {written!r} of 'shouldThink' is no name, and no list of two signs",
        f"'shouldThink' 的标签 {written!r} 既不是名称，也不是两个标记的列表",
    )
