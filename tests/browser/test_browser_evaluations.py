"""Evaluations as people use them: started, watched, compared, and opened, by mouse and keyboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_pages import find_violations, open_page, reach_by_tab, visit
from workbench_support import answer, price, workbench, write_shop

pytestmark = pytest.mark.browser

AT = "/agents/shop/evaluations"
HOSTILE = "<img src=x onerror=alert(1)>"
CASES = [
    {
        "id": "tea",
        "question": "How much is tea?",
        "tags": ["price"],
        "expect": {"contains": ["12"]},
    },
    {"id": HOSTILE, "question": f"Good morning! {HOSTILE}", "expect": {"contains": ["morning"]}},
]
SCRIPT = [price(), answer("It costs 12 euros."), answer(f"Hello {HOSTILE}.")]


def write(folder: Path) -> Path:
    own = write_shop(folder)
    (own / "cases.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in CASES))
    return own


def test_a_run_is_started_watched_and_a_failing_case_is_opened(
    chromium: Any, tmp_path: Path
) -> None:
    with workbench(write(tmp_path), SCRIPT) as bench, open_page(chromium, bench) as page:
        page.get_by_role("link", name="shop").click()
        page.get_by_role("link", name="Evaluations").click()
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("heading", name="Pass rate").wait_for()
        assert "50 %" in page.locator("main").inner_text()
        page.get_by_role("link", name=f"{HOSTILE}: failed").click()
        page.get_by_role("heading", name=HOSTILE).wait_for()
        assert page.locator(".checks").inner_text().count("morning") >= 1
        page.get_by_role("link", name="Last prompt").click()
        page.get_by_role("heading", name="Step 1").wait_for()
        assert page.locator('.prompt [data-o="question"]').text_content() == (
            f"Good morning! {HOSTILE}"
        )


def test_runs_are_compared_gone_on_with_and_deleted_by_keyboard(
    chromium: Any, tmp_path: Path
) -> None:
    script = [*SCRIPT, answer("It costs 12 euros."), answer("Good morning!")]
    with workbench(write(tmp_path), script) as bench, open_page(chromium, bench) as page:
        visit(page, bench, AT)

        def reach(name: str) -> None:
            reach_by_tab(page, name)

        for _ in range(2):
            reach("Start")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Pass rate").wait_for()
            visit(page, bench, AT)
        page.locator("[aria-label=Runs] a").first.focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Pass rate").wait_for()
        reach("Compare")
        page.keyboard.press("Enter")
        page.get_by_text("exact McNemar test on 2 common cases").wait_for()
        assert page.get_by_text("▲ gained").first.is_visible()
        reach("Delete")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Evaluations").wait_for()
        assert page.locator("[aria-label=Runs] a").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_and_it_fits_a_phone(
    chromium: Any, axe: str, scheme: str, tmp_path: Path
) -> None:
    with workbench(write(tmp_path), [*SCRIPT, *SCRIPT]) as bench:
        with open_page(chromium, bench, scheme=scheme) as page:
            visit(page, bench, AT)
            assert find_violations(page, axe) == []
            page.get_by_role("button", name="Start", exact=True).click()
            page.get_by_role("heading", name="Pass rate").wait_for()
            assert find_violations(page, axe) == []
            run = bench.client.get(AT).json["runs"][0]["key"]
            page.get_by_role("link", name="tea: passed").click()
            page.get_by_role("heading", name="Turn 1").wait_for()
            assert find_violations(page, axe) == []
        with open_page(chromium, bench, scheme=scheme, width=390) as page:
            for path in (AT, f"{AT}/{run}", f"{AT}/{run}?baseline={run}"):
                visit(page, bench, path)
                assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, path
                assert find_violations(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_a_report_that_was_downloaded(
    chromium: Any, axe: str, scheme: str, tmp_path: Path
) -> None:
    kept = tmp_path / "report.html"
    with workbench(write(tmp_path), SCRIPT) as bench, open_page(chromium, bench) as page:
        visit(page, bench, AT)
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("heading", name="Pass rate").wait_for()
        run = bench.client.get(AT).json["runs"][0]["key"]
        kept.write_text(bench.client.page(f"{AT}/{run}/report").text)
    for width in (1280, 390):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        report = context.new_page()
        report.goto(kept.as_uri())
        for one in report.locator("details").all():
            one.evaluate("one => { one.open = true }")
        assert report.get_by_role("heading", name="Pass rate").is_visible()
        assert report.evaluate("() => document.documentElement.scrollWidth") <= width
        assert find_violations(report, axe) == []
        context.close()
