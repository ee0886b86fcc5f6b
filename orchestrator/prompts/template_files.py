"""Finds the files of a dialect: the user's own first, then the shipped ones, and never outside.

Files whose names begin with `memory_` may also be in a folder `memory/` beside `templates/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from orchestrator.errors import TemplateError
from orchestrator.support.content_root import content_root

# A larger file is not read; a template's own limit is counted in characters.
MAX_FILE_BYTES = 1_000_000

# Languages by the endings of their files.
ENDINGS: Mapping[str, str] = {
    ".prompty": "prompty",
    ".sk.txt": "semantic-kernel",
    ".sk.yaml": "semantic-kernel",
    ".hbs": "handlebars",
    ".handlebars": "handlebars",
    ".j2": "jinja2",
    ".jinja": "jinja2",
    ".jinja2": "jinja2",
    ".ai.yaml": "ppe",
    ".ppe.yaml": "ppe",
}

# Endings of templates in Bedrock's own form. The text says what it is: a JSON body, or plain text.
BODY_ENDINGS = (".json", ".txt", ".md")


def get_shipped_folder() -> Path:
    """The folder of the shipped dialects."""
    return content_root() / "templates"


class Place(NamedTuple):
    """A folder to look in, and the content folder or the user's own that it belongs to."""

    folder: Path
    root: Path  # no file may leave it, not even by a link: templates of agents come from others

    def read(self, name: PurePosixPath) -> tuple[str, Path] | None:
        """The text and path of the file `name`; `None` when there is no such file."""
        file = self.folder / name
        if not file.is_file():
            return None
        if not file.resolve().is_relative_to(self.root.resolve()):
            raise TemplateError(
                f"the file is a link to outside the folder {str(self.root)!r}; copy it there",
                file=file,
            )
        return read_text(file), file


def find_beside(folder: Path, name: str, roots: Iterable[str | Path] = ()) -> Path | None:
    """The path of a file that a template in this folder names, whether it is there or not.

    `None` where it would be outside of the folder, also by a link, and of the other `roots`.
    """
    try:
        path = (folder.resolve() / name).resolve()
        inside = any(path.is_relative_to(Path(one).resolve()) for one in (folder, *roots))
    except (OSError, ValueError):  # no name that a file can have
        return None
    return path if inside else None


def read_text(file: Path) -> str:
    """The text of a template's file, or of a file that a template names."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise TemplateError(f"the file is larger than {MAX_FILE_BYTES:,} bytes", file=file)
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"the file cannot be read as UTF-8 text: {error}"
        raise TemplateError(message, file=file) from error


def places(dialect: str, overrides: Path | None) -> tuple[Place, ...]:
    """Where a dialect has its own files, best first: the user's folder, then the shipped one."""
    last = Place(get_shipped_folder() / dialect, get_shipped_folder())
    return (last,) if overrides is None else (Place(overrides / dialect, overrides), last)


def all_places(lineage: Sequence[str], overrides: Path | None) -> tuple[Place, ...]:
    """Where a dialect's files are looked for, best first; `lineage` is it and what it extends."""
    found: list[Place] = []
    for dialect in lineage:
        found += places(dialect, overrides)
    if overrides is not None:
        found.insert(1, Place(overrides, overrides))
    return tuple(found)


def memory_places(where: Sequence[Place]) -> tuple[Place, ...]:
    """Where texts about memory are looked for: a folder `memory/` beside each `templates/`."""
    found: list[Place] = []
    for root in dict.fromkeys(place.root for place in where):  # the user's own is first
        found += [place for place in where if place.root == root]
        if root.name == "templates":
            folder = root.parent / "memory"
            found.append(Place(folder, folder))
    return tuple(found)


def dialect_places(root: Path) -> list[Place]:
    """The folders in a `templates/` folder that hold a `dialect.yaml`, by name."""
    return [Place(file.parent, root) for file in sorted(root.glob("*/dialect.yaml"))]


def read_file(name: str, where: Sequence[Place], endings: Iterable[str] = ()) -> tuple[str, Path]:
    """The text and path of the file `name`, from the first place that has it.

    A file of the name's stem and one of `endings` counts, too, in a folder that is not shipped: the
    user's own templates may be in another language. Without any of these, one of `BODY_ENDINGS`
    counts.

    Raises:
        TemplateError: There is none, or it may not or cannot be read; says where it was looked for.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or set(name) & set("\\:\0"):
        raise TemplateError(f"{name!r} is not the name of a file inside the templates folder")
    where = memory_places(where) if name.startswith("memory_") else where
    others = [path.with_name(path.stem + ending) for ending in endings]
    bodies = [path.with_name(path.stem + ending) for ending in BODY_ENDINGS] if others else []
    for place in where:
        own = place.root != get_shipped_folder()
        choices = ([path, *others], bodies) if own else ([path],)
        found = next(filter(None, (_read_one(place, names) for names in choices)), None)
        if found is not None:
            return found
    looked = ", ".join(str(place.folder) for place in where)
    raise TemplateError(f"there is no file {name!r}; looked in {looked}", file=name)


def _read_one(place: Place, names: Sequence[PurePosixPath]) -> tuple[str, Path] | None:
    found = [(one, it) for one in names if (it := place.read(one)) is not None]
    if len(found) > 1:
        both = " and ".join(str(one) for one, _ in found)
        raise TemplateError(f"there are {both}; keep one of them", file=found[0][1][1])
    return found[0][1] if found else None


def read_yaml(text: str, file: Path) -> dict[str, Any]:
    """The mapping that a YAML file is."""
    from orchestrator.support.documents import Rules, parse

    # Dialects share settings by aliases, and have YAML 1.1, where `enabled: yes` is true.
    rules = Rules(scalars="1.1", aliases=True, merge_keys=True, max_depth=20, error=TemplateError)
    data = parse(text, str(file), rules).data
    if not isinstance(data, dict):
        raise TemplateError("the file must be a mapping, such as 'protocol: xml'", file=file)
    return data
