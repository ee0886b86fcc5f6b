"""Handler files checked without running them: that they are there, and have the function."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from orchestrator.errors import DefinitionError
from orchestrator.support.signatures import CallShape, Definition, find_definition
from orchestrator.support.spelling import did_you_mean


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
