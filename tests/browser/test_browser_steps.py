"""Steps in a browser: their trace parts by one click, costs, lanes, and thousands of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_pages import find_violations, open_page, visit
from workbench_support import (
    MODEL,
    TeamModel,
    Workbench,
    answer,
    price,
    workbench,
    write_team,
)

from orchestrator.models.prices import parse_prices

pytestmark = pytest.mark.browser

AT = "/agents/shop/sessions/s-1"
HOSTILE = "</pre><img src=x onerror=alert(1)>"
PRICES = parse_prices([f"{MODEL}=3,15"])


def find_turn(bench: Workbench, agent: str = "shop", question: str = "How much is tea?") -> str:
    bench.agent.invoke(question, "s-1")
    return f"/agents/{agent}/sessions/s-1/turns/{bench.agent.turns('s-1')[-1].id}"


def test_a_step_s_trace_parts_open_beside_it(chromium: Any, tmp_path: Path) -> None:
    script = [price(HOSTILE), answer("Twelve.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        turn = find_turn(bench)
        visit(page, bench, turn)
        link = page.get_by_role("link", name="Trace parts of step 2 as JSON")
        link.click()
        parts = page.locator(".parts pre")
        parts.first.wait_for()
        shown = [json.loads(text) for text in parts.all_inner_texts()]
        assert shown == bench.agent.turns("s-1")[0].step_traces()[1]
        assert link.get_attribute("aria-expanded") == "true"
        link.click()
        assert page.locator(".parts").count() == 0
        # With the keyboard alone: beside the step's own link, and back.
        page.locator(".wf .step").nth(2).focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("region", name="Trace parts of step 3 as JSON").wait_for()
        page.get_by_role("link", name="Open as a page").click()
        page.get_by_role("heading", name="Step 3").wait_for()
        assert "orchestrationTrace · modelInvocationInput" in page.locator("main").inner_text()


def test_a_filtered_step_keeps_its_parts(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer("Twelve.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        visit(page, bench, find_turn(bench))
        page.get_by_label("Trace parts of step 2 as JSON").click()
        page.locator(".parts pre").first.wait_for()
        page.get_by_label("Filter steps").fill("model")
        assert page.locator(".parts").is_hidden()
        page.get_by_label("Filter steps").fill("")
        assert page.locator(".parts").is_visible()


def test_the_lanes_of_a_team_lead_to_its_steps(chromium: Any, tmp_path: Path) -> None:
    team = write_team(tmp_path)
    with workbench(team, model=TeamModel()) as bench, open_page(chromium, bench) as page:
        visit(page, bench, find_turn(bench, "team", "Ask both."))
        lanes = page.get_by_role("list", name="Lanes")
        assert lanes.get_by_role("listitem").count() == 3
        assert lanes.locator("rect").count() >= 3
        lanes.get_by_role("link", name="milk").click()
        page.locator("html[data-ready]").wait_for(state="attached")
        assert page.locator(".wf .step:visible .lane").all_inner_texts() == ["milk"]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_steps(
    scheme: str, width: int, axe: str, chromium: Any, tmp_path: Path
) -> None:
    team = write_team(tmp_path)
    with (
        workbench(team, model=TeamModel(), prices=PRICES) as bench,
        open_page(chromium, bench, scheme=scheme, width=width) as page,
    ):
        turn = find_turn(bench, "team", "Ask both.")
        visit(page, bench, turn)
        page.get_by_label("Trace parts of step 1 as JSON").click()
        page.locator(".parts pre").first.wait_for()
        assert find_violations(page, axe) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        for path in (f"{turn}/steps/1/parts", "/agents/team/sessions/s-1"):
            visit(page, bench, path)
            assert find_violations(page, axe) == []
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
