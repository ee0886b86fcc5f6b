"""What users, models and actions wrote is text on every page, whatever it looks like."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from workbench_support import answer, price, workbench

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></textarea></title></script><svg onload=alert(1)>",
    "javascript:alert(1)",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png)",
    "{{ 7*7 }}{% raw %}${7*7}#{7*7}",
    "' onmouseover='alert(1)",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link",
    "\u202egnp.exe \u2066x\u2069 \ufeff",
    "<!--<base href=//evil.example>--><iframe srcdoc=x>",
)
KNOWN = {
    "script",
    "link",
    "meta",
    "img",
    "svg",
    "rect",
    "iframe",
    "base",
    "object",
    "embed",
    "style",
}


class Tags(HTMLParser):
    """The tags and attributes of a page that could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        active = [
            (name, value)
            for name, value in attrs
            if name.startswith("on")
            or name in ("style", "srcdoc", "formaction")
            or (
                name in ("href", "src", "action") and not str(value).startswith(("/workbench", "#"))
            )
        ]
        if tag in KNOWN or active:
            self.found.append((tag, tuple(active)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text: str, tmp_path: Path) -> None:
    with workbench(
        tmp_path, [price(text, thinking=text), answer(text), price(text), answer(text)]
    ) as bench:
        bench.agent.invoke("Hello", "s-0")
        plain_turn = bench.agent.turns("s-0")[0].id
        bench.agent.invoke(text, "s-1", prompt_session_attributes={"x": text})
        turn = bench.agent.turns("s-1")[0].id
        for part in (
            "",
            "/turns/{}",
            "/turns/{}/steps/1",
            "/turns/{}/steps/2",
            "/turns/{}/steps/3",
        ):
            page = bench.client.page(f"/agents/shop/sessions/s-1{part.format(turn)}")
            assert page.status == 200
            tags = read(page.text)
            plain = bench.client.page(f"/agents/shop/sessions/s-0{part.format(plain_turn)}")
            assert sorted(set(tags.found)) == sorted(set(read(plain.text).found))
            assert all(not active for _, active in tags.found)
        told = bench.client.get("/agents/shop/sessions/s-1").json
        assert told["turns"][0]["question"] == text


@pytest.mark.exhaustive
def test_a_line_of_ten_megabytes_is_shown(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        bench.agent.invoke("x<" * 5_000_000, "s-1")
        turn = bench.agent.turns("s-1")[0].id
        page = bench.client.page(f"/agents/shop/sessions/s-1/turns/{turn}/steps/1")
        assert page.status == 200
        shown = re.sub("<[^>]*>", "", page.text)  # blocks of a text may end between its letters
        assert "x&lt;" * 5_000_000 in shown
        assert len(bench.client.page(f"/agents/shop/sessions/s-1/turns/{turn}").text) < 50_000


def test_a_definition_with_html_in_it_is_text(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        file = bench.folder / "agent.yaml"
        file.write_text(
            file.read_text().replace("You answer", json.dumps("<img src=x onerror=alert(1)>")[1:-1])
        )
        bench.projects.all()[0].instruction = "<img src=x onerror=alert(1)>"
        for path in ("/", "/agents/shop"):
            assert "<img" not in bench.client.page(path).text
