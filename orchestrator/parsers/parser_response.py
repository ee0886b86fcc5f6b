"""The parser-Lambda object as a custom parser returns it: checked, and made one shape.

Both versions are read (AWS: "Write a custom parser Lambda function"): 1.0, whose members are
single objects, and 2.0, whose `actionGroupInvocations` and `agentKnowledgeBases` are lists. The
result has lists, and only members that mean something.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from orchestrator.message import clean
from orchestrator.parsers import codes
from orchestrator.parsers.base import MEMBERS, Parsed, build_response
from orchestrator.support.safe_json import read_json

_T = TypeVar("_T")


class WrongShape(ValueError):
    """A member is missing or of a wrong type; the message names it, and no value."""


def read_response(returned: Any, stage: str) -> Parsed:
    """What a parser's object, or its JSON text, means for the stage that was asked about.

    Raises:
        WrongShape: It is not the object that the contract asks for.
    """
    top = _Object("", _to_plain(returned))
    notes = []
    if top.has("messageVersion"):
        top.choice("messageVersion", ("1.0", "2.0"))
    else:
        notes.append("the parser's object has no messageVersion")
    if top.has("promptType"):
        top.choice("promptType", (stage,))
    result, code = _READERS[stage](top.inside(MEMBERS[stage]))
    if stage == "ROUTING_CLASSIFIER" and code:
        notes.append("the parser understood no choice: the model is to choose again")
    return Parsed(build_response(stage, result), code, tuple(notes))


def _to_plain(returned: Any) -> Any:
    # What Lambda can transfer, which is also what a journal can store.
    if not isinstance(returned, (str, bytes, bytearray)):
        try:
            returned = json.dumps(returned, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise WrongShape("the object cannot become JSON") from None
    try:
        return clean(read_json(returned))
    except (ValueError, RecursionError):
        raise WrongShape("the text is no JSON object") from None


class _Object:
    """An object of the response, and where it is."""

    __slots__ = ("_path", "members")

    def __init__(self, path: str, members: Any) -> None:
        if not isinstance(members, dict):
            what = repr(path) if path else "what the parser returns"
            raise WrongShape(f"{what} must be an object, not {_name_kind(members)}")
        self._path = path
        self.members: dict[str, Any] = members

    def has(self, name: str) -> bool:
        """Whether a member is there and is not null."""
        return self.members.get(name) is not None

    def wrong(self, name: str, wanted: str) -> WrongShape:
        path = self._path_of(name)
        if not self.has(name):
            return WrongShape(f"{path!r} is missing: it must be {wanted}")
        return WrongShape(f"{path!r} must be {wanted}, not {_name_kind(self.members[name])}")

    def _path_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def get(self, name: str, kind: type[_T], wanted: str) -> _T:
        """A member that must be there and of this type."""
        value = self.members.get(name)
        if not isinstance(value, kind):
            raise self.wrong(name, wanted)
        return value

    def text(self, name: str, otherwise: str | None = None) -> str:
        """A text; one without `otherwise` must be there and not blank."""
        if otherwise is not None and not self.has(name):
            return otherwise
        value = self.get(name, str, "a text")
        if otherwise is None and not value.strip():
            raise self.wrong(name, "a text")
        return value

    def choice(self, name: str, values: tuple[str, ...]) -> str:
        if self.members.get(name) not in values:
            raise self.wrong(name, " or ".join(map(repr, values)))
        return str(self.members[name])

    def inside(self, name: str) -> _Object:
        return _Object(self._path_of(name), self.get(name, dict, "an object"))

    def each(self, name: str) -> list[_Object]:
        objects = self.get(name, list, "a list") if self.has(name) else []
        path = self._path_of(name)
        return [_Object(f"{path}[{index}]", one) for index, one in enumerate(objects)]

    def all(self, name: str) -> list[_Object]:
        """The objects of a member that is single in version 1.0 and a list in version 2.0."""
        return self.each(name + "s") or ([self.inside(name)] if self.has(name) else [])


def _name_kind(value: Any) -> str:
    if value is None or value == []:
        return "an empty list" if value == [] else "null"
    name = type(value).__name__
    return {"dict": "an object", "list": "a list", "str": "this text"}.get(name, f"a {name}")


def _read_reprompt(member: _Object) -> dict[str, Any]:
    if not member.members.get("parsingErrorDetails"):
        return {}
    reprompt = member.inside("parsingErrorDetails").text("repromptResponse")
    return {"parsingErrorDetails": {"repromptResponse": reprompt}}


def _read_orchestration(member: _Object) -> tuple[dict[str, Any], str]:
    result: dict[str, Any] = {"rationale": member.text("rationale", "")}
    if reprompt := _read_reprompt(member):
        return result | reprompt, codes.CUSTOM_PARSER
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


def _read_id(one: _Object) -> dict[str, str]:
    return {"id": one.text("id")} if one.has("id") else {}


def _read_action(one: _Object) -> dict[str, Any]:
    action: dict[str, Any] = {"actionGroupName": one.text("actionGroupName")}
    # Published parsers write the members of both kinds: the agent's groups say which one counts.
    if one.has("functionName"):
        action["functionName"] = one.text("functionName")
    if one.has("apiName") or not one.has("functionName"):
        action["verb"] = one.text("verb", "" if one.has("functionName") else None).upper()
        action["apiName"] = one.text("apiName")
    action |= _read_id(one)
    values = one.inside("actionGroupInput").members if one.has("actionGroupInput") else {}
    action["actionGroupInput"] = {
        name: value if isinstance(value, dict) and value.keys() == {"value"} else {"value": value}
        for name, value in values.items()
    }
    return action


def _read_search(one: _Object) -> dict[str, Any]:
    query = one.members.get("searchQuery")
    if not isinstance(query, str):
        query = one.inside("searchQuery").text("value")
    return {
        "knowledgeBaseId": one.text("knowledgeBaseId"),
        **_read_id(one),
        "searchQuery": {"value": query},
    }


def _read_question(one: _Object) -> dict[str, Any]:
    return {"responseText": one.text("responseText"), **_read_id(one)}


def _read_collaborator(one: _Object) -> dict[str, Any]:
    return {
        "agentCollaboratorName": one.text("agentCollaboratorName"),
        **_read_id(one),
        "input": {"text": one.inside("input").text("text")},
    }


def _read_final(one: _Object) -> dict[str, Any]:
    final: dict[str, Any] = {"responseText": one.text("responseText", "")}
    if not one.has("responseText"):
        raise one.wrong("responseText", "a text")
    if one.members.get("citations"):
        final["citations"] = _read_generated(one.inside("citations"))
    return final


def _read_generated(one: _Object) -> dict[str, Any]:
    parts = [
        {
            "text": part.text("text", ""),
            "references": [{"sourceId": it.text("sourceId")} for it in part.each("references")],
        }
        for part in one.each("generatedResponseParts")
    ]
    return {"generatedResponseParts": parts}


# The invocation types: the member of each, how it is read, and whether version 2.0 has a list.
_KINDS: dict[str, tuple[str, Callable[[_Object], dict[str, Any]], bool]] = {
    "ASK_USER": ("agentAskUser", _read_question, False),
    "AGENT_COLLABORATOR": ("agentCollaboratorInvocation", _read_collaborator, True),
    "KNOWLEDGE_BASE": ("agentKnowledgeBase", _read_search, True),
    "ACTION_GROUP": ("actionGroupInvocation", _read_action, True),
    "FINISH": ("agentFinalResponse", _read_final, False),
}


def _read_pre_processing(member: _Object) -> tuple[dict[str, Any], str]:
    result = {
        "isValidInput": member.get("isValidInput", bool, "true or false"),
        "rationale": member.text("rationale", ""),
    }
    return result, ""


def _read_routing(member: _Object) -> tuple[dict[str, Any], str]:
    if reprompt := _read_reprompt(member):
        return reprompt | {"responseDetails": {"type": "UNDECIDED"}}, codes.CUSTOM_PARSER
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


def _read_knowledge_base(member: _Object) -> tuple[dict[str, Any], str]:
    generated = _read_generated(member.inside("generatedResponse"))
    code = "" if generated["generatedResponseParts"] else codes.EMPTY
    return {"generatedResponse": generated}, code


def _read_post_processing(member: _Object) -> tuple[dict[str, Any], str]:
    final = _read_final(member)
    return final, "" if final["responseText"] else codes.EMPTY


def _read_memory(member: _Object) -> tuple[dict[str, Any], str]:
    member.get("topicwiseSummaries", list, "a list")
    topics = [
        {"topic": one.text("topic", ""), "summary": one.text("summary")}
        for one in member.each("topicwiseSummaries")
    ]
    return {"topicwiseSummaries": topics}, ""


_READERS: dict[str, Callable[[_Object], tuple[dict[str, Any], str]]] = {
    "PRE_PROCESSING": _read_pre_processing,
    "ORCHESTRATION": _read_orchestration,
    "ROUTING_CLASSIFIER": _read_routing,
    "KNOWLEDGE_BASE_RESPONSE_GENERATION": _read_knowledge_base,
    "POST_PROCESSING": _read_post_processing,
    "MEMORY_SUMMARIZATION": _read_memory,
}
