"""`python -m bench`: runs every measure in a process of its own and prints the table.

`--json FILE` also writes the rows; `--check` ends with exit code 1 when a limit is exceeded;
names of measures run only those.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys

from bench.measures import MEASURES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MEASURES, []], default=[])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_process:
        print(json.dumps(MEASURES[given.names[0]]()))
        return 0
    rows = [row for name in given.names or MEASURES for row in _measured(name)]
    _print(rows)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, ensure_ascii=False, indent=1)
    over = [name for name, value, _, limit, _ in rows if limit is not None and value > limit]
    if over:
        print(f"over the limit: {', '.join(over)}")
    return 1 if over and given.check else 0


def _measured(name: str) -> list[list]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--in-process"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _print(rows: list[list]) -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}. "
        "Medians of CPU time unless noted.\n"
    )
    print("| measure | value | limit | note |\n|---|---:|---:|---|")
    for name, value, unit, limit, note in rows:
        bound = "" if limit is None else f"≤ {limit:g}"
        print(f"| {name} | {value:.2f} {unit} | {bound} | {note} |")


if __name__ == "__main__":
    raise SystemExit(main())
