"""The Sessions API through boto3: sessions, invocations and steps of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_servers import client_of
from sessions_api_support import refused, served, words

from orchestrator.errors import OrchestratorError
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.operations import Caller, Fault, Request
from orchestrator.server.runtime.sessions_api import SessionsApi
from orchestrator.server.settings import Settings

NOW = datetime(2026, 11, 22, 12, 30, 15, 250000, tzinfo=UTC)
KEY = "arn:aws:kms:us-east-1:000000000000:key/12345678-1234-1234-1234-123456789012"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with served() as url:
        yield client_of(url)


def test_a_session_lives_as_in_aws(client: Any) -> None:
    made = client.create_session(
        sessionMetadata={"user": "ana"}, encryptionKeyArn=KEY, tags={"team": "hr"}
    )
    id, arn = made["sessionId"], made["sessionArn"]
    assert arn == f"arn:aws:bedrock:us-east-1:000000000000:session/{id}"
    assert made["sessionStatus"] == "ACTIVE"
    told = client.get_session(sessionIdentifier=id)
    assert told["sessionMetadata"] == {"user": "ana"}
    assert told["encryptionKeyArn"] == KEY
    assert told["createdAt"] == told["lastUpdatedAt"] == made["createdAt"]

    changed = client.update_session(sessionIdentifier=arn, sessionMetadata={"user": "ben"})
    assert changed["lastUpdatedAt"] > changed["createdAt"]
    assert client.get_session(sessionIdentifier=arn)["sessionMetadata"] == {"user": "ben"}

    assert refused(client.delete_session, sessionIdentifier=id) == "ConflictException"
    assert client.end_session(sessionIdentifier=id)["sessionStatus"] == "ENDED"
    assert client.get_session(sessionIdentifier=id)["sessionStatus"] == "ENDED"
    for call in (client.end_session, client.update_session):
        assert refused(call, sessionIdentifier=id) == "ConflictException"
    client.delete_session(sessionIdentifier=arn)
    for call in (client.get_session, client.delete_session, client.list_invocations):
        assert refused(call, sessionIdentifier=id) == "ResourceNotFoundException"


def test_steps_come_back_as_they_were_put(client: Any) -> None:
    session = client.create_session()["sessionId"]
    invocation = client.create_invocation(sessionIdentifier=session, description="Weather")
    assert invocation["sessionId"] == session
    ids = {"sessionIdentifier": session, "invocationIdentifier": invocation["invocationId"]}
    payload = {
        "contentBlocks": [
            {"text": 'What is the weather? $instruction$ {"$time": 1}'},
            {"image": {"format": "png", "source": {"bytes": b"\x89PNG\0"}}},
            {"image": {"format": "gif", "source": {"s3Location": {"uri": "s3://pictures/a.gif"}}}},
        ]
    }
    step = client.put_invocation_step(**ids, invocationStepTime=NOW, payload=payload)
    got = client.get_invocation_step(**ids, invocationStepId=step["invocationStepId"])
    assert got["invocationStep"] == {
        "sessionId": session,
        "invocationId": invocation["invocationId"],
        "invocationStepId": step["invocationStepId"],
        "invocationStepTime": NOW,
        "payload": payload,
    }


def test_ids_may_be_given_and_are_taken_once(client: Any) -> None:
    session = client.create_session()["sessionId"]
    own, step = str(uuid4()), str(uuid4())
    made = client.create_invocation(sessionIdentifier=session, invocationId=own)
    assert made["invocationId"] == own
    problem = refused(client.create_invocation, sessionIdentifier=session, invocationId=own)
    assert problem == "ConflictException"
    given = {
        "sessionIdentifier": session,
        "invocationIdentifier": own,
        "invocationStepId": step,
        "invocationStepTime": NOW,
    }
    assert client.put_invocation_step(**given, payload=words("a"))["invocationStepId"] == step
    assert refused(client.put_invocation_step, **given, payload=words("b")) == "ConflictException"
    other = client.create_session()["sessionId"]
    client.create_invocation(sessionIdentifier=other, invocationId=own)


def test_lists_begin_with_the_newest(client: Any) -> None:
    session = client.create_session()["sessionId"]
    first, second = (
        client.create_invocation(sessionIdentifier=session)["invocationId"] for _ in "12"
    )
    steps = [
        client.put_invocation_step(
            sessionIdentifier=session,
            invocationIdentifier=first if number % 2 else second,
            invocationStepTime=NOW + timedelta(seconds=number),
            payload=words(f"{number}"),
        )["invocationStepId"]
        for number in range(5)
    ]

    def listed(operation: str, member: str, id: str, **params: Any) -> list[list[str]]:
        pages = client.get_paginator(operation).paginate(
            **params, sessionIdentifier=session, PaginationConfig={"PageSize": 2}
        )
        return [[it[id] for it in page[member]] for page in pages]

    found = listed("list_invocation_steps", "invocationStepSummaries", "invocationStepId")
    assert found == [steps[:2:-1], steps[2:0:-1], steps[:1]]
    only = {"invocationIdentifier": first}
    found = listed("list_invocation_steps", "invocationStepSummaries", "invocationStepId", **only)
    assert found == [[steps[3], steps[1]]]
    found = listed("list_invocations", "invocationSummaries", "invocationId")
    assert found == [[second, first]]


def test_steps_are_listed_by_their_times(client: Any) -> None:
    session = client.create_session()["sessionId"]
    ids = {"sessionIdentifier": session}
    ids["invocationIdentifier"] = client.create_invocation(**ids)["invocationId"]
    times = {
        client.put_invocation_step(
            **ids,
            invocationStepTime=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds),
            payload=words("a"),
        )["invocationStepId"]: seconds
        for seconds in (0, -5, 1_800_000_000, 9, 1_700_000_000)
    }
    pages = client.get_paginator("list_invocation_steps").paginate(
        sessionIdentifier=session, PaginationConfig={"PageSize": 3}
    )
    found = [it for page in pages for it in page["invocationStepSummaries"]]
    told = [times[it["invocationStepId"]] for it in found]
    assert told == sorted(times.values(), reverse=True)
    token = client.list_invocation_steps(sessionIdentifier=session, maxResults=1)["nextToken"]
    assert refused(client.list_invocation_steps, **ids, nextToken=token) == "ValidationException"


def test_sessions_are_listed_in_pages() -> None:
    with served() as url:
        client = client_of(url)
        ids = [client.create_session()["sessionId"] for _ in range(5)]
        client.end_session(sessionIdentifier=ids[0])
        pages = client.get_paginator("list_sessions").paginate(PaginationConfig={"PageSize": 2})
        found = [it for page in pages for it in page["sessionSummaries"]]
        assert [it["sessionId"] for it in found] == ids[::-1]
        assert [it["sessionStatus"] for it in found] == ["ACTIVE"] * 4 + ["ENDED"]
        assert refused(client.list_sessions, nextToken="nonsense") == "ValidationException"


def test_what_is_not_there_is_not_found(client: Any) -> None:
    session, nothing = client.create_session()["sessionId"], str(uuid4())
    invocation = client.create_invocation(sessionIdentifier=session)["invocationId"]
    put = {"invocationStepTime": NOW, "payload": words("a"), "sessionIdentifier": session}
    step = {"invocationStepId": nothing, "sessionIdentifier": session}
    foreign = f"arn:aws:bedrock:eu-west-1:111111111111:session/{session}"
    for call, params in (
        (client.get_session, {"sessionIdentifier": nothing}),
        (client.get_session, {"sessionIdentifier": foreign}),
        (client.put_invocation_step, put | {"invocationIdentifier": nothing}),
        (client.get_invocation_step, step | {"invocationIdentifier": nothing}),
        (client.get_invocation_step, step | {"invocationIdentifier": invocation}),
        (
            client.list_invocation_steps,
            {"sessionIdentifier": session, "invocationIdentifier": nothing},
        ),
    ):
        assert refused(call, **params) == "ResourceNotFoundException"
    assert refused(client.get_session, sessionIdentifier="..") == "ValidationException"


def test_an_ended_session_is_read_and_not_added_to(client: Any) -> None:
    session = client.create_session()["sessionId"]
    invocation = client.create_invocation(sessionIdentifier=session)["invocationId"]
    ids = {"sessionIdentifier": session, "invocationIdentifier": invocation}
    put = {**ids, "invocationStepTime": NOW, "payload": words("a")}
    step = client.put_invocation_step(**put)["invocationStepId"]
    client.end_session(sessionIdentifier=session)
    assert refused(client.put_invocation_step, **put) == "ConflictException"
    assert refused(client.create_invocation, sessionIdentifier=session) == "ConflictException"
    got = client.get_invocation_step(**ids, invocationStepId=step)
    assert got["invocationStep"]["payload"] == words("a")


def test_tags_of_a_session_are_changed(client: Any) -> None:
    arn = client.create_session(tags={"team": "hr"})["sessionArn"]
    client.tag_resource(resourceArn=arn, tags={"stage": "test"})
    client.untag_resource(resourceArn=arn, tagKeys=["team"])
    assert client.list_tags_for_resource(resourceArn=arn)["tags"] == {"stage": "test"}
    nothing = f"{arn[:-36]}{uuid4()}"
    problem = refused(client.list_tags_for_resource, resourceArn=nothing)
    assert problem == "ResourceNotFoundException"


def test_sessions_outlive_the_server(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    with served(state=state) as url:
        id = client_of(url).create_session(sessionMetadata={"user": "ana"})["sessionId"]
    with served(state=state) as url:
        told = client_of(url).get_session(sessionIdentifier=id)
        assert told["sessionMetadata"] == {"user": "ana"}


# -- with a clock --------------------------------------------------------------------------------


class Desk:
    """The handlers themselves, and a clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = NOW
        self.documents = DocumentStore()
        api = SessionsApi(self.documents, Settings(), lambda: self.now)
        self.handlers: Any = api.operations()["bedrock-agent-runtime"]

    def __call__(self, operation: str, tenant: str = "", **params: Any) -> Any:
        request = Request("bedrock-agent-runtime", operation, params, Caller(tenant))
        return self.handlers[operation](request)


def test_a_session_expires_thirty_days_after_its_last_change() -> None:
    desk = Desk()
    id = desk("CreateSession")["sessionId"]
    desk.now += timedelta(days=29)
    desk("UpdateSession", sessionIdentifier=id)
    desk.now += timedelta(days=30)
    assert desk("GetSession", sessionIdentifier=id)["sessionStatus"] == "ACTIVE"
    desk.now += timedelta(seconds=1)
    assert desk("GetSession", sessionIdentifier=id)["sessionStatus"] == "EXPIRED"
    assert desk("ListSessions")["sessionSummaries"][0]["sessionStatus"] == "EXPIRED"
    for operation in ("UpdateSession", "EndSession", "CreateInvocation"):
        with pytest.raises(Fault, match="EXPIRED"):
            desk(operation, sessionIdentifier=id)
    desk("DeleteSession", sessionIdentifier=id)
    assert desk("ListSessions")["sessionSummaries"] == []


def test_a_session_holds_only_so_much() -> None:
    desk = Desk()
    id = desk("CreateSession")["sessionId"]
    invocation = desk("CreateInvocation", sessionIdentifier=id)["invocationId"]
    step = {"sessionIdentifier": id, "invocationIdentifier": invocation, "invocationStepTime": NOW}
    payload = {
        "contentBlocks": [{"image": {"format": "png", "source": {"bytes": bytes(15_000_000)}}}]
    }
    for _ in range(2):
        desk("PutInvocationStep", **step, payload=payload)
    with pytest.raises(Fault) as error:
        desk("PutInvocationStep", **step, payload=payload)
    assert error.value.name == "ServiceQuotaExceededException"
    told = desk("ListInvocationSteps", sessionIdentifier=id)["invocationStepSummaries"]
    assert len(told) == 2


def test_deleting_a_session_leaves_nothing_of_it() -> None:
    desk = Desk()
    id = desk("CreateSession", sessionMetadata={"user": "canary"})["sessionId"]
    invocation = desk("CreateInvocation", sessionIdentifier=id)["invocationId"]
    step = {"sessionIdentifier": id, "invocationIdentifier": invocation, "invocationStepTime": NOW}
    desk("PutInvocationStep", **step, payload=words("canary"))
    desk("EndSession", sessionIdentifier=id)
    desk("DeleteSession", sessionIdentifier=id)
    assert desk.documents._rows._file.rows("SELECT * FROM document") == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "CreateSession",
                    "EndSession",
                    "DeleteSession",
                    "UpdateSession",
                    "CreateInvocation",
                ]
            ),
            st.integers(0, 3),
            st.sampled_from(["a", "b"]),
        ),
        max_size=25,
    )
)
def test_no_tenant_ever_sees_anothers_sessions(steps: list[tuple[str, int, str]]) -> None:
    desk = Desk()
    made: dict[str, list[str]] = {"a": [], "b": []}
    gone: set[str] = set()
    for operation, which, tenant in steps:
        if operation == "CreateSession":
            made[tenant].append(desk(operation, tenant)["sessionId"])
            continue
        known = made["a"] + made["b"]
        id = known[which % len(known)] if known else str(uuid4())
        try:
            desk(operation, tenant, sessionIdentifier=id)
        except (Fault, OrchestratorError) as error:
            name = error.name if isinstance(error, Fault) else error.bedrock_name
            if id not in made[tenant] or id in gone:
                assert name == "ResourceNotFoundException"
            continue
        assert id in made[tenant] and id not in gone
        gone |= {id} if operation == "DeleteSession" else set()
    for tenant in "ab":
        told = desk("ListSessions", tenant)["sessionSummaries"]
        assert {it["sessionId"] for it in told} == set(made[tenant]) - gone
