"""Tables in Markdown: printed, and brought up to date on docs/speed.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.harness import REPOSITORY

PAGE = REPOSITORY / "docs" / "speed.md"


def describe_machine() -> str:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}."


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    right = "---:|" * (len(head) - 1)
    print(_line(head), f"|---|{right}", *map(_line, rows), sep="\n", flush=True)


def write_rows(rows: Sequence[Sequence[str]], page: Path = PAGE) -> list[str]:
    """Puts rows in place of those of `page` that have the same first cell.

    Returns:
        The first cells that the page does not have; write these rows where they belong.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    missing = []
    for row in rows:
        places = [at for at, line in enumerate(lines) if line.startswith(f"| {row[0]} |")]
        for at in places:
            lines[at] = _line(row)
        if not places:
            missing.append(row[0])
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return missing


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
