"""The workbench with the embedded model: a conversation with a call, its steps, and what if."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from browser_pages import open_page, visit
from workbench_support import workbench

from orchestrator.models import resolve_model

pytestmark = [pytest.mark.browser, pytest.mark.local("0.5b")]

STARTER = Path(__file__).resolve().parents[2] / "examples" / "starter"
AT = "/agents/starter/sessions/s-1"
PATIENCE = 300_000  # milliseconds that a reply may take on a small machine


def test_one_talks_looks_and_tries_with_the_embedded_model(chromium: Any, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns(".orchestrator", "__pycache__", "tests")
    folder = shutil.copytree(STARTER, tmp_path / "starter", ignore=ignored)
    model: Any = resolve_model("local:0.5b")
    with workbench(folder, model=model) as bench, open_page(chromium, bench) as page:
        page.set_default_timeout(PATIENCE)
        visit(page, bench, AT)
        page.get_by_label("Your question").fill("Where is order 1042?")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Steps").wait_for()
        (turn,) = bench.agent.turns("s-1")
        assert turn.text and page.locator(".answer").inner_text() == turn.text
        page.get_by_role("link", name="GET::orders::/orders/{orderId}").wait_for()

        page.get_by_role("link", name="Steps").click()
        page.get_by_role("list", name="Steps").wait_for()
        steps = turn.steps()
        assert [it.kind for it in steps] == ["model", "action", "model"]
        assert page.get_by_role("list", name="Steps").get_by_role("listitem").count() == 3

        visit(page, bench, f"{AT}/turns/{turn.id}/steps/3")
        prompt = steps[2].prompt()
        assert page.locator(".prompt .text").first.text_content() == str(prompt.system)
        page.locator('.legend [data-origin="action result"]').click()
        assert "on its way" in page.locator(".here").inner_text()

        page.get_by_role("link", name="What if…").click()
        page.locator("#bench[data-shown]").wait_for()
        result = page.locator("[data-result]")
        result.fill(result.input_value().replace("on its way", "lost"))
        page.locator("#preview").get_by_text("lost").first.wait_for()
        page.get_by_role("button", name="Run from here").click()
        page.get_by_role("link", name="Compare side by side").click()
        page.get_by_role("heading", name="Two runs").wait_for()
        (again,) = bench.agent.turns("s-1-fork-1")
        assert again.text and again.text in page.locator("main").inner_text()
        # The call before was not made again, and its result is the one that was typed.
        assert "lost" in again.steps()[1].text
        assert [it.call for it in again.steps() if it.kind == "model"] == [1, 2]
        assert [it.text for it in bench.agent.turns("s-1")] == [turn.text]
