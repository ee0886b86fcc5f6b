"""Takes the pictures of docs/workbench.md: today's pages at three widths, light and dark.

    PYTHONPATH=tests:tests/browser:. python tests/browser/take_pictures.py

It needs Chromium, which writes them as WebP, too: half as large as PNG, and its letters as clear.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from browser_pages import open_page, visit
from picture_scenes import (
    CUSTOMER,
    DAMAGE,
    MISSING,
    REMIND,
    SESSION,
    PacedModel,
    copy_example,
    write_cases,
)
from playwright.sync_api import sync_playwright
from workbench_support import MODEL, Workbench, workbench

from orchestrator.models.prices import parse_prices

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
DESKTOP, TABLET, PHONE = 1280, 820, 390
_TO_WEBP = """async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", 0.8).split(",")[1];
}"""
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Picture(NamedTuple):
    """One picture: its file, the page, and what is done on it before."""

    name: str
    page: str
    width: int
    height: int
    scheme: str = "light"
    act: Callable[[Any], None] = lambda page: None


def _choose_instruction(page: Any) -> None:
    page.locator('.legend [data-origin="instruction"]').click()
    page.evaluate("() => scrollTo(0, 0)")


def _change_template(page: Any) -> None:
    page.locator("#preview details").first.wait_for()
    field = page.locator("#template")
    field.fill(field.input_value().replace("You work towards an answer", "Work on an answer"))
    page.locator("#preview .new").first.wait_for()
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def _leave_field(page: Any) -> None:
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def list_pictures(chat: str, turn: str, team: str, run: str) -> list[Picture]:
    """All of them."""
    prompt, what_if = f"{turn}/steps/5", f"{turn}/steps/5/what-if"
    return [
        Picture("chat", chat, DESKTOP, 620, act=_leave_field),
        Picture("steps", team, DESKTOP, 560),
        Picture("prompt", prompt, DESKTOP, 640, act=_choose_instruction),
        Picture("what-if", what_if, DESKTOP, 640, act=_change_template),
        Picture("evaluation", run, DESKTOP, 1180),
        Picture("prompt-dark", prompt, DESKTOP, 640, "dark"),
        Picture("steps-dark", team, TABLET, 620, "dark"),
        Picture("chat-tablet", chat, TABLET, 620, act=_leave_field),
        Picture("prompt-tablet", prompt, TABLET, 760),
        Picture("chat-phone", chat, PHONE, 760, act=_leave_field),
        Picture("prompt-phone", prompt, PHONE, 760),
        Picture("steps-phone", team, PHONE, 760),
        Picture("chat-phone-dark", chat, PHONE, 760, "dark", _leave_field),
        Picture("prompt-phone-dark", prompt, PHONE, 760, "dark"),
        Picture("evaluation-phone-dark", run, PHONE, 760, "dark"),
    ]


def _ask(bench: Workbench) -> tuple[str, str, str]:
    """Has the agents answer; the chat, its first turn, and the team's."""
    agents = {it.folder.name: it.agent() for it in bench.projects.all()}
    insurance, team = agents["insurance"], agents["team"]
    for question in (MISSING, REMIND):
        insurance.invoke(question, SESSION)
    team.invoke(DAMAGE, SESSION, session_attributes=CUSTOMER)
    chat, other = (f"/agents/{name}/sessions/{SESSION}" for name in ("insurance", "team"))
    return (
        chat,
        f"{chat}/turns/{insurance.turns(SESSION)[0].id}",
        f"{other}/turns/{team.turns(SESSION)[0].id}",
    )


def _evaluate(bench: Workbench) -> str:
    """Holds the cases with both folders of templates; the page of the second run."""
    at = "/agents/insurance/evaluations"
    (cases,) = bench.client.get(at).json["cases"]
    keys = []
    for prompts in ("", "templates-new"):
        begun = bench.client.post(f"{at}/start", {"cases": cases["key"], "prompts": [prompts]})
        assert begun.status == 200, begun.text
        keys.append(begun.json["run"])
        assert not bench.client.post(f"{at}/{keys[-1]}/watch", {}).lines[-1]["running"]
    return f"{at}/{keys[1]}?baseline={keys[0]}"


def _take(browser: Any, bench: Workbench, one: Picture) -> Path:
    file = IMAGES / f"workbench-{one.name}.webp"
    with open_page(browser, bench, scheme=one.scheme, width=one.width) as page:
        page.set_viewport_size({"width": one.width, "height": one.height})
        visit(page, bench, one.page)
        one.act(page)
        picture = page.screenshot()
    file.write_bytes(_convert(browser, picture))
    return file


def _convert(browser: Any, picture: bytes) -> bytes:
    page = browser.new_page()
    text = page.evaluate(_TO_WEBP, base64.b64encode(picture).decode())
    page.close()
    return base64.b64decode(text)


def main() -> int:
    """Takes them, and says how large they are together."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _CHROMIUM)))
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        for variable in ("CLAIMS_FILE", "REMINDERS_FILE", "ORCHESTRATOR_MODELS"):
            os.environ[variable] = str(folder / variable)
        insurance, team = copy_example("insurance", folder), copy_example("team", folder)
        write_cases(insurance)
        prices = parse_prices([f"{MODEL}=3,15,0.3,3.75"])
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        with workbench(insurance, (), team, model=PacedModel(), prices=prices) as bench:
            pictures = list_pictures(*_ask(bench), _evaluate(bench))
            files = [_take(browser, bench, one) for one in pictures]
        browser.close()
    print(f"{len(files)} pictures, {sum(it.stat().st_size for it in files):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
