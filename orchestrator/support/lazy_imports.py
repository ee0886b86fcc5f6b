"""Packages whose names are imported when they are first used, so that importing them is light.

And what to say where a library of an extra is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def describe_missing_extra(needs: str, extra: str, library: str | None = None) -> str:
    """The message where an extra is not installed, and how to install it.

    `needs` begins it, such as `MCP servers need`; `library` is what could not be imported.
    """
    missing = f" ({library!r} is not installed)" if library else ""
    return f"{needs} the extra {extra!r}{missing}: pip install 'bedrock-orchestrator[{extra}]'"


def lazy_exports(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (Python: "Customizing module attribute access").

    `homes` has its names, and the module of each: one of the package, or a full name.
    """

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        full = home if home.startswith("orchestrator.") else f"{package}.{home}"
        value = getattr(import_module(full), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
