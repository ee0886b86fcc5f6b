"""Which of a session's earlier turns a prompt has (Bedrock: `promptCreationConfigurations`).

What is made of a saying or a message for prompts is kept with the session and only added to, so
that a turn costs no more the longer its session is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from orchestrator.message import Block, Message
from orchestrator.prompts import Dialect
from orchestrator.prompts.steps import EMPTY, is_step
from orchestrator.sessions import Past, Said

T = TypeVar("T")

_THINKING, _END_THINKING = "<thinking>", "</thinking>"


def select_history(
    past: Past, upto: int, turns: int | None, *, thinking: bool
) -> Sequence[Message]:
    """The messages of the last `turns` turns for a prompt, of the first `upto` messages.

    Costs a walk over those messages. A message is freed of its thinking once in a session,
    and its encoding kept as any other's.
    """
    history = past.history
    since = _start_of(history, upto, turns, _is_question)
    if thinking:
        return history[since:upto]
    kept = past.cache.without_thinking
    known = len(kept)
    if known < upto:
        # One assignment, so that a trace that another thread reads meanwhile does no harm.
        kept[known:upto] = [_strip_thinking(one) for one in history[known:upto]]
    return kept[since:upto]


class Talk:
    """Who said what in a session before a turn.

    Attributes:
        turns: How many of the last turns the prompts have; `None` for all.
    """

    __slots__ = ("_past", "_upto", "turns")

    def __init__(self, past: Past, upto: int, turns: int | None) -> None:
        self._past = past
        self._upto = upto
        self.turns = turns

    def conversation(self, dialect: Dialect, last: Sequence[Said], turns: int | None = None) -> str:
        """Renders `$conversation$`: the last `turns` turns, and what was said in this one.

        A saying is rendered once in a session.
        """
        said, upto = self._past.talk, self._upto
        since = _start_of(said, upto, turns, lambda saying: saying[0] == "user")
        partial = dialect.find_item_partial("conversation", "turns")
        if partial is None:  # a custom template, which may render its turns in any way
            return dialect.partial("conversation", turns=_sayings([*said[since:upto], *last]))
        known = self._past.cache.rendered.setdefault(partial, [])
        first = len(known)
        if first < upto:
            known[first:upto] = [partial({"turns": _sayings([it])}) for it in said[first:upto]]
        return "".join([*known[since:upto], partial({"turns": _sayings(last)})])


def _sayings(said: Sequence[Said]) -> list[dict[str, str]]:
    return [{"role": role, "text": text} for role, text in said]


def _start_of(
    entries: Sequence[T], upto: int, turns: int | None, is_question: Callable[[T], bool]
) -> int:
    """Where the last `turns` turns of the first `upto` entries begin; 0 for all turns."""
    if turns is None:
        return 0
    at = upto
    while turns and at:
        at -= 1
        turns -= is_question(entries[at])
    return at


def _is_question(message: Message) -> bool:
    return message["role"] == "user" and not is_step(message)


def _strip_thinking(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    content = [made for block in message["content"] if (made := _without_thinking(block))]
    if content == message["content"]:
        return message
    origin = message.spans[0].origin if message.spans else ""
    return Message(message["role"], content or [{"text": EMPTY}], origin)


def _without_thinking(block: Block) -> Block | None:
    if "reasoningContent" in block:
        return None
    if _THINKING not in block.get("text", ""):
        return block
    text = block["text"]
    kept, at = [], 0
    while (start := text.find(_THINKING, at)) >= 0:
        end = text.find(_END_THINKING, start)
        if end < 0:  # nobody knows where it ends
            break
        kept.append(text[at:start])
        at = end + len(_END_THINKING)
    kept.append(text[at:])
    text = "".join(kept).strip()
    return {"text": text} if text else None
