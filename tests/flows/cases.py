"""The conformance cases beside the project: how they are read, and what holds of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator import FlowError

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden"

Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    """The cases of a file; none where it is absent."""
    file = GOLDEN / name
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def function(kind: Mapping[str, Any]) -> Any:
    def called(*args: Any, **kwargs: Any) -> Any:
        if "raise" in kind:
            raise RuntimeError(kind["raise"])
        return {"args": list(args), "kwargs": kwargs} if kind.get("echo") else kind["const"]

    return called


def as_data(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False))


def fits(value: Any, wanted: Any) -> bool:
    """Whether a value is the one that is wanted; see the cases' own page."""
    if isinstance(wanted, dict):
        if "$one_of" in wanted:
            return any(fits(value, one) for one in wanted["$one_of"])
        if "$contains" in wanted:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            return wanted["$contains"] in text
        return (
            isinstance(value, dict)
            and value.keys() == wanted.keys()
            and all(fits(value[key], one) for key, one in wanted.items())
        )
    if isinstance(wanted, list):
        return (
            isinstance(value, list) and len(value) == len(wanted) and all(map(fits, value, wanted))
        )
    return (
        type(value) is type(wanted) and value == wanted
        if isinstance(wanted, bool)
        else value == wanted
    )


def check_variables(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if value == {"$absent": True}:
            assert name not in found, name
        else:
            assert name in found, (name, found)
            assert fits(as_data(found[name]), value), (name, found[name], value)


def said(request: Any) -> list[tuple[str, str]]:
    """Who says what in a request, the system text first."""
    told = [("system", request.system)] if request.system else []
    for message in request.messages:
        text = ""
        for block in message["content"]:
            if "toolResult" in block:
                text += "".join(one.get("text", "") for one in block["toolResult"]["content"])
            text += block.get("text", "")
        told.append((message["role"], text))
    return told


def check_requests(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(found) == len(wanted), (len(found), len(wanted), [said(one) for one in found])
    for request, messages in zip(found, wanted, strict=True):
        if messages is not None:
            _check_request(said(request), messages)


def _check_request(found: list[tuple[str, str]], wanted: Sequence[Mapping[str, Any]]) -> None:
    exact = all("content" in one for one in wanted)
    if exact:
        last = len(wanted) - 1
        told = [
            (role, text.rstrip() if at == last and role == "assistant" else text)
            for at, (role, text) in enumerate(found)
        ]
        meant = [
            (
                one["role"],
                one["content"].rstrip()
                if at == last and one["role"] == "assistant"
                else one["content"],
            )
            for at, one in enumerate(wanted)
        ]
        assert told == meant
        return
    whole = "\n".join(text for _, text in found)
    for one in wanted:
        for text in _texts(one.get("excludes", ())):
            assert text not in whole, (text, found)
        assert any(_is_meant(role, text, one) for role, text in found), (one, found)


def _is_meant(role: str, text: str, one: Mapping[str, Any]) -> bool:
    if one["role"] not in ("any", role):
        return False
    if "content" in one:
        return bool(text == one["content"])
    return all(part in text for part in _texts(one.get("contains", ())))


def _texts(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def check_error(error: FlowError, wanted: Mapping[str, Any]) -> None:
    if "line" in wanted:
        lines = wanted["line"] if isinstance(wanted["line"], list) else [wanted["line"]]
        assert error.line in lines, (error.line, str(error))
    if "contains" in wanted:
        assert wanted["contains"].lower() in str(error).lower(), str(error)
