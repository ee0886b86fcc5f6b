"""The parser-Lambda object as a custom parser returns it: checked, and made one shape.

Both versions are read (AWS: "Write a custom parser Lambda function"): 1.0, whose members are
single objects, and 2.0, whose `actionGroupInvocations` and `agentKnowledgeBases` are lists. The
result has lists, and only members that mean something.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from orchestrator.message import clean
from orchestrator.parsers import codes
from orchestrator.parsers.base import MEMBERS, Parsed, build_response


class WrongShape(ValueError):
    """A member is missing or of a wrong type; the message names it, and no value."""


def read_response(returned: Any, stage: str) -> Parsed:
    """What a parser's object, or its JSON text, means for the stage that was asked about.

    Raises:
        WrongShape: It is not the object that the contract asks for.
    """
    top = _ResponseObject("", _plain(returned))
    notes = []
    if top.choice("messageVersion", ("1.0", "2.0"), "") == "":
        notes.append("the parser's object has no messageVersion")
    top.choice("promptType", (stage,), stage)
    result, code = _READERS[stage](top.inside(MEMBERS[stage]))
    if stage == "ROUTING_CLASSIFIER" and code:
        notes.append("the parser understood no choice: the model is to choose again")
    return Parsed(build_response(stage, result), code, tuple(notes))


def _plain(returned: Any) -> Any:
    # What Lambda can transfer, which is also what a journal can store.
    if isinstance(returned, (str, bytes, bytearray)):
        text: Any = returned
    else:
        try:
            text = json.dumps(returned, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise WrongShape("the object cannot become JSON") from None
    try:
        return clean(json.loads(text))
    except (ValueError, RecursionError):
        raise WrongShape("the text is no JSON object") from None


class _ResponseObject:
    """An object of the response, and where it is."""

    __slots__ = ("_path", "_value")

    def __init__(self, path: str, value: Any) -> None:
        if not isinstance(value, dict):
            what = f"{path!r}" if path else "what the parser returns"
            raise WrongShape(f"{what} must be an object, not {_kind(value)}")
        self._path = path
        self._value: dict[str, Any] = value

    def has(self, name: str) -> bool:
        """Whether a member is there and is not null."""
        return self._value.get(name) is not None

    def get(self, name: str) -> Any:
        return self._value.get(name)

    def items(self) -> Iterator[tuple[str, Any]]:
        return iter(self._value.items())

    def wrong(self, name: str, wanted: str) -> WrongShape:
        path = f"{self._path}.{name}" if self._path else name
        if not self.has(name):
            return WrongShape(f"{path!r} is missing: it must be {wanted}")
        return WrongShape(f"{path!r} must be {wanted}, not {_kind(self._value[name])}")

    def text(self, name: str, otherwise: str | None = None) -> str:
        """A text; one without `otherwise` must be there and not blank."""
        value = self._value.get(name)
        if value is None and otherwise is not None:
            return otherwise
        if not isinstance(value, str) or (otherwise is None and not value.strip()):
            raise self.wrong(name, "a text")
        return value

    def choice(self, name: str, values: tuple[str, ...], otherwise: str | None = None) -> str:
        value = self._value.get(name)
        if value is None and otherwise is not None:
            return otherwise
        if value not in values:
            raise self.wrong(name, " or ".join(map(repr, values)))
        return str(value)

    def flag(self, name: str) -> bool:
        value = self._value.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def inside(self, name: str) -> _ResponseObject:
        if not isinstance(self._value.get(name), dict):
            raise self.wrong(name, "an object")
        return _ResponseObject(f"{self._path}.{name}" if self._path else name, self._value[name])

    def each(self, name: str) -> list[_ResponseObject]:
        value = self._value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        return [
            _ResponseObject(f"{self._path}.{name}[{index}]", one) for index, one in enumerate(value)
        ]

    def all(self, name: str) -> list[_ResponseObject]:
        """The objects of a member that is single in version 1.0 and a list in version 2.0."""
        return self.each(name + "s") or ([self.inside(name)] if self.has(name) else [])


def _kind(value: Any) -> str:
    if value is None or value == []:
        return "an empty list" if value == [] else "null"
    return {"dict": "an object", "list": "a list", "str": "this text"}.get(
        type(value).__name__, f"a {type(value).__name__}"
    )


def _read_orchestration(member: _ResponseObject) -> tuple[dict[str, Any], str]:
    result: dict[str, Any] = {"rationale": member.text("rationale", "")}
    if member.get("parsingErrorDetails"):
        reprompt = member.inside("parsingErrorDetails").text("repromptResponse")
        result["parsingErrorDetails"] = {"repromptResponse": reprompt}
        return result, codes.CUSTOM_PARSER
    details = member.inside("responseDetails")
    # The code interpreter's calls are an action group's, here as in the engine.
    kind = details.choice("invocationType", (*_KINDS, "ACTION_GROUP_CODE_INTERPRETER"))
    kind = "ACTION_GROUP" if kind == "ACTION_GROUP_CODE_INTERPRETER" else kind
    found: dict[str, Any] = {"invocationType": kind}
    for name, (one, read, several) in _KINDS.items():
        objects = details.all(one) if several else []
        if not several and (name == kind or details.has(one)):
            found[one] = read(details.inside(one))
        elif objects:
            found[one + "s"] = [read(it) for it in objects]
        elif several and name == kind:
            raise details.wrong(one + "s", "a list with at least one object")
    result["responseDetails"] = found
    return result, ""


def _read_id(one: _ResponseObject) -> dict[str, str]:
    return {"id": one.text("id")} if one.has("id") else {}


def _read_action(one: _ResponseObject) -> dict[str, Any]:
    action: dict[str, Any] = {"actionGroupName": one.text("actionGroupName")}
    if one.has("apiName") or not one.has("functionName"):
        action["verb"] = one.text("verb").upper()
        action["apiName"] = one.text("apiName")
    else:
        action["functionName"] = one.text("functionName")
    action |= _read_id(one)
    values = one.inside("actionGroupInput").items() if one.has("actionGroupInput") else ()
    action["actionGroupInput"] = {name: _read_value(value) for name, value in values}
    return action


def _read_value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value.keys() == {"value"}:
        return value
    return {"value": value}


def _read_search(one: _ResponseObject) -> dict[str, Any]:
    query = one.get("searchQuery")
    if not isinstance(query, str):
        query = one.inside("searchQuery").text("value")
    return {
        "knowledgeBaseId": one.text("knowledgeBaseId"),
        **_read_id(one),
        "searchQuery": {"value": query},
    }


def _read_question(one: _ResponseObject) -> dict[str, Any]:
    return {"responseText": one.text("responseText"), **_read_id(one)}


def _read_collaborator(one: _ResponseObject) -> dict[str, Any]:
    return {
        "agentCollaboratorName": one.text("agentCollaboratorName"),
        **_read_id(one),
        "input": {"text": one.inside("input").text("text")},
    }


def _read_final(one: _ResponseObject) -> dict[str, Any]:
    final: dict[str, Any] = {"responseText": one.text("responseText", "")}
    if not one.has("responseText"):
        raise one.wrong("responseText", "a text")
    if one.get("citations"):
        final["citations"] = _read_generated(one.inside("citations"))
    return final


def _read_generated(one: _ResponseObject) -> dict[str, Any]:
    parts = [
        {
            "text": part.text("text", ""),
            "references": [{"sourceId": it.text("sourceId")} for it in part.each("references")],
        }
        for part in one.each("generatedResponseParts")
    ]
    return {"generatedResponseParts": parts}


# The invocation types: the member of each, how it is read, and whether version 2.0 has a list.
_KINDS: dict[str, tuple[str, Callable[[_ResponseObject], dict[str, Any]], bool]] = {
    "ASK_USER": ("agentAskUser", _read_question, False),
    "AGENT_COLLABORATOR": ("agentCollaboratorInvocation", _read_collaborator, True),
    "KNOWLEDGE_BASE": ("agentKnowledgeBase", _read_search, True),
    "ACTION_GROUP": ("actionGroupInvocation", _read_action, True),
    "FINISH": ("agentFinalResponse", _read_final, False),
}


def _read_pre_processing(member: _ResponseObject) -> tuple[dict[str, Any], str]:
    result = {
        "isValidInput": member.flag("isValidInput"),
        "rationale": member.text("rationale", ""),
    }
    return result, ""


def _read_routing(member: _ResponseObject) -> tuple[dict[str, Any], str]:
    if member.get("parsingErrorDetails"):
        reprompt = member.inside("parsingErrorDetails").text("repromptResponse")
        result: dict[str, Any] = {"parsingErrorDetails": {"repromptResponse": reprompt}}
        return result | {"responseDetails": {"type": "UNDECIDED"}}, codes.CUSTOM_PARSER
    details = member.inside("responseDetails")
    kind = details.choice("type", ("AGENT", "LAST_AGENT", "UNDECIDED"))
    found: dict[str, Any] = {"type": kind}
    if kind == "AGENT":
        one = details.inside("agentCollaboratorInvocation")
        found["agentCollaboratorInvocation"] = {
            "agentCollaboratorName": one.text("agentCollaboratorName")
        }
        if one.has("input") and (text := one.inside("input").text("text", "")):
            found["agentCollaboratorInvocation"]["input"] = {"text": text}
    return {"responseDetails": found}, ""


def _read_knowledge_base(member: _ResponseObject) -> tuple[dict[str, Any], str]:
    generated = _read_generated(member.inside("generatedResponse"))
    code = "" if generated["generatedResponseParts"] else codes.EMPTY
    return {"generatedResponse": generated}, code


def _read_post_processing(member: _ResponseObject) -> tuple[dict[str, Any], str]:
    final = _read_final(member)
    return final, "" if final["responseText"] else codes.EMPTY


def _read_memory(member: _ResponseObject) -> tuple[dict[str, Any], str]:
    if not member.has("topicwiseSummaries"):
        raise member.wrong("topicwiseSummaries", "a list")
    topics = [
        {"topic": one.text("topic", ""), "summary": one.text("summary")}
        for one in member.each("topicwiseSummaries")
    ]
    return {"topicwiseSummaries": topics}, ""


_READERS: dict[str, Callable[[_ResponseObject], tuple[dict[str, Any], str]]] = {
    "PRE_PROCESSING": _read_pre_processing,
    "ORCHESTRATION": _read_orchestration,
    "ROUTING_CLASSIFIER": _read_routing,
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": _read_knowledge_base,
    "POST_PROCESSING": _read_post_processing,
    "MEMORY_SUMMARIZATION": _read_memory,
}
