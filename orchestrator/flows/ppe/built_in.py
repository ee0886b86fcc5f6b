"""The instructions that every script has: `$AI`, `$set`, `$echo`, `$exec`, `$on` and the others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.flows.evaluation import UNDEFINED, path_value
from orchestrator.flows.ppe import model_replies
from orchestrator.flows.ppe.control_flow import Break, Continue
from orchestrator.flows.ppe.data import Author, map_of
from orchestrator.flows.ppe.dialects import STYLES
from orchestrator.flows.ppe.jinja_texts import value_text
from orchestrator.flows.ppe.nodes import Link
from orchestrator.flows.ppe.settings import script_id
from orchestrator.flows.ppe.texts import Style
from orchestrator.flows.steps import Event, FileMissing, Place, ReadFile, Step
from orchestrator.flows.tree import Argument, ScriptError, path_of
from orchestrator.support.spelling import did_you_mean

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


Steps = Generator[Step, Any, Any]


class ReturnReached(Exception):
    """`$ret` was reached."""


def _ai(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    return (yield from model_replies.ask_all(run, link.place, arguments))


def _set(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    for written, one in arguments.items():
        name, made = written, one
        steps = path_of(written) if "." in written else None
        if steps and len(steps) > 1:
            name = str(steps[0])
            yield from run.rendering.force(frozenset((name,)))
            found = run.data.raw(name)
            run.work.copy(found)
            made = _set_at_path(found, steps[1:], one)
        run.data.runtime[name] = made
        run.data.prompt.pop(name, None)
        yield Event("variable_set", link.place, {"name": name, "value": made})
    return dict(arguments)


def set_variable(run: Interpreter, link: Link, args: Sequence[Any], value: Any) -> Steps:
    """`$set('name', value)`, or `-> $set('name')`: a variable with what came before; that value."""
    name = args[0]
    if not isinstance(name, str) or path_of(name) is None or len(args) > 2:
        raise ScriptError(
            "$set(...) takes the name of a variable, and its value, or follows ->",
            "$set(...) 的参数为变量名和值，或写在 -> 之后",
        )
    value = args[1] if len(args) == 2 else value if value is not name else None
    yield from _set(run, link, None, {name: value})
    return value


def _set_at_path(whole: Any, steps: Sequence[str | int], value: Any) -> Any:
    """A value with another one at a path in it; what is on the way and is no map becomes one."""
    if not steps:
        return value
    first, rest = steps[0], steps[1:]
    if isinstance(whole, list) and isinstance(first, int) and -len(whole) <= first < len(whole):
        made = list(whole)
        made[first] = _set_at_path(made[first], rest, value)
        return made
    known = map_of(whole)
    return {**known, str(first): _set_at_path(known.get(str(first)), rest, value)}


def _update(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    """`$prompt` and `$parameters`."""
    yield from ()
    (run.data.prompt if link.name == "prompt" else run.parameters).update(arguments)
    return dict(arguments)


def _get(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    if isinstance(value, list):
        found = {}
        for one in value:
            found[str(one)] = yield from _get_value(run, str(one))
        return found
    return (yield from _get_value(run, str(value)))


def _get_value(run: Interpreter, written: str) -> Steps:
    name, *steps = path_of(written) or (written,)
    yield from run.rendering.force(frozenset((str(name),)))
    found = path_value(run.data.value(str(name)), steps)
    return None if found is UNDEFINED else found


def _echo(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    return value


def _print(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    run.work.measure(value)
    yield Event("token", link.place, {"text": "" if value is None else str(value)})
    return value


def _ret(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    run.keep(value)
    raise ReturnReached


def _leave(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    raise Break if link.name == "break" else Continue


def _abort(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    why, why_zh = (f": {value}", f": {value}") if value else ("", "")
    run.fail(link.place, f"the script was aborted{why}", f"脚本已中止{why_zh}")


def _exec(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    usual = "" if value is None else value
    name = script_id(str(arguments.get("id") or arguments.get("filename") or usual))
    if not run.script_of(name):
        there = ", ".join(run.library.ids) or "none"
        meant = did_you_mean(name, run.library.ids)
        run.fail(
            link.place,
            f"there is no script {name!r} beside this one{meant}; there is {there}",
            f"同一文件夹中没有脚本 {name!r}；现有: {there}",
        )
    args, target = arguments.get("args"), Link(link.place, name, False)
    if isinstance(args, dict):
        return (yield from run.calls.script(target, (), args))
    return (yield from run.calls.script(target, _to_list(args), {}))


def _to_list(args: Any) -> list[Any]:
    return args if isinstance(args, list) else [] if args is None else [args]


def _tool(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    """`$tool: name`, or `$tool: {name: ..., ...}`: a function with the others for arguments."""
    name = str(arguments.get("name", value if isinstance(value, str) else ""))
    others = {key: one for key, one in arguments.items() if key != "name"}
    if name == "llm":
        return (yield from model_replies.ask_all(run, link.place, others))
    if not run.known.name_of(name):
        there = ", ".join(run.known.specs) or "none"
        meant = did_you_mean(name, run.known.specs)
        run.fail(
            link.place,
            f"there is no tool {name!r}{meant}; there is {there}",
            f"没有工具 {name!r}；现有: {there}",
        )
    return (yield from run.calls.function(link.place, name, (), others))


def _format(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    """`$format`: a template, with `data` above the script's data."""
    templates = str(arguments.get("templateFormat", "hf"))
    if templates not in STYLES:
        there = ", ".join(STYLES)
        raise ScriptError(
            f"there is no templateFormat {templates!r}; there are {there}",
            f"没有 templateFormat {templates!r}，可用: {there}",
        )
    written = _find_written_template(link)
    if written is None:
        return (yield from _keep_computed(link.place, arguments.get("template", value)))
    text = run.values.compile(written, link.place, Style(templates), signs=False)
    outer = run.data.scope
    run.data.scope = {**outer, **map_of(arguments.get("data"))}
    try:
        return (yield from run.rendering.text(text))
    finally:
        run.data.scope = outer


def _find_written_template(link: Link) -> str | None:
    """The template that stands in the script itself; what a script computes is a value."""
    for one in link.arguments:
        if one.name in ("", "template"):
            return one.node.value if is_template_argument(one) else None
    written = link.value.get("template") if isinstance(link.value, dict) else link.value
    return written if is_written_template(written) else None


def is_template_argument(argument: Argument) -> bool:
    """Whether an argument of `$format` is a template that the author wrote."""
    return argument.name in ("", "template") and argument.node.kind == "text"


def is_written_template(value: Any) -> bool:
    """Whether a value is a template that the author wrote, and no expression."""
    return isinstance(value, Author) and not value.startswith(("?=", "!"))


def _keep_computed(place: Place, value: Any) -> Steps:
    text = value_text(value)
    if "{" in text or "[[" in text:
        warning = "$format renders the template that is written in it; a value is none, and stays"
        yield Event("warning", place, {"text": warning})
    return text


def _read_file(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    """`$readFile: path`: the text of a file beside the script, or in its search path."""
    path = str(arguments.get("path", arguments.get("content", value)))
    found = yield ReadFile(link.place, path)
    if isinstance(found, FileMissing):
        run.fail(
            link.place,
            f"the file {path!r:.200} cannot be read: {found.why}",
            f"无法读取文件 {path!r:.200}: {found.why_zh}",
        )
    return found


def _pipe(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    previous = yield from run.previous()
    if value is None:
        return previous
    target = Link(link.place, str(value).removeprefix("$"), False)
    return (yield from run.calls.call_link(target, previous, (), {}))


# Events


def _listen(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    event, callback = arguments.get("event"), arguments.get("callback")
    if not isinstance(event, str) or not isinstance(callback, str):
        raise ScriptError(
            f"${link.name} has an 'event' and a 'callback': a function, a script or '?=...'",
            f"${link.name} 须有 'event' 和 'callback'（函数、脚本或 '?=...'）",
        )
    run.listeners.add(link.place, str(event), str(callback), once=link.name == "once")
    return None


def _unlisten(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    run.listeners.remove(str(arguments.get("event", value)), str(arguments.get("callback") or ""))
    return None


def _emit(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    """`$emit`: what the last listener that gave something back gave, else the first argument."""
    values = _to_list(arguments.get("args"))
    event = str(arguments.get("event", value))
    answer = yield from run.listeners.emit(link.place, event, values, 0)
    return answer if answer is not None else values[0] if values else None


def _ready(run: Interpreter, link: Link, value: Any, arguments: Mapping[str, Any]) -> Steps:
    yield from run.listeners.emit(link.place, "ready", [value is not False])
    return value is not False


ORDER = {"on": ("event", "callback"), "once": ("event", "callback"), "off": ("event", "callback")}
ORDER |= {"emit": ("event", "args")}
"""What arguments in brackets are, by their places."""

MADE: dict[str, Callable[..., Steps]] = {
    "AI": _ai,
    "abort": _abort,
    "break": _leave,
    "continue": _leave,
    "echo": _echo,
    "emit": _emit,
    "exec": _exec,
    "format": _format,
    "get": _get,
    "off": _unlisten,
    "on": _listen,
    "once": _listen,
    "parameters": _update,
    "pipe": _pipe,
    "print": _print,
    "prompt": _update,
    "readFile": _read_file,
    "ready": _ready,
    "ret": _ret,
    "set": _set,
    "throw": _abort,
    "tool": _tool,
}

GIVING = frozenset(("abort", "echo", "print", "ret", "throw"))
"""The instructions whose `content` is above what a chain passes to them."""

BUILT_IN = frozenset(MADE)
"""The instructions that every script has."""
