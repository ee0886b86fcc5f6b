"""The files of evaluations in an agent's folder: cases, and runs. Nothing of them is run here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from orchestrator.definition.files import FILE_NAMES
from orchestrator.errors import OrchestratorError, ResourceNotFound
from orchestrator.server.workbench.projects import DATA_FOLDER, walk_files
from orchestrator.support.documents import Rules, parse
from orchestrator.support.private_files import make_private_folder
from orchestrator.support.safe_json import json_or

_ENDINGS = (".jsonl", ".json", ".yaml", ".yml")
_MOST_CASES_BYTES = 4_000_000  # of a file that is looked into
_MOST_READ = 100_000_000  # bytes of a folder's files together
_MOST_RUN_BYTES = 50_000_000  # of a run whose figures are in the list
_MOST_LISTED = 200
_HEAD = 65_536
_CASE_MEMBERS = {"question", "turns", "say"}
_CASE_IN_YAML = re.compile(
    # Of blanks within a line alone: rows of empty lines are gone through once.
    r"^[ \t]*+(?:-[ \t]++)?(?:question|turns|say)[ \t]*+:",
    re.MULTILINE,
)
_RULES = Rules(max_nodes=200_000)


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file that looks like cases."""

    key: str
    name: str  # relative to the agent's folder
    path: Path
    count: int


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A file that holds a run."""

    key: str
    name: str  # relative to the agent's folder
    path: Path
    is_own: bool  # whether the workbench made it


def get_run_folder(folder: Path) -> Path:
    """Where the workbench keeps an agent's runs."""
    return folder / DATA_FOLDER / "evaluations"


def make_run_file(folder: Path, name: str) -> Path:
    """The path of a new run."""
    own = get_run_folder(folder)
    make_private_folder(own)
    return own / f"{name}.jsonl"


def key_of(folder: Path, file: Path) -> str:
    """What names a file of an agent's folder in addresses."""
    name = file.relative_to(folder).as_posix()
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def list_case_files(folder: Path) -> list[CaseFile]:
    """The files that look like cases, by name."""
    found = []
    left = _MOST_READ
    for file in _iterate_files(folder):
        left -= _measure(file)
        count = _count_cases(file) if left >= 0 else 0
        if count:
            name = file.relative_to(folder).as_posix()
            found.append(CaseFile(key_of(folder, file), name, file, count))
    return found[:_MOST_LISTED]


def find_case_file(folder: Path, key: str) -> CaseFile:
    """One of these files.

    Raises:
        ResourceNotFound: There is none.
    """
    for one in list_case_files(folder):
        if one.key == key:
            return one
    raise ResourceNotFound("the agent's folder has no such file of cases")


def list_runs(folder: Path) -> list[RunEntry]:
    """The runs in an agent's folder, the newest first."""
    own = get_run_folder(folder)
    files = sorted(own.glob("*.jsonl"), reverse=True) if own.is_dir() else []
    mine = [it for it in files if it.is_file() and not it.is_symlink()]
    others = [it for it in _iterate_files(folder) if it.suffix == ".jsonl"]
    return [
        RunEntry(key_of(folder, it), it.relative_to(folder).as_posix(), it, it.parent == own)
        for it in (*mine, *others)
        if _is_run(it)
    ][:_MOST_LISTED]


def find_run(folder: Path, key: str) -> RunEntry:
    """One of these runs.

    Raises:
        ResourceNotFound: There is none.
    """
    for one in list_runs(folder):
        if one.key == key:
            return one
    raise ResourceNotFound("the agent's folder has no such run")


def sum_up_run(entry: RunEntry) -> dict[str, Any]:
    """What a list says of a run."""
    try:
        status = entry.path.stat()
        if status.st_size > _MOST_RUN_BYTES:
            return {"error": f"it has more than {_MOST_RUN_BYTES:,} bytes"}
        return _sum_up(entry.path, status.st_mtime_ns, status.st_size)
    except OrchestratorError as error:
        return {"error": error.message}
    except OSError as error:
        return {"error": error.strerror or str(error)}


@lru_cache(maxsize=256)
def _sum_up(file: Path, changed: int, size: int) -> dict[str, Any]:
    from orchestrator.agent.evaluation import read_run, sum_variants

    run = read_run(file)
    return {
        "error": "",
        "started": run.head["started"],
        "cases": str(run.head["cases"].get("file", "")),
        "repeat": run.head["repeat"],
        "done": len(run.results),
        "of": run.result_count,
        "variants": [
            {"name": it.name, "passed": it.passed, "of": it.of, "interval": list(it.interval)}
            for it in sum_variants(run)
        ],
    }


def _iterate_files(folder: Path) -> Iterator[Path]:
    for root, name in walk_files(folder):
        file = Path(root, name)
        if file.suffix in _ENDINGS and name not in FILE_NAMES and not file.is_symlink():
            yield file


def _measure(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # it went meanwhile
        return 0


def _count_cases(file: Path) -> int:
    """How many cases a file seems to have; 0 for another kind of file."""
    if not 0 < _measure(file) <= _MOST_CASES_BYTES:
        return 0
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return 0
    if file.suffix == ".jsonl":
        return _count_lines(text)
    if file.suffix == ".json":
        return _count_listed(json_or(text, None)) if '"id"' in text else 0
    if not _CASE_IN_YAML.search(text):
        return 0
    with suppress(OrchestratorError):
        return _count_listed(parse(text, str(file), _RULES).data)
    return 0


def _count_lines(text: str) -> int:
    lines = [line for line in text.split("\n") if line.strip()]
    first = json_or(lines[0], None) if lines else None
    if _is_defaults(first):
        return len(lines) - 1
    return len(lines) if _is_case(first) else 0


def _count_listed(data: Any) -> int:
    listed = data.get("cases") if isinstance(data, dict) else data
    if not isinstance(listed, list) or not listed or not _is_case(listed[0]):
        return 0
    return len(listed)


def _is_case(data: Any) -> bool:
    return isinstance(data, dict) and "id" in data and not _CASE_MEMBERS.isdisjoint(data)


def _is_defaults(data: Any) -> bool:
    return isinstance(data, dict) and set(data) == {"defaults"}


def _is_run(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            head = stream.readline(_HEAD)
    except OSError:
        return False
    data = json_or(head.decode("utf-8", "replace"), None)
    return isinstance(data, dict) and data.get("kind") == "run"
