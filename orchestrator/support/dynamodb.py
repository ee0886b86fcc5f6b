"""A table of DynamoDB of this program: items as plain values, conditional writes, time to live.

One table holds every kind of store. An item has a partition key `pk` and a sort key `sk`; those
that are to be listed have `listing` (a kind, with a shard), `updated` or `name`, by which the
indices of `memory/dynamodb_table.json` sort. An item whose `expires` (seconds since 1970) has
passed is deleted by DynamoDB.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from orchestrator.errors import DependencyFailed
from orchestrator.support.aws import Settings, Target, get_shared_client, translate_errors
from orchestrator.support.content_root import content_root
from orchestrator.support.store_urls import DynamoUrl

Item = dict[str, Any]
"""An item: texts, whole numbers and bytes by their names."""

ITEM_BYTES = 350_000
"""How much of a long text an item takes: the limit is 400 KB with the names and keys."""

TTL_ATTRIBUTE = "expires"

_BATCH = 25  # (BatchWriteItem: the most requests of one call)
_MOST_READS = 100  # (BatchGetItem: the most items of one call)
_TRIES = 8  # of what the table did not take, or not all of
_LONGEST_PAUSE = 2.0  # seconds
_DAY = 86_400


class ConditionFailed(Exception):
    """The condition of a write does not hold: nothing was written."""


class _TransactionThrottled(Exception):
    """The table has no capacity for a transaction: nothing was written."""


class DynamoTable:
    """A table. Safe for many threads; all stores of a process share one client."""

    def __init__(self, url: DynamoUrl, what: str) -> None:
        """Names the table, and asks for nothing yet; messages call the store `what`."""
        self.url = url
        self.name = url.table
        self.what = f"{what} {url.display_name!r}"
        self._settings = Settings(
            "dynamodb", url.region, url.profile, url.endpoint_url, read_timeout=20.0
        )
        self._target = Target(
            self.what,
            url.display_name,
            "allow dynamodb:GetItem, BatchGetItem, PutItem, UpdateItem, DeleteItem, "
            "BatchWriteItem, Query and ConditionCheckItem",
            "`orchestrator sessions create-table` makes the table; check its name, the account and "
            "the region",
            quoted=frozenset({"ValidationException", "AccessDeniedException"}),
            callers=False,
            is_store=True,
            region=url.region,
            profile=url.profile,
        )

    @property
    def client(self) -> Any:
        """boto3's client; its retries are bounded.

        Raises:
            AccessDenied: There are no credentials, or no region.
        """
        return get_shared_client(self._settings, self._target)

    def call(self, operation: str, **request: Any) -> Any:
        """What an operation of boto3's client answers.

        Raises:
            ConditionFailed: The condition of a write does not hold, or a transaction writes the
                same item at the same time.
            DependencyFailed: DynamoDB failed, or refused the request.
        """
        client = self.client
        with translate_errors(self._target):
            try:
                return getattr(client, operation)(**request)
            except (
                client.exceptions.ConditionalCheckFailedException,
                client.exceptions.TransactionConflictException,
            ):
                pass
            except client.exceptions.TransactionCanceledException as error:
                reasons = _read_reasons(error.response)
                if reasons & _THROTTLED:
                    raise _TransactionThrottled from None
                if not reasons & _CONDITIONS:
                    raise
        raise ConditionFailed

    def get(self, pk: str, sk: str) -> Item | None:
        """An item as the last write left it; `None` when there is none."""
        return self.get_at(pk, sk)[0]

    def get_at(self, pk: str, sk: str) -> tuple[Item | None, float]:
        """The same, and what time it is at DynamoDB, in seconds since 1970."""
        key = to_wire({"pk": pk, "sk": sk})
        reply = self.call("get_item", TableName=self.name, Key=key, ConsistentRead=True)
        found = reply.get("Item")
        return (from_wire(found) if found is not None else None), server_time(reply)

    def get_batch(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Item]:
        """Items as the last writes left them, by their keys; one that is not there is left out."""
        asked, found = [*dict.fromkeys(keys)], {}
        for at in range(0, len(asked), _MOST_READS):
            rest = [to_wire({"pk": pk, "sk": sk}) for pk, sk in asked[at : at + _MOST_READS]]
            request = {"Keys": rest, "ConsistentRead": True}
            for reply in self._call_batch("batch_get_item", request, "UnprocessedKeys"):
                for item in map(from_wire, reply["Responses"].get(self.name, ())):
                    found[item["pk"], item["sk"]] = item
        return found

    def put(self, item: Item, condition: str = "", **values: Any) -> float:
        """Writes an item, if the condition holds; `values` has its `:names`. Returns the time."""
        request: dict[str, Any] = {"TableName": self.name, "Item": to_wire(item)}
        if condition:
            request["ConditionExpression"] = condition
        if values:
            request["ExpressionAttributeValues"] = to_wire(values, ":")
        return server_time(self.call("put_item", **request))

    def delete(self, pk: str, sk: str) -> Item | None:
        """Deletes an item; what it was, if there was one."""
        key = to_wire({"pk": pk, "sk": sk})
        reply = self.call("delete_item", TableName=self.name, Key=key, ReturnValues="ALL_OLD")
        found = reply.get("Attributes")
        return from_wire(found) if found else None

    def transact(self, *writes: Mapping[str, Any]) -> None:
        """Does several writes or none: each is `{"Put": {...}}` and the like, without a table.

        boto3 gives every call a token of its own, so that its retries write nothing twice.
        """
        items = [
            {kind: {"TableName": self.name, **request} for kind, request in write.items()}
            for write in writes
        ]
        for _ in _pause_between_tries():
            # botocore repeats what was throttled, but not a transaction.
            with suppress(_TransactionThrottled):
                self.call("transact_write_items", TransactItems=items)
                return
        raise self._build_capacity_error()

    def query(
        self,
        condition: str,
        values: Mapping[str, Any],
        *,
        index: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        """The items that a key condition finds, page by page as they are needed."""
        request: dict[str, Any] = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": to_wire(values, ":"),
            "ScanIndexForward": not newest_first,
        }
        if "#name" in condition:  # a reserved word
            request["ExpressionAttributeNames"] = {"#name": "name"}
        if index is not None:
            request["IndexName"] = index
        else:
            request["ConsistentRead"] = True
        if limit is not None:
            request["Limit"] = limit
        while True:
            page = self.call("query", **request)
            yield from map(from_wire, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def write_batch(self, puts: Iterable[Item] = (), deletes: Iterable[Item] = ()) -> None:
        """Writes and deletes items, each by itself: some of them may be written when it fails."""
        requests = [
            *({"PutRequest": {"Item": to_wire(item)}} for item in puts),
            *(
                {"DeleteRequest": {"Key": to_wire({"pk": it["pk"], "sk": it["sk"]})}}
                for it in deletes
            ),
        ]
        # Sixteen megabytes fit into one call, which 25 of the largest items stay below.
        for at in range(0, len(requests), _BATCH):
            for _ in self._call_batch(
                "batch_write_item", requests[at : at + _BATCH], "UnprocessedItems"
            ):
                pass

    def _call_batch(self, operation: str, request: Any, left: str) -> Iterator[Mapping[str, Any]]:
        # The replies, until the table has taken all of it.
        rest: dict[str, Any] = {self.name: request}
        for _ in _pause_between_tries():
            reply = self.call(operation, RequestItems=rest)
            yield reply
            rest = reply.get(left) or {}
            if not rest:
                return
        raise self._build_capacity_error()

    def expiry(self) -> Item:
        """The member that has an item deleted in time; none if the URL has no `ttl_days`."""
        days = self.url.ttl_days
        return {} if days is None else {TTL_ATTRIBUTE: int(time.time()) + days * _DAY}

    def create(self) -> bool:
        """Makes the table, and waits until it can be used; whether it was not there.

        Raises:
            DependencyFailed: DynamoDB refused it.
        """
        client, made = self.client, True
        with translate_errors(self._target):
            try:
                client.create_table(TableName=self.name, **read_definition())
            except client.exceptions.ResourceInUseException:
                made = False
            waiter = client.get_waiter("table_exists")
            waiter.wait(TableName=self.name, WaiterConfig={"Delay": 2, "MaxAttempts": 60})
            if not self._expires_items(client):
                client.update_time_to_live(
                    TableName=self.name,
                    TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE},
                )
        return made

    def _expires_items(self, client: Any) -> bool:
        found = client.describe_time_to_live(TableName=self.name)["TimeToLiveDescription"]
        return found.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")

    def failure(self, text: str, *, is_outage: bool = False) -> DependencyFailed:
        """The error that says `text` of this store."""
        message = f"{self.what} {text}"
        return DependencyFailed(message, resource=self.url.display_name, is_outage=is_outage)

    def _build_capacity_error(self) -> DependencyFailed:
        text = "takes fewer requests than it is given; raise its capacity"
        return self.failure(text, is_outage=True)

    def damage(self, text: str, way_out: str) -> DependencyFailed:
        """The error that says that the table does not hold what was written to it."""
        return self.failure(f"is damaged: {text}; {way_out}")


def read_definition() -> dict[str, Any]:
    """The table's definition, as `create_table` takes it."""
    file = content_root() / "memory" / "dynamodb_table.json"
    definition: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return definition


def to_wire(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Plain values as DynamoDB's; each name gets `prefix`."""
    return {prefix + name: _to_wire(value) for name, value in values.items()}


def _to_wire(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bytes):
        return {"B": value}
    return {"N": str(int(value))}


def from_wire(values: Mapping[str, Mapping[str, Any]]) -> Item:
    """An item of DynamoDB's as plain values; what is of none of our kinds is left out."""
    item: Item = {}
    for name, value in values.items():
        if "S" in value or "B" in value:
            item[name] = value.get("S", value.get("B"))
        elif "N" in value and str(value["N"]).lstrip("-").isdecimal():
            item[name] = int(value["N"])
    return item


def server_time(reply: Mapping[str, Any]) -> float:
    """What time it was at DynamoDB when it answered, in whole seconds; ours if it does not say."""
    date = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return time.time()


def _pause_between_tries() -> Iterator[None]:
    for tried in range(_TRIES):
        if tried:
            time.sleep(min(0.05 * 2**tried, _LONGEST_PAUSE))
        yield


# Why a transaction was cancelled ("TransactWriteItems"). Of two transactions on one item at the
# same time, the other one goes first.
_CONDITIONS = frozenset({"ConditionalCheckFailed", "TransactionConflict"})
_THROTTLED = frozenset({"ProvisionedThroughputExceeded", "ThrottlingError"})


def _read_reasons(response: Mapping[str, Any]) -> set[str]:
    return {str(reason.get("Code")) for reason in response.get("CancellationReasons") or ()}
