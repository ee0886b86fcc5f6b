"""How a script asks models: for a message's substitution, or with all messages (`$AI`)."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.flows.expressions import Wrong
from orchestrator.flows.ppe.choices import Choice
from orchestrator.flows.ppe.dialogue import Said, sent
from orchestrator.flows.ppe.output import read_output, words
from orchestrator.flows.ppe.parameters import PARAMETERS, inference_of
from orchestrator.flows.ppe.texts import Substitution, compile_text
from orchestrator.flows.steps import Ask, Chance, Event, Place, Step

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter

__all__ = ["ask_all", "substituted"]

_TRIES = 4
_REPAIRS = 1
_OF_CALL = ("shouldAppendResponse", "pushMessage", "stream", "memoized", "forceJson")

Steps = Generator[Step, Any, Any]


def substituted(
    run: Interpreter, message: Said, substitution: Substitution
) -> Generator[Step, Any, tuple[Any, str]]:
    """What a substitution's variable is, and the text that takes its place.

    Raises:
        FlowError: The model chose nothing that may be chosen.
    """
    named = yield from _parameters(run, substitution)
    choice = substitution.choice
    if choice is not None and choice.random:
        chosen = choice.draw((yield Chance()))
        return choice.text(chosen), choice.text(chosen)
    before = yield from run.rendering.messages(message)
    if message.done.strip():
        before.append((message.role, message.done))
    inference = _inference(run, named)
    if choice is None:
        last = run.finishing and _is_all(run, message)
        reply = yield from _asked(run, substitution.place, before, inference, last=last)
        return reply, reply
    text = yield from _chosen(run, substitution, choice, before, inference)
    return text, text


def _is_all(run: Interpreter, message: Said) -> bool:
    """Whether the substitution is all of the script's last message, and so its result."""
    text = message.text
    rest = text.parts[message.next :] if text is not None else ()
    is_rest = any(one.template or one.source or one.substitution for one in rest)
    alone = not message.done and not is_rest
    return alone and message is run.dialogue.last and message.role == "assistant"


def _parameters(
    run: Interpreter, substitution: Substitution
) -> Generator[Step, Any, dict[str, Any]]:
    """A substitution's model parameters: expressions, and templates in quotes."""
    named: dict[str, Any] = {}
    place = substitution.place
    for one in substitution.parameters:
        written = one.node.value if one.node.kind == "text" else ""
        if "{{" in written:
            text = compile_text(f"!{written}", place, run.script.file)
            value = _number((yield from run.rendering.text(text)))
        else:
            value = yield from run.evaluated(one.node)
        if one.name in (*PARAMETERS, *_OF_CALL):
            named[one.name] = value
        else:
            told = {"text": f"the model parameter {one.name!r} is not known, and is not sent"}
            yield Event("warning", place, told)
    return named


def _number(text: str) -> Any:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


def _chosen(
    run: Interpreter,
    substitution: Substitution,
    choice: Choice,
    before: list[tuple[str, str]],
    inference: Mapping[str, Any],
) -> Generator[Step, Any, str]:
    place = substitution.place
    told = [("system", choice.instruction()), *before]
    choices = choice.known if choice.most == 1 else []
    for _ in range(_TRIES):
        reply = yield from _asked(run, place, told, inference, choices)
        found = choice.read(reply)
        if not isinstance(found, str):
            return choice.text(found)
        yield Event("warning", place, {"text": f"the model's choice: {found}"})
        told = [*told, ("assistant", reply), ("user", f"{found} {choice.instruction()}")]
    run.fail(
        place,
        f"the model chose none of {', '.join(map(repr, choice.known))} for "
        f"[[{substitution.name}]] in {_TRIES} replies",
    )


def ask_all(run: Interpreter, place: Place, given: Mapping[str, Any]) -> Steps:
    """`$AI`: runs what waits, or asks with all messages; the result.

    Args:
        run: The script.
        place: The statement.
        given: The call's arguments: model parameters, and data for templates.

    Raises:
        FlowError: The reply is not what the script's `output` promises.
    """
    if any(message.waiting for message in run.dialogue.all):
        yield from run.rendering.complete(None)
        last = run.dialogue.last
        return last.done if last is not None else ""
    data = {name: one for name, one in given.items() if name not in (*PARAMETERS, *_OF_CALL)}
    run.data.arguments = data
    try:
        messages = yield from run.rendering.messages()
    finally:
        run.data.arguments = {}
    value, reply = yield from _promised(run, place, messages, given)
    _add(run, reply, place, given)
    run.data.prompt["RESPONSE"] = value
    run.data.last = value
    return value


def _add(run: Interpreter, reply: str, place: Place, given: Mapping[str, Any]) -> None:
    messages = run.dialogue.messages
    if given.get("pushMessage") is False:
        return
    said = Said("assistant", None, place, done=reply, drawn=True)
    append = given.get("shouldAppendResponse", run.script.front.get("shouldAppendResponse"))
    if append is False and messages and messages[-1].role == "assistant":
        messages[-1] = said
    else:
        messages.append(said)


def _promised(
    run: Interpreter, place: Place, messages: list[tuple[str, str]], given: Mapping[str, Any]
) -> Generator[Step, Any, tuple[Any, str]]:
    """A reply as the script's `output` promises it, and its text; it is repaired once."""
    front, inference = run.script.front, _inference(run, given)
    format = _format(run, given)
    schema = front.get("output") if isinstance(front.get("output"), dict) else None
    if not format:
        reply = yield from _asked(run, place, messages, inference, last=run.finishing)
        return reply, reply
    told = [("system", _form(format, schema)), *messages]
    wrong = ""
    for _ in range(1 + _REPAIRS):
        reply = yield from _asked(run, place, told, inference)
        try:
            return read_output(reply, format, schema), reply
        except Wrong as found:
            wrong = found.message
        if front.get("forceJson") is False:
            return reply, reply
        told = [*told, ("assistant", reply), ("user", f"That is wrong: {wrong}. Write it again.")]
    run.fail(place, f"the model's reply is not what 'output' promises: {wrong}")


def _format(run: Interpreter, given: Mapping[str, Any]) -> str:
    wanted = run.parameters.get("response_format")
    kind = str(wanted.get("type", "")) if isinstance(wanted, dict) else str(wanted or "")
    if not kind and given.get("forceJson", run.script.front.get("forceJson")) is True:
        kind = "json"
    return {"json": "json", "json_object": "json", "yaml": "yaml", "nobj": "nobj"}.get(kind, "")


def _form(format: str, schema: Mapping[str, Any] | None) -> str:
    name = {"json": "JSON", "yaml": "YAML", "nobj": "lines of `key: value`"}[format]
    what = f"\nIt has:\n{words(schema)}" if schema and schema.get("properties") else ""
    return f"Reply with {name} alone.{what}"


def _inference(run: Interpreter, given: Mapping[str, Any]) -> dict[str, Any]:
    """Model parameters in Bedrock's names: those of the call over `prompt` over `parameters`."""
    merged: dict[str, Any] = {}
    for source in (run.parameters, run.data.prompt, given):
        merged.update({name: it for name, it in source.items() if name in PARAMETERS})
    return inference_of(run.data.rendered(merged))


def _asked(
    run: Interpreter,
    place: Place,
    messages: Sequence[tuple[str, str]],
    inference: Mapping[str, Any],
    choices: Sequence[str] = (),
    last: bool = False,
) -> Generator[Step, Any, str]:
    system, others = sent(messages)
    if not others:
        run.fail(place, "there is no message to send; write one, such as user: ...")
    run.called = True
    key = ""
    if run.parameters.get("memoized") is True:
        key = json.dumps([system, others, dict(inference), list(choices)], sort_keys=True)
        if key in run.shared.replies:
            return run.shared.replies[key]
    reply = yield Ask(place, others, system, inference, choices=choices)
    text: str = reply.text
    if key:
        run.shared.replies[key] = text
    return text
