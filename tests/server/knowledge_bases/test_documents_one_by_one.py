"""Documents that are put into a knowledge base without an ingestion job, and taken out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from knowledge_servers import Caller, Gate, polled, refused, running, tenant, two_tenants

CUSTOM = {"type": "CUSTOM"}


def text(id: str, data: str, **metadata: Any) -> dict[str, Any]:
    """A document with its text."""
    content = {
        "dataSourceType": "CUSTOM",
        "custom": {
            "customDocumentIdentifier": {"id": id},
            "sourceType": "IN_LINE",
            "inlineContent": {"type": "TEXT", "textContent": {"data": data}},
        },
    }
    return {"content": content, **({"metadata": metadata} if metadata else {})}


def from_s3(id: str, uri: str, **metadata: Any) -> dict[str, Any]:
    """A document of a custom data source that lies in S3."""
    custom = {
        "customDocumentIdentifier": {"id": id},
        "sourceType": "S3_LOCATION",
        "s3Location": {"uri": uri},
    }
    content = {"dataSourceType": "CUSTOM", "custom": custom}
    return {"content": content, **({"metadata": metadata} if metadata else {})}


def blob(id: str, data: bytes, media_type: str) -> dict[str, Any]:
    document = text(id, "-")
    document["content"]["custom"]["inlineContent"] = {
        "type": "BYTE",
        "byteContent": {"mimeType": media_type, "data": data},
    }
    return document


def by_id(*ids: str) -> list[dict[str, Any]]:
    return [{"dataSourceType": "CUSTOM", "custom": {"id": it}} for it in ids]


@pytest.fixture
def custom(server: Caller) -> tuple[Caller, dict[str, str]]:
    """A server, and the ids of a knowledge base and of a custom data source."""
    base = server.base()
    return server, {"knowledgeBaseId": base, "dataSourceId": _source(server, base)}


def _source(server: Caller, base: str) -> str:
    made = server.agent.create_data_source(
        knowledgeBaseId=base, name="own", dataSourceConfiguration=CUSTOM
    )
    assert made["dataSource"]["dataSourceConfiguration"] == CUSTOM
    return str(made["dataSource"]["dataSourceId"])


def put(server: Caller, ids: dict[str, str], *documents: Any) -> dict[str, str]:
    """Puts documents in, and waits for them; gives their statuses."""
    answer = server.agent.ingest_knowledge_base_documents(**ids, documents=list(documents))
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    return ended(server, ids, [it["identifier"] for it in answer["documentDetails"]])


def ended(server: Caller, ids: dict[str, str], identifiers: list[Any]) -> dict[str, str]:
    for _ in polled():
        details = server.agent.get_knowledge_base_documents(**ids, documentIdentifiers=identifiers)
        found = {_name(it): it["status"] for it in details["documentDetails"]}
        if not {"STARTING", "IN_PROGRESS"} & set(found.values()):
            return found
    raise AssertionError("the documents were not read")


def _name(detail: dict[str, Any]) -> str:
    identifier = detail["identifier"]
    return str(identifier["custom"]["id"] if "custom" in identifier else identifier["s3"]["uri"])


def test_documents_come_and_go(custom: tuple[Caller, dict[str, str]]) -> None:
    server, ids = custom
    attributes = [
        {"key": "topic", "value": {"type": "STRING", "stringValue": "time"}},
        {"key": "year", "value": {"type": "NUMBER", "numberValue": 2026}},
        {"key": "tags", "value": {"type": "STRING_LIST", "stringListValue": ["a", "b"]}},
    ]
    rules = text(
        "rules/1",
        "Everybody has 28 days of leave a year.",
        type="IN_LINE_ATTRIBUTE",
        inlineAttributes=attributes,
    )
    page = blob("page", b"<h1>Dogs</h1><p>A dog is welcome.</p>", "text/html; charset=utf-8")
    begun = server.agent.ingest_knowledge_base_documents(**ids, documents=[rules, page])
    assert [(it["status"], it["identifier"]) for it in begun["documentDetails"]] == [
        ("STARTING", {"dataSourceType": "CUSTOM", "custom": {"id": "rules/1"}}),
        ("STARTING", {"dataSourceType": "CUSTOM", "custom": {"id": "page"}}),
    ]
    assert ended(server, ids, by_id("rules/1", "page")) == {"rules/1": "INDEXED", "page": "INDEXED"}

    base = ids["knowledgeBaseId"]
    best = server.found(base, "days of leave")[0]
    assert best["location"] == {"type": "CUSTOM", "customDocumentLocation": {"id": "rules/1"}}
    told = {name: it for name, it in best["metadata"].items() if not name.startswith("x-amz-")}
    assert told == {"topic": "time", "year": 2026, "tags": ["a", "b"]}
    assert best["metadata"]["x-amz-bedrock-kb-source-uri"] == "rules/1"
    equals = {"equals": {"key": "topic", "value": "time"}}
    assert len(server.found(base, "dog", filter=equals)) == 1

    # The same id again is another text in its place.
    put(server, ids, text("rules/1", "Everybody has 30 days of leave a year."))
    assert server.found(base, "days of leave")[0]["content"]["text"].endswith(
        "30 days of leave a year."
    )
    listed = server.agent.list_knowledge_base_documents(**ids)["documentDetails"]
    assert [(_name(it), it["status"]) for it in listed] == [
        ("rules/1", "INDEXED"),
        ("page", "INDEXED"),
    ]
    first = server.agent.list_knowledge_base_documents(**ids, maxResults=1)
    rest = server.agent.list_knowledge_base_documents(**ids, nextToken=first["nextToken"])
    assert [_name(it) for it in rest["documentDetails"]] == ["page"]

    gone = server.agent.delete_knowledge_base_documents(
        **ids, documentIdentifiers=by_id("rules/1", "never")
    )
    assert [it["status"] for it in gone["documentDetails"]] == ["DELETING", "NOT_FOUND"]
    assert [
        it["location"]["customDocumentLocation"]["id"] for it in server.found(base, "leave")
    ] == ["page"]
    after = server.agent.get_knowledge_base_documents(
        **ids, documentIdentifiers=by_id("rules/1", "page")
    )
    assert [it["status"] for it in after["documentDetails"]] == ["NOT_FOUND", "INDEXED"]


def test_documents_lie_in_s3(custom: tuple[Caller, dict[str, str]]) -> None:
    server, ids = custom
    leave = from_s3(
        "leave",
        "s3://handbook/hr/leave.md",
        type="S3_LOCATION",
        s3Location={"uri": "s3://handbook/hr/leave.md.metadata.json"},
    )
    lost = from_s3("lost", "s3://handbook/hr/nothing.md")
    assert put(server, ids, leave, lost) == {"leave": "INDEXED", "lost": "FAILED"}
    best = server.found(ids["knowledgeBaseId"], "days of leave")[0]
    assert (best["metadata"]["topic"], best["metadata"]["year"]) == ("time", 2026)
    (detail,) = server.agent.get_knowledge_base_documents(**ids, documentIdentifiers=by_id("lost"))[
        "documentDetails"
    ]
    assert "there is no object 's3://handbook/hr/nothing.md'" in detail["statusReason"]


def test_a_document_of_a_bucket_is_read_before_its_job(server: Caller) -> None:
    base = server.base()
    ids = {"knowledgeBaseId": base, "dataSourceId": server.source(base, "handbook", "hr/")}
    uri = "s3://handbook/hr/dogs.md"
    content = {"dataSourceType": "S3", "s3": {"s3Location": {"uri": uri}}}
    assert put(server, ids, {"content": content}) == {uri: "INDEXED"}
    assert server.found(base, "dog")[0]["location"] == {"type": "S3", "s3Location": {"uri": uri}}
    job = server.ingested(base, ids["dataSourceId"])
    assert job["status"] == "COMPLETE"
    listed = server.agent.list_knowledge_base_documents(**ids)["documentDetails"]
    assert {_name(it): it["status"] for it in listed} == {
        uri: "INDEXED",
        "s3://handbook/hr/leave.md": "INDEXED",
    }
    other = {"dataSourceType": "S3", "s3": {"s3Location": {"uri": "s3://handbook/it/vpn.txt"}}}
    code, message = refused(
        server.agent.ingest_knowledge_base_documents, **ids, documents=[{"content": other}]
    )
    assert (code, "is not in the data source" in message) == ("ValidationException", True)


def test_what_cannot_be_read_is_refused(custom: tuple[Caller, dict[str, str]]) -> None:
    server, ids = custom
    missing = text("a", "b")
    del missing["content"]["custom"]["inlineContent"]
    other = {"content": {"dataSourceType": "S3", "s3": {"s3Location": {"uri": "s3://handbook/x"}}}}
    acl = text("a", "b", type="IN_LINE_ATTRIBUTE", inlineAttributes=[], accessControlList=[])
    acl["metadata"]["inlineAttributes"] = [
        {"key": "k", "value": {"type": "BOOLEAN", "booleanValue": True}}
    ]
    acl["metadata"]["accessControlList"] = [{"name": "ana", "type": "USER", "access": "ALLOW"}]
    for documents, problem in (
        ([missing], "needs inlineContent"),
        ([other], "the data source"),
        ([blob("a", b"x", "image/png")], "has the mimeType 'image/png'"),
        ([text("a", "b"), text("a", "c")], "the same identifier"),
        ([text("a", "b", type="S3_LOCATION")], "metadata of the type S3_LOCATION needs s3Location"),
        ([acl], "accessControlList"),
    ):
        code, message = refused(
            server.agent.ingest_knowledge_base_documents, **ids, documents=documents
        )
        assert (code, problem in message) == ("ValidationException", True), message
    nowhere = {**ids, "dataSourceId": "NOWHERE123"}
    for call, given in (
        (server.agent.ingest_knowledge_base_documents, {"documents": [text("a", "b")]}),
        (server.agent.get_knowledge_base_documents, {"documentIdentifiers": by_id("a")}),
        (server.agent.delete_knowledge_base_documents, {"documentIdentifiers": by_id("a")}),
        (server.agent.list_knowledge_base_documents, {}),
    ):
        assert refused(call, **nowhere, **given)[0] == "ResourceNotFoundException"
    code, message = refused(server.agent.start_ingestion_job, **ids)
    assert (code, "IngestKnowledgeBaseDocuments" in message) == ("ValidationException", True)
    assert server.agent.list_knowledge_base_documents(**ids)["documentDetails"] == []


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[tuple[Caller, Gate]]:
    gate = Gate()
    with running(gate, state=tmp_path / "state.sqlite") as server:
        yield server, gate
        gate.open.set()


def test_documents_wait_and_are_bounded(gated: tuple[Caller, Gate]) -> None:
    server, gate = gated
    base = server.base()
    ids = {"knowledgeBaseId": base, "dataSourceId": _source(server, base)}
    token = "t" * 40
    for number in range(10):
        one = [text(f"d{number}", "A dog.")]
        server.agent.ingest_knowledge_base_documents(
            **ids, documents=one, clientToken=f"{token}{number}"
        )
    again = server.agent.ingest_knowledge_base_documents(
        **ids, documents=[text("d0", "A dog.")], clientToken=f"{token}0"
    )
    assert [it["status"] for it in again["documentDetails"]] == ["STARTING"]
    code, message = refused(
        server.agent.ingest_knowledge_base_documents, **ids, documents=[text("x", "A cat.")]
    )
    assert (code, "10 batches" in message) == ("ServiceQuotaExceededException", True)
    assert gate.entered.wait(60)
    # One that is deleted while it is read is not found afterwards.
    server.agent.delete_knowledge_base_documents(**ids, documentIdentifiers=by_id("d3"))
    gate.open.set()
    names = [f"d{number}" for number in range(10)]
    found = ended(server, ids, by_id(*names))
    assert found == {name: "NOT_FOUND" if name == "d3" else "INDEXED" for name in names}
    for _ in polled():
        ids_found = [
            it["location"]["customDocumentLocation"]["id"]
            for it in server.found(base, "dog", numberOfResults=20)
        ]
        if "d3" not in ids_found:
            break
    assert sorted(ids_found) == sorted(set(names) - {"d3"})


def test_documents_stay_when_the_server_is_started_again(tmp_path: Path, folder: Path) -> None:
    state = tmp_path / "state.sqlite"
    with running(state=state) as server:
        base = server.base()
        ids = {"knowledgeBaseId": base, "dataSourceId": _source(server, base)}
        put(server, ids, text("a", "A dog."))
    with running(state=state) as server:
        listed = server.agent.list_knowledge_base_documents(**ids)["documentDetails"]
        assert [(_name(it), it["status"]) for it in listed] == [("a", "INDEXED")]
        assert len(server.found(base, "dog")) == 1


POLICY = '{"Version": "2012-10-17", "Statement": []}'


def test_a_knowledge_base_has_a_policy(server: Caller) -> None:
    arn = f"arn:aws:bedrock:us-east-1:000000000000:knowledge-base/{server.base()}"
    agent = server.agent
    assert refused(agent.get_resource_policy, resourceArn=arn)[0] == "ResourceNotFoundException"
    first = agent.put_resource_policy(resourceArn=arn, policy=POLICY)["revisionId"]
    found = agent.get_resource_policy(resourceArn=arn)
    del found["ResponseMetadata"]
    assert found == {"resourceArn": arn, "policy": POLICY, "revisionId": first}
    second = agent.put_resource_policy(resourceArn=arn, policy=POLICY, expectedRevisionId=first)
    for call, given in (
        (agent.put_resource_policy, {"policy": POLICY}),
        (agent.delete_resource_policy, {}),
    ):
        code, _ = refused(call, resourceArn=arn, expectedRevisionId=first, **given)
        assert code == "ConflictException"
    code, message = refused(agent.put_resource_policy, resourceArn=arn, policy="no JSON")
    assert (code, message) == ("ValidationException", "the policy is not a JSON object")
    gone = agent.delete_resource_policy(resourceArn=arn, expectedRevisionId=second["revisionId"])
    assert gone["revisionId"] == second["revisionId"]
    assert refused(agent.delete_resource_policy, resourceArn=arn)[0] == "ResourceNotFoundException"
    for other in (arn.replace("000000000000", "123456789012"), f"{arn[:-10]}NOWHERE123"):
        code, _ = refused(agent.put_resource_policy, resourceArn=other, policy=POLICY)
        assert code == "ResourceNotFoundException"


def test_documents_and_policies_of_another_tenant_are_not_there(
    tmp_path: Path, folder: Path
) -> None:
    with running(keys=two_tenants(tmp_path), buckets={"handbook": folder}) as server:
        one, two = tenant(server, "A"), tenant(server, "B")
        base = one.base()
        ids = {"knowledgeBaseId": base, "dataSourceId": _source(one, base)}
        put(one, ids, text("a", "The password is swordfish."))
        arn = f"arn:aws:bedrock:us-east-1:000000000000:knowledge-base/{base}"
        one.agent.put_resource_policy(resourceArn=arn, policy=POLICY)
        for call, given in (
            (two.agent.ingest_knowledge_base_documents, {"documents": [text("a", "b")]}),
            (two.agent.get_knowledge_base_documents, {"documentIdentifiers": by_id("a")}),
            (two.agent.delete_knowledge_base_documents, {"documentIdentifiers": by_id("a")}),
            (two.agent.list_knowledge_base_documents, {}),
        ):
            assert refused(call, **ids, **given)[0] == "ResourceNotFoundException"
        for call, given in (
            (two.agent.put_resource_policy, {"policy": POLICY}),
            (two.agent.get_resource_policy, {}),
            (two.agent.delete_resource_policy, {}),
        ):
            assert refused(call, resourceArn=arn, **given)[0] == "ResourceNotFoundException"
        assert one.agent.get_resource_policy(resourceArn=arn)["policy"] == POLICY


def test_a_key_has_only_read_what_it_may(tmp_path: Path, folder: Path) -> None:
    keys = two_tenants(tmp_path, allow="s3://other/*")
    with running(keys=keys, buckets={"handbook": folder}) as server:
        one = tenant(server, "A")
        base = one.base()
        ids = {"knowledgeBaseId": base, "dataSourceId": _source(one, base)}
        for document in (
            from_s3("a", "s3://handbook/hr/leave.md"),
            text("a", "b", type="S3_LOCATION", s3Location={"uri": "s3://handbook/hr/m.json"}),
        ):
            code, message = refused(
                one.agent.ingest_knowledge_base_documents, **ids, documents=[document]
            )
            assert (code, "s3://handbook" in message) == ("AccessDeniedException", True)
