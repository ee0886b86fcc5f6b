"""Import, models, findings, templates and scripts, as people use them in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_pages import find_violations, open_page, reach_by_tab, visit
from weights_publisher import CONTENT, publisher
from workbench_support import workbench, write_shop

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
AGENT = {
    "agent": {
        "agentId": "ABCDEFGHIJ",
        "agentName": "claims",
        "agentArn": "arn:aws:bedrock:eu-central-1:123456789012:agent/ABCDEFGHIJ",
        "agentStatus": "PREPARED",
        "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "instruction": f"You tell people how their insurance claims stand. {HOSTILE}",
    }
}
PROMPTY = (
    "---\nname: greeting\ninputs:\n  question:\n    type: string\n---\n"
    "system:\nGreet.\n\nuser:\n{{question}}\n"
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path / "models"))


def write(folder: Path) -> Path:
    own = write_shop(folder)
    (own / "prompts").mkdir()
    (own / "prompts/greeting.prompty").write_text(PROMPTY)
    (own / "templates").mkdir()
    (own / "templates" / f"{HOSTILE.replace('/', '')}.txt").write_text("x")
    return own


def drop(page: Any, name: str, text: str) -> None:
    """Drops a file, as from the desktop."""
    page.evaluate(
        """([name, text]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], name));
            const drop = document.getElementById("drop");
            for (const kind of ["dragenter", "dragover", "drop"]) {
                drop.dispatchEvent(new DragEvent(kind, {
                    dataTransfer: transfer, bubbles: true, cancelable: true }));
            }
        }""",
        [name, text],
    )


def test_an_agent_is_dropped_looked_at_and_written(chromium: Any, tmp_path: Path) -> None:
    folder = write(tmp_path)
    with workbench(folder, []) as bench, open_page(chromium, bench) as page:
        page.get_by_role("link", name="Import…").click()
        page.locator("html[data-ready]").wait_for(state="attached")
        drop(page, "agent.json", json.dumps(AGENT))
        page.get_by_text("agent.yaml").wait_for()
        page.get_by_text("agent.yaml").click()
        assert HOSTILE in page.locator(".diff").inner_text()
        assert not (folder / "imported").exists()
        page.get_by_role("button", name="Write it").click()
        page.get_by_role("link", name="claims").click()
        page.get_by_role("heading", name="claims").wait_for()
        assert (folder / "imported/claims/agent.yaml").is_file()


def test_a_template_is_imported_and_rendered_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    folder = write(tmp_path)
    with workbench(folder, ["I am a shop."]) as bench, open_page(chromium, bench) as page:
        visit(page, bench, "/import?into=shop")
        page.locator("#files").set_input_files(
            files=[{"name": "hi.prompty", "mimeType": "", "buffer": PROMPTY.encode()}]
        )
        page.get_by_text("prompts/hi.prompty").wait_for()
        reach_by_tab(page, "Write it")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Written").wait_for()
        visit(page, bench, "/agents/shop/files")
        reach_by_tab(page, "prompts/hi.prompty")
        page.keyboard.press("Enter")
        page.locator("html[data-ready]").wait_for(state="attached")
        page.locator("[data-input=question]").fill(f"Who? {HOSTILE}")
        reach_by_tab(page, "Render")
        page.keyboard.press("Enter")
        piece = page.locator('#preview [data-o="question"]')
        piece.wait_for()
        assert piece.text_content() == f"Who? {HOSTILE}"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_text("I am a shop.").wait_for()


def test_weights_are_fetched_with_progress(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        publisher(monkeypatch) as gate,
        workbench(write(tmp_path), []) as bench,
        open_page(chromium, bench) as page,
    ):
        page.get_by_role("link", name="Models").click()
        page.get_by_role("button", name="Fetch tiny").click()
        page.get_by_text("downloading tiny").wait_for()
        assert 0 < page.locator("progress").evaluate("bar => bar.value") < len(CONTENT)
        # Whoever comes back sees how far it is.
        page.reload()
        page.get_by_role("button", name="Stop fetching tiny").wait_for()
        page.get_by_text("downloading tiny").wait_for()
        gate.let.set()
        page.get_by_role("button", name="Remove tiny").click()
        page.get_by_role("button", name="Fetch tiny").wait_for()


def test_findings_are_there_for_an_agent_that_does_not_load(chromium: Any, tmp_path: Path) -> None:
    folder = write(tmp_path)
    with workbench(folder, []) as bench, open_page(chromium, bench) as page:
        file = folder / "agent.yaml"
        file.write_text(file.read_text().replace("python: actions.py", "python: action.py"))
        visit(page, bench, "/agents/shop/definition")
        page.get_by_text("The agent does not load.").wait_for()
        text = page.locator("main").inner_text()
        assert "agent.yaml:8" in text
        assert HOSTILE.replace("/", "") in text
        page.get_by_role("heading", name="Dialects").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_all_fits_a_phone(
    scheme: str, axe: str, chromium: Any, tmp_path: Path
) -> None:
    with workbench(write(tmp_path), []) as bench:
        (file,) = bench.client.get("/agents/shop/files").json["files"]
        own = "/agents/shop"
        paths = (f"{own}/definition", f"{own}/files", f"{own}/files/{file['key']}", "/models")
        for width in (1280, 390):
            with open_page(chromium, bench, scheme=scheme, width=width) as page:
                for path in paths:
                    visit(page, bench, path)
                    assert find_violations(page, axe) == [], path
                    wide = page.evaluate("() => document.documentElement.scrollWidth")
                    assert wide <= width, path
                visit(page, bench, "/import")
                drop(page, "agent.json", json.dumps(AGENT))
                page.get_by_text("agent.yaml").wait_for()
                assert find_violations(page, axe) == []
                assert page.evaluate("() => document.documentElement.scrollWidth") <= width
