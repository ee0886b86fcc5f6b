"""Links between pages lead somewhere: their files are there, and so are the headings they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".", "docs", "evals", "evals/retrieval", "examples", "examples/*")
PAGES = sorted(file for folder in FOLDERS for file in ROOT.glob(f"{folder}/*.md"))
_BLOCK = re.compile(r"^(```+)(?!`).*?^\1 *$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")


def find_anchors(text: str) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(_BLOCK.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchor, count = base, 0
        while anchor in anchors:
            anchor, count = f"{base}-{count + 1}", count + 1
        anchors.add(anchor)
    return anchors


def find_broken_links(page: Path) -> Iterator[str]:
    """The links of a page that lead to no file or heading of this project."""
    text = page.read_text(encoding="utf-8")
    for groups in _LINK.findall(_CODE.sub("", _BLOCK.sub("", text))):
        link = next(filter(None, groups))
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield link
        elif anchor and anchor not in find_anchors(target.read_text(encoding="utf-8")):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert list(find_broken_links(page)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    other = tmp_path / "other.md"
    other.write_text("# A `b`, c\n\n```text\n# No heading\n```\n\n## A b c\n", encoding="utf-8")
    page.write_text(
        "[1](other.md) [2](other.md#a-b-c) [3](other.md#a-b-c-1) `[4](none.md)` [5](https://a.example)\n"
        "[6](none.md) [7](other.md#no-heading) [8](#here)\n",
        encoding="utf-8",
    )
    assert list(find_broken_links(page)) == ["none.md", "other.md#no-heading", "#here"]


def test_the_index_links_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    links = {link for link, _ in _LINK.findall(index)}
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - links == set()
