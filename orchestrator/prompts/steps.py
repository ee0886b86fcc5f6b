"""A finished step of a turn as messages: the model's tidied reply and the results of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.message import Block, Message

if TYPE_CHECKING:
    from orchestrator.prompts.dialect import Dialect

# Stands for a blank text, which models refuse.
EMPTY = "(empty)"

_THINKING, _END_THINKING = "<thinking>", "</thinking>"
_SCRATCHPAD, _END_SCRATCHPAD = "<scratchpad>", "</scratchpad>"
_ANSWER, _END_ANSWER = "<answer>", "</answer>"
_CALLS = ("<function_calls>", "<function_call>", "<fnCall>")
_INVOKE, _END_INVOKE = "<invoke>", "</invoke>"


# Bedrock tidies a reply before the model sees it again (recorded): white space next to `<thinking>`
# and `<answer>` tags goes, and closing tags that stop sequences cut off are put back.
def tidy(text: str) -> str:
    """A reply's text as it is shown to the model again."""
    text = text.strip()
    if text.startswith(_THINKING) and text.endswith(_END_THINKING) and text.count("<") == 2:
        # The usual text before a call
        thought = text[10:-11]
        tidied = thought.strip()
        return text if tidied == thought else f"{_THINKING}{tidied}{_END_THINKING}"
    if _END_THINKING in text or _THINKING in text:
        text = _trim_around(_trim_around(text, _THINKING), _END_THINKING)
        end = text.find(_END_THINKING)
        if end >= 0 and _THINKING not in text[:end]:
            # The template's prefill wrote the opening tag, so the reply has only the closing one.
            text = _THINKING + text
    if "<f" in text:
        start, tag = max(zip(map(text.rfind, _CALLS), _CALLS, strict=True))
        if start > text.rfind(_ANSWER):
            return _close_calls(text, start, f"</{tag[1:]}")
    if _ANSWER in text:
        before, _, answer = text.rpartition(_ANSWER)
        answer, closed, after = answer.partition(_END_ANSWER)
        return f"{before.rstrip()}{_ANSWER}{answer.strip()}{_END_ANSWER}{after if closed else ''}"
    return text


def _trim_around(text: str, tag: str) -> str:
    return tag.join([piece.strip() for piece in text.split(tag)])


def _close_calls(text: str, start: int, end: str) -> str:
    if text.rfind(_INVOKE, start) > text.rfind(_END_INVOKE, start):
        text += "\n" + _END_INVOKE
    if text.find(end, start) >= 0:
        return text
    return f"{text}{end}" if end == "</function_call>" else f"{text}\n{end}"


def _keep_step(text: str) -> str:
    """The thinking and the calls of a tidy reply that calls in its text; other text is dropped.

    So the service shows a step to its model again (recorded).
    """
    thinking, rest = "", text
    for opening, closing in ((_THINKING, _END_THINKING), (_SCRATCHPAD, _END_SCRATCHPAD)):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            thinking, rest = text[start : end + len(closing)], text[end + len(closing) :]
            break
    found = [(at, tag) for tag in _CALLS if (at := rest.find(tag)) >= 0]
    if not found:
        return text
    start, tag = min(found)
    closing = f"</{tag[1:]}"
    end = rest.rfind(closing)
    calls = rest[start : end + len(closing)] if end > start else rest[start:]
    between = rest[:start] if thinking else ""
    if between.strip():
        between = "\n"
    return f"{thinking}{between}{calls}"


def text_blocks(content: Sequence[Block]) -> list[Block]:
    """A reply's text as one tidy block; no block when there is no text."""
    text = tidy("".join([block["text"] for block in content if "text" in block]))
    return [{"text": text}] if text else []


def step_messages(
    dialect: Dialect, content: list[Block], results: Sequence[Mapping[str, Any]]
) -> list[Message]:
    """One finished step of the loop, as messages of the scratchpad.

    Args:
        dialect: How the model reads results.
        content: The reply's content blocks.
        results: One a call: `id` (the tool-use id), `name` (the tool as the model named it),
            `text`, `error` (the model should mend it), and optionally `markup` (a partial made
            the text: its values are encoded already and its tags are meant).
    """
    if dialect.protocol == "tool_use":
        # Where a model's text may call, too, it is shown results encoded, as in dialects of tags.
        if dialect.parser != "tool_use":
            results = [*map(_encode, results)]
        assistant, user = _native_results(content, results)
    else:
        assistant = [{"text": _keep_step(one["text"])} for one in text_blocks(content)]
        user = [{"text": dialect.results_text(results)}]
    # Roles alternate even after an empty reply: Converse refuses two neighbours of one role.
    return [
        Message("assistant", assistant or [{"text": EMPTY}], "agent_scratchpad"),
        Message("user", user, "agent_scratchpad"),
    ]


def _encode(result: Mapping[str, Any]) -> Mapping[str, Any]:
    if result.get("markup"):
        return result
    from html import escape  # its table of entities is large

    return {**result, "text": escape(result["text"], quote=False)}


def _native_results(
    content: list[Block], results: Sequence[Mapping[str, Any]]
) -> tuple[list[Block], list[Block]]:
    """One step with native tool use: the assistant's blocks and the user's.

    Converse wants a result for every tool use and a tool use for every result: a tool use without
    a result is left out, and a result without a tool use becomes text.
    """
    answered, asked = [], []
    for result in results:
        answered.append(result["id"])
    assistant: list[Block] = []
    for block in content:
        if "text" in block:
            written = block["text"]
            if text := tidy(written):
                assistant.append(block if text == written else {"text": text})
            continue
        if "toolUse" in block:
            tool_use_id = block["toolUse"]["toolUseId"]
            if tool_use_id not in answered:
                continue
            asked.append(tool_use_id)
        assistant.append(block)
    if assistant == content:  # unchanged: one list less to keep in memory
        assistant = content
    if len(results) == 1:  # as in most steps: `append` would make room for four
        return assistant, [_result(results[0], asked)]
    return assistant, [_result(result, asked) for result in results]


def _result(result: Mapping[str, Any], asked: list[str]) -> Block:
    text = result["text"]
    if not text or text.isspace():
        text = EMPTY
    if result["id"] not in asked:
        return {"text": text}
    block: Block = {"toolUseId": result["id"], "content": [{"text": text}]}
    if result["error"]:
        block["status"] = "error"
    return {"toolResult": block}


def answer_blocks(content: Sequence[Block]) -> list[Block]:
    """The last reply of a turn for later turns: its text, and a question that it asked the user."""
    blocks = text_blocks(content)
    if not blocks or _ANSWER not in blocks[0]["text"]:
        for block in content:
            question = block.get("toolUse", {}).get("input", {}).get("question")
            if isinstance(question, str):
                blocks.append({"text": f"{_ANSWER}{question.strip()}{_END_ANSWER}"})
    return blocks or [{"text": _ANSWER + _END_ANSWER}]


def is_step(message: Mapping[str, Any]) -> bool:
    """Whether a message of the history is a step of a loop, and not a question or an answer."""
    if any("toolUse" in block or "toolResult" in block for block in message["content"]):
        # Native calls have no text whose origin could show it.
        return True
    return any(span.origin == "agent_scratchpad" for span in getattr(message, "spans", ()))


def to_plain_message(message: Mapping[str, Any]) -> Message:
    """A question or an answer of an earlier turn; an answer loses its thinking and its tags."""
    text = "".join([block["text"] for block in message["content"] if "text" in block])
    if message["role"] == "assistant":
        text = _extract_answer(text)
    return Message(message["role"], [{"text": text}])


def _extract_answer(text: str) -> str:
    _, opened, answer = text.rpartition(_ANSWER)
    if opened:
        return answer.partition(_END_ANSWER)[0].strip()
    for end in (_END_THINKING, _END_SCRATCHPAD):
        text = text.rpartition(end)[2]
    return text.strip()
