"""Looking at a handler's source without running it."""

from __future__ import annotations

import ast
from pathlib import Path

from orchestrator.actions.names import did_you_mean
from orchestrator.errors import DefinitionError

__all__ = ["check_function", "handler_file"]


def handler_file(
    path: str | Path, folder: str | Path | None, what: str, otherwise: str = ""
) -> Path:
    """The Python file at `path`, after links are resolved.

    Args:
        path: The file; relative paths are relative to the folder, or else to the current one.
        folder: The folder that it must be in; without one it may be anywhere.
        what: What it is, for messages: `handler`.
        otherwise: What else could be given, for messages.

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
        raise DefinitionError(f"{name} is outside the agent's folder; move it inside")
    if file.suffix != ".py" or not file.is_file():
        raise DefinitionError(f"{name} is not a Python file that exists{otherwise}")
    if not file.stem.isidentifier():
        raise DefinitionError(f"{name} cannot be imported: its name is no Python identifier")
    return file


def check_function(file: Path, function: str) -> None:
    """Checks, without running it, that a Python file has a function.

    Raises:
        DefinitionError: It has not, or has a syntax error (with its line and column).
    """
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        raise DefinitionError(
            f"the handler has a syntax error: {error.msg}",
            file=file,
            line=error.lineno,
            column=error.offset,
        ) from error
    except (OSError, ValueError) as error:
        raise DefinitionError(f"the handler cannot be read: {error}", file=file) from error
    names = _bound_names(tree)
    if function not in names and "*" not in names:
        raise DefinitionError(
            f"there is no function {function!r}{did_you_mean(function, names)}", file=file
        )


def _bound_names(tree: ast.Module) -> set[str]:
    """Names that the module binds outside its functions and classes."""
    names: set[str] = set()
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((one.asname or one.name).partition(".")[0] for one in node.names)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            todo.extend(ast.iter_child_nodes(node))
    return names
