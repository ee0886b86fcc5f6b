"""A prompt as the service's traces have it: JSON whose contents are Java's `toString` (recorded).

Every white space is one space, and nothing says where a text ends: it is for the eye alone, and
for whoever compares traces with the service's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from orchestrator.message import Block, Message

_SPACE = re.compile(r"\s")
# The service's class of a result's content; all its members are written.
_RESULT = (
    "Content{{type=text, source=null, text={}, reasoningText=null, reasoningRedactedContent=null, "
    "reasoningTextSignature=null, id=null, name=null, input=null, toolUseId=null, content=null, "
    "isError=null, guardContent=null, imageSource=null}}"
)


def prompt_to_aws_text(system: str, messages: Iterable[Message], *, claude: bool) -> str:
    """A prompt's text; Claude's messages have Anthropic's members, others have Converse's."""
    render = _render_messages_block if claude else _to_java
    shown = [
        {
            "content": _SPACE.sub(" ", f"[{', '.join(map(render, message['content']))}]"),
            "role": message["role"],
        }
        for message in messages
    ]
    prompt = {"system": _SPACE.sub(" ", system), "messages": shown}
    return json.dumps(prompt, separators=(",", ":"))


def _render_messages_block(block: Block) -> str:
    if "text" in block:
        return f"{{text={block['text']}, type=text}}"
    if "toolUse" in block:
        use = block["toolUse"]
        values = _to_java(use["input"])
        return f"{{input={values}, name={use['name']}, id={use['toolUseId']}, type=tool_use}}"
    if "toolResult" in block:
        result = block["toolResult"]
        texts = (_RESULT.format(item.get("text")) for item in result["content"])
        named = f"tool_use_id={result['toolUseId']}"
        return f"{{{named}, type=tool_result, content=[{', '.join(texts)}]}}"
    return _to_java(block)


def _to_java(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}={_to_java(it)}' for name, it in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_java, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
