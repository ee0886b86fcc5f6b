"""Documents that callers send one by one: IngestKnowledgeBaseDocuments and its kin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from knowledge_servers import Caller, Gate, refused, running, text, write

from orchestrator.errors import ResourceNotFound
from orchestrator.server.control.bases import direct_ingestion
from orchestrator.server.control.bases.buckets import read_uri
from orchestrator.server.operations import Caller as Tenant


def ids(base: str, source: str) -> dict[str, str]:
    return {"knowledgeBaseId": base, "dataSourceId": source}


def custom(id: str) -> dict[str, Any]:
    return {"dataSourceType": "CUSTOM", "custom": {"id": id}}


@pytest.fixture
def place(server: Caller) -> dict[str, str]:
    base = server.base()
    return ids(base, server.source(base))


def settled(server: Caller, place: dict[str, str]) -> dict[str, dict[str, Any]]:
    return server.settled(place["knowledgeBaseId"], place["dataSourceId"])


def named(references: list[dict[str, Any]]) -> list[str]:
    return [it["location"]["customDocumentLocation"]["id"] for it in references]


def test_texts_are_found_with_their_attributes(server: Caller, place: dict[str, str]) -> None:
    documents = [
        text("dogs", "A dog is welcome.", topic={"type": "STRING", "stringValue": "animals"}),
        text("s3://like/leave", "28 days of leave.", days={"type": "NUMBER", "numberValue": 28}),
    ]
    told = server.agent.ingest_knowledge_base_documents(**place, documents=documents)
    assert [(it["identifier"], it["status"]) for it in told["documentDetails"]] == [
        (custom("dogs"), "STARTING"),
        (custom("s3://like/leave"), "STARTING"),
    ]
    assert {it["status"] for it in settled(server, place).values()} == {"INDEXED"}
    base = place["knowledgeBaseId"]
    (found,) = server.found(base, "dog", filter={"equals": {"key": "topic", "value": "animals"}})
    assert found["location"] == {"type": "CUSTOM", "customDocumentLocation": {"id": "dogs"}}
    assert found["metadata"]["x-amz-bedrock-kb-source-uri"] == "dogs"
    assert found["metadata"]["x-amz-bedrock-kb-data-source-id"] == place["dataSourceId"]
    (found,) = server.found(base, "leave", filter={"greaterThan": {"key": "days", "value": 27}})
    assert named([found]) == ["s3://like/leave"]


def test_a_document_that_is_sent_again_replaces_the_first(
    server: Caller, place: dict[str, str]
) -> None:
    for words in ("A dog is welcome.", "No cat is welcome."):
        documents = [text("pets", words)]
        server.agent.ingest_knowledge_base_documents(**place, documents=documents)
        settled(server, place)
    (found,) = server.found(place["knowledgeBaseId"], "welcome")
    assert found["content"]["text"] == "No cat is welcome."


def test_documents_are_told_and_deleted(server: Caller, place: dict[str, str]) -> None:
    documents = [text(f"paper-{number}", f"Dog number {number}.") for number in range(5)]
    server.agent.ingest_knowledge_base_documents(**place, documents=documents)
    settled(server, place)
    pages = server.agent.get_paginator("list_knowledge_base_documents").paginate(
        **place, PaginationConfig={"PageSize": 2}
    )
    assert [len(page["documentDetails"]) for page in pages] == [2, 2, 1]

    asked = [custom("paper-1"), custom("nothing")]
    told = server.agent.get_knowledge_base_documents(**place, documentIdentifiers=asked)
    assert [it["status"] for it in told["documentDetails"]] == ["INDEXED", "NOT_FOUND"]
    told = server.agent.delete_knowledge_base_documents(**place, documentIdentifiers=asked)
    assert [it["status"] for it in told["documentDetails"]] == ["DELETING", "NOT_FOUND"]
    told = server.agent.get_knowledge_base_documents(**place, documentIdentifiers=asked[:1])
    assert told["documentDetails"][0]["status"] == "NOT_FOUND"
    found = server.found(place["knowledgeBaseId"], "dog number", numberOfResults=10)
    assert sorted(named(found)) == ["paper-0", "paper-2", "paper-3", "paper-4"]


def test_bytes_are_read_by_their_type(server: Caller, place: dict[str, str]) -> None:
    def sent(id: str, mime: str, data: bytes) -> dict[str, Any]:
        document = text(id, "x")
        document["content"]["custom"]["inlineContent"] = {
            "type": "BYTE",
            "byteContent": {"mimeType": mime, "data": data},
        }
        return document

    documents = [
        sent("page", "text/html; charset=utf-8", b"<h1>Canteen</h1><p>Lunch is at noon.</p>"),
        sent("picture", "image/png", b"\x89PNG"),
        sent("broken", "application/pdf", b"%PDF nothing"),
    ]
    server.agent.ingest_knowledge_base_documents(**place, documents=documents)
    told = settled(server, place)
    assert {id: it["status"] for id, it in told.items()} == {
        "page": "INDEXED",
        "picture": "IGNORED",
        "broken": "FAILED",
    }
    assert "image/png" in told["picture"]["statusReason"]
    (found,) = server.found(place["knowledgeBaseId"], "lunch")
    assert found["content"]["text"] == "Canteen\n\nLunch is at noon."


def test_a_reserved_attribute_fails_its_document(server: Caller, place: dict[str, str]) -> None:
    own = {"x-amz-bedrock-kb-source-uri": {"type": "STRING", "stringValue": "s3://bank/true"}}
    documents = [text("forged", "A dog.", **own), text("sound", "A cat.")]
    server.agent.ingest_knowledge_base_documents(**place, documents=documents)
    told = settled(server, place)
    assert (told["forged"]["status"], told["sound"]["status"]) == ("FAILED", "INDEXED")
    assert named(server.found(place["knowledgeBaseId"], "dog cat")) == ["sound"]


def test_objects_come_into_both_kinds_of_sources(server: Caller, folder: Path) -> None:
    write(folder, {"hr/own.json": '{"metadataAttributes": {"topic": "pets"}}'})
    base = server.base()
    s3, own = server.source(base, "handbook", "hr/"), server.source(base)
    dogs = "s3://handbook/hr/dogs.md"
    server.agent.ingest_knowledge_base_documents(
        **ids(base, s3),
        documents=[{"content": {"dataSourceType": "S3", "s3": {"s3Location": {"uri": dogs}}}}],
    )
    document = text("mine", "x")
    document["content"]["custom"] = {
        "customDocumentIdentifier": {"id": "mine"},
        "sourceType": "S3_LOCATION",
        "s3Location": {"uri": "s3://handbook/it/vpn.txt"},
    }
    document["metadata"] = {
        "type": "S3_LOCATION",
        "s3Location": {"uri": "s3://handbook/hr/own.json"},
    }
    server.agent.ingest_knowledge_base_documents(**ids(base, own), documents=[document])
    assert server.settled(base, s3)[dogs]["status"] == "INDEXED"
    assert server.settled(base, own)["mine"]["status"] == "INDEXED"
    assert server.found(base, "dog")[0]["location"]["s3Location"]["uri"] == dogs
    (found,) = server.found(base, "vpn", filter={"equals": {"key": "topic", "value": "pets"}})
    assert named([found]) == ["mine"]
    assert found["metadata"]["x-amz-bedrock-kb-source-uri"] == "s3://handbook/it/vpn.txt"


@pytest.mark.parametrize("kind", ["wrong kind", "outside", "twice", "access", "missing"])
def test_what_does_not_fit_is_refused_as_a_whole(server: Caller, kind: str) -> None:
    base = server.base()
    own, s3 = server.source(base), server.source(base, "handbook", "hr/")
    outside = {"dataSourceType": "S3", "s3": {"s3Location": {"uri": "s3://handbook/it/vpn.txt"}}}
    rights = {"type": "USER", "name": "ana", "access": "ALLOW"}
    lone = text("a", "A")
    del lone["content"]["custom"]["inlineContent"]
    documents = {
        "wrong kind": (s3, [text("a", "A")]),
        "outside": (s3, [{"content": outside}]),
        "twice": (own, [text("a", "A"), text("a", "B")]),
        "access": (
            own,
            [
                text("a", "A", topic={"type": "BOOLEAN", "booleanValue": True})
                | {"metadata": {"type": "IN_LINE_ATTRIBUTE", "accessControlList": [rights]}}
            ],
        ),
        "missing": (own, [lone]),
    }
    source, given = documents[kind]
    problem, _ = refused(
        server.agent.ingest_knowledge_base_documents, **ids(base, source), documents=given
    )
    assert problem == "ValidationException"
    assert server.settled(base, source) == {}


def test_a_client_token_sends_documents_once(server: Caller, place: dict[str, str]) -> None:
    given = {**place, "clientToken": str(uuid4()), "documents": [text("a", "A dog.")]}
    first = server.agent.ingest_knowledge_base_documents(**given)["documentDetails"]
    before = settled(server, place)
    assert server.agent.ingest_knowledge_base_documents(**given)["documentDetails"] == first
    assert settled(server, place) == before


def test_retained_documents_outlive_their_source(server: Caller) -> None:
    base = server.base()
    kept = server.source(base, dataDeletionPolicy="RETAIN")
    gone = server.source(base, "handbook")
    server.agent.ingest_knowledge_base_documents(**ids(base, kept), documents=[text("a", "A dog.")])
    server.settled(base, kept)
    server.ingested(base, gone)
    for source in (kept, gone):
        server.agent.delete_data_source(**ids(base, source))
    assert named(server.found(base, "dog", numberOfResults=10)) == ["a"]


@pytest.mark.parametrize("policy", ["RETAIN", "DELETE"])
def test_an_index_outlives_its_knowledge_base_only_if_asked(tmp_path: Path, policy: str) -> None:
    with running(state=tmp_path / "state.sqlite") as server:
        base = server.base()
        source = server.source(base, dataDeletionPolicy=policy)
        place = ids(base, source)
        server.agent.ingest_knowledge_base_documents(**place, documents=[text("a", "A dog.")])
        server.settled(base, source)
        server.agent.delete_knowledge_base(knowledgeBaseId=base)
    left = [it.suffix for it in (tmp_path / "knowledge").iterdir()]
    assert left == ([".sqlite"] if policy == "RETAIN" else [])


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def test_a_document_that_is_deleted_on_its_way_does_not_come_in(gate: Gate) -> None:
    with running(gate) as server:
        base = server.base()
        place = ids(base, server.source(base))
        server.agent.ingest_knowledge_base_documents(**place, documents=[text("a", "A dog.")])
        assert gate.entered.wait(60)
        (told,) = server.agent.list_knowledge_base_documents(**place)["documentDetails"]
        assert told["status"] == "IN_PROGRESS"
        server.agent.delete_knowledge_base_documents(**place, documentIdentifiers=[custom("a")])
        gate.open.set()
        assert settled(server, place) == {}
        server.agent.ingest_knowledge_base_documents(**place, documents=[text("b", "A cat.")])
        settled(server, place)
        assert named(server.found(base, "dog")) == ["b"]


def test_a_document_that_is_deleted_while_it_is_read_does_not_come_in(
    server: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = Event(), Event()

    def slowly(*args: Any) -> bytes:
        reading.set()
        assert go_on.wait(60)
        return read_uri(*args)

    monkeypatch.setattr(direct_ingestion, "read_uri", slowly)
    base = server.base()
    place = ids(base, server.source(base))
    document = text("a", "x")
    document["content"]["custom"] = {
        "customDocumentIdentifier": {"id": "a"},
        "sourceType": "S3_LOCATION",
        "s3Location": {"uri": "s3://handbook/hr/dogs.md"},
    }
    server.agent.ingest_knowledge_base_documents(**place, documents=[document])
    assert reading.wait(60)
    server.agent.delete_knowledge_base_documents(**place, documentIdentifiers=[custom("a")])
    go_on.set()
    server.agent.ingest_knowledge_base_documents(**place, documents=[text("b", "A dog.")])
    settled(server, place)
    assert named(server.found(base, "dog", numberOfResults=10)) == ["b"]


def test_a_document_that_was_sent_anew_is_put_in_once(gate: Gate) -> None:
    with running(gate) as server:
        base = server.base()
        place = ids(base, server.source(base))
        for id, words in (("first", "Holds the lock."), ("a", "Old words."), ("a", "New words.")):
            server.agent.ingest_knowledge_base_documents(**place, documents=[text(id, words)])
            assert gate.entered.wait(60)
        gate.open.set()
        assert {it["status"] for it in settled(server, place).values()} == {"INDEXED"}
        assert "New words." in gate.texts
        assert "Old words." not in gate.texts


def test_documents_on_their_way_when_the_server_stops_have_failed(
    tmp_path: Path, gate: Gate
) -> None:
    state = tmp_path / "state.sqlite"
    with running(gate, state=state) as server:
        base = server.base()
        place = ids(base, server.source(base))
        server.agent.ingest_knowledge_base_documents(**place, documents=[text("a", "A dog.")])
        assert gate.entered.wait(60)
        server.world.bases.closing.set()
        gate.open.set()
    with running(state=state) as server:
        told = settled(server, place)["a"]
        assert (told["status"], "send it again" in told["statusReason"]) == ("FAILED", True)
        server.agent.ingest_knowledge_base_documents(**place, documents=[text("a", "A dog.")])
        assert settled(server, place)["a"]["status"] == "INDEXED"


def test_documents_of_a_deleted_knowledge_base_are_found_by_nobody(server: Caller) -> None:
    base = server.base()
    place = ids(base, server.source(base))
    server.agent.ingest_knowledge_base_documents(**place, documents=[text("a", "A dog.")])
    settled(server, place)
    searched = server.world.bases.base(Tenant(), base)
    assert searched.retrieve("dog")
    server.agent.delete_knowledge_base(knowledgeBaseId=base)
    with pytest.raises(ResourceNotFound):
        searched.retrieve("dog")
