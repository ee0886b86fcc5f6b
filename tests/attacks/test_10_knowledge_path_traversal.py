"""Attack 10: documents and metadata that are reached by leaving a knowledge base's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.knowledge import LocalKnowledgeBase

SECRET = "the secret of another folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text(SECRET)
    (outside / "secret.json").write_text(f'{{"metadataAttributes": {{"leak": "{SECRET}"}}}}')
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "page.md").write_text("An ordinary page about a secret.")
    return inside


def found(folder: Path) -> str:
    base = LocalKnowledgeBase(folder, id="x", embedder=None)
    report = base.index()
    assert report.added == ["page.md"]
    return str(base.retrieve("secret of another folder"))


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("link.md", "../outside/secret.md"),
        ("linked", "../outside"),
        ("self", "."),
        ("page.md.metadata.json", "../outside/secret.json"),
        ("dangling.md", "../gone.md"),
    ],
)
def test_no_link_is_followed(folder: Path, link: str, target: str) -> None:
    (folder / link).symlink_to(target)
    text = found(folder)
    assert "page.md" in text and SECRET not in text


def test_hidden_files_are_not_read(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "notes.md").write_text(SECRET)
    (folder / ".secret.md").write_text(SECRET)
    assert SECRET not in found(folder)


def test_what_is_no_file_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")  # reading it would wait for ever
    assert "page.md" in found(folder)


def test_a_document_that_becomes_a_link_is_forgotten(folder: Path) -> None:
    base = LocalKnowledgeBase(folder, id="x", embedder=None)
    base.index()
    (folder / "page.md").unlink()
    (folder / "page.md").symlink_to("../outside/secret.md")
    assert base.index().removed == ["page.md"]
    assert base.retrieve("secret") == []
