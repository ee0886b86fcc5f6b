"""Attack 16: small files that take very long to read."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
from left_out import sampled

from orchestrator.knowledge import LocalKnowledgeBase, pdf
from orchestrator.knowledge.html import is_too_nested


def drawn(operators: bytes, pages: int, *, forms: int = 0) -> bytes:
    """A PDF whose pages share one stream, through forms in forms if asked to."""
    from pypdf import PdfWriter
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, StreamObject

    writer = PdfWriter()
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font"),
                             NameObject("/Subtype"): NameObject("/Type1"),
                             NameObject("/BaseFont"): NameObject("/Helvetica")})  # fmt: skip
    resources = DictionaryObject(
        {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font)})}
    )
    content = StreamObject()
    content.set_data(operators)
    for _ in range(forms):
        content[NameObject("/Type")] = NameObject("/XObject")
        content[NameObject("/Subtype")] = NameObject("/Form")
        content[NameObject("/BBox")] = ArrayObject([NumberObject(0)] * 4)
        content[NameObject("/Resources")] = resources
        inner = DictionaryObject({NameObject("/X"): writer._add_object(content)})
        resources = DictionaryObject({**resources, NameObject("/XObject"): inner})
        content = StreamObject()
        content.set_data(b"/X Do " * 10)
    shared = writer._add_object(content)
    for _ in range(pages):
        page = writer.add_blank_page(9, 9)
        page[NameObject("/Resources")] = resources
        page[NameObject("/Contents")] = shared
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()


TEXT = b"BT /F1 1 Tf (dog) Tj ET "


def skipped(folder: Path, name: str, data: bytes) -> str:
    """Why a document was skipped; another beside it is read nevertheless."""
    (folder / name).write_bytes(data)
    (folder / "fine.pdf").write_bytes(drawn(TEXT, 2))
    base = LocalKnowledgeBase(folder, id="x", embedder=None)
    report: Any = base.index()
    assert report.passages == 2 and "dog" in str(base.retrieve("dog"))
    return str(report.skipped.get(name, ""))


@pytest.mark.parametrize(
    "data",
    [drawn(TEXT * 100, 50), drawn(TEXT * 10, 2, forms=3)],
    ids=["one stream on all pages", "forms in forms"],
)
def test_a_pdf_that_draws_without_end(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "_MOST_OPERATORS", 1_000)
    monkeypatch.setattr(pdf, "_OPERATORS_A_BYTE", 0)
    assert skipped(tmp_path, "bomb.pdf", data) == "drawing it takes more than 1,000 operators"


def test_a_pdf_has_only_so_much_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(pdf, "_now", lambda: float(next(clock)))
    assert "takes more than 1" in skipped(tmp_path, "slow.pdf", drawn(TEXT, 30))


@pytest.mark.exhaustive
def test_a_stream_that_is_too_much_at_once(tmp_path: Path) -> None:
    assert "LimitReached" in skipped(tmp_path, "large.pdf", drawn(b"q " * 1_100_000, 1))


BOLD = "".join(f"<b id={n}>" for n in range(1500))
PAGES = {
    "divs": "<div>" * 200_000,
    "hidden behind closed ones": "<div></x>" * 100_000,
    "crossed": "<x><div></x></div>" * 10_000,
    "closed by nobody": "<div><table><tr><td></div></table" * 7_000,
    "no drawing": "<path/>" * 100_000,
    "drawings left": "<svg><div><path/></div>" * 10_000 + "<path/>" * 7_000,
    "quoted": "<svg>" + """<g a='"' b="/>">""" * 10_000,
    "a slash of a value": "<svg>" + "<g a=b/>" * 10_000,
    "begun again": f"<p>{BOLD}" + "<p>x" * 1_000,
    "wide and deep": "<div>" * 5_000 + "<p>x</p>" * 11_000,
    "ended in quotes": """<div><i a="</div>">""" * 10_000,
    "ended in no quotes": """<i ="><div>""" * 10_000,
    "ended in a comment": "<div><!--</div>-->" * 10_000,
    "ended after a comment": "<!--><div>-->" * 10_000,
    "ended in a script": "<div><script></div></script>" * 10_000,
    "ends that reach nothing": "<x><div>" + "<span>" * 5_900 + "</x>" * 20_000,
    "inline": "<span>" * 7_000,
}


@pytest.mark.parametrize("page", sampled(PAGES.values()), ids=list(PAGES))
def test_a_page_that_is_nested_without_end(page: str, tmp_path: Path) -> None:
    assert "nested too deeply" in skipped(tmp_path, "bomb.html", page.encode())


SOUND = {
    "never ended": "<p>x<li>y<tr><td>z<br><img src=x>" * 20_000,
    "a drawing": "<svg>" + """<path class=a d="M 1 2" id='b'/>""" * 20_000 + "</svg>",
    "sloppy": "<div><b><i>x</b></i></div><a href='>'>y</a></span>" * 20_000,
    "tables": "<table><tr><td><b>x</b><td><ul><li>y</ul></table>" * 10_000,
    "scripts": "<script>a('<div>' + '</div>')</script><!-- <div> -->" * 1_000,
    "headings": "<section><h2>x</h2><p>y<em>z</em></section>" * 20_000,
}


@pytest.mark.parametrize("page", SOUND.values(), ids=list(SOUND))
def test_a_long_page_is_not_taken_for_one(page: str) -> None:
    assert not is_too_nested(page)


def test_a_markdown_file_has_so_many_lines(tmp_path: Path) -> None:
    assert "100,000 lines" in skipped(tmp_path, "bomb.md", b"- a\n" * 100_001)
