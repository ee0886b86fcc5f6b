"""Which tests run here, which are left out, and the line that says so.

Left out are tests marked `exhaustive`, unless `--exhaustive` is given, tests marked `browser`,
unless the environment's `CI_BROWSER` is 1, and tests marked `local` while weights that they name
are not on this machine. `conftest.py` gives these hooks to pytest.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

EXHAUSTIVE = "exhaustive: "
BROWSER = "browser: "
LOCAL = "local: "

_MODELS = "ORCHESTRATOR_MODELS"
_OWN_MODELS = os.environ.get(_MODELS)
_NO_MODELS = str(Path(__file__).with_name("no-weights-here"))


def sampled(cases: Iterable[Any], every: int = 4) -> list[Any]:
    """The parameters of a test that takes long: one of every few is tried, all with the others."""
    return [case if n % every == 0 else _exhaustive(case) for n, case in enumerate(cases)]


def need_dbos() -> None:
    """Leaves a test out where DBOS is not installed, or cannot use the SQLite that is here."""
    pytest.importorskip("dbos")
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        pytest.skip("DBOS needs SQLite 3.42 with this Python")


def _exhaustive(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.exhaustive)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="run tests marked `exhaustive` too, and try every property with more examples",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if reason := _reason(config, item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _reason(config: pytest.Config, item: pytest.Item) -> str:
    if item.get_closest_marker("exhaustive") and not config.getoption("exhaustive"):
        return f"{EXHAUSTIVE}make test-all"
    if item.get_closest_marker("browser") and os.environ.get("CI_BROWSER") != "1":
        return f"{BROWSER}make test-web"
    missing = [name for name in _weights_of(item) if not _is_here(name)]
    return f"{LOCAL}{' '.join(missing)}" if missing else ""


def _weights_of(item: pytest.Item) -> list[str]:
    """The weights that a test marked `local` needs."""
    marks = list(item.iter_markers("local"))
    if not all(mark.args for mark in marks):
        raise pytest.UsageError(f"{item.nodeid}: `local` has to name the weights that it needs")
    return [name for mark in marks for name in mark.args]


def _is_here(name: str) -> bool:
    from orchestrator.models import weights  # not installed where clients of others are tested

    return all(weights.place(file).is_file() for file in weights.find(name).files)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hides this machine's weights from every test that does not say which it needs.

    A hook, because it has to come before the fixtures of modules and of the session.
    """
    if not _weights_of(item):
        os.environ[_MODELS] = _NO_MODELS
    elif _OWN_MODELS is None:
        os.environ.pop(_MODELS, None)
    else:
        os.environ[_MODELS] = _OWN_MODELS


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if line := summary([report.longrepr[2].removeprefix("Skipped: ") for report in skipped]):
        terminalreporter.write_line(f"not run: {line}", yellow=True, bold=True)


def summary(reasons: Collection[str]) -> str:
    """How many tests were not run, and what to do so that they are, or else why."""
    exhaustive = [it for it in reasons if it.startswith(EXHAUSTIVE)]
    browser = [it for it in reasons if it.startswith(BROWSER)]
    local = [it for it in reasons if it.startswith(LOCAL)]
    others = Counter(it for it in reasons if not it.startswith((EXHAUSTIVE, BROWSER, LOCAL)))
    names = sorted({name for it in local for name in it.removeprefix(LOCAL).split()})
    parts = []
    if exhaustive:
        parts.append(f"{len(exhaustive)} exhaustive (make test-all)")
    if browser:
        parts.append(f"{len(browser)} in a browser (make test-web)")
    if local:
        parts.append(f"{len(local)} that need {' '.join(names)} (make test-local)")
    parts += [f"{count} because {reason}" for reason, count in others.items()]
    return "; ".join(parts)
