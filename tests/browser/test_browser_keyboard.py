"""Pages by the keyboard alone, each with something on it; axe looks at them on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_pages import find_violations, open_page, reach_by_tab, visit
from weights_publisher import publisher
from workbench_support import Workbench, answer, price, workbench, write_shop

pytestmark = pytest.mark.browser

AT = "/agents/shop/sessions/s-1"
SUMMARY = "<summary><topic name='tea'>Likes tea.</topic></summary>"


def press(page: Any, name: str, key: str = "Enter") -> None:
    """Goes to what is called so, and presses a key there."""
    reach_by_tab(page, name)
    page.keyboard.press(key)


def ask(bench: Workbench) -> str:
    bench.agent.invoke("How much is tea?", "s-1")
    return f"{AT}/turns/{bench.agent.turns('s-1')[-1].id}"


def test_sessions_are_searched_ended_and_deleted(chromium: Any, axe: str, tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Twelve.")] * 2) as bench, open_page(chromium, bench) as page:
        for id in ("s-1", "t-1"):
            bench.agent.invoke("How much is tea?", id)
        press(page, "shop")
        page.get_by_text("2 sessions").wait_for()
        reach_by_tab(page, "Search sessions")
        page.keyboard.type("s-")
        page.keyboard.press("Enter")
        page.get_by_text("1 session", exact=True).wait_for()
        press(page, "s-1")
        page.get_by_role("heading", name="s-1").wait_for()
        page.locator("html[data-ready]").wait_for(state="attached")
        reach_by_tab(page, "End session")
        with page.expect_navigation():  # to the same page
            page.keyboard.press("Enter")
        page.locator("html[data-ready]").wait_for(state="attached")
        assert find_violations(page, axe) == []
        press(page, "Delete")
        page.get_by_role("button", name="New session").wait_for()
        assert [it["id"] for it in bench.client.get("/agents/shop").json["sessions"]] == ["t-1"]


def test_a_memory_is_forgotten(chromium: Any, axe: str, tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    with (own / "agent.yaml").open("a") as file:
        file.write("memoryConfiguration:\n  enabledMemoryTypes: [SESSION_SUMMARY]\n")
    with workbench(own, [answer("Yes."), SUMMARY]) as bench, open_page(chromium, bench) as page:
        bench.agent.invoke("I like tea.", "s-1", memory_id="ana")
        bench.agent.end_session("s-1")
        visit(page, bench, "/agents/shop")
        press(page, "Memory")
        page.get_by_text("Likes tea.").wait_for()
        assert find_violations(page, axe) == []
        page.locator("html[data-ready]").wait_for(state="attached")
        press(page, "Forget")
        page.get_by_text("Nothing is remembered yet").wait_for()


def test_findings_are_widened(chromium: Any, tmp_path: Path) -> None:
    with workbench(tmp_path) as bench, open_page(chromium, bench) as page:
        visit(page, bench, "/agents/shop")
        press(page, "Definition")
        page.get_by_role("heading", name="Findings").wait_for()
        press(page, "What Bedrock may refuse, too")
        page.get_by_role("link", name="Only what matters here").wait_for()


def test_weights_are_fetched_and_removed(
    chromium: Any, axe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path / "models"))
    with (
        publisher(monkeypatch) as gate,
        workbench(tmp_path) as bench,
        open_page(chromium, bench) as page,
    ):
        press(page, "Models")
        page.locator("html[data-ready]").wait_for(state="attached")
        press(page, "Fetch tiny")
        page.get_by_text("downloading tiny").wait_for()
        assert find_violations(page, axe) == []
        gate.let.set()
        page.get_by_role("button", name="Remove tiny").wait_for()
        page.locator("html[data-ready]").wait_for(state="attached")
        press(page, "Remove tiny")
        page.get_by_role("button", name="Fetch tiny").wait_for()


def test_a_call_runs_anew_with_another_instruction(chromium: Any, axe: str, tmp_path: Path) -> None:
    script = [price(), answer("Twelve."), price("milk"), answer("Three, then.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        visit(page, bench, f"{ask(bench)}/steps/1")
        press(page, "What if…")
        page.locator("#bench[data-shown]").wait_for()
        reach_by_tab(page, "Instruction and model")
        reach_by_tab(page, "Instruction")
        page.keyboard.press("Control+A")
        page.keyboard.type("Sell milk.")
        page.locator("#preview").get_by_text("Sell milk.").wait_for()
        press(page, "Run from here")
        page.get_by_role("group", name="A call that was not recorded").wait_for()
        assert find_violations(page, axe) == []
        page.keyboard.type("milk costs 3 euros.")  # the field has the focus
        press(page, "Use this result")
        page.get_by_text("Three, then.").wait_for()
        press(page, "Save the template…")
        page.get_by_text("Nothing was changed.").wait_for()
        assert find_violations(page, axe) == []
        press(page, "Cancel")
        press(page, "Compare side by side")
        page.get_by_role("heading", name="Two runs").wait_for()
        assert page.locator(".diff .add").count() > 0
        assert find_violations(page, axe) == []


def test_a_script_goes_on_after_its_breakpoint(chromium: Any, axe: str, tmp_path: Path) -> None:
    own = write_shop(tmp_path)
    (own / "wait.pl").write_text("Say one. -> a\n(bp)\nSay two. -> b\n")
    with workbench(own, ["Uno.", "Due."]) as bench, open_page(chromium, bench) as page:
        visit(page, bench, "/agents/shop/files")
        press(page, "wait.pl")
        page.locator("html[data-ready]").wait_for(state="attached")
        press(page, "Run")
        page.get_by_role("button", name="One step").wait_for()
        assert find_violations(page, axe) == []
        page.keyboard.press("Enter")  # the first button has the focus
        page.locator("#out .answer", has_text="Due.").wait_for()
        assert find_violations(page, axe) == []
