"""Attack 16: documents, metadata, filters and queries that are made to cost too much."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import ValidationError
from orchestrator.knowledge import Chunking, LocalKnowledgeBase


def base(folder: Path, **options: object) -> LocalKnowledgeBase:
    return LocalKnowledgeBase(folder, id="x", embedder=None, **options)  # type: ignore[arg-type]


def test_a_large_file_is_skipped_before_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_text("word " * 3000)
    report = base(tmp_path, max_file_bytes=10_000).index()
    assert "10,000 bytes" in report.skipped["large.md"] and report.passages == 0


def test_one_long_word_is_cut_short(tmp_path: Path) -> None:
    (tmp_path / "picture.md").write_text("![x](data:image/png;base64," + "A1/" * 300_000 + ")")
    found = base(tmp_path)
    found.index()
    assert all(len(it.content.text) < 2000 for it in found.store.read())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.html", "<div>" * 5000 + "dog"),
        ("deep.md", "> " * 5000 + "dog"),
        ("tables.html", "<table><tr><td>" * 500 + "dog"),
        ("many.md", "# h\n" * 20_000 + "dog"),
    ],
)
def test_deep_and_wide_documents_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = base(tmp_path)
    assert found.index().skipped == {}
    assert "dog" in str(found.retrieve("dog"))


def test_a_deep_metadata_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("dog")
    (tmp_path / "a.md.metadata.json").write_text('{"metadataAttributes": ' + "[" * 30_000)
    assert set(base(tmp_path).index().skipped) == {"a.md"}


def test_a_query_and_a_filter_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("dog")
    found = base(tmp_path, chunking=Chunking(50))
    assert found.retrieve(" ".join(f"w{n}" for n in range(3000)) + " dog") == []  # 64 words count
    with pytest.raises(ValidationError, match="20,000"):
        found.retrieve("dog " * 6000)
    leaf = {"equals": {"key": "a", "value": 1}}
    search = {"vectorSearchConfiguration": {"filter": {"orAll": [leaf] * 2000}}}
    with pytest.raises(ValidationError, match="conditions"):
        found.retrieve("dog", search)
