"""A workbench ends as soon as it is asked to, and does not wait for uvicorn's next look."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import uvicorn
from workbench_support import workbench


def test_it_ends_without_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def tick(self: uvicorn.Server, counter: int) -> bool:
        return False

    monkeypatch.setattr(uvicorn.Server, "on_tick", tick)
    ended = threading.Event()

    def run() -> None:
        with workbench(tmp_path) as bench:
            assert bench.client.get("/").status == 200
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(30)
