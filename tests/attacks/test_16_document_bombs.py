"""Attack 16: small files that take very long to read."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from left_out import sampled

from orchestrator.knowledge import LocalKnowledgeBase, pdf
from orchestrator.knowledge.blocks import Unreadable
from orchestrator.knowledge.chunks import Chunking, passages_of
from orchestrator.knowledge.documents import Raw, markdown_blocks, read_blocks
from orchestrator.knowledge.html import costs_too_much
from orchestrator.knowledge.metadata import read_attributes


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
    "attributes of one tag": "<p " + " ".join(f"a{n}=1" for n in range(400_000)) + ">x",
    "attributes without an end": "<p " + "/".join(f"a{n}" for n in range(400_000)),
    "attributes of an end tag": "<p></p " + " ".join(f"a{n}" for n in range(400_000)) + ">x",
    "attributes of many bodies": "".join(f"<body a{n}>" for n in range(400_000)),
    "attributes of many roots": "".join(f"<html a{n}=''>" for n in range(400_000)),
    "options": "<select>" + "<option>x" * 200_000,
    "options in groups": "<select>" + "<div><option>x</option></div>" * 200_000,
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
    "attributes": "<p id=a class='b c' title=\"d\" data-e data-f=1>x" * 20_000,
    "words of attributes": "<p title='" + "a b " * 50_000 + "' class='" + "c " * 50_000 + "'>x",
    "short lists": "<select><option>x<option>y</select>" * 20_000,
    "a long list": "<select>" + "<option value=1>x</option>" * 5_000 + "</select>",
}


@pytest.mark.parametrize("page", SOUND.values(), ids=list(SOUND))
def test_a_long_page_is_not_taken_for_one(page: str) -> None:
    assert not costs_too_much(page)


def test_the_cells_of_markdown_tables_are_counted_with_those_that_rows_leave_out(
    tmp_path: Path,
) -> None:
    table = "|a" * 300 + "|\n" + "|-" * 300 + "|\n" + "|b|\n" * 300
    for bomb in (
        "\n".join([table] * 20),
        "> - " + "|a" * 300_000 + "|",
    ):
        assert "200,000 cells" in skipped(tmp_path, "bomb.md", bomb.encode())
    rows = "| a | b | c |\n|---|---|---|\n" + "| d | e | f |\n" * 10_000
    assert len(markdown_blocks(rows + "\n---\n" + "x\n" * 10_000)) == 2


@pytest.mark.exhaustive
def test_what_passages_repeat_is_no_document(tmp_path: Path) -> None:
    head, body = b"h " * 100_000, b"word " * 100_000
    cells = b"<tr><td>" + b"<tr><td>x y z".join([b""] * 30_000)
    documents = {
        "heading.md": b"# " + head + b"\n" + body,
        "heading.html": b"<h1>" + head + b"</h1><p>" + body,
        "table.html": b"<table><tr><td>" + head + cells + b"</table>",
        "table.md": b"|" + head + b"|\n|-|\n" + b"|x y z|\n" * 30_000,
    }
    for name, data in documents.items():
        passages = passages_of(read_blocks(Raw(name, data)), Chunking())
        assert sum(len(it.whole) for it in passages) < 4 * len(data)
    more = {"value": {"type": "STRING", "stringValue": "x" * 3_000}, "includeForEmbedding": True}
    with pytest.raises(Unreadable, match="2,000 characters"):
        read_attributes(json.dumps({"metadataAttributes": {"more": more}}).encode())


def test_a_markdown_file_has_so_many_lines(tmp_path: Path) -> None:
    assert "100,000 lines" in skipped(tmp_path, "bomb.md", b"- a\n" * 100_001)
