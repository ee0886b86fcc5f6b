"""A run whose loop is killed after the n-th write to its journal; a script, and imported.

`python parallel_crashes.py <folder> <n>`
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flow_support import Echo, program
from scripted_crashes import Store

GIVEN = {"xs": [1, 2, 3], "ys": ["a", "b"]}
FLOW = program(
    "Begin -> first",
    "FOR $x in $xs:",
    "    Say $x after $first -> said",
    "    @log($said) >> logged",
    "    FOR $y in $ys:",
    "        Say $y of $said >> inner",
    "    END",
    "END",
    "End $logged $inner -> out",
)


def asked_in(records: Any) -> Counter[str]:
    """What models were asked, by what they replied."""
    replies = [one["content"][0]["text"] for one in records if one["kind"] == "model"]
    return Counter(it[1:-1] for it in replies)


def run(folder: Path, model: Echo, dies_after: int = 0, **more: Any) -> Any:
    def log(text: str) -> str:
        """Logs."""
        with (folder / "log.txt").open("a") as file:
            file.write(f"{text}\n")
        return f"logged {text}"

    store = Store(folder / "runs.sqlite", dies_after)
    given: dict[str, Any] = {"model": model, "tools": {"log": log}, "sessions": store}
    return FLOW.run(GIVEN, run_id="run-1", parallel=3, **given, **more)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Echo(), int(sys.argv[2]))
