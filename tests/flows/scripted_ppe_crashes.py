"""A PPE script that is killed after the n-th write to its journal; a script, and imported.

`python scripted_ppe_crashes.py <folder> <n>`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flow_support import scripted
from scripted_crashes import Store

from orchestrator import load_flow

REPLIES = ["Emma: hi", "b", "hello", "last"]
MAIN = """---
roles: {emma: emma}
---
$on: {event: beforeCall, callback: note}
$on: {event: llm, callback: note}
---
user[@emma]: who is there?
user: "Sort {{ RESPONSE }}"
assistant: "[[kind:|a|b]]"
$rate: {text: "?=kind"}
user: "{{ LatestResult }} by [[@add(2)]] [[chance:|x|y:random]]"
$AI
user: end
"""


def run(folder: Path, model: Any, dies_after: int = 0, **more: Any) -> tuple[Any, Store]:
    """Runs the script; what its functions are told is in `told.txt`."""
    (folder / "emma.ai.yaml").write_text("---\nname: Emma\n---\n")
    (folder / "add.ai.yaml").write_text("$ret: '?=content + 1'")
    (folder / "main.ai.yaml").write_text(MAIN)

    def tell(what: str) -> None:
        with (folder / "told.txt").open("a") as file:
            file.write(f"{what}\n")

    def note(event: Any, *args: Any) -> None:
        tell(f"{event['type']} {args[0]}")

    def rate(text: str) -> str:
        tell(f"rate {text}")
        return f"rated {text}"

    store = Store(folder / "runs.sqlite", dies_after)
    flow = load_flow(folder / "main.ai.yaml")
    tools = {"note": note, "rate": rate}
    return flow.run(model=model, tools=tools, sessions=store, run_id="r-1", **more), store


if __name__ == "__main__":
    run(Path(sys.argv[1]), scripted(*REPLIES), int(sys.argv[2]))
