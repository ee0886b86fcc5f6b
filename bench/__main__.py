"""`python -m bench`: runs every measure in a process of its own and prints the table.

Names of measures run only those. `--check` ends with exit code 1 when a limit is exceeded;
`--write` puts the rows into docs/speed.md, `--json FILE` into a file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from bench.harness import Row
from bench.measures import MEASURES
from bench.page import describe_machine, print_table, write_rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.names) - set(MEASURES):
        parser.error(f"no measure {min(unknown)!r}; there are {', '.join(MEASURES)}")
    if given.in_process:
        print(json.dumps(MEASURES[given.names[0]]()))
        return 0
    print(f"{describe_machine()} CPU time, medians of quiet rounds, unless a row says otherwise.\n")
    rows = [row for name in given.names or MEASURES for row in _measured(name)]
    cells = [_cells(row) for row in rows]
    print_table(("measure", "value", "limit", "note"), cells)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, ensure_ascii=False, indent=1)
    if given.write and (missing := write_rows(cells)):
        print(f"not on the page yet: {'; '.join(missing)}")
    over = [name for name, value, _, limit, _ in rows if limit is not None and value > limit]
    if over:
        print(f"over the limit: {'; '.join(over)}")
    return 1 if over and given.check else 0


def _measured(name: str) -> list[Row]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--in-process"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [tuple(row) for row in json.loads(done.stdout)]


def _cells(row: Row) -> tuple[str, str, str, str]:
    name, value, unit, limit, note = row
    return (name, f"{value:,.2f} {unit}".rstrip(), "" if limit is None else f"≤ {limit:g}", note)


if __name__ == "__main__":
    raise SystemExit(main())
