"""One model call of a script: listeners, memoization, continuation, and tools."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestrator.flows.ppe import tools
from orchestrator.flows.ppe.choices import Choice
from orchestrator.flows.ppe.dialogue import merge_messages
from orchestrator.flows.ppe.parameters import inference_of
from orchestrator.flows.ppe.thinking import THINKING
from orchestrator.flows.steps import Ask, Event, Place, Step
from orchestrator.message import Message

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


_MOST_RETRIES = 7

RolesAndTexts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """What a model is asked."""

    place: Place  # the statement
    messages: RolesAndTexts  # roles and texts
    options: Mapping[str, Any]  # model parameters, as scripts call them
    # The call's other arguments, such as `stream`
    given: Mapping[str, Any] = field(default_factory=dict)
    choice: Choice | None = None  # what may be replied, if not anything
    bias: Sequence[tuple[str, float | None]] = ()  # texts that shall be likelier or rarer
    whole: bool = False  # whether the reply is data, which is not put together of several
    last: bool = False  # whether the reply is the script's result


def call_model(run: Interpreter, wanted: ReplyRequest) -> Generator[Step, Any, str]:
    """A model's reply."""
    thinks = run.script.settings.thinking
    asked = bool(wanted.messages) and wanted.messages[-1][0] != "assistant"
    thinks = thinks if wanted.choice is None and asked else None
    if thinks is not None and thinks.prompted:
        wanted = replace(wanted, messages=[("system", thinks.instruction()), *wanted.messages])
    wanted = yield from _apply_request_listeners(run, wanted)
    text = yield from _ask_listeners(run, wanted)
    if text is None:
        text = yield from _call_memoized(run, wanted)
    delimiter = run.script.settings.delimiter
    if delimiter:
        text = text.partition(delimiter)[0]
    if thinks is not None:
        text, thoughts = thinks.read(text)
        run.data.prompt[THINKING] = thoughts
        yield Event("variable_set", wanted.place, {"name": THINKING, "value": thoughts})
    return (yield from _apply_reply_listeners(run, wanted.place, text))


# Listeners


def _apply_request_listeners(
    run: Interpreter, wanted: ReplyRequest
) -> Generator[Step, Any, ReplyRequest]:
    """The request after listeners to `llmParams` changed it; `llmBefore` gets the result."""
    place, listeners = wanted.place, run.listeners
    if not listeners.has("llmParams", "llmBefore"):
        return wanted
    request = {"value": _as_messages(wanted.messages), "options": dict(wanted.options), "count": 0}
    answer = yield from listeners.emit(place, "llmParams", [request], 0)
    if answer is not None:
        request = (
            {**request, **answer} if isinstance(answer, dict) else {**request, "value": answer}
        )
        messages, options = _from_messages(request["value"]), request["options"]
        if messages is None or not isinstance(options, dict):
            run.fail(
                place,
                "a listener to 'llmParams' gives back a map of 'value', messages with a role and "
                "a content, and 'options'",
                "'llmParams' 的监听者须返回含 'value'（消息列表）和 'options' 的字典",
            )
        wanted = replace(wanted, messages=messages, options=options)
    yield from listeners.emit(place, "llmBefore", [request])
    return wanted


def _ask_listeners(run: Interpreter, wanted: ReplyRequest) -> Generator[Step, Any, str | None]:
    """What a listener to `llmRequest` replies in the model's place."""
    if run.script.front.get("disableLlmRequest") is True:
        return None
    request = [_as_messages(wanted.messages), dict(wanted.options)]
    answer = yield from run.listeners.emit(wanted.place, "llmRequest", request)
    if isinstance(answer, dict):
        answer = answer.get("content")
    if answer is None:
        return None
    run.called = True
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _apply_reply_listeners(run: Interpreter, place: Place, text: str) -> Generator[Step, Any, str]:
    """A reply after listeners to `llm` changed it; `llmStream` gets it first, in one part.

    How a reply was cut while it streamed is not known when a run goes on: listeners get the
    same in every run.
    """
    listeners = run.listeners
    if listeners.has("llmStream"):
        part = {"content": text, "stop": False}
        end = {"content": "", "stop": True, "finishReason": "stop"}
        yield from listeners.emit(place, "llmStream", [part, text, 0])
        yield from listeners.emit(place, "llmStream", [end, text, 0])
    answer = yield from listeners.emit(place, "llm", [text], 0)
    if answer is None:
        return text
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _as_messages(messages: RolesAndTexts) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in messages]


def _from_messages(value: Any) -> list[tuple[str, str]] | None:
    if not isinstance(value, list):
        return None
    pairs = []
    for one in value:
        if not isinstance(one, dict) or not isinstance(one.get("role"), str):
            return None
        if not isinstance(one.get("content"), str):
            return None
        pairs.append((one["role"], one["content"]))
    return pairs


# Asking


def _call_memoized(run: Interpreter, wanted: ReplyRequest) -> Generator[Step, Any, str]:
    """A reply; that of an earlier equal call, if the script memoizes calls."""
    run.called = True
    if run.parameters.get("memoized") is not True:
        return (yield from _call_until_complete(run, wanted))
    key = _build_key(run, wanted)
    if key not in run.shared.replies:
        run.shared.replies[key] = yield from _call_until_complete(run, wanted)
    return run.shared.replies[key]


def _build_key(run: Interpreter, wanted: ReplyRequest) -> str:
    """All that a reply depends on."""
    choice = wanted.choice
    offered = tools.build_specs(run) if choice is None else {}
    whole = wanted.whole or not _can_continue(run, wanted)
    asked = [
        list(wanted.messages),
        dict(wanted.options),
        _build_inference(run, wanted),
        [choice.distinct_items, list(choice.picks), choice.separator] if choice else [],
        list(wanted.bias),
        # A script's tools have its own defaults and permissions.
        [run.script.id, offered] if offered else [],
        0 if whole else _count_retries(run),
    ]
    return json.dumps(asked, sort_keys=True, default=str)


def _call_until_complete(run: Interpreter, wanted: ReplyRequest) -> Generator[Step, Any, str]:
    """A reply, gone on with when it was cut off (PPE: `continueOnLengthLimit`)."""
    text, stop = yield from _call_once(run, wanted, wanted.messages)
    goes_on = wanted.choice is None and not wanted.whole and _can_continue(run, wanted)
    for _ in range(_count_retries(run) if goes_on else 0):
        if stop != "max_tokens" or not text.strip():
            break
        before = list(wanted.messages)
        prefill = before.pop()[1] if before[-1][0] == "assistant" else ""
        more, stop = yield from _call_once(run, wanted, [*before, ("assistant", prefill + text)])
        more = more.removeprefix(text)  # where models cannot go on, they begin again
        if not more.strip():
            break
        text += more.lstrip() if text[-1:].isspace() else more
    return text


def _can_continue(run: Interpreter, wanted: ReplyRequest) -> bool:
    name = "continueOnLengthLimit"
    return wanted.given.get(name, run.parameters.get(name)) is not False


def _count_retries(run: Interpreter) -> int:
    configured = run.parameters.get("maxRetry")
    most = (
        configured
        if isinstance(configured, int) and not isinstance(configured, bool)
        else _MOST_RETRIES
    )
    return max(0, min(most, 100))


def _call_once(
    run: Interpreter, wanted: ReplyRequest, messages: RolesAndTexts
) -> Generator[Step, Any, tuple[str, str]]:
    """One reply, after all calls of tools in it, and why it ends."""
    system, others = merge_messages(messages)
    # Models answer a user: where nobody speaks as one, the system text is the user's.
    if system and all(one["role"] == "assistant" for one in others):
        system, others = "", [Message("user", [{"text": system}]), *others]
    if not others:
        run.fail(
            wanted.place,
            "there is no message to send; write one, such as user: ...",
            "没有可发送的消息；请写一条，例如 user: ...",
        )
    ask = _build_step(run, wanted, system, others)
    offered = tools.build_specs(run) if wanted.choice is None else {}
    if not offered:
        reply = yield ask
    else:
        reply = yield from tools.ask_with_tools(
            run, replace(ask, tools=list(offered.values())), offered
        )
    return reply.text, reply.stop_reason


def _build_step(
    run: Interpreter, wanted: ReplyRequest, system: str, messages: Sequence[Any]
) -> Ask:
    settings, choice = run.script.settings, wanted.choice
    thinks, arguments = settings.thinking, wanted.given
    shown = arguments.get("stream", run.parameters.get("stream", settings.live)) is not False
    changed = bool(thinks or settings.tools or settings.delimiter)
    return Ask(
        wanted.place,
        messages,
        system,
        _build_inference(run, wanted),
        choices=choice.distinct_items if choice else (),
        picks=choice.picks if choice else (1, 1),
        separator=choice.separator if choice else ",",
        bias=wanted.bias,
        live=shown and (thinks is None or thinks.visible),
        last=wanted.last and not changed and not run.listeners.has("llm"),
    )


def _build_inference(run: Interpreter, wanted: ReplyRequest) -> dict[str, Any]:
    inference = inference_of(wanted.options)
    if delimiter := run.script.settings.delimiter:
        stops = [*inference.get("stopSequences", ()), delimiter]
        inference["stopSequences"] = list(dict.fromkeys(stops))
    return inference
