"""What of a session's earlier turns a prompt tells (Bedrock: `promptCreationConfigurations`)."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.message import Block, Message
from orchestrator.prompts.steps import EMPTY, is_step, origin_message
from orchestrator.sessions import Past

__all__ = ["told_of"]

_THINKING, _END_THINKING = "<thinking>", "</thinking>"


def told_of(past: Past, upto: int, turns: int | None, *, thinking: bool) -> Sequence[Message]:
    """The messages of earlier turns that a prompt tells.

    Costs a walk over the messages that are told. A message is freed of its thinking once in a
    session, and its encoding kept as any other's.

    Args:
        past: What happened before.
        upto: How many messages the history has before the turn.
        turns: How many of the last turns are told; `None` for all.
        thinking: Whether what the model thought in them is told, too.
    """
    history = past.history
    since = 0 if turns is None else _start_of(history, upto, turns)
    if thinking:
        return history[since:upto]
    known = len(past.without_thinking)
    if known < upto:
        # One assignment, so that a trace that another thread reads meanwhile does no harm.
        past.without_thinking[known:upto] = [_freed(one) for one in history[known:upto]]
    return past.without_thinking[since:upto]


def _start_of(history: Sequence[Message], upto: int, turns: int) -> int:
    at = upto
    while turns and at:
        at -= 1
        if history[at]["role"] == "user" and not is_step(history[at]):
            turns -= 1
    return at


def _freed(message: Message) -> Message:
    if message["role"] != "assistant":
        return message
    content = [made for block in message["content"] if (made := _without_thinking(block))]
    if content == message["content"]:
        return message
    origin = message.spans[0].origin if message.spans else ""
    return origin_message(message["role"], content or [{"text": EMPTY}], origin)


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
