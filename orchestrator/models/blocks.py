"""A reply's content blocks, checked once where they come in."""

from __future__ import annotations

from typing import Any

from orchestrator.message import Block, clean
from orchestrator.support.safe_json import json_or

_SCALARS = (int, float, bool)


def normalise_blocks(content: Any) -> list[Block]:
    """The blocks of a reply that have Converse's shape, as all later code expects.

    Halves of surrogate pairs go; a tool call without an id, or with that of another, gets a new
    one; input that is JSON text becomes its value. A call whose name or input cannot be used stays,
    so that the parser reports it to the model; any other block of a wrong type is left out.
    """
    if type(content) is list:
        # Nearly every reply is right as it is: texts, and at most one call.
        called = False
        for block in content:
            if type(block) is not dict or len(block) != 1:
                break
            if "text" in block:
                text = block["text"]
                if type(text) is not str or not text.isascii():
                    break
            elif called or not _usual_call(block.get("toolUse")):
                break
            else:
                called = True
        else:
            return content
    return _repair_blocks(content)


def _repair_blocks(content: Any) -> list[Block]:
    blocks: list[Block] = []
    taken: set[str] = set()
    for block in content if isinstance(content, list | tuple) else ():
        if not isinstance(block, dict):
            continue
        if "toolUse" in block:
            blocks.append({"toolUse": _tool_use(clean(block["toolUse"]), taken)})
        elif "text" in block:
            text = block["text"]
            if isinstance(text, str):
                blocks.append(block if text.isascii() else clean(block))
        elif _fits(block):
            blocks.append(clean(block))
    return blocks


def _usual_call(use: Any) -> bool:
    if type(use) is not dict or len(use) != 3:
        return False
    try:
        id, name, values = use["toolUseId"], use["name"], use["input"]
    except KeyError:
        return False
    if not id or type(id) is not str or type(name) is not str or type(values) is not dict:
        return False
    if not name.isascii():
        return False
    for key, value in values.items():
        if type(key) is not str or not key.isascii():
            return False
        if not (value.isascii() if type(value) is str else type(value) in _SCALARS):
            return False
    return True


def _tool_use(use: Any, taken: set[str]) -> dict[str, Any]:
    use = use if isinstance(use, dict) else {}
    id, name, values = use.get("toolUseId"), use.get("name"), use.get("input")
    if not isinstance(id, str) or not id or id in taken:
        id = f"{id or 'call'}-{len(taken) + 1}"
    taken.add(id)
    if isinstance(values, str):
        values = _json(values)
    return {
        "toolUseId": id,
        "name": name if isinstance(name, str) else "",
        "input": {} if values is None else values,
    }


def _json(text: str) -> Any:
    # Some servers give the input as JSON text.
    try:
        return clean(json_or(text, text)) if text.strip() else {}
    except RecursionError:  # it could be read, but is too deep to be walked
        return text


def _fits(block: Block) -> bool:
    if not all(isinstance(value, dict) for value in block.values()):
        return False
    reasoning = block.get("reasoningContent", {}).get("reasoningText")
    return reasoning is None or (
        isinstance(reasoning, dict) and isinstance(reasoning.get("text"), str)
    )
