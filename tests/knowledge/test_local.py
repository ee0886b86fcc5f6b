"""A local knowledge base: what is found, in Bedrock's shape, by which search."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore_shapes import problems
from knowledge_support import WordEmbedder, names, vector_search, write

from orchestrator.errors import DependencyFailed, ResourceNotFound, ValidationError
from orchestrator.knowledge import Chunking, KnowledgeBase, LocalKnowledgeBase


def base(folder, **options):
    options = {"id": "handbook", "embedder": WordEmbedder(), **options}
    return LocalKnowledgeBase(folder, **options)


def test_it_is_a_knowledge_base(handbook):
    assert isinstance(base(handbook), KnowledgeBase)


def test_a_reference_is_one_of_bedrocks(handbook):
    first, *_ = base(handbook).retrieve("What does error VPN-809 mean?")
    score = first.pop("score")
    assert first == {
        "content": {
            "text": "Error VPN-809 means that the certificate has expired.\n\nRenew it.",
            "type": "TEXT",
        },
        "location": {"type": "CUSTOM", "customDocumentLocation": {"id": "vpn.txt"}},
        "metadata": {
            "x-amz-bedrock-kb-source-uri": "vpn.txt",
            "x-amz-bedrock-kb-chunk-id": "vpn.txt#0",
        },
    }
    assert 0 < score <= 1


def test_all_references_fit_the_services_own_model(handbook):
    found = base(handbook).retrieve("dog leave lunch", vector_search(numberOfResults=100))
    assert len(found) == 5
    wrong = problems({"retrievalResults": found}, "RetrieveResponse")
    # The values of metadata are documents, that is any JSON.
    assert [it for it in wrong if ".metadata[" not in it] == []
    assert json.loads(json.dumps(found)) == found


def test_the_passage_stands_under_its_headings(handbook):
    first, *_ = base(handbook).retrieve("annual leave days a year")
    assert first["content"]["text"] == (
        "Leave > Annual leave\n\nEverybody has 28 days of leave a year."
    )
    assert first["metadata"]["topic"] == "time" and first["metadata"]["for"] == ["staff", "leads"]


def test_meaning_finds_what_words_do_not(handbook):
    question = "May my puppy come along?"
    assert names(base(handbook).retrieve(question))[0] == "rules/dogs.md"
    assert "rules/dogs.md" not in names(base(handbook, embedder=None).retrieve(question))


def test_words_decide_where_meaning_is_equal(tmp_path):
    files = {f"{n}.txt": f"Form EX-{n} is filled in." for n in range(10, 30)}
    folder = write(tmp_path, files)
    hybrid = base(folder, embedder=WordEmbedder(dimensions=2))
    assert names(hybrid.retrieve("form EX-14"))[0] == "14.txt"
    assert names(base(folder, embedder=None).retrieve("form EX-14"))[0] == "14.txt"


def test_keywords_need_no_model_and_know_endings(handbook):
    keywords = base(handbook, embedder=None)
    assert names(keywords.retrieve("Are dogs welcomed?"))[0] == "rules/dogs.md"
    assert keywords.retrieve("zebra") == []
    with pytest.raises(ValidationError, match="no embedder and searches by keywords only"):
        keywords.retrieve("dog", vector_search(overrideSearchType="SEMANTIC"))


@pytest.mark.parametrize("embedder", [WordEmbedder(), None])
def test_results_are_five_unless_asked_otherwise(tmp_path, embedder):
    folder = write(tmp_path, {f"{n}.txt": f"dog number {n}" for n in range(30)})
    found = base(folder, embedder=embedder)
    assert len(found.retrieve("dog")) == 5
    assert len(found.retrieve("dog", vector_search(numberOfResults=12))) == 12
    own = base(folder, embedder=embedder, retrieval_configuration=vector_search(numberOfResults=3))
    assert len(own.retrieve("dog")) == 3
    assert len(own.retrieve("dog", vector_search(numberOfResults=4))) == 4


@pytest.mark.parametrize("embedder", [WordEmbedder(), None])
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"equals": {"key": "topic", "value": "animals"}}, {"rules/dogs.md"}),
        ({"greaterThan": {"key": "year", "value": 2024}}, {"leave.md"}),
        ({"listContains": {"key": "for", "value": "leads"}}, {"leave.md"}),
        ({"notEquals": {"key": "year", "value": 2026}}, {"rules/dogs.md", "vpn.txt", "page.html"}),
        (
            {"startsWith": {"key": "x-amz-bedrock-kb-source-uri", "value": "rules/"}},
            {"rules/dogs.md"},
        ),
        ({"equals": {"key": "x-amz-bedrock-kb-chunk-id", "value": "leave.md#1"}}, {"leave.md"}),
        ({"equals": {"key": "topic", "value": "nothing"}}, set()),
    ],
)
def test_filters(handbook, embedder, condition, found):
    question = "dog certificate lunch annual sick doctor"
    answer = base(handbook, embedder=embedder).retrieve(question, vector_search(filter=condition))
    assert set(names(answer)) == found


def test_a_calls_filter_wins_over_the_own_one(handbook):
    own = vector_search(filter={"equals": {"key": "topic", "value": "time"}}, numberOfResults=1)
    animals = {"equals": {"key": "topic", "value": "animals"}}
    assert names(base(handbook, retrieval_configuration=own).retrieve("dog")) == ["leave.md"]
    found = base(handbook, retrieval_configuration=own).retrieve("x", vector_search(filter=animals))
    assert names(found) == ["rules/dogs.md"]
    assert own["vectorSearchConfiguration"]["filter"]["equals"]["value"] == "time"


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        ({"vectorSearch": {}}, "has no member 'vectorSearch'"),
        (vector_search(results=1), "has no member 'results'"),
        (vector_search(numberOfResults=0), "from 1 to 100"),
        (vector_search(numberOfResults=True), "from 1 to 100"),
        (vector_search(overrideSearchType="KEYWORD"), "HYBRID, SEMANTIC"),
        (vector_search(filter={"nope": 1}), "no operator 'nope'"),
        (vector_search(implicitFilterConfiguration={}), "makes no filter of a question"),
        ({"managedSearchConfiguration": {}}, "managed knowledge bases"),
        (vector_search(rerankingConfiguration={"type": "OTHER"}), "BEDROCK_RERANKING_MODEL"),
        ([1], "must be an object"),
        ({"vectorSearchConfiguration": 1}, "must be an object"),
    ],
)
def test_a_wrong_configuration_is_reported(handbook, configuration, says):
    with pytest.raises(ValidationError, match=says):
        base(handbook).retrieve("dog", configuration)


@pytest.mark.parametrize("query", ["", "  \n", "x" * 20_001])
def test_a_wrong_query_is_reported(handbook, query):
    with pytest.raises(ValidationError, match="query"):
        base(handbook).retrieve(query)


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "' OR 1=1 --",
        "a AND NOT b",
        "NEAR(a b)",
        "heading:x",
        "*",
        "^",
        "(",
        "\0",
        "\ud800 dog",
    ],
)
@pytest.mark.parametrize("embedder", [WordEmbedder(), None])
def test_no_query_is_a_search_expression(handbook, query, embedder):
    base(handbook, embedder=embedder).retrieve(query + " dog")


def test_only_stop_words_are_words_all_the_same(tmp_path):
    folder = write(tmp_path, {"a.txt": "to be or not to be", "b.txt": "something else"})
    assert names(base(folder, embedder=None).retrieve("to be or not to be")) == ["a.txt"]


def test_attributes_may_count_as_text(tmp_path):
    folder = write(
        tmp_path,
        {
            "a.txt": "Nothing is said here.",
            "a.txt.metadata.json": {
                "topic": {
                    "value": {"type": "STRING", "stringValue": "giraffes"},
                    "includeForEmbedding": True,
                }
            },
            "b.txt": "Nothing is said there.",
            "b.txt.metadata.json": {"topic": "zebras"},
        },
    )
    keywords = base(folder, embedder=None)
    (found,) = keywords.retrieve("giraffes")
    assert found["content"]["text"] == "Nothing is said here."  # not shown, only counted
    assert keywords.retrieve("zebras") == []


def test_a_reranker_has_the_last_word(handbook):
    seen = []

    def reverse(query, references):
        seen.append((query, len(references)))
        return references[::-1]

    found = base(handbook, reranker=reverse).retrieve("dog", vector_search(numberOfResults=2))
    plain = base(handbook).retrieve("dog", vector_search(numberOfResults=100))
    assert seen == [("dog", 5)]  # it chooses from more than are wanted
    assert found == plain[::-1][:2]


def test_the_folder_must_be_there(tmp_path):
    with pytest.raises(ResourceNotFound, match="there is no folder"):
        base(tmp_path / "gone").retrieve("dog")


def test_many_threads_search_one_knowledge_base(handbook):
    embedder = WordEmbedder()
    shared = base(handbook, embedder=embedder)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(shared.retrieve, ["annual leave"] * 40))
    assert all(it == found[0] for it in found)
    indexed = [it for it in embedder.texts if "28 days" in it]
    assert len(indexed) == 1  # the folder was indexed once


def test_closing_and_going_on(handbook, tmp_path):
    kept = base(handbook, index=tmp_path / "i" / "index.sqlite")
    before = kept.retrieve("dog")
    kept.close()
    assert kept.retrieve("dog") == before


def test_an_embedder_that_fails_is_a_failed_dependency(handbook):
    class Broken(WordEmbedder):
        def embed(self, texts):
            raise DependencyFailed("no model", resource="m")

    with pytest.raises(DependencyFailed, match="no model"):
        base(handbook, embedder=Broken()).retrieve("dog")


def test_smaller_passages_on_demand(tmp_path):
    text = "\n\n".join(f"Paragraph {n} tells of dogs and other animals." for n in range(30))
    folder = write(tmp_path, {"a.md": text})
    few, many = base(folder).index(), base(folder, chunking=Chunking(30)).index()
    assert few.passages < many.passages


def test_scores_of_words_say_how_much_of_the_question_is_there(tmp_path):
    """Whatever the number of passages: clients leave out what is under a threshold."""

    def scores(question):
        return [
            round(it["score"], 2) for it in base(folder, id="k", embedder=None).retrieve(question)
        ]

    folder = write(tmp_path, {"leave.txt": "Everybody has 28 days of leave a year."})
    assert scores("What are the days of leave a year?") == [1.0]
    assert scores("days of leave in Zanzibar") == [0.67]
    assert scores("the leave of elephants and giraffes") == [0.33]
    assert scores("elephants") == []
    write(tmp_path, {f"{n}.txt": f"Rule {n} is about lunch." for n in range(50)})
    assert scores("days of leave") == [1.0]
    assert 0.3 < scores("lunch of elephants")[0] < 0.5
    best, *others = scores("rule 7 on days of leave")
    assert 0.5 < best < 1 and all(0 < it <= best for it in others)
