"""Sessions in DynamoDB: one item an append, and one a session, which commits them.

An append is a transaction of its item and the session's, which has to have the expected number of
records. Parts are written before it: what is not committed no reader sees. Readers go from the
session's item back. What the items hold is in `dynamodb_items.py`; snapshots of plans have items of
their own, see `dynamodb_plans.py`, and so have leases, see `dynamodb_leases.py`.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

from orchestrator.errors import DependencyFailed, SessionConflict, ValidationError
from orchestrator.sessions import dynamodb_plans
from orchestrator.sessions.dynamodb_items import (
    SESSION,
    SHARDS,
    build_append_items,
    build_append_key,
    build_first_commit,
    build_next_commit,
    build_part_prefix,
    build_partition_key,
    build_session_item,
    get_generation,
    is_expired,
    make_nonce,
)
from orchestrator.sessions.dynamodb_leases import DynamoLeases
from orchestrator.sessions.journal import Record, SessionInfo
from orchestrator.sessions.rows import (
    WAY_OUT,
    Append,
    Changes,
    build_append,
    change_records,
    decode_records,
    read_entry,
    sum_record,
)
from orchestrator.support.dynamodb import (
    TTL_ATTRIBUTE,
    ConditionFailed,
    DynamoTable,
    Item,
    to_wire,
)
from orchestrator.support.lru_cache import LruCache
from orchestrator.support.process_leases import share_leases
from orchestrator.support.store_urls import DynamoUrl, parse_store

_PAGE = 100  # sessions that are listed at once
_READS = 5  # of a journal that changes while it is read
_DAY = 86_400
_GENERATIONS = 10_000  # of some hundred bytes each
_KEY = re.compile(r"[0-9a-f]{64}")


class DynamoStore:
    """A `SessionStore` in a table of DynamoDB, shared by processes on any machines.

    `orchestrator sessions create-table`, or `create_table`, makes the table. With `ttl_days` in
    the URL, DynamoDB deletes sessions that nobody has used for so long. Lists are as old as the
    table's indices: mostly less than a second.

    Every method raises `DependencyFailed` when DynamoDB fails; its calls are tried four times.
    """

    durable = True
    threads = 16
    tells_length = True

    def __init__(self, url: str | DynamoUrl) -> None:
        """Names the table; nothing is asked yet."""
        parsed = parse_store(url)
        if not isinstance(parsed, DynamoUrl):
            raise ValidationError("a store in DynamoDB has a URL, such as dynamodb://table")
        self.url = parsed
        self.identity = repr(parsed)
        self._table = DynamoTable(parsed, "the session store")
        # Of the sessions that were used last: who appends has mostly read, or begun, it here.
        self._generations: LruCache[str] = LruCache(_GENERATIONS)
        self.processes = share_leases(self.identity, lambda: DynamoLeases(self._table))

    def create_table(self) -> bool:
        """Makes the table; whether it was not there."""
        return self._table.create()

    def close(self) -> None:
        """Gives this process's lease back; boto3's client is shared and stays."""
        self.processes.close()

    def load(self, key: str, after: int = 0) -> list[Record]:
        """The records of a session after the first `after` ones, as they were written."""
        for _ in range(_READS):
            found = self._read(key, after)
            if found is not None:
                return found
        raise self._damage(key, "a record is missing")

    def _read(self, key: str, after: int) -> list[Record] | None:
        # `None` when an append is missing: another process may have written meanwhile.
        rows = self._find_appends(key, after)
        session = rows.pop(SESSION, None)
        if session is None or is_expired(session):
            return []
        generation = self._note_generation(key, session)
        info = self._read_session(session)
        chunks: list[list[str]] = []
        place = info.records
        while place > after:
            row = rows.get(build_append_key(place - 1, generation))
            if row is None:
                return None
            texts = self._read_append(key, place, row)
            place -= len(texts)
            chunks.append(texts)
        self._prolong(key, session)
        texts = [text for chunk in reversed(chunks) for text in chunk]
        return decode_records(texts[max(after - place, 0) :], partial(self._damage, key))

    def _find_appends(self, key: str, after: int = 0) -> dict[str, Item]:
        # By sort keys, with the session's item, as they were one after the other.
        values = {"pk": build_partition_key(key), "first": build_append_key(after), "last": SESSION}
        rows = self._table.query("pk = :pk AND sk BETWEEN :first AND :last", values)
        return {row["sk"]: row for row in rows}

    def _read_append(self, key: str, end: int, row: Item) -> list[str]:
        text = str(row.get("text", ""))
        if parts := row.get("parts", 0):
            rest = [
                str(part.get("text", "")) for part in self._find_parts(key, build_part_prefix(row))
            ]
            if len(rest) != parts:
                raise self._damage(key, "a part of a record is missing")
            text += "".join(rest)
        texts, count = text.split("\n"), row.get("count")
        if len(texts) != count or sum_record(key, end - len(texts), text) != row.get("sum"):
            raise self._damage(key, "a record was changed, or is missing")
        return texts

    def append(
        self,
        key: str,
        expected: int,
        records: Sequence[Record],
        *,
        label: str = "",
        at: int = 0,
        unfinished: bool | None = None,
    ) -> int:
        """Appends all records or none, if the journal has exactly `expected` ones.

        Raises:
            SessionConflict: It has another number of records; nothing was written.
        """
        _check_key(key)
        label = label or self._find_label(key)
        append = build_append(key, expected, records, label, at, unfinished)
        if not self._write(append):
            self.load(key)  # it may be damaged
            raise SessionConflict("the session was changed by another invocation; try again")
        return append.size

    def begin(
        self, key: str, expected: int, turn: Record, *, label: str, at: int, since: int
    ) -> list[Record] | int:
        """Appends a turn's first record to a session that is known, or reads what is in it.

        One that may expire is read, which puts that off.
        """
        if expected and self.url.ttl_days is None:
            _check_key(key)
            append = build_append(key, expected, [turn], label, at, True, since)
            if self._write(append):
                return append.size
        return self.load(key, max(expected - 1, 0))

    def _write(self, append: Append) -> bool:
        key, expected, expiry = append.key, append.expected, self._table.expiry()
        generation = self._find_generation(key) if expected else make_nonce()
        item = self._write_append(key, generation, expected, append.texts, expiry)
        session = build_session_item(append) | expiry
        session["generation"] = generation
        commit = (
            build_next_commit(session, expected, append.since)
            if expected
            else build_first_commit(session, expiry)
        )
        try:
            self._table.transact(commit, {"Put": {"Item": to_wire(item)}})
        except ConditionFailed:
            self._delete_parts(key, item)
            return False
        if not expected:
            self._note_generation(key, session)
        return True

    def _note_generation(self, key: str, session: Item) -> str:
        generation = get_generation(session)
        self._generations.put(key, generation)
        return generation

    def _find_generation(self, key: str) -> str:
        def ask() -> str:
            return get_generation(self._table.get(build_partition_key(key), SESSION) or {})

        return self._generations.get(key, ask)

    def _write_append(
        self, key: str, generation: str, first: int, texts: Sequence[str], expiry: Item
    ) -> Item:
        # The item of an append; what does not fit into it is written here.
        item, parts = build_append_items(key, generation, first, texts, expiry)
        if parts:
            self._table.write_batch(parts)
        return item

    def _delete_parts(self, key: str, item: Item) -> None:
        if "nonce" in item:
            self._table.write_batch(deletes=self._find_parts(key, build_part_prefix(item)))

    def _find_parts(self, key: str, prefix: str) -> Iterator[Item]:
        values = {"pk": build_partition_key(key), "prefix": prefix}
        return self._table.query("pk = :pk AND begins_with(sk, :prefix)", values)

    def rewrite(self, key: str, changes: Changes) -> int:
        """Replaces records of a journal where they still stand; how many."""
        rows = self._find_appends(key)
        session = rows.get(SESSION)
        if session is None:
            return 0
        place, generation, changed = self._read_session(session).records, get_generation(session), 0
        while place and (row := rows.get(build_append_key(place - 1, generation))) is not None:
            known = self._read_append(key, place, row)
            place -= len(known)
            texts = dict(enumerate(known, place))
            new = change_records(texts, changes)
            if new and self._replace_append(key, place, row, [*(texts | new).values()]):
                changed += len(new)
        return changed

    def _replace_append(self, key: str, first: int, row: Item, texts: Sequence[str]) -> bool:
        # Whether it still stood there.
        expiry = {name: it for name, it in row.items() if name == TTL_ATTRIBUTE}
        item = self._write_append(key, get_generation(row), first, texts, expiry)
        try:
            self._table.call(
                "put_item",
                TableName=self._table.name,
                Item=to_wire(item),
                ConditionExpression="#sum = :known",
                ExpressionAttributeNames={"#sum": "sum"},
                ExpressionAttributeValues=to_wire({"known": row["sum"]}, ":"),
            )
        except ConditionFailed:  # it was deleted meanwhile
            self._delete_parts(key, item)
            return False
        self._delete_parts(key, row)
        return True

    def _find_label(self, key: str) -> str:
        found = self._table.get(build_partition_key(key), SESSION) or {}
        return str(found.get("name", ""))

    # All items of a session expire together: what one of them would be half a day before the end of
    # its time is put off for all.
    def _prolong(self, key: str, session: Item) -> None:
        days, oldest = self.url.ttl_days, session.get("oldest")
        if days is None or (oldest is not None and oldest > time.time() + days * _DAY / 2):
            return
        expiry = self._table.expiry()[TTL_ATTRIBUTE]
        rows = self._table.query("pk = :pk", {"pk": session["pk"]})
        for row in [*rows]:
            self._set_expiry(row, expiry, "#expires = :at")
        self._set_expiry(session, expiry, "#expires = :at, oldest = :at")

    def _set_expiry(self, row: Item, at: int, change: str) -> None:
        try:
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=to_wire({"pk": row["pk"], "sk": row["sk"]}),
                UpdateExpression=f"SET {change}",
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeNames={"#expires": TTL_ATTRIBUTE},
                ExpressionAttributeValues=to_wire({":at": at}),
            )
        except ConditionFailed:
            pass  # it was deleted meanwhile

    def delete(self, key: str) -> None:
        """Forgets a session."""
        rows = self._find_appends(key)
        # From here on no append succeeds that knows of records; what it had is no longer read.
        session = self._table.delete(build_partition_key(key), SESSION)
        # Another session may begin now. Those that had items before are gone, and this one.
        dead = {get_generation(row) for row in (*rows.values(), session) if row}
        if session is not None and session != rows.get(SESSION):  # it has got more meanwhile
            rows = self._find_appends(key)
        appends = [row for row in rows.values() if row["sk"] != SESSION]
        self._table.write_batch(deletes=[it for it in appends if get_generation(it) in dead])
        # Parts go last: a rewrite at the same time fails from here on, and deletes its own.
        for generation in dead:
            self._table.write_batch(deletes=self._find_parts(key, f"p#{generation}#"))

    def save_plan(self, digest: str, text: str) -> None:
        """Keeps the snapshot of a plan, or notes that one of its digest is still in use."""
        dynamodb_plans.save_plan(self._table, digest, text)

    def load_plan(self, digest: str) -> str | None:
        """The snapshot of the plan with a digest, if one was kept whole."""
        return dynamodb_plans.load_plan(self._table, digest)

    def list_plans(self) -> Iterator[str]:
        """The digests of all plans that were kept."""
        return dynamodb_plans.list_plans(self._table)

    def delete_plan(self, digest: str, idle: float) -> bool:
        """Deletes a snapshot that nobody has kept for `idle` seconds; whether it did."""
        return dynamodb_plans.delete_plan(self._table, digest, idle)

    def replace_plan(self, digest: str, old: str, new: str) -> bool:
        """Puts a snapshot in the place of one that stands there still; whether it did."""
        return dynamodb_plans.replace_plan(self._table, digest, old, new)

    def labels(self, prefix: str, after: str, most: int) -> Sequence[str]:
        """The next labels, sorted, that begin with `prefix`, after one of them; it ends in `/`."""
        first = max(prefix, after)
        found = heapq.merge(
            *(self._find_labels(shard, first, prefix, most + 1) for shard in range(SHARDS))
        )
        return list(islice((it for it in found if it != after and it != prefix), most))

    def _find_labels(self, shard: int, first: str, prefix: str, most: int) -> list[str]:
        end = prefix[:-1] + "0"  # the character after "/"
        rows = self._table.query(
            "listing = :listing AND #name BETWEEN :first AND :end",
            {"listing": f"session#{shard}", "first": first, "end": end},
            index="names",
            limit=most,
        )
        return [row["name"] for row in islice(rows, most) if row["name"].startswith(prefix)]

    def list(self) -> Iterator[SessionInfo]:
        """All sessions, the last changed first; read page by page."""
        return self._read_listed(self._find_listed("listing", "newest"))

    def list_unfinished(self) -> Iterator[SessionInfo]:
        """The sessions whose last turn has not ended and does not wait, the last changed first."""
        # The index has only the keys of their items.
        rows = self._find_listed("unfinished", "unfinished")
        while keys := [(row["pk"], row["sk"]) for row in islice(rows, _PAGE)]:
            found = self._table.get_batch(keys)
            yield from self._read_listed(found[key] for key in keys if key in found)

    def _find_listed(self, member: str, index: str) -> Iterator[Item]:
        shards = [
            self._table.query(
                f"{member} = :listing",
                {"listing": f"session#{shard}"},
                index=index,
                newest_first=True,
            )
            for shard in range(SHARDS)
        ]
        return heapq.merge(*shards, key=lambda it: it["updated"], reverse=True)

    def _read_listed(self, rows: Iterable[Item]) -> Iterator[SessionInfo]:
        return (self._read_session(row) for row in rows if not is_expired(row))

    def load_last(self, infos: Sequence[SessionInfo]) -> dict[str, Record]:
        """The last records of sessions that have not changed since, by their keys."""
        sessions = self._table.get_batch((build_partition_key(info.key), SESSION) for info in infos)
        ends: dict[tuple[str, str], SessionInfo] = {}
        for info in infos:
            pk = build_partition_key(info.key)
            session = sessions.get((pk, SESSION), {})
            if session.get("records") == info.records:
                ends[pk, build_append_key(info.records - 1, get_generation(session))] = info
        found: dict[str, Record] = {}
        for key, row in self._table.get_batch(ends).items():
            info = ends[key]
            with suppress(DependencyFailed):  # whoever reads the journal is told
                texts = self._read_append(info.key, info.records, row)
                (found[info.key],) = decode_records(texts[-1:], partial(self._damage, info.key))
        return found

    def _read_session(self, row: Item) -> SessionInfo:
        key = row["pk"].partition("#")[2]
        members = (row.get(name) for name in ("updated", "records", "sum"))
        return read_entry((key, row.get("name", ""), *members), partial(self._damage, key))

    def _damage(self, key: str, text: str) -> DependencyFailed:
        return self._table.damage(
            f"of the session with the key {str(key)[:12]}..., {text}", WAY_OUT
        )


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValidationError(f"a session's key is a SHA-256 in hexadecimal, not {key!r:.80}")
