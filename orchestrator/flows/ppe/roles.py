"""The roles of a script: those that models know, those of its chat, and misspelt names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from orchestrator.flows.ppe.instruction_reader import DECIDING
from orchestrator.flows.ppe.nodes import Edit, Say, Script, Statement
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import NAME, ScriptError
from orchestrator.support.spelling import did_you_mean, find_close

_CLOSE = 0.8


def suggest_name(name: str, known: Iterable[str]) -> str:
    """What was meant, if a name is one slip of the hand away from one that is known."""
    found = [one for one in known if _is_slip(name, one)]
    nearest = max(found, key=lambda it: difflib.SequenceMatcher(None, name, it).ratio(), default="")
    return f"did you mean {nearest!r}?" if found else ""


def suggest_instruction(name: str, known: Iterable[str]) -> str:
    """What was meant by an instruction that is not known, with its `$`; a short one may be near."""
    names = sorted({*known, *DECIDING})
    found = find_close(name.casefold(), names, _CLOSE)
    found = found or next((one for one in names if _is_slip(name, one)), "")
    return f"did you mean '${found}'?" if found else ""


def _is_slip(name: str, other: str) -> bool:
    """Whether a letter is missing, too much, another one, or two have changed places."""
    if name.casefold() == other.casefold():
        return True
    if abs(len(name) - len(other)) > 1 or min(len(name), len(other)) < 3:
        return False
    same = (at for at, pair in enumerate(zip(name, other, strict=False)) if pair[0] != pair[1])
    at = next(same, min(len(name), len(other)))
    rest, others = name[at:], other[at:]
    swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return swapped or rest[1:] == others[1:] or rest[1:] == others or rest == others[1:]


ALL = "all"
"""The name of all roles."""

_ONE = r"@[\w-]+(?:[ ]*[(（][ ]*(?:PM|DM|私)[ ]*[)）])?"
_MENTIONS = re.compile(rf"{_ONE}(?:[ ]*[,，、][ ]*{_ONE})*")
_NAMES = re.compile(r"@([\w-]+)([ ]*[(（])?")
_KEY = re.compile(rf"(?P<role>{NAME}(?:-\w+)*)[ ]*\[[ ]*(?P<to>@.*)\]", re.S)
_BEHIND = re.compile(r"[ ]*[,，:：]?[ ]*")


class Address(NamedTuple):
    """Whom a message is for."""

    to: tuple[str, ...] = ()  # the names
    private: bool = False  # whether nobody else may read it


def key_address(key: str, known: Collection[str]) -> tuple[str, Address]:
    """The role of a message's key, and whom the message is for."""
    found = _KEY.fullmatch(key.strip())
    if found is None:
        return key, Address()
    written = found["to"].strip()
    if _MENTIONS.fullmatch(written) is None:
        raise ScriptError(
            f"{written!r} names no roles; write [@name], [@name(PM)] or [@one, @other]",
            f"{written!r} 不是角色列表；请写 [@名称]、[@名称(PM)] 或 [@甲, @乙]",
        )
    address = _address(written)
    for name in address.to:
        if name != ALL and name not in known:
            there = ", ".join(known) or "none"
            raise ScriptError(
                f"there is no role {name!r}; 'roles' of the front matter has {there}"
                f"{did_you_mean(name, known)}",
                f"没有角色 {name!r}；front matter 的 'roles' 有: {there}",
            )
    return found["role"], address


def text_address(text: str, known: Collection[str]) -> tuple[str, Address]:
    """A message's text without the names that it begins with, and whom it is for."""
    found = _MENTIONS.match(text)
    if found is None:
        return text, Address()
    address = _address(found[0])
    if not all(name == ALL or name in known for name in address.to):
        return text, Address()
    behind = _BEHIND.match(text, found.end())
    return text[behind.end() if behind else found.end() :], address


def _address(written: str) -> Address:
    found = _NAMES.findall(written)
    return Address(tuple(dict.fromkeys(name for name, _ in found)), any(it for _, it in found))


ROLES = ("system", "user", "assistant")
"""The roles that models know."""


class UnknownRole(NamedTuple):
    """A role that nobody knows."""

    place: Place  # its message
    role: str  # what is written
    meant: str  # the role that is meant, as a question; empty when it is near none


def find_unknown_roles(script: Script, statements: Iterable[Statement]) -> Iterator[UnknownRole]:
    """The roles in a script that nobody knows, each once.

    In a group chat anybody may speak, unless his name is a slip of one that is known: there what
    others say is sent with their names, and not as their role.
    """
    settings = script.settings
    known = [*ROLES, *settings.roles, *filter(None, (settings.name,))]
    reported: set[str] = set()
    for one in statements:
        role = one.role if isinstance(one, Say | Edit) else ""
        if not role or role in known or role in reported:
            continue
        reported.add(role)
        near = _suggest_role(role, known)
        if near or not settings.roles:
            yield UnknownRole(one.place, role, near)


def _suggest_role(role: str, known: list[str]) -> str:
    close = suggest_name(role, known)
    if close:
        return close
    found = find_close(role.casefold(), known, _CLOSE)
    return f"did you mean {found!r}?" if found else ""
