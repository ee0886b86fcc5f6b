"""Free days of the trades, as a plain Python function."""

import json
from pathlib import Path
from typing import Literal

from orchestrator import action

FILE = Path(__file__).with_name("data") / "free_days.json"


@action(require_confirmation=False)  # it only reads
def free_days(trade: Literal["plumber", "electrician", "assessor"]) -> list:
    """List the days on which somebody of a trade can come, the earliest first.

    Args:
        trade: Who is to come.
    """
    days = json.loads(FILE.read_text(encoding="utf-8"))
    return sorted(days[trade])
