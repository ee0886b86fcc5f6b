"""The objects of Bedrock's orchestration Lambda: the event it gets, and its reply.

(AWS: "Customize your Amazon Bedrock Agent's behavior with custom orchestration".)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.actions.lambda_contract import value_text
from orchestrator.flows.custom.converse_request import (
    ContractError,
    check_type,
    describe_word,
    plain_content,
)
from orchestrator.message import Block, Message, Span, clean, text_of, to_json
from orchestrator.prompts.steps import is_step, to_plain_message
from orchestrator.sessions.journal import Record
from orchestrator.support.safe_json import json_or

START, MODEL_INVOKED, TOOL_INVOKED = "START", "MODEL_INVOKED", "TOOL_INVOKED"
APPLY_GUARDRAIL_INVOKED = "APPLY_GUARDRAIL_INVOKED"
"""States: what has happened."""

INVOKE_MODEL, INVOKE_TOOL = "INVOKE_MODEL", "INVOKE_TOOL"
APPLY_GUARDRAIL, FINISH = "APPLY_GUARDRAIL", "FINISH"
"""Action events: what is to be done."""

_EVENTS = (INVOKE_MODEL, INVOKE_TOOL, APPLY_GUARDRAIL, FINISH)
_LONGEST_TRACE = 100_000
_LARGEST = 6 * 1024 * 1024  # (AWS: "Lambda quotas", synchronous payload)


def read_reply(returned: Any) -> dict[str, Any]:
    """Reads what the Lambda returned, an object or its JSON text, as an `orchestrated` record.

    Attributes replace those that there are, as actions' do; ones that are left out stay.

    Raises:
        ContractError: It is something else.
    """
    notes: list[str] = []
    if isinstance(returned, str):
        returned = json_or(returned, returned)
    answer = check_type(returned, Mapping, "the reply")
    event = check_type(answer.get("actionEvent"), str, "actionEvent")
    if event not in _EVENTS:
        raise ContractError(
            f"'actionEvent' is {describe_word(event)}, not one of {', '.join(_EVENTS)}"
        )
    output = check_type(answer.get("output"), Mapping, "output")
    reply: dict[str, Any] = {"event": event, "text": _text(output.get("text"), event, notes)}
    if trace := _trace(output.get("trace")):
        reply["trace"] = clean(trace[:_LONGEST_TRACE])
    context = check_type(answer.get("context") or {}, Mapping, "context")
    for name, member in (
        ("attributes", "sessionAttributes"),
        ("prompt_attributes", "promptSessionAttributes"),
    ):
        attributes = context.get(member)
        if attributes is not None:
            reply[name] = _attributes(
                check_type(attributes, Mapping, f"context.{member}"), member, notes
            )
    if notes:
        reply["notes"] = notes
    return reply


def _text(value: Any, event: str, notes: list[str]) -> str:
    if isinstance(value, (dict, list)) and event != FINISH:
        notes.append("'output.text' is an object, and not its JSON text")
        value = _encode_json(value)
    text: str = clean(check_type(value, str, "output.text"))
    if len(text) > _LARGEST:
        raise ContractError(
            f"'output.text' has {len(text):,} characters; the most are {_LARGEST:,}"
        )
    if event == FINISH and text[:1] == text[-1:] == '"':
        plain = json_or(text, None)
        if isinstance(plain, str):
            notes.append("'output.text' of FINISH is JSON text, and not the text itself")
            return plain
    return text


def _encode_json(value: Any) -> str:
    try:
        return to_json(value)
    except (TypeError, ValueError, RecursionError):
        raise ContractError("'output.text' is an object that has no JSON text") from None


def _trace(value: Any) -> str:
    event = value.get("event") if isinstance(value, Mapping) else None
    text = event.get("text") if isinstance(event, Mapping) else None
    return text if isinstance(text, str) else ""


def _attributes(members: Mapping[Any, Any], member: str, notes: list[str]) -> dict[str, str]:
    if not all(isinstance(key, str) and isinstance(it, str) for key, it in members.items()):
        notes.append(f"'{member}' has values that are not texts; made into texts")
    try:
        texts = {str(key): value_text(it) for key, it in members.items() if it is not None}
    except (TypeError, ValueError, RecursionError):
        raise ContractError(f"'context.{member}' has a value that has no JSON text") from None
    attributes: dict[str, str] = clean(texts)
    return attributes


def read_tool_use(text: str) -> dict[str, Any]:
    """Reads the `output.text` of INVOKE_TOOL: `{"toolUse": {"toolUseId", "name", "input"}}`.

    Raises:
        ContractError: It is something else.
    """
    value = check_type(json_or(text, None), dict, "output.text")
    use = check_type(value.get("toolUse"), dict, "output.text.toolUse")
    for name in ("toolUseId", "name"):
        if not check_type(use.get(name), str, f"output.text.toolUse.{name}"):
            raise ContractError(f"'output.text.toolUse.{name}' is empty")
    arguments = use.get("input")
    if arguments is not None:
        check_type(arguments, dict, "output.text.toolUse.input")
    return {"toolUseId": use["toolUseId"], "name": use["name"], "input": arguments or {}}


def read_check(text: str, guardrail_id: str) -> tuple[str, str]:
    """Reads the `output.text` of APPLY_GUARDRAIL: the joined texts, and the `source`.

    Raises:
        ContractError: It is something else, or means another guardrail.
    """
    # AWS: the text is a request of the operation ApplyGuardrail.
    value = check_type(json_or(text, None), dict, "output.text")
    source = value.get("source")
    if source not in ("INPUT", "OUTPUT"):
        raise ContractError(
            f"'output.text.source' is {describe_word(source)}, not 'INPUT' or 'OUTPUT'"
        )
    named = value.get("guardrailIdentifier") or guardrail_id
    if named != guardrail_id:
        raise ContractError(
            f"'output.text.guardrailIdentifier' is {named!r:.100}, and the agent's guardrail is "
            f"{guardrail_id!r}; take it from 'agentConfiguration.guardrails'"
        )
    content = value.get("content")
    if not isinstance(content, list) or not content:
        raise ContractError("'output.text.content' is no list of texts")
    blocks = [check_type(one, dict, f"output.text.content[{at}]") for at, one in enumerate(content)]
    inner = [check_type(one.get("text"), dict, "output.text.content[].text") for one in blocks]
    texts = [check_type(it.get("text"), str, "output.text.content[].text.text") for it in inner]
    return "\n".join(texts), source


def model_text(record: Record) -> str:
    """The `input.text` of MODEL_INVOKED: a `model` record as Converse's response."""
    read, written, *_ = record["usage"]
    usage = {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}
    return to_json(
        {
            "output": _output(plain_content(record["content"])),
            "stopReason": record["stop"],
            "usage": usage,
            "metrics": {"latencyMs": (record["ended"] - record["began"]) // 1_000_000},
        }
    )


def guardrail_text(record: Record) -> str:
    """The `input.text` of APPLY_GUARDRAIL_INVOKED: a `guarded` record as ApplyGuardrail's."""
    intervened = record["action"] == "INTERVENED"
    return to_json(
        {
            "action": "GUARDRAIL_INTERVENED" if intervened else "NONE",
            "outputs": [{"text": record["text"]}] if intervened else [],
            "assessments": record["assessments"],
        }
    )


class TurnSteps(Message):
    """A message without text that holds a turn's `intermediarySteps` in the session's history.

    Prompts pass it over; only the orchestration of the next turns reads it.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        super().__init__("user", [], (Span(0, 0, 0, "agent_scratchpad"),))
        self.steps = steps


def build_session_turns(history: Sequence[Message]) -> list[dict[str, Any]]:
    """The event's `context.session`: the turns before this one, the oldest first.

    A turn whose steps are not known, such as one from the caller's conversation history, is
    as a question and a model's answer to it.
    """
    turns: list[dict[str, Any]] = []
    question, steps = "", None
    for message in history:
        if isinstance(message, TurnSteps):
            steps = message.steps
        elif is_step(message):
            continue
        elif message["role"] == "user":
            question, steps = text_of(message["content"]), None
        else:
            answer = text_of(to_plain_message(message)["content"])
            if steps:
                known = _apply_final_answer(steps, answer)
            else:
                asked = step_of(START, question, INVOKE_MODEL, "")
                known = [asked, step_of(MODEL_INVOKED, _reply_text(answer), FINISH, answer)]
            turns.append(turn_of(question, answer, known))
            question, steps = "", None
    return turns


def turn_of(question: str, answer: str, steps: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One turn of the event's `context.session`."""
    return {"agentInput": question, "agentOutput": answer, "intermediarySteps": list(steps)}


def step_of(state: str, text: str, event: str, answer: str) -> dict[str, Any]:
    """One of a turn's `intermediarySteps`."""
    return {
        "orchestrationInput": {"state": state, "text": text},
        "orchestrationOutput": {"event": event, "text": answer},
    }


def _apply_final_answer(steps: list[dict[str, Any]], answer: str) -> list[dict[str, Any]]:
    # Later turns read what the user read: a guardrail may have masked or blocked the answer.
    last = steps[-1]
    output, before = last["orchestrationOutput"], last["orchestrationInput"]
    if output["event"] != FINISH or output["text"] == answer:
        return steps
    text = _reply_text(answer) if before["state"] == MODEL_INVOKED else before["text"]
    return [*steps[:-1], step_of(before["state"], text, FINISH, answer)]


def _reply_text(answer: str) -> str:
    return to_json({"output": _output([{"text": answer}]), "stopReason": "end_turn"})


def _output(content: Sequence[Block]) -> dict[str, Any]:
    # AWS's own orchestrations take `output` for the message; in Converse it is its `message`.
    message = {"role": "assistant", "content": content}
    return {**message, "message": message}
