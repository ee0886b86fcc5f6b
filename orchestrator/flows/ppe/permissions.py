"""What a script's model may call, and with what (`permissions`)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from orchestrator.flows.tree import ScriptError

_ACTIONS = ("allow", "deny", "confirm")


@dataclass(frozen=True, slots=True)
class _Rule:
    names: str
    action: str
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Permissions:
    """Rules, of which a prohibition (`!name`) is above all others."""

    rules: Sequence[_Rule] = ()  # the rules, in order
    default: str = "allow"  # what holds for what no rule names

    def action(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Whether a call is allowed: `allow`, `deny`, or `confirm` to ask the user."""
        found = [one for one in self.rules if fnmatchcase(name, one.names)]
        if any(one.action == "deny" for one in found):
            return "deny"
        if not found:
            return self.default
        first = found[0]
        fits = all(_fits(wanted, arguments.get(one)) for one, wanted in first.parameters.items())
        return first.action if fits else "deny"

    def may_ever(self, name: str) -> bool:
        """Whether there are arguments with which a call could be allowed."""
        return self.action(name, {}) != "deny" or any(
            one.parameters and one.action != "deny"
            for one in self.rules
            if fnmatchcase(name, one.names)
        )


def _fits(wanted: Sequence[str], value: Any) -> bool:
    """Whether an argument is allowed: no `!pattern` fits, and one of the others does.

    What holds for a text holds for every text in a list or a map, keys too.
    """
    denied = [one[1:] for one in wanted if one.startswith("!")]
    allowed = [one for one in wanted if not one.startswith("!")]
    for text in _texts(value):
        if any(_is_like(form, text, one) for one in denied for form in _FORMS):
            return False
        if allowed and not all(any(_is_like(it, text, one) for one in allowed) for it in _SAME):
            return False
    return True


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and one:
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple) and one:
            waiting += one
        else:
            yield str(one)


def _is_like(form: Callable[[str], str], text: str, pattern: str) -> bool:
    """Whether a pattern fits, as it is written or in the same form."""
    formed = form(text)
    return fnmatchcase(formed, pattern) or fnmatchcase(formed, form(pattern))


def _plain(text: str) -> str:
    """A path, or an address, without detours: `/safe/../secret` is not below `/safe`."""
    trimmed = _LINE_ENDS.sub("", text).strip()
    if not _ADDRESS.match(trimmed):
        return posixpath.normpath(_SLASHES.sub("/", text)) if text else text
    try:
        parts = urlsplit(trimmed)
    except ValueError:
        return trimmed
    host = parts.netloc.lower().removesuffix(f":{_PORTS.get(parts.scheme, '')}")
    path = _plain(parts.path) + ("/" if parts.path[1:].endswith("/") else "")
    return urlunsplit(parts._replace(netloc=host.rstrip("."), path=path))


def _forward(text: str) -> str:
    return _plain(text.replace("\\", "/"))


def _decode(text: str) -> str:
    return _forward(unquote(text))


def _normalize_address(text: str) -> str:
    """As `_decoded`, without a user's name before a host; a file's address as its path."""
    parts = _ADDRESS.match(form := _decode(text))
    if parts is None:
        return form.strip()
    if parts[0] == "file://":
        return "/" + form[len(parts[0]) :].partition("/")[2]
    host, slash, path = form[len(parts[0]) :].partition("/")
    return parts[0] + host.rpartition("@")[2] + slash + path


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LINE_ENDS = re.compile(r"[\t\r\n]")
_SLASHES = re.compile(r"//+")
_PORTS = {"http": "80", "https": "443"}
_SAME: Sequence[Callable[[str], str]] = (_plain, _forward, _decode)
"""What a text may be taken for: it is allowed when it is in each of these forms."""
_FORMS: Sequence[Callable[[str], str]] = (str, *_SAME, _normalize_address)
"""Those in which it is looked for among prohibitions."""


def permissions_of(written: Any) -> Permissions:
    """What `permissions` means: `{ai: {call: [...]}}`, or `{call: [...]}`."""
    if written is None:
        return Permissions()
    if not isinstance(written, dict):
        raise ScriptError(
            "'permissions' is a map with 'call'", "'permissions' 须是含 'call' 的字典"
        )
    inner = written.get("ai")
    settings = inner if isinstance(inner, dict) else written
    call = settings.get("call") or []
    if not isinstance(call, list):
        raise ScriptError(
            "'permissions.ai.call' is a list of rules", "'permissions.ai.call' 须是规则列表"
        )
    rules = [rule for one in call for rule in _rules(one)]
    usual = "deny" if any(one.action != "deny" for one in rules) else "allow"
    return Permissions(rules, _action(settings.get("defaultAction", usual)))


def _rules(one: Any) -> Iterator[_Rule]:
    if isinstance(one, str):
        denied = one.startswith("!")
        yield _Rule(one.removeprefix("!"), "deny" if denied else "allow")
        return
    if not isinstance(one, dict):
        raise ScriptError(
            "a rule of 'permissions' is a text or a map", "'permissions' 的规则须是文本或字典"
        )
    named = {str(one["name"]): one} if "name" in one else one
    for name, settings in named.items():
        rules = settings if isinstance(settings, dict) else {}
        yield _Rule(str(name), _action(rules.get("action", "allow")), _parameters(rules))


def _parameters(rule: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    parameters = rule.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise ScriptError("'parameters' of a rule is a map", "规则的 'parameters' 须是字典")
    return {
        str(name): [str(it) for it in (one if isinstance(one, list) else [one])]
        for name, one in parameters.items()
    }


def _action(written: Any) -> str:
    if written not in _ACTIONS:
        raise ScriptError(
            f"the action {str(written)!r} of 'permissions' is none; "
            f"there are {', '.join(_ACTIONS)}",
            f"'permissions' 的动作 {str(written)!r} 无效，应为 {', '.join(_ACTIONS)} 之一",
        )
    return str(written)
