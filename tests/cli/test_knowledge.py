"""`orchestrator knowledge`: documents indexed, searched and listed, for people and as JSON."""

import json

import pytest

AGENT = """
agentName: helper
instruction: You answer questions from two folders of documents, and from nothing else.
knowledgeBases:
  - {knowledgeBaseId: rules, description: Rules., folder: docs/rules, embedder: null}
  - {knowledgeBaseId: menus, description: Menus., folder: docs/menus, embedder: null}
  - {knowledgeBaseId: ABCDEFGHIJ, description: In the cloud.}
"""


@pytest.fixture
def documents(place):
    for name, text in {
        "docs/rules/dogs.md": "# Rules\n\n## Dogs\n\nA dog is welcome on the second floor.\n",
        "docs/menus/monday.txt": "Rice and beans.",
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    metadata = {"metadataAttributes": {"year": 2026}}
    (place / "docs/rules/dogs.md.metadata.json").write_text(json.dumps(metadata))
    return place / "docs"


@pytest.fixture
def helper(place, documents):
    (place / "agent.yaml").write_text(AGENT)
    return place


def test_a_folder_of_documents_is_indexed_and_searched(run, documents):
    done = run("knowledge", "index", "docs", "--keywords")
    assert done.exit_code == 0
    assert done.stdout == "docs  2 added · 2 passages · keywords only\n"
    assert (documents / ".orchestrator" / "knowledge.sqlite").is_file()

    again = json.loads(run("knowledge", "index", "docs", "--keywords", "--json").stdout)
    assert again["knowledgeBases"][0]["unchanged"] == 2

    shown = run("knowledge", "search", "docs", "dogs", "--keywords").stdout
    assert "1. rules/dogs.md#0" in shown and "Rules > Dogs" in shown
    assert "A dog is welcome" in shown


def test_a_search_as_json_is_retrieves_answer(run, documents):
    done = run("knowledge", "search", "docs", "dogs", "--keywords", "--json")
    (base,) = json.loads(done.stdout)["knowledgeBases"]
    (found,) = base["retrievalResults"]
    assert found["metadata"]["year"] == 2026
    assert found["location"]["customDocumentLocation"] == {"id": "rules/dogs.md"}


def test_a_filter_and_a_number_of_results(run, documents):
    search = ("knowledge", "search", "docs", "dog rice", "--keywords", "--json")
    old = '{"lessThan": {"key": "year", "value": 2000}}'
    for options, count in (((), 2), (("-n", "1"), 1), (("--filter", old), 0)):
        (base,) = json.loads(run(*search, *options).stdout)["knowledgeBases"]
        assert len(base["retrievalResults"]) == count
    for wrong, says in (("{", "is not JSON"), ('{"like": 1}', "no operator 'like'")):
        done = run(*search[:-1], "--filter", wrong)
        assert done.exit_code == 2 and says in done.stderr


def test_nothing_found_is_said(run, documents):
    assert "nothing was found" in run("knowledge", "search", "docs", "zebra", "--keywords").stdout


def test_files_of_other_kinds_are_noted(run, documents):
    for name in ("plan.docx", "menus/prices.xlsx", "menus/more.xlsx", "README"):
        (documents / name).write_bytes(b"PK")
    for words in (("index", "docs"), ("search", "docs", "dogs")):
        done = run("knowledge", *words, "--keywords")
        assert (
            "note: 4 files of other kinds (no ending, .docx, .xlsx) not read; documents end in "
            ".md, .txt, .html, .pdf and the like"
        ) in done.stderr
        assert "no passages" not in done.stderr


def test_a_folder_without_documents_is_noted(run, place):
    (place / "empty").mkdir()
    for words in (("index", "empty"), ("search", "empty", "dogs")):
        done = run("knowledge", *words, "--keywords")
        assert done.exit_code == 0
        assert "note: there are no passages to search; documents end in .md" in done.stderr


@pytest.mark.parametrize("count", [0, 101, -1])
def test_how_many_passages_can_be_shown(run, documents, count):
    done = run("knowledge", "search", "docs", "dogs", "--keywords", "--results", count)
    assert done.exit_code == 2
    assert f"--results {count} is not possible: give 1 to 100" in done.stderr


def test_what_was_skipped_is_noted(run, documents):
    (documents / "broken.pdf").write_bytes(b"%PDF nothing")
    done = run("knowledge", "index", "docs", "--keywords")
    assert done.exit_code == 0 and "broken.pdf was skipped" in done.stderr


def test_without_the_model_the_way_out_is_told(run, documents):
    done = run("knowledge", "index", "docs")
    assert done.exit_code == 1 and "models pull" in done.stderr


def test_the_folders_of_an_agent(run, helper):
    done = run("knowledge", "index", helper)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["rules", "menus"]
    kept = helper / ".orchestrator" / "knowledge"
    assert sorted(it.name for it in kept.glob("*.sqlite")) == ["menus.sqlite", "rules.sqlite"]

    listed = json.loads(run("knowledge", "list", helper, "--json").stdout)["knowledgeBases"]
    assert [it["documents"] for it in listed] == [
        [{"name": "dogs.md", "passages": 1}],
        [{"name": "monday.txt", "passages": 1}],
    ]
    assert "dogs.md  1" in run("knowledge", "list", helper, "--id", "rules").stdout

    only = run("knowledge", "search", helper, "rice dog", "--id", "menus").stdout
    assert "monday.txt" in only and "dogs.md" not in only


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("gone",), "there is no folder 'gone'"),
        ((".", "--id", "nope"), "no local knowledge base 'nope'"),
    ],
)
def test_what_is_not_there_is_told(run, helper, words, says):
    done = run("knowledge", "index", *words)
    assert done.exit_code == 2 and says in done.stderr
