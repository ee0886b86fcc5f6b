"""Python files that a folder's code is made of, loaded apart from those of all other folders.

Two groups may both have a `handler.py` that imports its own `utils.py`. Each handler's files are
loaded under a package with a made-up, unique name, and an `import utils` in one of those files
looks into the handler's folder first (as Lambda does), without touching `sys.path` and without
leaving `utils` in `sys.modules`. Everything else is imported as always.

Limits: `importlib.import_module("utils")` does not look into the folder; files that change
`sys.path` change it for everyone.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import itertools
import logging
import os
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from typing import Any

from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.handler")
_ROOT = "orchestrator_handlers"
_numbers = itertools.count(1)


class HandlerModule:
    """One handler file and the files beside it, loaded at first use."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.package = f"{_ROOT}.h{next(_numbers)}"
        self._lock = threading.RLock()
        self._module: types.ModuleType | None = None
        self._local: dict[str, bool] = {}

    def load(self) -> types.ModuleType:
        """The handler's module; runs the file when it is asked for first.

        Whatever the file raises comes out of here, and the next call tries again.
        """
        if self._module is None:
            with self._lock:
                if self._module is None:
                    _finder.add(self)
                    self._module = importlib.import_module(f"{self.package}.{self.file.stem}")
        return self._module

    def unload(self) -> None:
        """Forgets the handler's modules; functions of them that are still held keep working."""
        _finder.remove(self)

    def spec(self, fullname: str) -> ModuleSpec | None:
        """Where the module `fullname` of this handler's package is."""
        if fullname == self.package:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(self.file.parent)]
            return spec
        parent = fullname.rpartition(".")[0]
        folders = getattr(sys.modules.get(parent), "__path__", ())
        for folder in folders:
            found = FileFinder(
                str(folder),
                (ExtensionFileLoader, EXTENSION_SUFFIXES),
                (_loader_for(self), [".py"]),
            ).find_spec(fullname)
            if found is not None:
                return found
        return None

    def is_local(self, name: str) -> bool:
        """Whether the top-level module `name` is one of the handler's own files."""
        known = self._local.get(name)
        if known is None:
            folder = self.file.parent
            known = (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
            if not known:
                # A plain folder, or a compiled module: only when nothing else has the name.
                known = self.spec(f"{self.package}.{name}") is not None and not _is_importable(name)
            self._local[name] = known
        return known

    def builtins(self) -> dict[str, Any]:
        """Built-ins of the handler's files.

        Imports and `open` look into the folder of the code first, and `print` goes to the log.
        """
        own = {"__import__": self._import, "open": self._open, "print": _print}
        return {**vars(builtins), **own}

    # Lambda's working directory is the folder of the code. That of a process is one for all of its
    # threads, so it stays as it is, and only the handler's own `open` looks beside the code.
    def _open(self, file: Any, *arguments: Any, **options: Any) -> Any:
        return builtins.open(find_beside(file, self.file.parent) or file, *arguments, **options)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        top = name.partition(".")[0]
        if level or not self.is_local(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        own = f"{self.package}.{name}"
        if fromlist:
            return builtins.__import__(own, globals, locals, fromlist, 0)
        importlib.import_module(own)
        return sys.modules[f"{self.package}.{top}"]


def find_beside(file: object, folder: Path) -> Path | None:
    """The file in a folder that a relative path names; `None` when there is none."""
    if not isinstance(file, str | os.PathLike) or os.path.isabs(file):
        return None
    path = os.path.join(folder, os.fspath(file)) if isinstance(os.fspath(file), str) else ""
    return Path(path) if path and os.path.exists(path) else None


def _is_importable(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


# Standard output belongs to the application: what handlers print goes to the log.
def _print(*values: object, **options: Any) -> None:
    if options.get("file") is not None:
        builtins.print(*values, **options)
    elif _log.isEnabledFor(logging.INFO):
        for line in (options.get("sep") or " ").join(map(str, values)).split("\n"):
            _log.info("%s", line)


def _loader_for(handler: HandlerModule) -> type[SourceFileLoader]:
    class Loader(SourceFileLoader):
        def path_stats(self, path: str) -> Mapping[str, Any]:
            # No cached bytecode: it is compared by the second, and an edited handler must be seen
            # at once; nor should an agent's folder fill with caches.
            raise OSError

        def exec_module(self, module: types.ModuleType) -> None:
            module.__dict__["__builtins__"] = handler.builtins()
            super().exec_module(module)

    return Loader


# One finder for the modules of all handlers' packages: `sys.meta_path` does not grow.
class _Finder:
    def __init__(self) -> None:
        self._handlers: dict[str, HandlerModule] = {}
        self._lock = threading.Lock()

    def add(self, handler: HandlerModule) -> None:
        with self._lock:
            if _ROOT not in sys.modules:
                root = types.ModuleType(_ROOT)
                root.__path__ = []
                sys.modules[_ROOT] = root
                sys.meta_path.insert(0, self)
        self._handlers[handler.package] = handler

    def remove(self, handler: HandlerModule) -> None:
        self._handlers.pop(handler.package, None)
        prefix = f"{handler.package}."
        for name in [n for n in sys.modules if n == handler.package or n.startswith(prefix)]:
            del sys.modules[name]

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_ROOT}."):
            return None
        package = ".".join(fullname.split(".", 2)[:2])
        handler = self._handlers.get(package)
        return handler.spec(fullname) if handler is not None else None


_finder = _Finder()
