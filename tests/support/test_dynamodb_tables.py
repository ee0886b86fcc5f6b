"""A table of DynamoDB: its definition, items, conditions, pages, and what is wrong."""

from __future__ import annotations

import time

import pytest
from botocore.stub import Stubber

from orchestrator.errors import DependencyFailed
from orchestrator.support.dynamodb import ConditionFailed, DynamoTable
from orchestrator.support.store_urls import DynamoUrl, parse_store


def open_table(text: str) -> DynamoTable:
    url = parse_store(text)
    assert isinstance(url, DynamoUrl)
    return DynamoTable(url, "the session store")


@pytest.fixture
def table(dynamodb_url: str) -> DynamoTable:
    return open_table(dynamodb_url)


def test_the_table_is_made_once_and_expires_its_items(table: DynamoTable) -> None:
    assert table.create() is False
    found = table.client.describe_time_to_live(TableName=table.name)["TimeToLiveDescription"]
    assert found == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}


def test_items_are_plain_values(table: DynamoTable) -> None:
    item = {"pk": "a", "sk": "é\0\"'", "text": "x" * 1000, "number": 1 << 61, "bytes": b"\0\xff"}
    table.put(item)
    assert table.get("a", "é\0\"'") == item
    table.delete("a", "é\0\"'")
    assert table.get("a", "é\0\"'") is None


def test_a_condition_fences_writes(table: DynamoTable) -> None:
    table.put({"pk": "a", "sk": "b", "n": 1}, "attribute_not_exists(pk)")
    with pytest.raises(ConditionFailed):
        table.put({"pk": "a", "sk": "b", "n": 2}, "n = :n", n=7)
    assert table.get("a", "b") == {"pk": "a", "sk": "b", "n": 1}


def test_a_transaction_writes_all_or_nothing(table: DynamoTable) -> None:
    key = {"pk": {"S": "a"}, "sk": {"S": "c"}}
    put = {"Put": {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}}}
    check = {"ConditionCheck": {"Key": key, "ConditionExpression": "attribute_exists(pk)"}}
    with pytest.raises(ConditionFailed):
        table.transact(put, check)
    assert table.get("a", "b") is None


def test_batches_and_pages_have_no_end(table: DynamoTable) -> None:
    items = [{"pk": "a", "sk": f"{n:03}", "text": "x" * 90_000} for n in range(30)]
    table.write_batch(items)
    assert list(table.query("pk = :pk", {"pk": "a"}, limit=7)) == items
    newest = table.query("pk = :pk", {"pk": "a"}, newest_first=True)
    assert next(newest)["sk"] == "029"
    table.write_batch(deletes=items)
    assert list(table.query("pk = :pk", {"pk": "a"})) == []


def test_items_are_read_in_batches_of_any_size(table: DynamoTable) -> None:
    # More items than one call may ask for, and more bytes than it gives.
    items = [{"pk": "a", "sk": f"{n:03}", "text": "x" * 200_000} for n in range(110)]
    table.write_batch(items)
    keys = [("a", str(item["sk"])) for item in (*items, items[0])]
    found = table.get_batch([*keys, ("a", "missing")])
    assert found == dict(zip(keys, items, strict=False))
    assert table.get_batch([]) == {}


def test_a_table_that_is_not_there_says_how_to_make_it(dynamodb_url: str) -> None:
    with pytest.raises(DependencyFailed, match="orchestrator sessions create-table"):
        open_table(dynamodb_url.replace("//test-", "//missing-")).get("a", "b")


@pytest.mark.parametrize(
    ("code", "status", "is_outage"),
    [
        ("ProvisionedThroughputExceededException", 400, True),
        ("RequestLimitExceeded", 400, True),
        ("TransactionInProgressException", 400, True),
        ("InternalServerError", 500, True),
        ("ServiceUnavailable", 503, True),
        ("AccessDeniedException", 400, False),
        ("ResourceNotFoundException", 400, False),
        ("ValidationException", 400, False),
        ("ItemCollectionSizeLimitExceededException", 400, False),
    ],
)
def test_what_may_be_over_soon_is_an_outage(
    table: DynamoTable, code: str, status: int, is_outage: bool
) -> None:
    with Stubber(table.client) as stubber:
        stubber.add_client_error("get_item", code, "wrong", status)
        with pytest.raises(DependencyFailed) as failed:
            table.get("a", "b")
    assert failed.value.is_outage is is_outage


ITEM = {"Put": {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}}}


def cancel(stubber: Stubber, *reasons: str) -> None:
    fields = {"CancellationReasons": [{"Code": reason} for reason in reasons]}
    code = "TransactionCanceledException"
    stubber.add_client_error("transact_write_items", code, "Cancelled", 400, modeled_fields=fields)


@pytest.mark.parametrize("reason", ["ProvisionedThroughputExceeded", "ThrottlingError"])
def test_a_throttled_transaction_is_repeated(
    table: DynamoTable, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with Stubber(table.client) as stubber:
        cancel(stubber, "None", reason)
        stubber.add_response("transact_write_items", {})
        table.transact(ITEM)
        stubber.assert_no_pending_responses()
        for _ in range(8):
            cancel(stubber, reason, "None")
        with pytest.raises(DependencyFailed, match="raise its capacity") as failed:
            table.transact(ITEM)
    assert failed.value.is_outage
    assert len(waits) == 8 and sum(waits) < 10


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ConditionalCheckFailed", ConditionFailed),
        ("TransactionConflict", ConditionFailed),
        ("ValidationError", DependencyFailed),
        ("ItemCollectionSizeLimitExceeded", DependencyFailed),
    ],
)
def test_a_transaction_that_is_refused_is_not_repeated(
    table: DynamoTable, reason: str, kind: type[Exception]
) -> None:
    with Stubber(table.client) as stubber:
        cancel(stubber, "None", reason)
        with pytest.raises(kind) as failed:
            table.transact(ITEM)
    assert not getattr(failed.value, "is_outage", False)


def test_a_table_that_cannot_be_reached_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    url = "dynamodb://sessions?region=us-east-1&endpoint_url=http://127.0.0.1:9"
    with pytest.raises(DependencyFailed, match="could not be reached") as failed:
        open_table(url).get("a", "b")
    assert failed.value.is_outage
