"""AWS Lambda handlers, run in this process: each file has its own modules and variables.

Two groups may both have a `handler.py` that imports its own `utils.py`. Each handler's files are
loaded under a package with a made-up, unique name, and an `import utils` in one of those files
looks into the handler's folder first (as Lambda does), without touching `sys.path` and without
leaving `utils` in `sys.modules`. Everything else is imported as always.

Limits: `importlib.import_module("utils")` does not look into the folder; the working directory is
the process's, and only `open` looks beside the code; files that change `sys.path` or other
process-wide state change it for everyone; several calls may run at once in one handler, which
Lambda's containers never do; there is no memory limit. `lambda_process` has none of these but the
last.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import itertools
import logging
import os
import sys
import threading
import types
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.actions.lambda_contract import lambda_event, read_response
from orchestrator.actions.lambda_environment import LambdaContext, Variables, lambda_variables
from orchestrator.actions.results import build_failure
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.load_errors import (
    find_load_error,
    report_load_error,
    reports_load_errors,
)
from orchestrator.support.logs import get_logger
from orchestrator.support.signatures import CallShape, Definition, accepts, find_definition
from orchestrator.support.spelling import did_you_mean
from orchestrator.support.threads import wait_for
from orchestrator.support.user_code import is_own_failure, place_in_folder, place_in_function

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


def handler_file(
    path: str | Path,
    folder: str | Path | None,
    what: str,
    otherwise: str = "",
    place: str = "the agent's folder",
) -> Path:
    """The Python file at `path`, after links are resolved, inside of `folder` if there is one.

    For messages, `what` says what it is, `otherwise` what else it could be, and `place` what the
    folder is.

    Raises:
        DefinitionError: There is none, or it is outside the folder or cannot be imported.
    """
    base = Path(folder).resolve() if folder is not None else Path.cwd()
    name = f"the {what} {str(path)!r}"
    try:
        file = (base / path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise DefinitionError(f"the path of {name} is not possible: {error}") from error
    if folder is not None and not file.is_relative_to(base):
        raise DefinitionError(f"{name} is outside {place}; move it inside")
    if file.suffix != ".py" or not file.is_file():
        raise DefinitionError(f"{name} is not a Python file that exists{otherwise}")
    if not file.stem.isidentifier():
        raise DefinitionError(f"{name} cannot be imported: its name is no Python identifier")
    return file


HANDLER = CallShape("handler", ("event", "context"))
"""How AWS Lambda calls a handler."""


def check_handler(file: Path, function: str, shape: CallShape = HANDLER) -> None:
    """Checks, without running it, that a Python file has a handler which can be called.

    Raises:
        DefinitionError: It has not, or has a syntax error, or the handler takes other arguments.
    """
    definition = check_function(file, function)
    if definition is not None:
        shape.check_source(definition, file)


def check_function(file: Path, function: str) -> Definition | None:
    """Checks, without running it, that a Python file has a function.

    Returns:
        Its definition, where nothing else in the file gives the name a value.

    Raises:
        DefinitionError: It has not, or has a syntax error (with its line and column).
    """
    from symtable import symtable

    try:
        source = file.read_bytes()
        tree = ast.parse(source, str(file))
        symbols = symtable(importlib.util.decode_source(source), str(file), "exec").get_symbols()
    except SyntaxError as error:
        raise DefinitionError(
            f"the handler has a syntax error: {error.msg}",
            file=file,
            line=error.lineno,
            column=error.offset,
        ) from error
    except (OSError, ValueError) as error:
        raise DefinitionError(f"the handler cannot be read: {error}", file=file) from error
    names = [one.get_name() for one in symbols if one.is_assigned() or one.is_imported()]
    # `from module import *` may bring any name.
    stars = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    if function not in names and not any(one.names[0].name == "*" for one in stars):
        raise DefinitionError(
            f"there is no function {function!r}{did_you_mean(function, names)}", file=file
        )
    return find_definition(tree, function)


class LambdaFunction:
    """Calls a function with Bedrock's event and a Lambda context, and reads its response.

    What `LambdaHandler` is for a file, for a function that is there already.

    Attributes:
        stands_for: The ARN of the Lambda function in whose place it is called, for its context;
            empty where there is none.
    """

    stands_for = ""

    def __init__(self, function: Callable[..., Any], *, shape: CallShape = HANDLER) -> None:
        """Makes the executor; the `shape` says what the function is called with.

        Raises:
            DefinitionError: The function takes other arguments.
        """
        shape.check(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._shape = shape

    def __repr__(self) -> str:
        return f"LambdaFunction({self.name})"

    def find_function(self, resource: str) -> Callable[..., Any]:
        """The function; `resource` is for errors."""
        return self._function

    def place(self, error: BaseException) -> str:
        """`file:line` of what the function raised; may be empty."""
        return place_in_function(error, self._function)

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls the function; an async one runs in an event loop of its own.

        Raises:
            DependencyFailed: The function raised; the message has the exception's type and place.
        """
        operation = call.operation
        event = lambda_event(call, context)
        request_id = call.key or str(uuid.uuid4())
        name = f"{operation.group}-{self.name}"
        about = LambdaContext(name, request_id, context.seconds, self.stands_for)
        try:
            returned = self.invoke(event, about, resource=operation.xml_name)
        except DependencyFailed:
            raise
        # A handler that calls `sys.exit` ends its call, and not this process.
        except BaseException as error:
            if not is_own_failure(error):
                raise
            raise build_failure(operation, error, self.place(error), self.advise(error)) from error
        return read_response(returned, operation)

    def invoke(
        self,
        event: dict[str, Any],
        about: LambdaContext,
        *,
        resource: str = "",
    ) -> Any:
        """What the function returns for any event; an async one runs in an event loop of its own.

        It raises what the function raises. `resource` is for errors; by default, its name.
        """
        function = self.find_function(resource or self.name)
        if self._shape.optional and not accepts(function, 2):
            return run_function(function, event)
        try:
            return run_function(function, event, about)
        except TypeError as error:
            # A decorated or imported function is known only now.
            self._check_shape(function, resource or self.name, error)
            raise

    def _check_shape(self, function: Callable[..., Any], resource: str, error: TypeError) -> None:
        try:
            self._shape.check(function)
        except DefinitionError as wrong:
            place = f"{Path(wrong.file).name}:{wrong.line}: " if wrong.file else ""
            raise DependencyFailed(f"{place}{wrong.reason}", resource=resource) from error

    def advise(self, error: BaseException) -> str:
        """What to do about what the function raised; may be empty."""
        return ""


def run_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; an async one runs in an event loop of its own."""
    returned = function(*arguments)
    return wait_for(returned) if inspect.isawaitable(returned) else returned


class LambdaHandler(LambdaFunction):
    """Runs a Lambda handler file in this process, with Bedrock's event and response.

    The file is checked when the handler is made and run at the first call. It has its own module
    namespace and its own environment variables; the module's docstring says how, and what the
    limits are. `LambdaProcess` has none of them.
    """

    def __init__(
        self,
        path: str | Path,
        function: str = "lambda_handler",
        *,
        environment: Mapping[str, str] | None = None,
        root: str | Path | None = None,
        shape: CallShape = HANDLER,
    ) -> None:
        """Makes the executor.

        Args:
            path: The handler's file; relative paths are relative to `root`, or else to the
                current folder.
            function: The handler function in it.
            environment: Its environment variables, besides those of the process.
            root: The folder that the file must be in, after links are resolved.
            shape: What the function is called with.

        Raises:
            DefinitionError: There is no such file or function, the file is outside `root`, it
                has a syntax error, the function takes other arguments, or a variable is not a text.
        """
        self.file = handler_file(path, root, "handler")
        self.function = self.name = function
        check_handler(self.file, function, shape)
        self._shape = shape
        self._environment = dict(check_environment(environment or {}))
        self._variables: Variables | None = None
        self._module = HandlerModule(self.file)
        self._root = None if root is None else Path(root).resolve()
        weakref.finalize(self, self._module.unload).atexit = False

    def __repr__(self) -> str:
        return f"LambdaHandler({self.file.name!r}, {self.function!r})"

    def find_function(self, resource: str) -> Callable[..., Any]:
        """The function; its file runs when it is asked for first, and may raise anything."""
        try:
            module = self._module.load()
        except (Exception, SystemExit) as error:
            if reports_load_errors():
                report_load_error(find_load_error(error, self.file, self._environment))
            raise
        found: Callable[..., Any] | None = getattr(module, self.function, None)
        if callable(found):
            return found
        raise DependencyFailed(
            f"{self.file.name!r} has no function {self.function!r} after it ran", resource=resource
        )

    def place(self, error: BaseException) -> str:
        """`file:line` of what the file's code raised; may be empty."""
        return place_in_folder(error, self.file.parent, self._root)

    def invoke(
        self,
        event: dict[str, Any],
        about: LambdaContext,
        *,
        resource: str = "",
    ) -> Any:
        """What the handler returns, run with its environment variables; see `LambdaFunction`."""
        with self._get_variables(about).active():
            return super().invoke(event, about, resource=resource)

    # Once: what a handler changes in `os.environ` is there at its next call, as in Lambda.
    def _get_variables(self, about: LambdaContext) -> Variables:
        with _lock:
            if self._variables is None:
                variables = lambda_variables(self.file, self.function, about)
                self._variables = Variables(variables | self._environment)
            return self._variables

    def advise(self, error: BaseException) -> str:
        """What to do when something beside the code was not there."""
        name = ""
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
            name = os.path.relpath(error.filename)  # from the working directory
        elif isinstance(error, ModuleNotFoundError) and error.name:
            top = error.name.partition(".")[0]
            name = next((it for it in (f"{top}.py", top) if find_beside(it, self.file.parent)), "")
        if not name or find_beside(name, self.file.parent) is None:
            return ""
        return (
            f"{name!r} is in the folder of the code, where it is found with `isolation: PROCESS`, "
            "which makes that the working directory"
        )


_lock = ForkSafeLock()


def check_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Environment variables, when all are texts; else raises `DefinitionError`."""
    for name, value in environment.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise DefinitionError(
                f"the environment variable {name!r} must have a name without '=' and a text as "
                f"value, not {type(value).__name__}; quote it"
            )
    return environment
