"""Inputs without end for everything that reads what others wrote.

A *target* is a module of this package. It opens properties: a strategy of inputs, and what must
hold for each. `python -m tests.fuzz` goes through all targets for as long as it is told.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Where the tests' own helpers are. Behind everything else, so that they hide nothing.
_TESTS = Path(__file__).parent.parent
for _folder in (".", "attacks", "parsers", "sessions", "server/chat", "server/wire"):
    if (_place := str((_TESTS / _folder).resolve())) not in sys.path:
        sys.path.append(_place)
