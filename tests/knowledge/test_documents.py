"""Documents into passages: structure, size, and what must not be read."""

import io
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowledge_support import write

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.knowledge import Chunking
from orchestrator.knowledge.blocks import Block
from orchestrator.knowledge.chunks import _size, passages_of
from orchestrator.knowledge.documents import (
    Raw,
    find_documents,
    find_files,
    markdown_blocks,
    read_blocks,
    read_raw,
)
from orchestrator.knowledge.html import html_blocks
from orchestrator.knowledge.metadata import read_attributes
from orchestrator.knowledge.pdf import Unreadable, pdf_blocks

PAGE = """---
title: front matter
---
Before any heading.

# Guide *one*

<!-- a comment -->

Setext
------

| a | b |
|---|---|
| 1 | 2 |

```python
# not a heading

x = 1
```

### Deep

> A quotation.

# Next

Text.
"""


def test_markdown_keeps_its_structure():
    blocks = [(it.kind, it.headings, it.text) for it in markdown_blocks(PAGE)]
    assert blocks == [
        ("text", (), "Before any heading."),
        ("table", ("Guide *one*", "Setext"), "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("code", ("Guide *one*", "Setext"), "```python\n# not a heading\n\nx = 1\n```"),
        ("text", ("Guide *one*", "Setext", "Deep"), "> A quotation."),
        ("text", ("Next",), "Text."),
    ]


def test_html_is_read_as_a_reader_sees_it():
    page = """<html><head><title>T</title><style>p {}</style></head><body>
      <nav>Home</nav><h1>Canteen <em>menu</em></h1>
      <p>Lunch&nbsp;costs <b>4.80</b> euros.<br>Every day.</p>
      <ul><li>Soup<li>Salad</ul>
      <pre>line 1\n  line 2</pre>
      <table><tr><th>Day<th>Dish<tr><td>Monday<td>Rice</table>
      <script>alert(1)</script><p hidden>secret</p><img src="http://10.0.0.1/x.png">
      <h2>After</h2>End"""
    read = [(it.kind, it.headings, it.text) for it in html_blocks(page)]
    top = ("Canteen menu",)
    assert read == [
        ("text", top, "Lunch costs 4.80 euros.\nEvery day."),
        ("text", top, "- Soup\n- Salad"),
        ("code", top, "line 1\n  line 2"),
        ("table", top, "Day | Dish\nMonday | Rice"),
        ("text", (*top, "After"), "End"),
    ]


def pdf(*pages: str) -> bytes:
    """A PDF with a line of Helvetica on each page."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(content)
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()


def test_a_pdf_has_pages():
    blocks = pdf_blocks(pdf("First page.", "Second page."))
    assert [(it.page, it.text) for it in blocks] == [(1, "First page."), (2, "Second page.")]
    assert [it.page for it in passages_of(blocks, Chunking())] == [1, 2]


@pytest.mark.parametrize("data", [b"", b"not a pdf", b"%PDF-1.7\n%%EOF", pdf("x")[:200]])
def test_a_broken_pdf_says_so(data):
    with pytest.raises(Unreadable):
        pdf_blocks(data)


def test_a_pdf_without_text_and_an_encrypted_one():
    from pypdf import PdfReader, PdfWriter

    with pytest.raises(Unreadable, match="no text"):
        pdf_blocks(pdf(""))
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("user-password", algorithm="RC4-128")
    data = io.BytesIO()
    writer.write(data)
    with pytest.raises(Unreadable, match="encrypted"):
        pdf_blocks(data.getvalue())


def test_sections_stay_apart_and_short_paragraphs_together():
    blocks = [
        Block("One.", headings=("A",)),
        Block("Two.", headings=("A",)),
        Block("Three.", headings=("A", "B")),
    ]
    whole = [it.whole for it in passages_of(blocks, Chunking())]
    assert whole == ["A\n\nOne.\n\nTwo.", "A > B\n\nThree."]


def test_a_long_paragraph_is_cut_between_sentences_and_overlaps():
    sentences = [f"This is the sentence with the number {n}." for n in range(40)]
    made = passages_of([Block(" ".join(sentences))], Chunking(60, 20))
    for passage in made:
        assert _size(passage.text) <= 60
        assert passage.text.startswith("This is") and passage.text.endswith(".")
    for first, second in pairwise(made):
        assert first.text.split(". ")[-1].rstrip(".") in second.text
    assert all(any(it in passage.text for passage in made) for it in sentences)


def test_a_table_is_cut_between_rows_and_repeats_its_head():
    rows = [f"| item {n} | {n} euros |" for n in range(60)]
    text = "\n".join(["| name | price |", "|---|---|", *rows])
    made = passages_of([Block(text, "table", head=2)], Chunking(60))
    assert len(made) > 3
    assert all(it.text.startswith("| name | price |\n|---|---|\n") for it in made)
    assert [line for it in made for line in it.text.split("\n")[2:]] == rows


def test_code_is_cut_between_lines_and_does_not_overlap():
    lines = [f"    call_number_{n}(a, b)" for n in range(60)]
    made = passages_of([Block("\n".join(lines), "code")], Chunking(60))
    assert [line for it in made for line in it.text.split("\n")] == lines


@pytest.mark.parametrize("bad", [{"max_tokens": 5}, {"overlap_percentage": 90}])
def test_a_chunking_that_makes_no_sense(bad):
    with pytest.raises(ValidationError):
        Chunking(**bad)


TEXTS = st.lists(
    st.sampled_from(
        ["# h\n", "word ", "a.b. ", "\n\n", "| a | b |\n|--|--|\n", "```\n", "- x\n", "é"]
    )
    | st.text(max_size=8),
    max_size=60,
).map("".join)


@given(TEXTS)
def test_no_markdown_breaks_it_and_no_passage_is_too_long(text):
    for passage in passages_of(markdown_blocks(text), Chunking(40, 20)):
        assert passage.text.strip()
        assert _size(passage.text) <= 60  # a heading that is longer than half leaves half


HTML = st.lists(
    st.sampled_from(
        [
            "<p>",
            "</p>",
            "<table>",
            "<tr>",
            "<td>",
            "</table>",
            "<pre>",
            "</pre>",
            "<h2>",
            "</h2>",
            "x ",
        ]
    )
    | st.text(max_size=5),
    max_size=40,
).map("".join)


@given(HTML)
def test_no_html_breaks_it(text):
    assert all(it.text.strip() for it in html_blocks(text))


def test_every_document_is_found_and_nothing_else(tmp_path):
    outside = write(tmp_path / "outside", {"secret.md": "secret"})
    folder = write(
        tmp_path / "in",
        {
            "b.md": "b",
            "a/c.TXT": "c",
            "a/c.TXT.metadata.json": {},
            ".hidden/x.md": "x",
            ".x.md": "x",
            "image.png": b"\x89PNG",
        },
    )
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "linked").symlink_to(outside)
    assert find_documents(folder) == ["a/c.TXT", "b.md"]
    assert find_files(folder) == (["a/c.TXT", "b.md"], {".png": 1})
    with pytest.raises(ResourceNotFound, match="there is no folder"):
        find_documents(tmp_path / "gone")


def test_a_linked_metadata_file_is_not_read(tmp_path):
    folder = write(tmp_path, {"a.md": "a", "elsewhere.json": {"x": 1}})
    (folder / "a.md.metadata.json").symlink_to(folder / "elsewhere.json")
    assert read_raw(folder, "a.md", 100).attributes().values == {}


def test_sizes_are_bounded_before_anything_is_parsed(tmp_path):
    write(tmp_path, {"a.md": "x" * 101, "b.md": "x", "b.md.metadata.json": b" " * 70_000})
    for name in ("a.md", "b.md"):
        with pytest.raises(Unreadable, match="more than"):
            read_raw(tmp_path, name, 100)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("gr\u00fcn".encode(), "grün"),
        ("gr\u00fcn".encode("utf-16"), "grün"),
        ("gr\u00fcn".encode("utf-8-sig"), "grün"),
        ("gr\u00fcn".encode("cp1252"), "grün"),
    ],
)
def test_text_of_any_common_encoding(data, text):
    assert [it.text for it in read_blocks(Raw("a.txt", data))] == [text]


def test_binary_data_is_no_text():
    with pytest.raises(Unreadable, match="not text"):
        read_blocks(Raw("a.txt", b"\x00\x01\x02"))


def test_metadata_plain_and_typed():
    typed = {
        "s": {"value": {"type": "STRING", "stringValue": "x"}, "includeForEmbedding": True},
        "n": {"value": {"type": "NUMBER", "numberValue": 1.5}},
        "b": {"value": {"type": "BOOLEAN", "booleanValue": False}},
        "l": {
            "value": {"type": "STRING_LIST", "stringListValue": ["a", "b"]},
            "includeForEmbedding": True,
        },
    }
    document = {"metadataAttributes": {"year": 2026, "tags": ["a"], **typed}}
    found = read_attributes(json.dumps(document).encode())
    assert found.values == {
        "year": 2026,
        "tags": ["a"],
        "s": "x",
        "n": 1.5,
        "b": False,
        "l": ["a", "b"],
    }
    assert found.text == "s: x\nl: a, b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"metadataAttributes": 1}',
        '{"metadataAttributes": {"x": {"value": {"type": "DATE"}}}}',
        '{"metadataAttributes": {"x": {"value": {"type": "STRING"}}}}',
        '{"metadataAttributes": {"x": [1]}}',
        '{"metadataAttributes": {"x": null}}',
        '{"metadataAttributes": {"x": NaN}}',
        '{"metadataAttributes": {"x-amz-bedrock-kb-source-uri": "forged"}}',
        '{"metadataAttributes": {"x": ' + "[" * 9000 + "]" * 9000 + "}}",
    ],
)
def test_metadata_of_another_form_is_refused(text):
    with pytest.raises(Unreadable):
        read_attributes(text.encode())
