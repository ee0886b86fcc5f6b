"""Which tests run which line, from one run of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from coverage import CoverageData

TESTS = (
    *("tests/parsers", "tests/prompts", "tests/sessions", "tests/definition", "tests/actions"),
    *("tests/guardrails", "tests/attacks"),
    *("tests/engine/test_session_store.py", "tests/engine/test_session_history.py"),
    "tests/engine/guarded",
)
"""What may notice a mutant; the rooms' own tests first."""

PYTEST = ("-q", "-p", "no:cacheprovider", "--inline-snapshot=disable")
_LEFT_OUT = "tests/actions/code_interpreter"  # its tests start many programs, and read no schemas
MOST = 250
"""Tests that are run for one mutant."""


class Coverage:
    """Tests by the lines that they run."""

    def __init__(self, file: Path, root: Path) -> None:
        self._root = root
        self._data = CoverageData(str(file))
        self._data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}

    def tests_of(self, file: str, lines: Iterable[int]) -> list[str]:
        """The tests that run one of these lines; where it runs on import, all of the room's."""
        if file not in self._lines:
            path = str(self._root / file)
            self._lines[file] = self._data.contexts_by_lineno(path)
        by_line = self._lines[file]
        names = {context.partition("|")[0] for line in lines for context in by_line.get(line, [])}
        names.discard("")
        if not names:
            return [folder for folder in TESTS if Path(folder).name in file.split("/")]
        return sorted(names, key=lambda name: (_rank(name, file), name))[:MOST]


def _rank(test: str, file: str) -> int:
    own = f"tests/{file.split('/')[1]}/"
    folders = [own, *(f"{folder}/" for folder in TESTS)]
    return next((at for at, it in enumerate(folders) if test.startswith(it)), len(folders))


def measure(root: Path, python: Path, processes: int) -> Coverage:
    """Runs the tests of `root` once; they have to pass.

    Raises:
        subprocess.CalledProcessError: Some fail: no mutant could be told from them.
    """
    options = ["--cov=orchestrator", "--cov-context=test", "--cov-report=", "--cov-branch"]
    command: Sequence[str] = (
        *(str(python), "-m", "pytest", *PYTEST, "-n", str(processes), "--dist", "loadfile"),
        *(*options, f"--ignore={_LEFT_OUT}", *TESTS),
    )
    subprocess.run(command, cwd=root, check=True)
    return Coverage(root / ".coverage", root)
