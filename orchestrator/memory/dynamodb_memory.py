"""Summaries in a table of DynamoDB, shared by the processes of many machines.

Their keys are hashes, since names are of any text and length:

| pk | sk | the item |
|---|---|---|
| `memory#` and the owner's | the memory's, `#` and the session's | a summary; `until` is its end in
  nanoseconds, `expires` when DynamoDB deletes it |
| `touched#` and the owner's | the session's | a session that is to be summarised some day |
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from orchestrator.memory.base import SessionSummary
from orchestrator.memory.stores import MemoryInfo, group_memories
from orchestrator.memory.summary_body import decode_summary, encode_body
from orchestrator.support.dynamodb import TTL_ATTRIBUTE, DynamoTable, Item, from_wire, to_wire
from orchestrator.support.store_urls import DynamoUrl
from orchestrator.support.stored_names import escape_name, unescape_name

_SECOND = 1_000_000_000


class DynamoMemory:
    """A `MemoryStore` in DynamoDB.

    Summaries that have expired are not returned; DynamoDB deletes them by its time to live. Every
    method raises `DependencyFailed` when the table fails.
    """

    def __init__(self, url: DynamoUrl) -> None:
        """Names the table; nothing is asked for yet."""
        self._table = DynamoTable(url, "the memory store")

    def close(self) -> None:
        """Nothing is open: all stores of a process share one client."""

    def touch(self, owner: str, memory_id: str, session_id: str, at: int) -> None:
        """Notes that a turn of a session began."""
        item = {**_key_of_touch(owner, session_id), "at": at}
        self._table.put(
            item | {"memory": escape_name(memory_id), "session": escape_name(session_id)}
        )

    def find_unsummarised(self, owner: str, before: int, memory_id: str | None = None) -> list[str]:
        """Sessions that were touched last before that time and not summarised since."""
        memory = None if memory_id is None else escape_name(memory_id)
        found = [
            (int(item["at"]), unescape_name(str(item["session"])))
            for item in self._table.query("pk = :pk", {"pk": _key_of_touch(owner, "")["pk"]})
            if isinstance(item.get("at"), int)
            and isinstance(item.get("session"), str)
            and item["at"] < before
            and memory in (None, item.get("memory"))
        ]
        return [session for _, session in sorted(found)]

    def settle(self, owner: str, session_id: str) -> None:
        """Notes that there is nothing (more) to summarise of a session."""
        self._table.delete(**_key_of_touch(owner, session_id))

    def add(self, owner: str, summary: SessionSummary) -> None:
        """Adds a summary; one of the same memory and session is replaced."""
        settled = to_wire(_key_of_touch(owner, summary.session_id))
        self._table.transact(
            {"Put": {"Item": to_wire(_to_item(owner, summary))}}, {"Delete": {"Key": settled}}
        )

    def recent(self, owner: str, memory_id: str, now: int, limit: int) -> list[SessionSummary]:
        """The last `limit` summaries that have not expired at `now`, newest first.

        All of a memory's summaries are read: only so the one that was just added is among them.
        """
        found = [self._read(memory_id, item) for item in self._query(owner, memory_id)]
        fresh = [it for it in found if it.expires is None or it.expires > now]
        fresh.sort(key=lambda it: (it.started, it.session_id), reverse=True)
        return fresh[: max(limit, 0)]

    def rewrite(self, owner: str, old: SessionSummary, new: SessionSummary) -> bool:
        """Puts a summary in the place of the old one, where that still stands; whether it did."""
        from orchestrator.support.dynamodb import ConditionFailed

        known = {"known": encode_body(old), "at": old.started}
        try:
            self._table.put(_to_item(owner, new), "body = :known AND started = :at", **known)
        except ConditionFailed:  # it was deleted meanwhile, or replaced
            return False
        return True

    def delete(
        self, owner: str, memory_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Deletes summaries of an owner: all, those of a memory, or that of one session."""
        ending = "" if session_id is None else f"#{_hash(session_id)}"
        self._table.write_batch(
            deletes=[it for it in self._query(owner, memory_id) if it["sk"].endswith(ending)]
        )

    def memories(self, now: int) -> list[MemoryInfo]:
        """The memories that have summaries at `now`, the latest first; it reads the whole table."""
        found = [
            (unescape_name(str(item.get("owner"))), unescape_name(str(item.get("memory"))), started)
            for item in self._scan()
            if isinstance(started := item.get("started"), int)
            and not (isinstance(until := item.get("until"), int) and until <= now)
        ]
        return group_memories(found)

    def _query(self, owner: str, memory_id: str | None) -> Iterator[Item]:
        values = {"pk": f"memory#{_hash(owner)}"}
        if memory_id is None:
            return self._table.query("pk = :pk", values)
        return self._table.query(
            "pk = :pk AND begins_with(sk, :memory)", {**values, "memory": f"{_hash(memory_id)}#"}
        )

    def _scan(self) -> Iterator[Item]:
        request: dict[str, Any] = {
            "TableName": self._table.name,
            "FilterExpression": "begins_with(pk, :pk)",
            "ProjectionExpression": "#owner, memory, started, #until",
            "ExpressionAttributeNames": {"#owner": "owner", "#until": "until"},
            "ExpressionAttributeValues": to_wire({"pk": "memory#"}, ":"),
            "ConsistentRead": True,
        }
        while True:
            page = self._table.call("scan", **request)
            yield from map(from_wire, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _read(self, memory_id: str, item: Item) -> SessionSummary:
        session = unescape_name(str(item.get("session")))
        found = decode_summary(
            *(memory_id, session, item.get("started"), item.get("until"), item.get("body"))
        )
        if found is None or item["sk"] != f"{_hash(memory_id)}#{_hash(session)}":
            raise self._table.failure(
                f"has a summary of session {session!r} that this program did not write; delete "
                "it with `orchestrator memory delete`"
            )
        return found


def _hash(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _key_of_touch(owner: str, session_id: str) -> dict[str, str]:
    return {"pk": f"touched#{_hash(owner)}", "sk": _hash(session_id)}


def _to_item(owner: str, summary: SessionSummary) -> Item:
    item: Item = {
        "pk": f"memory#{_hash(owner)}",
        "sk": f"{_hash(summary.memory_id)}#{_hash(summary.session_id)}",
        "owner": escape_name(owner),
        "memory": escape_name(summary.memory_id),
        "session": escape_name(summary.session_id),
        "started": summary.started,
        "body": encode_body(summary),
    }
    if summary.expires is not None:
        item |= {"until": summary.expires, TTL_ATTRIBUTE: summary.expires // _SECOND + 1}
    return item
