"""What is around each case: files of its own, so that no case sees what another one did."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

FILES = {"HR_DATABASE": "hr.sqlite", "REMINDERS_FILE": "reminders.jsonl"}


@contextmanager
def open_scratch() -> Iterator[None]:
    """Gives the examples a new database and reminders file, until the end of the block."""
    before = {name: os.environ.get(name) for name in FILES}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update({name: os.path.join(scratch, file) for name, file in FILES.items()})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
