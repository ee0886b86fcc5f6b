"""Whom a message of a group chat is for: `user[@dobby]: ...`, or `user: "@dobby(PM), ..."`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from orchestrator.actions.names import did_you_mean
from orchestrator.flows.expressions import NAME, ScriptError

__all__ = ["ALL", "Address", "key_address", "text_address"]

ALL = "all"
"""The name of all roles."""

_ONE = r"@[\w-]+(?:[ ]*[(（][ ]*(?:PM|DM|私)[ ]*[)）])?"
_MENTIONS = re.compile(rf"{_ONE}(?:[ ]*[,，、][ ]*{_ONE})*")
_NAMES = re.compile(r"@([\w-]+)([ ]*[(（])?")
_KEY = re.compile(rf"(?P<role>{NAME}(?:-\w+)*)[ ]*\[[ ]*(?P<to>@.*)\]", re.S)
_BEHIND = re.compile(r"[ ]*[,，:：]?[ ]*")


class Address(NamedTuple):
    """Whom a message is for.

    Attributes:
        to: The names.
        private: Whether nobody else may read it.
    """

    to: tuple[str, ...] = ()
    private: bool = False


def key_address(key: str, known: Collection[str]) -> tuple[str, Address]:
    """The role of a message's key, and whom the message is for.

    Raises:
        Wrong: The key names nobody, or somebody who is not there.
    """
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
                f"there is no role {name!r}{did_you_mean(name, known)}; "
                f"'roles' of the front matter has {there}",
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
