"""The same page beside a server, and for the agents of a server somewhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from browser_pages import find_violations, open_page, reach_by_tab, visit
from result_form_agents import set_stock, write_stock
from workbench_support import MODEL, answer, enter, price, write_shop

from orchestrator.server.operations import Caller
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.remote.server import RemoteServer
from orchestrator.server.workbench.run import run_in_thread
from orchestrator.testing import ScriptedModel

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
SUMMARY = f"<summary><topic name='tea'>{HOSTILE} Likes tea.</topic></summary>"


@contextmanager
def serving(
    folder: Path, script: list[Any], *, workbench: bool
) -> Iterator[tuple[str, ServerState]]:
    """A server: its URL, and what it knows."""
    model = ScriptedModel(script, model_id=MODEL)
    settings = Settings(port=0, agents=folder, workbench=workbench)
    with ServerState(settings, models={"*": model}) as state, serve_in_thread(state) as url:
        yield url, state


@contextmanager
def looking_at(url: str) -> Iterator[Any]:
    """A workbench that knows a server's address alone."""
    with (
        closing(Projects((), servers=[RemoteServer(url)])) as projects,
        run_in_thread(projects, Settings(port=0)) as address,
    ):
        yield as_bench(address)


def as_bench(url: str) -> Any:
    return SimpleNamespace(url=url, client=enter(url)[0])


def find_key(bench: Any) -> str:
    """What names the only agent of the only server."""
    key: str = bench.client.get("/").json["servers"][0]["agents"][0]["key"]
    return key


def give_memory(folder: Path) -> Path:
    """Has an agent remember its sessions."""
    with (folder / "agent.yaml").open("a") as file:
        file.write("memoryConfiguration:\n  enabledMemoryTypes: [SESSION_SUMMARY]\n")
    return folder


def remember(state: ServerState) -> None:
    """Has the server's agent hold a session that it remembers for `ana`."""
    (folder,) = state.agents.folders.all()
    agent = state.agents.resolve_alias(Caller(), folder.agent_id, "TSTALIASID")
    agent.invoke("I like tea.", "s-tea", memory_id="ana")
    agent.end_session("s-tea")


def say(page: Any, text: str) -> None:
    page.get_by_label("Your question").fill(text)
    page.keyboard.press("Enter")


def test_a_server_s_own_workbench_has_all_of_it(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer("Twelve.")]
    with serving(write_shop(tmp_path), script, workbench=True) as (_, state):
        with open_page(chromium, as_bench(state.workbench)) as page:
            page.get_by_role("link", name="shop").click()
            page.get_by_role("button", name="New session").click()
            page.locator("html[data-ready]").wait_for(state="attached")
            say(page, "How much is tea?")
            page.get_by_role("link", name="Steps").click()
            page.locator(".wf .step").first.click()
            page.get_by_role("heading", name="Step 1").wait_for()
            assert page.locator('.prompt [data-o="question"]').count() > 0
            assert page.get_by_role("link", name="What if…").count() == 1


def test_one_talks_to_an_agent_that_is_somewhere_else(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer(f"Twelve. {HOSTILE}")]
    with (
        serving(write_shop(tmp_path), script, workbench=False) as (url, _),
        looking_at(url) as bench,
        open_page(chromium, bench) as page,
    ):
        assert page.get_by_role("heading", name=url).count() == 1
        page.get_by_role("link", name="shop").click()
        page.get_by_role("button", name="New session").click()
        page.locator("html[data-ready]").wait_for(state="attached")
        page.keyboard.type("How much is tea?")  # the field has the focus
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Steps").wait_for()
        assert page.locator(".answer").inner_text() == f"Twelve. {HOSTILE}"
        assert f"asked at {url} through Bedrock's API" in page.locator("main").inner_text()
        assert page.get_by_role("button", name="Edit and fork").count() == 0
        page.get_by_role("link", name="Steps").click()
        page.get_by_label("Trace parts of step 2 as JSON").click()
        page.locator(".parts pre").first.wait_for()
        page.locator(".wf .step").first.click()
        page.get_by_role("heading", name="Prompt, as the trace has it").wait_for()


def test_a_remote_memory_is_found_and_forgotten_by_keyboard(chromium: Any, tmp_path: Path) -> None:
    script = [answer("Noted."), SUMMARY]
    with (
        serving(give_memory(write_shop(tmp_path)), script, workbench=False) as (url, state),
        looking_at(url) as bench,
        open_page(chromium, bench) as page,
    ):
        remember(state)
        reach_by_tab(page, "shop")
        page.keyboard.press("Enter")
        page.locator("html[data-ready]").wait_for(state="attached")
        reach_by_tab(page, "Memory")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="What shop remembers").wait_for()
        reach_by_tab(page, "Id of a memory")
        page.keyboard.type("ana")
        page.keyboard.press("Enter")
        page.get_by_text("Likes tea.").wait_for()
        reach_by_tab(page, "Forget")
        page.keyboard.press("Enter")
        page.get_by_text("Nothing is remembered under this id.").wait_for()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_in_remote_pages(
    scheme: str, width: int, axe: str, chromium: Any, tmp_path: Path
) -> None:
    script = [set_stock(), answer("Noted."), SUMMARY]
    with (
        serving(give_memory(write_stock(tmp_path)), script, workbench=False) as (url, state),
        looking_at(url) as bench,
        open_page(chromium, bench, scheme=scheme, width=width) as page,
    ):
        key = find_key(bench)
        at = f"/agents/{key}/sessions/s-1"
        visit(page, bench, at)
        say(page, "Seven teas.")
        page.locator("form.waits").wait_for()
        assert find_violations(page, axe) == []
        turn = bench.client.get(at).json["turns"][0]["id"]
        remember(state)
        for path in (
            "/",
            f"/agents/{key}",
            f"{at}/turns/{turn}",
            f"{at}/turns/{turn}/steps/1",
            f"/agents/{key}/memory",
            f"/agents/{key}/memory?id=nobody",
            f"/agents/{key}/memory?id=ana",
        ):
            visit(page, bench, path)
            assert find_violations(page, axe) == [], path
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path
        assert "Likes tea." in page.locator("main").inner_text()
