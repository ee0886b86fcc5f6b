"""The workbench as people use it: in a browser, with the mouse or the keyboard alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_pages import find_violations, open_page, visit
from workbench_support import Workbench, answer, call, made_calls, price, workbench

pytestmark = pytest.mark.browser

AT = "/agents/shop/sessions/s-1"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e😀"


def ask(bench: Workbench, question: str = "How much is tea?") -> str:
    bench.agent.invoke(question, "s-1")
    return f"{AT}/turns/{bench.agent.turns('s-1')[-1].id}"


def say(page: Any, text: str) -> None:
    page.get_by_label("Your question").fill(text)
    page.keyboard.press("Enter")


def test_one_talks_and_sees_calls_and_the_answer(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer(f"Twelve. {HOSTILE}"), answer("Thirteen.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        page.get_by_role("link", name="shop").click()
        page.get_by_role("button", name="New session").click()
        page.locator("html[data-ready]").wait_for(state="attached")
        say(page, "How much is tea?")
        page.get_by_role("link", name="Steps").wait_for()
        assert page.locator(".answer").inner_text() == f"Twelve. {HOSTILE}"
        page.get_by_text("Thinking").click()
        assert page.locator(".thought").inner_text() == "I look."
        page.get_by_role("link", name="prices::get_price").click()
        page.get_by_role("heading", name="Step 2 · action").wait_for()
        assert "tea costs 12 euros." in page.locator("main").inner_text()
        page.go_back()
        page.locator("html[data-ready]").wait_for(state="attached")
        page.get_by_role("button", name="Ask again").click()
        page.locator(".answer", has_text="Thirteen.").wait_for()
        page.get_by_role("link", name="Steps").wait_for()
        assert "-fork-1" in page.url
        page.get_by_role("button", name="Edit and fork").click()
        page.wait_for_url("**-fork-2")
        assert page.get_by_label("Your question").input_value() == "How much is tea?"


def test_a_turn_that_fails_leads_to_its_steps(chromium: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, [price()]) as bench, open_page(chromium, bench) as page:
        visit(page, bench, AT)
        say(page, "How much is tea?")
        page.get_by_role("link", name="Steps").wait_for()
        assert "asked for reply 2" in page.locator(".answer").inner_text()
        # One that was refused has none, and its reason stays.
        refusal = json.dumps({"type": "error", "message": "It is busy."})
        page.route("**/ask", lambda route: route.fulfill(body=f"{refusal}\n"))
        say(page, "And coffee?")
        page.locator(".turn.failed:not(.running)", has_text="It is busy.").wait_for()
        page.wait_for_load_state("networkidle")
        assert page.locator("#status").inner_text() == "failed: It is busy."
        assert page.locator(".asked").all_inner_texts() == ["How much is tea?", "And coffee?"]
        assert page.get_by_role("link", name="Steps").count() == 1


def test_control_is_handed_over_and_confirmed_by_buttons(chromium: Any, tmp_path: Path) -> None:
    order = call("orders__order", item="tea")
    script = [call("orders__stock", item="tea"), order, order, answer("Done.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        visit(page, bench, AT)
        say(page, "Order tea")
        page.get_by_label("Its result").fill("7 left")
        page.get_by_role("button", name="Send results").click()
        page.get_by_role("button", name="Deny").click()
        # After a reload it waits as before.
        page.get_by_role("button", name="Confirm").wait_for()
        page.reload()
        page.get_by_label("Its result").fill("ordered")
        page.get_by_role("button", name="Confirm").click()
        page.get_by_text("Done.").first.wait_for()
        assert "7 left" in str(bench.model.requests[1].messages)
        assert "ordered" in str(bench.model.requests[3].messages)


def test_what_is_decided_upon_is_read_as_it_is(chromium: Any, tmp_path: Path) -> None:
    item = "tea\u202e eerf rof\u202c\u2066x\u2069\u3164"
    told = r'item="tea\u{202e} eerf rof\u{202c}\u{2066}x\u{2069}\u{3164}"'
    script = [call("orders__order", item=item), answer("Done."), price(item), answer("Yes.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        visit(page, bench, AT)
        say(page, "Order tea")
        page.get_by_role("button", name="Confirm").wait_for()
        assert told in page.locator(".waits").inner_text()
        page.get_by_label("Its result").fill("ordered")
        page.get_by_role("button", name="Confirm").click()
        page.get_by_text("Done.").first.wait_for()
        turn = f"{AT}/turns/{bench.agent.turns('s-1')[-1].id}"
        visit(page, bench, f"{turn}/steps/1/what-if")
        page.get_by_role("button", name="Run from here").click()
        page.get_by_role("button", name="Call it").wait_for()
        assert told in page.locator(".waits").inner_text()
        page.get_by_role("button", name="Call it").click()
        page.get_by_role("button", name="Discard this run").click()
        page.get_by_text("Yes.").wait_for(state="detached")
        assert made_calls(bench.folder) == item.split()
        assert [it["id"] for it in bench.client.get("/agents/shop").json["sessions"]] == ["s-1"]


def test_every_character_of_a_prompt_is_named_and_stepped_through(
    chromium: Any, tmp_path: Path
) -> None:
    script = [price(), answer("Twelve.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        question = f"How much is tea? {HOSTILE}"
        turn = ask(bench, question)
        visit(page, bench, f"{turn}/steps/3")
        prompt = bench.agent.turns("s-1")[0].steps()[2].prompt()
        shown = page.locator(".prompt .text").first.text_content()
        assert shown == str(prompt.system)
        piece = page.locator('.prompt [data-o="question"]')
        assert piece.text_content() == question
        piece.hover()
        assert page.locator("#where").inner_text().startswith("question, line ")
        page.locator('.legend [data-origin="action result"]').click()
        assert "Piece 1 of 1." in page.locator("#where").inner_text()
        assert page.locator(".here").get_attribute("data-o") == "action result"
        page.keyboard.press("Escape")
        assert page.locator(".here").count() == 0
        page.get_by_label("fold what step 1 had, too").check()
        assert page.locator(".prompt details[open]").count() == 3


def test_steps_are_filtered_and_the_address_keeps_it(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer("Twelve.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        turn = ask(bench)
        visit(page, bench, turn)
        page.get_by_label("Filter steps").fill("action")
        assert page.locator(".wf .step:visible").count() == 1
        assert page.url.endswith("?q=action")
        page.reload()
        page.get_by_text("1 of 3").wait_for()
        page.locator(".wf .step:visible").click()
        page.get_by_role("heading", name="Step 2").wait_for()


def test_a_template_is_changed_run_compared_and_saved(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer("Twelve."), price("milk"), answer("Three, then.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        turn = ask(bench)
        visit(page, bench, f"{turn}/steps/1")
        page.get_by_role("link", name="What if…").click()
        page.locator("#bench[data-shown]").wait_for()
        template = page.get_by_label("Template of ORCHESTRATION")
        template.fill(
            template.input_value().replace("$instruction$", "CHANGED $instruction$ $nonsense$", 1)
        )
        page.get_by_text("nonsense").first.wait_for()
        page.locator("#preview").get_by_text("CHANGED").wait_for()
        page.get_by_role("button", name="Run from here").click()
        page.get_by_label("Result of prices::get_price").fill("milk costs 3 euros.")
        page.get_by_role("button", name="Use this result").click()
        page.get_by_text("Three, then.").wait_for()
        assert made_calls(bench.folder) == ["tea"]
        page.get_by_role("button", name="Save the template…").click()
        page.locator("#difference .add").first.wait_for()
        assert not (bench.folder / "templates").exists()
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("Saved to templates/tool-use/orchestration.json.").wait_for()
        assert "CHANGED" in (bench.folder / "templates/tool-use/orchestration.json").read_text()
        page.get_by_role("link", name="Compare side by side").click()
        page.get_by_role("heading", name="Two runs").wait_for()
        assert "Twelve." in page.locator("main").inner_text()
        assert "Three, then." in page.locator("main").inner_text()


def test_the_keyboard_alone_is_enough(chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer("Twelve.")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench) as page:
        visit(page, bench, "/agents/shop")

        def reach(name: str) -> None:
            for _ in range(40):
                page.keyboard.press("Tab")
                here = page.evaluate("() => document.activeElement.textContent.trim()")
                if here.startswith(name):
                    return
            raise AssertionError(f"Tab does not reach {name!r}")

        reach("Skip to the content")
        reach("New session")
        page.keyboard.press("Enter")
        page.locator("html[data-ready]").wait_for(state="attached")
        page.keyboard.type("How much is tea?")  # the field has the focus
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Steps").wait_for()
        page.locator("#question").blur()
        reach("Steps")
        page.keyboard.press("Enter")
        page.get_by_role("list", name="Steps").wait_for()
        reach("3")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Step 3").wait_for()
        reach("tools")
        assert page.locator("#where").inner_text().startswith("tools")
        page.keyboard.press("Enter")
        assert page.locator(".here").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, axe: str, chromium: Any, tmp_path: Path) -> None:
    script = [price(), answer("Twelve."), call("orders__order", item="tea")]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench, scheme=scheme) as page:
        turn = ask(bench)
        own = "/agents/shop"
        paths = ("/", own, f"{own}/definition", f"{own}/memory", AT, turn, f"{turn}/steps/2")
        steps = (f"{turn}/steps/3", f"{turn}/steps/3/what-if")
        missing = f"{turn}/steps/99"  # the page that says what did not work
        for path in (*paths, *steps, f"{own}/compare?left=s-1&right=s-1", missing):
            visit(page, bench, path)
            assert find_violations(page, axe) == [], path
        visit(page, bench, AT)
        say(page, "Order")
        page.get_by_role("button", name="Deny").wait_for()
        assert find_violations(page, axe) == []


@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_no_page_is_wider_than_its_window(width: int, chromium: Any, tmp_path: Path) -> None:
    script = [price("x" * 400), answer("y" * 400)]
    with workbench(tmp_path, script) as bench, open_page(chromium, bench, width=width) as page:
        turn = ask(bench, "z" * 400)
        for path in (
            "/",
            "/agents/shop",
            AT,
            turn,
            f"{turn}/steps/2",
            f"{turn}/steps/3",
            f"{turn}/steps/1/what-if",
        ):
            visit(page, bench, path)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path


def test_the_theme_is_switched_and_kept(chromium: Any, tmp_path: Path) -> None:
    with workbench(tmp_path) as bench, open_page(chromium, bench) as page:
        visit(page, bench, "/")
        light = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        page.get_by_role("button", name="Light / dark").click()
        visit(page, bench, "/agents/shop")
        dark = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        assert light != dark


def test_a_stranger_is_told_where_to_enter(chromium: Any, tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(bench.url.partition("#")[0])
        page.get_by_role("heading", name="This workbench does not know you yet").wait_for()
        page.goto(bench.url + "x")
        page.reload()
        page.get_by_text("That is not the token of this workbench").wait_for()
        context.close()


def test_a_value_turns_no_text_of_the_prompt_around(chromium: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Twelve.")]) as bench:
        template = {
            "system": "$instruction$",
            "messages": [
                {"role": "user", "content": [{"text": "Asked: $question$ (end)"}]},
                {"role": "assistant", "content": [{"text": "$agent_scratchpad$"}]},
            ],
        }
        override = {"promptType": "ORCHESTRATION", "basePromptTemplate": json.dumps(template)}
        override |= {"promptCreationMode": "OVERRIDDEN", "promptState": "ENABLED"}
        file = bench.folder / "agent.yaml"
        given = {"promptOverrideConfiguration": {"promptConfigurations": [override]}}
        file.write_text(f"{file.read_text()}\n{json.dumps(given)[1:-1]}\n")
        path = ask(bench, "tea \u202e milk")
        with open_page(chromium, bench) as page:
            visit(page, bench, f"{path}/steps/1")
            question, after = (
                page.locator(".text pre span", has_text=text).last.bounding_box()
                for text in ("milk", "(end)")
            )
    assert question["x"] + question["width"] <= after["x"] + 1
