"""Calls that were handed over, answered in a form: with the mouse, and with the keyboard alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_pages import find_violations, open_page, visit
from result_form_agents import set_stock, write_stock
from workbench_support import Workbench, answer, call, workbench

pytestmark = pytest.mark.browser

AT = "/agents/shop/sessions/s-1"


def begin(page: Any, bench: Workbench, question: str = "Seven teas.") -> None:
    visit(page, bench, AT)
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")
    page.locator("form.waits").wait_for()


def find_result(bench: Workbench) -> Any:
    """What the model was told of the call."""
    return bench.agent.turns("s-1")[0].steps()[-2].record["results"][0]


def test_the_form_has_the_fields_of_the_response(chromium: Any, tmp_path: Path) -> None:
    script = [set_stock(), answer("Seven.")]
    with workbench(write_stock(tmp_path), script) as bench, open_page(chromium, bench) as page:
        begin(page, bench)
        told = page.get_by_role("list", name="What it is called with").inner_text()
        assert 'item="tea" string, required · What. One of tea, milk.' in told
        assert "note string, optional, left out" in told
        send = page.get_by_role("button", name="Send results")
        page.get_by_label("count", exact=True).fill("lots")
        page.get_by_label("state", exact=True).select_option("low")
        send.click()  # a browser says what is wrong, and sends nothing
        assert page.evaluate("() => document.activeElement.matches(':invalid')")
        page.get_by_label("count", exact=True).fill("12345678901234567890")
        page.get_by_label("fresh").select_option("false")
        page.get_by_role("button", name="Add to shelves").click()
        page.get_by_label("row").fill("2.5")
        page.get_by_role("button", name="Add to shelves").click()
        page.get_by_role("button", name="Remove").nth(1).click()
        page.get_by_label("other").fill("[1")
        send.click()
        assert page.evaluate("() => document.activeElement.matches(':invalid')")
        page.get_by_label("other").fill("[1]")
        send.click()
        page.locator(".answer", has_text="Seven.").wait_for()
        body = find_result(bench)["apiResult"]["responseBody"]["application/json"]["body"]
        assert json.loads(body) == {
            "id": "",
            "count": 12345678901234567890,
            "fresh": False,
            "state": "low",
            "shelves": [{"row": 2.5}],
            "other": [1],
        }


def test_a_text_is_written_in_place_of_the_fields(chromium: Any, tmp_path: Path) -> None:
    script = [set_stock(), answer("Seven.")]
    with workbench(write_stock(tmp_path), script) as bench, open_page(chromium, bench) as page:
        begin(page, bench)
        page.get_by_label("count", exact=True).fill("7")
        page.get_by_role("button", name="Write text or JSON instead").click()
        field = page.get_by_label("Its result, as text or JSON")
        assert json.loads(field.input_value()) == {"id": "", "count": 7}
        field.fill("the shop is closed")
        page.get_by_label("How it went").select_option("REPROMPT")
        page.reload()  # nothing is lost of the call by it
        page.get_by_role("button", name="Write text or JSON instead").click()
        page.get_by_label("Its result, as text or JSON").fill("the shop is closed")
        page.get_by_label("How it went").select_option("REPROMPT")
        page.get_by_role("button", name="Send results").click()
        page.locator(".answer", has_text="Seven.").wait_for()
        result = find_result(bench)["apiResult"]
        assert result["responseState"] == "REPROMPT"
        assert result["responseBody"]["application/json"]["body"] == "the shop is closed"


def test_the_keyboard_fills_in_a_form(chromium: Any, tmp_path: Path) -> None:
    script = [set_stock(), answer("Seven."), call("x", item="tea")]
    with workbench(write_stock(tmp_path), script) as bench, open_page(chromium, bench) as page:
        begin(page, bench)
        focused = "() => document.activeElement.labels?.[0]?.textContent ?? ''"
        page.wait_for_function("() => document.activeElement.closest('.waits')")
        assert page.evaluate(focused) == "id"  # whoever is asked is led to the first field
        for key in ("s-1", "Tab", "7", "Tab", "Tab", "l"):
            page.keyboard.press(key) if len(key) > 1 and key[0] == "T" else page.keyboard.type(key)
        assert page.evaluate(focused) == "state"
        page.keyboard.press("Enter")  # in a list of choices it opens them, or sends
        page.keyboard.press("Escape")
        for _ in range(20):
            if page.evaluate("() => document.activeElement.textContent") == "Send results":
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.locator(".answer", has_text="Seven.").wait_for()
        body = find_result(bench)["apiResult"]["responseBody"]["application/json"]["body"]
        assert json.loads(body) == {"id": "s-1", "count": 7, "state": "low"}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_form(
    scheme: str, width: int, axe: str, chromium: Any, tmp_path: Path
) -> None:
    with (
        workbench(write_stock(tmp_path), [set_stock()]) as bench,
        open_page(chromium, bench, scheme=scheme, width=width) as page,
    ):
        begin(page, bench)
        page.get_by_role("button", name="Add to shelves").click()
        assert find_violations(page, axe) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.get_by_role("button", name="Write text or JSON instead").click()
        assert find_violations(page, axe) == []
