"""What a script asks models for: a message's substitution, or a reply to all messages (`$AI`)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.flows.ppe.choices import Choice
from orchestrator.flows.ppe.dialogue import DialogueMessage
from orchestrator.flows.ppe.group_chat import RESPONSE
from orchestrator.flows.ppe.jinja_texts import value_text
from orchestrator.flows.ppe.model_calls import ReplyRequest, call_model
from orchestrator.flows.ppe.output import describe_schema, read_output
from orchestrator.flows.ppe.parameters import OF_CALL, PARAMETERS
from orchestrator.flows.ppe.text_scanner import Substitution
from orchestrator.flows.ppe.texts import compile_text
from orchestrator.flows.steps import Event, Place, RandomNumber, Step
from orchestrator.flows.tree import ScriptError
from orchestrator.support.spelling import did_you_mean

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


_TRIES = 4
_REPAIRS = 1

Steps = Generator[Step, Any, Any]


class SubstitutionResult(NamedTuple):
    """What a substitution came to."""

    text: str  # what stands in its place
    values: Sequence[Any]  # those of its variables: the text or data, and a list of what was chosen


def substitute(
    run: Interpreter, message: DialogueMessage, substitution: Substitution
) -> Generator[Step, Any, SubstitutionResult]:
    """What takes a substitution's place."""
    parameters = yield from _parameters(run, substitution)
    choice = substitution.choice
    if choice is not None and choice.random:
        return _fill_choice(choice, choice.draw((yield RandomNumber())))
    before = yield from run.cast.messages(message)
    before += run.cast.convert_unfinished(message)
    wanted = ReplyRequest(
        substitution.place,
        before,
        _options(run, parameters),
        parameters,
        bias=run.rendering.biases(message),
        last=choice is None and run.finishing and _is_all(run, message),
    )
    if choice is None and _is_all(run, message) and _format(run, parameters):
        value, reply = yield from _ask_output(run, wanted)
        message.is_data = True
        return SubstitutionResult(reply, [value])
    if choice is None:
        reply = yield from call_model(run, wanted)
        text = run.cast.strip_speaker(message.role, reply)
        return SubstitutionResult(text, [text])
    return _fill_choice(choice, (yield from _ask_choice(run, substitution, choice, wanted)))


def _fill_choice(choice: Choice, items: list[str]) -> SubstitutionResult:
    text = choice.text(items)
    return SubstitutionResult(text, [text, items] if choice.most > 1 else [text])


def _is_all(run: Interpreter, message: DialogueMessage) -> bool:
    """Whether the substitution is all of the script's last message, and so its result."""
    return _is_sole(message) and message is run.dialogue.last


def _is_sole(message: DialogueMessage) -> bool:
    """Whether the substitution is all of a message of the assistant's."""
    text = message.text
    rest = text.parts[message.next :] if text is not None else ()
    is_rest = any(one.template or one.source or one.substitution for one in rest)
    return message.role == "assistant" and not message.done and not is_rest


def _parameters(
    run: Interpreter, substitution: Substitution
) -> Generator[Step, Any, dict[str, Any]]:
    """A substitution's model parameters: expressions, and templates in quotes."""
    named: dict[str, Any] = {}
    place = substitution.place
    known = (*PARAMETERS, *OF_CALL)
    for one in substitution.parameters:
        written = one.node.value if one.node.kind == "text" else ""
        if "{{" in written:
            text = compile_text(f"!{written}", place, run.script.file)
            value = _number((yield from run.rendering.text(text)))
        else:
            value = yield from run.values.evaluate_node(one.node)
        if one.name in known:
            named[one.name] = value
        else:
            meant = did_you_mean(one.name, known)
            warning = f"the model parameter {one.name!r} is not known, and is not sent{meant}"
            yield Event("warning", place, {"text": warning})
    return named


def _number(text: str) -> Any:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


def _ask_choice(
    run: Interpreter, substitution: Substitution, choice: Choice, wanted: ReplyRequest
) -> Generator[Step, Any, list[str]]:
    messages = [("system", choice.instruction()), *wanted.messages]
    for _ in range(_TRIES):
        reply = yield from call_model(run, replace(wanted, messages=messages, choice=choice))
        found = choice.read(reply)
        if not isinstance(found, str):
            return found
        yield Event("warning", wanted.place, {"text": f"the model's choice: {found}"})
        messages = [*messages, ("assistant", reply), ("user", f"{found} {choice.instruction()}")]
    listed = ", ".join(map(repr, choice.distinct_items))
    run.fail(
        wanted.place,
        f"the model chose none of {listed} for [[{substitution.name}]] in {_TRIES} replies",
        f"模型在 {_TRIES} 次回复中没有为 [[{substitution.name}]] 选出 {listed} 中的选项",
    )


def ask_all(run: Interpreter, place: Place, arguments: Mapping[str, Any]) -> Steps:
    """`$AI`: runs what waits, and asks with all messages unless that was the reply; the result.

    The call's arguments are model parameters, and data for templates.
    """
    if any(message.pending_names for message in run.dialogue.all):
        yield from run.rendering.complete(None)
        last = run.dialogue.last
        if last is not None and last.role != "user":
            return last.result
    data = {name: one for name, one in arguments.items() if name not in (*PARAMETERS, *OF_CALL)}
    run.data.arguments = data
    try:
        messages = yield from run.cast.messages()
    finally:
        run.data.arguments = {}
    bias = run.rendering.biases(None)
    wanted = ReplyRequest(place, messages, _options(run, arguments), arguments, bias=bias)
    value, reply = yield from _ask_output(run, wanted)
    _add(run, reply, place, arguments)
    run.data.prompt[RESPONSE] = value
    run.data.last = value
    return value


def _add(run: Interpreter, reply: str, place: Place, arguments: Mapping[str, Any]) -> None:
    messages = run.dialogue.messages
    if arguments.get("pushMessage") is False:
        return
    message = DialogueMessage("assistant", None, place, done=reply, drawn=True)
    append = arguments.get("shouldAppendResponse", run.script.front.get("shouldAppendResponse"))
    if append is False and messages and messages[-1].role == "assistant":
        messages[-1] = message
    else:
        messages.append(message)


def _ask_output(run: Interpreter, wanted: ReplyRequest) -> Generator[Step, Any, tuple[Any, str]]:
    """A reply as the script's `output` promises it, and its text; it is repaired once."""
    front, schema = run.script.front, run.schema
    format = _format(run, wanted.given)
    if not format:
        reply = yield from call_model(run, replace(wanted, last=run.finishing))
        return reply, reply
    messages = [("system", _describe_output(format, schema, run.natural)), *wanted.messages]
    wrong = wrong_zh = ""
    for _ in range(1 + _REPAIRS):
        reply = yield from call_model(run, replace(wanted, messages=messages, whole=True))
        try:
            return read_output(reply, format, schema), reply
        except ScriptError as found:
            wrong, wrong_zh = found.message, found.message_zh
        if front.get("forceJson") is False:
            return reply, reply
        messages = [
            *messages,
            ("assistant", reply),
            ("user", f"That is wrong: {wrong}. Write it again."),
        ]
    run.fail(
        wanted.place,
        f"the model's reply is not what 'output' promises: {wrong}",
        f"模型的回复不符合 'output': {wrong_zh}",
    )


def _format(run: Interpreter, arguments: Mapping[str, Any]) -> str:
    wanted = arguments.get("response_format", run.parameters.get("response_format"))
    kind = str(wanted.get("type", "")) if isinstance(wanted, dict) else str(wanted or "")
    if not kind and arguments.get("forceJson", run.script.front.get("forceJson")) is True:
        kind = "json"
    return {"json": "json", "json_object": "json", "yaml": "yaml", "nobj": "nobj"}.get(kind, "")


def _describe_output(format: str, schema: Mapping[str, Any] | None, natural: bool) -> str:
    name = {"json": "JSON", "yaml": "YAML", "nobj": "lines of `key: value`"}[format]
    what = ""
    if schema and not natural:
        what = f"\nIt fits this JSON Schema:\n{value_text(schema)}"
    elif schema and schema.get("properties"):
        what = f"\nIt has:\n{describe_schema(schema)}"
    return f"Reply with {name} alone.{what}"


def _options(run: Interpreter, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Model parameters: those of the call over `prompt` over `parameters`."""
    merged: dict[str, Any] = {}
    for source in (run.parameters, run.data.prompt, arguments):
        merged.update({name: it for name, it in source.items() if name in PARAMETERS})
    rendered: dict[str, Any] = run.data.render(merged)
    return rendered
