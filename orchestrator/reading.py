"""From a model's parsed orchestration reply to what the turn does next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from orchestrator.effects import Answer, Refusal
from orchestrator.errors import ModelOutputError
from orchestrator.message import text_of
from orchestrator.sessions.journal import Record

__all__ = ["REFUSAL", "Act", "Decision", "Finish", "Invocation", "Reprompt", "decide"]

REFUSAL = "Sorry, I am unable to assist you with this request."
"""What a user reads when the input was refused (recorded from the service)."""

_MALFORMED = {
    "malformed_tool_use": "The tool call was malformed. Write it again: one tool, with its "
    "parameters as valid JSON.",
    "malformed_model_output": "The reply was malformed. Write it again.",
}


@dataclass(slots=True)
class Invocation:
    """A call as the model wrote it.

    Attributes:
        id: The tool-use id; empty in text protocols.
        name: The full tool name, for messages to the model.
        group: The action group's name; empty for a knowledge base.
        function: The function's or the API operation's name.
        verb: HTTP verb of an API operation.
        arguments: Values by parameter name.
        knowledge_base_id: The knowledge base to search, else empty.
    """

    id: str
    name: str
    group: str
    function: str
    verb: str
    arguments: dict[str, Any]
    knowledge_base_id: str = ""


@dataclass(slots=True)
class Act:
    """Carry out calls, then ask the user when there is a question."""

    invocations: list[Invocation]
    question: str = ""
    question_id: str = ""
    rationale: str = ""


@dataclass(slots=True)
class Reprompt:
    """The reply could not be understood; the text tells the model how to do better."""

    text: str
    code: str
    name: str

    def as_result(self) -> dict[str, Any]:
        """The mistake, as `Dialect.step_messages` takes it."""
        return {"id": "", "name": self.name, "text": self.text, "error": True}


@dataclass(slots=True)
class Finish:
    """The turn's loop ends."""

    result: Answer | Refusal
    parts: list[dict[str, Any]] = field(default_factory=list)


Decision = Act | Reprompt | Finish


def decide(record: Record) -> Decision:
    """What a `model` record of the ORCHESTRATION stage means.

    Every stop reason of Converse is handled (botocore: `StopReason`).

    Raises:
        ModelOutputError: The reply was cut off where it can't be used.
    """
    stop = record["stop"]
    if stop in ("guardrail_intervened", "content_filtered"):
        return Finish(Refusal(text_of(record["content"]) or REFUSAL, stop))
    if stop == "model_context_window_exceeded":
        raise _cut(record, "the conversation no longer fits the model's context window")
    if stop in _MALFORMED:
        return Reprompt(_MALFORMED[stop], stop, text_of(record["content"]))
    parsed = record["response"]["orchestrationParsedResponse"]
    details = parsed.get("responseDetails") or {}
    kind = details.get("invocationType")
    if stop == "max_tokens" and kind != "FINISH":
        raise _cut(record, "the model reached `maximumLength` before its answer: raise it")
    error = parsed.get("parsingErrorDetails")
    if error:
        name = text_of(record["content"])
        return Reprompt(error["repromptResponse"], record.get("code", ""), name)
    if kind == "FINISH":
        final = details["agentFinalResponse"]
        reason = "max_tokens" if stop == "max_tokens" else "end_turn"
        answer = Answer(final["responseText"], reason)
        parts = (final.get("citations") or {}).get("generatedResponseParts") or []
        return Finish(answer, parts)
    ask = details.get("agentAskUser") or {}
    return Act(
        [
            *map(_action, _all(details, "actionGroupInvocation")),
            *map(_search, _all(details, "agentKnowledgeBase")),
        ],
        ask.get("responseText", ""),
        ask.get("id", ""),
        parsed.get("rationale") or "",
    )


def _all(details: dict[str, Any], member: str) -> list[dict[str, Any]]:
    # Version 2.0 of the contract has lists (`...s`), version 1.0 a single member.
    many = details.get(member + "s")
    if many:
        return list(many)
    one = details.get(member)
    return [one] if one else []


def _action(item: dict[str, Any]) -> Invocation:
    group = item.get("actionGroupName") or ""
    function = item.get("functionName") or item.get("apiName") or ""
    verb = item.get("verb") or ""
    return Invocation(
        item.get("id") or "",
        "::".join(part for part in (verb, group, function) if part),
        group,
        function,
        verb,
        {name: value.get("value") for name, value in (item.get("actionGroupInput") or {}).items()},
    )


def _search(item: dict[str, Any]) -> Invocation:
    base = item.get("knowledgeBaseId") or ""
    query = (item.get("searchQuery") or {}).get("value") or ""
    name = f"GET::x_amz_knowledgebase_{base}::Search"
    return Invocation(item.get("id") or "", name, "", "Search", "GET", {"searchQuery": query}, base)


def _cut(record: Record, why: str) -> ModelOutputError:
    return ModelOutputError(
        f"{why} (stop reason {record['stop']!r})",
        code=record["stop"],
        raw=text_of(record["content"]),
    )
