"""A turn of more steps than a page begins with: the others come as one scrolls, or filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_pages import open_page, visit
from workbench_support import answer, workbench

from orchestrator.server.workbench import look

pytestmark = pytest.mark.browser

AT = "/agents/shop/sessions/s-1"
COUNT = 41  # eight replies with four calls each, and the answer
ROWS = 8


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "ROWS", ROWS)
    monkeypatch.setattr(look, "MOST_ROWS", 3 * ROWS)


def ask_prices(number: int) -> list[dict[str, Any]]:
    """A reply with four calls."""
    uses = []
    for item in range(4 * number, 4 * number + 4):
        values = {"item": f"tea-{item}"}
        uses.append({"toolUseId": f"t-{item}", "name": "prices__get_price", "input": values})
    return [{"toolUse": one} for one in uses]


def test_steps_come_as_one_scrolls_and_all_of_them_are_filtered(
    chromium: Any, tmp_path: Path
) -> None:
    script = [*(ask_prices(number) for number in range(8)), answer("Twelve.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        bench.agent.invoke("How much is tea?", "s-1")
        turn = f"{AT}/turns/{bench.agent.turns('s-1')[0].id}"
        rows = page.locator(".wf .row")
        more = page.get_by_role("link", name="Steps from")

        # So small a window that what is left is far below it.
        page.set_viewport_size({"width": 1280, "height": 100})
        page.add_init_script(
            "const Own = IntersectionObserver;"
            "window.IntersectionObserver = class extends Own {"
            "  constructor(call) { super(call, { rootMargin: '0px' }); } };"
        )
        visit(page, bench, turn)
        assert (rows.count(), more.count()) == (ROWS, 1)
        assert more.inner_text() == f"Steps from {ROWS + 1} of {COUNT}"
        more.scroll_into_view_if_needed()
        page.get_by_text(f"Steps from {2 * ROWS + 1} of {COUNT}").wait_for(state="attached")
        assert rows.count() == 2 * ROWS
        numbers = page.locator(".wf .n").all_inner_texts()
        assert numbers == [str(number) for number in range(1, 2 * ROWS + 1)]

        # Rows far outside of a window are not laid out: with a large one, all are.
        page.set_viewport_size({"width": 1280, "height": 900})
        page.get_by_label("Filter steps").fill("tea-31")
        page.get_by_text(f"1 of {COUNT}", exact=True).wait_for()
        assert more.count() == 0
        page.locator(".wf .row:visible").wait_for()
        assert page.locator(".wf .row:visible").count() == 1
        page.get_by_label("Filter steps").fill("")
        page.locator(f".wf .row:visible >> nth={COUNT - 1}").wait_for(state="attached")
        assert page.locator(".wf .row:visible").count() == COUNT

        # Without its script, the link leads there as any link does.
        visit(page, bench, f"{turn}?from={COUNT - 1}")
        assert rows.count() == 2
        page.get_by_role("link", name="Earlier steps").click()
        page.wait_for_url("**?from=*")
