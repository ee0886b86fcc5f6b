"""A real browser: Debian's Chromium, or any other, driven by playwright.

Without one the tests are left out, which the run's last line says; with `CI_BROWSER=1` they fail
instead, so that a green run cannot mean that nothing ran.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_AXE = Path(__file__).parent / "node" / "node_modules" / "axe-core" / "axe.min.js"


def _leave_out(reason: str) -> None:
    if os.environ.get("CI_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser."""
    pytest.importorskip("playwright", reason="playwright is not installed (make test-web)")
    from playwright.sync_api import sync_playwright

    found = (os.environ.get("CHROMIUM"), *map(shutil.which, _NAMES))
    program = next((it for it in found if it), None)
    if program is None:
        _leave_out("there is no Chromium here: install the system's package `chromium`")
    # As root it refuses to run in its sandbox.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe, which finds what people with a screen reader or a keyboard cannot use."""
    if not _AXE.is_file():
        _leave_out("axe-core is not installed: make test-web")
    return _AXE.read_text(encoding="utf-8")
