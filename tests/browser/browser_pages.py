"""What tests in a browser share: a page that fails its test for any error, and checks of a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench_support import Workbench

_TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]


@contextmanager
def open_page(
    chromium: Any, bench: Workbench, *, scheme: str = "light", width: int = 1280, **more: Any
) -> Iterator[Any]:
    """A page that has the token; what goes wrong in it, and requests to others, fail the test."""
    wrong: list[str] = []
    context = chromium.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
        **more,
    )
    page = context.new_page()
    own = bench.url.partition("/workbench")[0]

    def hear(message: Any) -> None:
        # The door itself, and the page of an error: a browser says so of each 401, and of a page.
        is_page = "status of 404" in message.text and message.location["url"] == page.url
        if message.type in ("error", "warning") and "401" not in message.text and not is_page:
            wrong.append(message.text)

    def see(request: Any) -> None:
        if not request.url.startswith((own, "data:", "about:", "blob:")):
            wrong.append(f"a request to {request.url}")

    page.on("console", hear)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", see)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(bench.url)
    page.get_by_role("heading", name="Agents").wait_for()
    yield page
    context.close()
    assert wrong == []


def visit(page: Any, bench: Workbench, path: str) -> None:
    """Opens an address of the workbench, and waits until its scripts have begun."""
    page.goto(bench.url.partition("/workbench")[0] + bench.client.root + path)
    page.locator("html[data-ready]").wait_for(state="attached")


def reach_by_tab(page: Any, name: str) -> None:
    """Presses Tab until what has the focus is called so."""
    for _ in range(80):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "() => { const one = document.activeElement; "
            "return (one.ariaLabel || one.labels?.[0]?.textContent || one.textContent).trim(); }"
        )
        if here.startswith(name):
            return
    raise AssertionError(f"Tab does not reach {name!r}")


def find_violations(page: Any, axe: str) -> list[str]:
    """What axe finds wrong with a page."""
    page.evaluate(axe)
    found = page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", _TAGS
    )
    return [
        f"{one['id']}: {node['html'][:150]}: {node['failureSummary'][:200]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
