"""The index: incremental, kept in one file, shared, and not to be trusted."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from knowledge_support import WordEmbedder, names, vector_search, write

from orchestrator.errors import DependencyFailed
from orchestrator.knowledge import LocalKnowledgeBase


@pytest.fixture
def kept(handbook, tmp_path):
    """Makes knowledge bases on one index file."""

    def make(**options):
        options = {"id": "handbook", "embedder": WordEmbedder(), **options}
        return LocalKnowledgeBase(handbook, index=tmp_path / "index.sqlite", **options)

    return make


def test_only_what_changed_is_read_again(kept, handbook):
    first = kept().index()
    assert sorted(first.added) == ["leave.md", "page.html", "rules/dogs.md", "vpn.txt"]
    assert (first.passages, first.embedded, first.unchanged) == (5, 5, 0)

    write(handbook, {"vpn.txt": "Nothing.", "new.md": "New."})
    (handbook / "page.html").unlink()
    embedder = WordEmbedder()
    second = kept(embedder=embedder).index()
    assert (second.added, second.changed, second.removed) == (
        ["new.md"],
        ["vpn.txt"],
        ["page.html"],
    )
    assert (second.unchanged, second.embedded, second.passages) == (2, 2, 5)
    assert sorted(embedder.texts) == ["New.", "Nothing."]

    third = kept().index()
    assert (third.added, third.changed, third.removed, third.embedded) == ([], [], [], 0)


def test_metadata_alone_changes_a_document_but_not_its_vectors(kept, handbook):
    kept().index()
    write(handbook, {"rules/dogs.md.metadata.json": {"topic": "pets"}})
    report = kept().index()
    assert (report.changed, report.embedded) == (["rules/dogs.md"], 0)
    pets = vector_search(filter={"equals": {"key": "topic", "value": "pets"}})
    assert names(kept().retrieve("dog", pets)) == ["rules/dogs.md"]


def test_an_edited_document_keeps_the_vectors_of_passages_that_stayed(kept, handbook):
    kept().index()
    page = handbook / "leave.md"
    page.write_text(page.read_text() + "\n## More\n\nA new section.\n")
    embedder = WordEmbedder()
    kept(embedder=embedder).index()
    assert embedder.texts == ["Leave > More\n\nA new section."]


def test_a_removed_document_is_found_no_more(kept, handbook):
    keywords = kept(embedder=None)
    assert names(keywords.retrieve("dog")) == ["rules/dogs.md"]
    (handbook / "rules" / "dogs.md").unlink()
    assert names(keywords.retrieve("dog")) == ["rules/dogs.md"]  # until it is indexed again
    keywords.index()
    assert keywords.retrieve("dog") == []


def test_another_embedder_embeds_all_again(kept):
    kept().index()
    other = WordEmbedder("words-2", 64)
    assert kept(embedder=other).index().embedded == 5
    assert names(kept(embedder=other).retrieve("puppy"))[0] == "rules/dogs.md"


def test_an_index_of_another_embedder_is_not_searched(kept):
    mine = kept()
    mine.retrieve("dog")
    kept(embedder=WordEmbedder("words-2", 64)).index()
    with pytest.raises(DependencyFailed, match=r"embedder 'words-2', not 'words-1'"):
        mine.retrieve("dog")


def test_keywords_leave_vectors_alone(kept):
    kept().index()
    assert kept(embedder=None).index().embedded == 0
    assert kept().index().embedded == 0


def test_what_cannot_be_read_is_reported_and_not_found(kept, handbook):
    kept().index()
    write(
        handbook,
        {
            "rules/dogs.md.metadata.json": b"{}",
            "broken.pdf": b"%PDF-1.7 nothing",
            "vpn.txt": b"\0\1",
        },
    )
    report = kept().index()
    assert set(report.skipped) == {"rules/dogs.md", "broken.pdf", "vpn.txt"}
    assert "metadata file" in report.skipped["rules/dogs.md"]
    # A passage whose metadata is unknown must pass no filter.
    assert report.removed == ["rules/dogs.md", "vpn.txt"]
    assert not {"rules/dogs.md", "vpn.txt"} & set(names(kept().retrieve("dog certificate")))


def test_large_files_are_skipped(kept):
    report = kept(max_file_bytes=60).index()
    assert "leave.md" in report.skipped and "60 bytes" in report.skipped["leave.md"]


def test_a_missing_extra_is_named(kept, monkeypatch):
    monkeypatch.setitem(sys.modules, "selectolax", None)
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    report = kept().index()
    assert "bedrock-orchestrator[knowledge]" in report.skipped["page.html"]


def test_progress_tells_both_parts(kept):
    steps = []
    kept().index(lambda done, total, text: steps.append((done, total, text)))
    reading = [it[:2] for it in steps if it[2] == "reading"]
    embedding = [it[:2] for it in steps if it[2] == "embedding"]
    assert reading == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert embedding == [(0, 5), (5, 5)]


def test_an_interrupted_embedding_goes_on(kept, handbook):
    write(handbook, {f"{n}.txt": f"dog {n}" for n in range(200)})

    class Tired(WordEmbedder):
        def embed(self, texts):
            if self.texts:
                raise KeyboardInterrupt
            return super().embed(texts)

    with pytest.raises(KeyboardInterrupt):
        kept(embedder=Tired()).index()
    assert kept().index().embedded == 205 - 64


def test_another_process_indexes_and_this_one_sees_it(kept, handbook, tmp_path):
    mine = kept(embedder=None)
    assert mine.retrieve("giraffe") == []
    write(handbook, {"new.md": "A giraffe."})
    program = (
        "from orchestrator.knowledge import LocalKnowledgeBase as L\n"
        f"L({str(handbook)!r}, id='x', embedder=None, index={str(tmp_path / 'index.sqlite')!r})"
        ".index()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert names(mine.retrieve("giraffe")) == ["new.md"]


def test_many_processes_index_at_once(kept, handbook, tmp_path):
    write(handbook, {f"{n}.txt": f"dog {n}" for n in range(50)})
    program = (
        "from orchestrator.knowledge import LocalKnowledgeBase as L\n"
        f"L({str(handbook)!r}, id='x', embedder=None, index={str(tmp_path / 'index.sqlite')!r})"
        ".index()"
    )
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [it.wait(60) for it in running] == [0, 0, 0]
    report = kept(embedder=None).index()
    assert (report.unchanged, report.passages) == (54, 55)


def test_without_refresh_the_folder_is_not_looked_at(kept, handbook):
    kept(embedder=None).index()
    write(handbook, {"new.md": "A giraffe."})
    assert kept(embedder=None, refresh=False).retrieve("giraffe") == []
    assert names(kept(embedder=None).retrieve("giraffe")) == ["new.md"]


def test_searching_by_keywords_imports_neither_numpy_nor_boto3(handbook):
    program = (
        "import sys\n"
        "from orchestrator.knowledge import LocalKnowledgeBase as L\n"
        f"print(len(L({str(handbook)!r}, id='x', embedder=None).retrieve('dog')))\n"
        "assert not {'numpy', 'boto3', 'botocore'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE document SET metadata = '[1]'", "no object"),
        ("UPDATE document SET metadata = '{'", "not JSON"),
        ("UPDATE passage SET vector = x'0000'", "another size"),
        ("UPDATE passage SET vector = 'text'", "another size"),
        ("UPDATE passage SET vector = CAST(zeroblob(1020) || x'0000c07f' AS BLOB)", "no number"),
        ("UPDATE passage SET text = x'00'", "no text"),
        ("PRAGMA user_version = 99", "newer"),
        ("PRAGMA application_id = 7", "for something else"),
        ("DROP TABLE keyword", "failed"),
    ],
)
def test_a_hostile_index_is_data_or_an_error(kept, tmp_path, statement, says):
    kept().index()
    with sqlite3.connect(tmp_path / "index.sqlite") as db:
        db.execute(statement)
    db.close()
    with pytest.raises(DependencyFailed, match=says) as caught:
        kept(refresh=False).retrieve("dog")
    assert "index.sqlite" in str(caught.value)


def test_a_file_of_something_else_is_reported(handbook, tmp_path):
    Path(tmp_path / "index.sqlite").write_text("I am no database, but I am long enough." * 50)
    broken = LocalKnowledgeBase(handbook, id="x", index=tmp_path / "index.sqlite", embedder=None)
    with pytest.raises(DependencyFailed, match="cannot be opened"):
        broken.retrieve("dog")


def test_names_and_texts_with_quotes_are_only_texts(tmp_path):
    folder = write(tmp_path, {"o'brien; DROP TABLE passage; --.md": "It's a \"dog\"'); --"})
    found = LocalKnowledgeBase(folder, id="x", embedder=None)
    assert names(found.retrieve("dog")) == ["o'brien; DROP TABLE passage; --.md"]
    assert found.index().unchanged == 1
