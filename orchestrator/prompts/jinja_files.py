"""The files that a Jinja2 template includes, extends or imports: those in its own folder.

They are read and compiled together with the template, so a rendering opens no file. A file's name
is the author's, in quotes: no value can choose one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from jinja2 import nodes

from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.source import find_token
from orchestrator.prompts.template_files import find_beside, read_text

if TYPE_CHECKING:
    from orchestrator.prompts.jinja import Jinja

_MOST_FILES = 50
_MOST_CHARS = 500_000

_Reference = nodes.Include | nodes.Extends | nodes.Import | nodes.FromImport
_REFERENCES = (nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)


class IncludedFile(NamedTuple):
    """A file that was read."""

    path: Path
    tree: nodes.Template
    line: int  # of the template itself, which includes it or what includes it
    shares: bool  # whether it reads the inputs of the template


class IncludedFiles:
    """The files of one template.

    Attributes:
        found: What was read, by the names that the template has for them.
    """

    def __init__(self, folder: Path | None = None, prepare: Callable[[str], str] = str) -> None:
        """Files may be in this folder; `prepare` changes their texts before they are parsed."""
        self._folder = folder
        self._prepare = prepare
        self._chars = 0
        self.found: dict[str, IncludedFile] = {}

    def read(self, environment: Jinja, tree: nodes.Template) -> None:
        """Reads what the template's tree names, and what that names.

        Raises:
            Mistake: A file is not there, is outside of the folder, is wrong, or includes itself.
        """
        self.found, self._chars = {}, 0
        self._follow(environment, tree, (), None)

    def _follow(
        self,
        environment: Jinja,
        tree: nodes.Template,
        above: tuple[str, ...],
        within: IncludedFile | None,
    ) -> None:
        file = str(within.path) if within is not None else None
        for node in cast(Iterator[_Reference], tree.find_all(_REFERENCES)):
            names, missing = list(_iter_names(node, file)), 0
            for name in names:
                if name in above:
                    raise Mistake(f"the file {name!r} includes itself", node.lineno, file)
                path = self._find(name, node, file)
                if path is None:
                    missing += 1
                    continue
                shares = _shares_inputs(node)
                if name in self.found:
                    known = self.found[name]
                    self.found[name] = known._replace(shares=known.shares or shares)
                    continue
                line = within.line if within is not None else node.lineno
                inner = environment.parse_file(self._read(path), name, str(path))
                found = self.found[name] = IncludedFile(path, inner, line, shares)
                self._follow(environment, inner, (*above, name), found)
            if missing == len(names) and not getattr(node, "ignore_missing", False):
                message = f"there is no file {names[0]!r} beside the template"
                raise Mistake(message, node.lineno, file)

    def _find(self, name: str, node: _Reference, file: str | None) -> Path | None:
        if self._folder is None:
            message = f"the file {name!r}: a template that is no file of its own names no others"
            raise Mistake(message, node.lineno, file)
        path = find_beside(self._folder, name)
        if path is None:
            message = f"the file {name!r} is outside of the template's folder"
            raise Mistake(message, node.lineno, file)
        return path if path.is_file() else None

    def _read(self, path: Path) -> str:
        text = read_text(path).replace("\r\n", "\n")
        self._chars += len(text)
        if len(self.found) >= _MOST_FILES or self._chars > _MOST_CHARS:
            message = (
                f"a template includes up to {_MOST_FILES} files with {_MOST_CHARS:,} characters"
            )
            raise Mistake(message, file=str(path))
        if (at := find_token(text)) is not None:
            line = text.count("\n", 0, at) + 1
            raise Mistake(f"the character {text[at]!a} may not be in a template", line, str(path))
        return self._prepare(text)


def _iter_names(node: _Reference, file: str | None) -> Iterator[str]:
    given = node.template
    items = given.items if isinstance(given, nodes.List | nodes.Tuple) else [given]
    for one in items:
        if not (isinstance(one, nodes.Const) and isinstance(one.value, str)):
            message = "the name of a file is written in quotes: no value may choose one"
            raise Mistake(message, node.lineno, file)
        yield one.value
    if not items:
        raise Mistake("the list of files is empty", node.lineno, file)


def _shares_inputs(node: _Reference) -> bool:
    return isinstance(node, nodes.Extends) or bool(getattr(node, "with_context", False))


def find_stored(tree: nodes.Template) -> set[str]:
    """The names that a template gives values to, anywhere in it."""
    names = {one.name for one in tree.find_all(nodes.Name) if one.ctx in ("store", "param")}
    return names | find_defined(tree)


def find_defined(tree: nodes.Template) -> set[str]:
    """The names of the macros and the files that a template defines and imports."""
    names = {one.name for one in tree.find_all(nodes.Macro)}
    names |= {one.target for one in tree.find_all(nodes.Import)}
    for node in tree.find_all(nodes.FromImport):
        names |= {one if isinstance(one, str) else one[1] for one in node.names}
    return names
