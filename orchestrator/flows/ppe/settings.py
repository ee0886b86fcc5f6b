"""The settings in front matter, besides data: read once, with the script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.flows.ppe.data import Source, map_of
from orchestrator.flows.ppe.dialects import STYLES, dialect_of
from orchestrator.flows.ppe.permissions import Permissions, permissions_of
from orchestrator.flows.ppe.texts import STRATEGIES, Style
from orchestrator.flows.ppe.thinking import Thinking, thinking_of
from orchestrator.flows.tree import ScriptError

ENDINGS = (".ai.yaml", ".ppe.yaml")
"""How the names of scripts' files end."""

KEYS = frozenset(
    "_id add_generation_prompt autoRunLLMIfPromptAvailable character completion_delimiter "
    "contentType description dialect disableLlmRequest export forceJson formatStringStrategy "
    "import input lenient llmStream messages modelPattern name naturalOutput output parameters "
    "permissions prompt roles shouldAppendResponse shouldThink tag tags templateFormat title "
    "tools type version".split()
)
"""The keys of front matter that mean something by themselves; all others are data."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that the model may call."""

    name: str  # the function, the action or the script
    title: str = ""  # its description for the model; empty for the tool's default one
    # Arguments that it always has, unless the model gives others
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is set."""

    name: str = ""  # who speaks in the script's own name, in a group chat
    roles: Mapping[str, str] = field(default_factory=dict)  # the scripts of a group chat's roles
    imports: Mapping[str, str] = field(default_factory=dict)  # other names of scripts
    functions: Sequence[str] = ()  # of JavaScript packages; registered ones do what they would
    tools: Mapping[str, Tool] = field(default_factory=dict)  # what the model may call, by name
    permissions: Permissions = field(default_factory=Permissions)  # of the calls of tools
    thinking: Thinking | None = None  # how the model thinks, if the script asks for it
    delimiter: str = ""  # what ends a reply; empty for nothing
    live: bool = True  # whether replies are shown while they stream


def script_id(name: str) -> str:
    """A script's id, of its file's name."""
    name = name.removeprefix("./")
    return next((name.removesuffix(it) for it in ENDINGS if name.endswith(it)), name)


def settings_of(front: Mapping[str, Any], source: Source) -> Settings:
    """Reads them."""
    try:
        inner, prompt = map_of(front.get("character")), map_of(front.get("prompt"))
        delimiter = front.get("completion_delimiter") or prompt.get("completion_delimiter")
        return Settings(
            str(front.get("name") or inner.get("name") or ""),
            _roles(front.get("roles", inner.get("roles"))),
            _imports(front.get("import")),
            tuple(name for _, names in _iter_packages(front.get("import")) for name in names),
            _tools(front.get("tools")),
            permissions_of(front.get("permissions")),
            thinking_of(front.get("shouldThink")),
            str(delimiter or ""),
            front.get("llmStream") is not False,
        )
    except ScriptError as wrong:
        source.fail(source.place(0), wrong.message, wrong.message_zh)


def _roles(written: Any) -> dict[str, str]:
    if written is None:
        return {}
    if isinstance(written, list):
        written = {str(name): name for name in written}
    if not isinstance(written, dict):
        raise ScriptError(
            "'roles' is a map from roles to their scripts", "'roles' 须是从角色到脚本的字典"
        )
    taken = written.keys() & {"system", "user", "assistant", "all"}
    if taken:
        role = sorted(taken)[0]
        raise ScriptError(f"{role!r} is no role of a group chat", f"{role!r} 不能作为群聊角色")
    return {str(role): script_id(str(id or role)) for role, id in written.items()}


def _imports(entries: Any) -> dict[str, str]:
    """Other names of scripts. A package of JavaScript has to name its functions."""
    found: dict[str, str] = {}
    for written, name in _iter_entries(entries):
        if not _is_script(written):
            continue
        id = script_id(written.removeprefix("ai:"))
        found[name.removeprefix("$") if name not in ("", "*") else id] = id
    return found


def _is_script(written: str) -> bool:
    return written.endswith(ENDINGS) or written.startswith("ai:")


def _iter_packages(entries: Any) -> Iterator[tuple[str, list[str]]]:
    """The packages of JavaScript, and the functions that are imported from each."""
    for one in entries if isinstance(entries, list) else [entries] if entries else []:
        for written, names in one.items() if isinstance(one, dict) else [(one, ())]:
            if _is_script(str(written)):
                continue
            given = names if isinstance(names, list) else [names]
            found = [_read_import_name(it) for it in given if it and it != "*"]
            if not all(found) or not found:
                raise ScriptError(
                    f"{str(written)!r} is a JavaScript package, and is not run: name the functions "
                    f"that you use of it, import: {{{str(written)!r}: [name]}}, and register "
                    "Python functions with tools={'name': function}",
                    f"{str(written)!r} 是 JavaScript 包，不会运行：请写明所用函数，并用 "
                    "tools={'name': 函数} 注册 Python 函数",
                )
            yield str(written), found


def _read_import_name(entry: Any) -> str:
    """The name that a script calls an imported function by: `name`, or `{name: its own name}`."""
    if isinstance(entry, dict) and len(entry) == 1:
        (entry,) = entry.values()
    return entry.removeprefix("$") if isinstance(entry, str) else ""


def _iter_entries(entries: Any) -> Iterator[tuple[str, str]]:
    for one in entries if isinstance(entries, list) else [entries] if entries else []:
        pairs = one.items() if isinstance(one, dict) else [(one, "")]
        for written, name in pairs:
            yield str(written), name if isinstance(name, str) else ""


def _tools(tools: Any) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    if isinstance(tools, dict):
        tools = [{**map_of(one), "id": id} for id, one in tools.items()]
    for one in tools if isinstance(tools, list) else [tools] if tools else []:
        tool = one if isinstance(one, dict) else {"id": one}
        if "id" not in tool and len(tool) == 1:
            ((id, inner),) = tool.items()
            tool = {**map_of(inner), "id": id}
        if "id" not in tool:
            raise ScriptError("a tool of 'tools' has an 'id'", "'tools' 中的工具须有 'id'")
        name = script_id(str(tool["id"])).removeprefix("$")
        title = str(tool.get("title") or tool.get("description") or "")
        found[name] = Tool(name, title, map_of(tool.get("defaults")))
    return found


def style_of(front: Mapping[str, Any], source: Source) -> Style:
    """How the script's texts are written."""
    templates = str(front.get("templateFormat", "hf"))
    name = "formatStringStrategy"
    strategy = str(front.get(name, map_of(front.get("parameters")).get(name) or "Deferred"))
    for name, value, known in (
        ("templateFormat", templates, STYLES),
        ("formatStringStrategy", strategy, STRATEGIES),
    ):
        if value not in known:
            source.fail(
                source.place(0),
                f"there is no {name} {value!r}; there are {', '.join(known)}",
                f"没有 {name} {value!r}，可用: {', '.join(known)}",
            )
    try:
        dialect = dialect_of(front.get("dialect"))
    except ScriptError as wrong:
        source.fail(source.place(0), wrong.message, wrong.message_zh)
    return Style(templates, strategy, dialect, front.get("lenient") is True)
