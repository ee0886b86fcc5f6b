"""Documents in a table of DynamoDB.

| pk | sk | the item |
|---|---|---|
| `documents` | `lock` | `holder`, who changes something right now; `place`, the last one given |
| `list#` and the list's hash | `at#` and the place | a row: `id`, `name`, and `body` or `parts` |
| the same | `id#` and the id's hash | the row's `place` |
| the same | `name#` and the name | the row's `place` and `id` |
| `part#` and the row's `parts` | `p#` and a number | a part of a long body |
| `answer#` and its hash | `answer` | the answer to a client token, for a day |

Whoever changes documents holds the lock, as in a SQLite file, and what is written goes into one
`TransactWriteItems` that releases it. One of more than 100 items is written in several, each under
the lock: readers see some of it before the rest, and so does everybody after a crash.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

from orchestrator.errors import DependencyFailed, ThrottlingError, ValidationError
from orchestrator.server.document_rows.base import WHAT, Answer, List
from orchestrator.support.dynamodb import (
    TTL_ATTRIBUTE,
    ConditionFailed,
    DynamoTable,
    Item,
    from_wire,
    to_wire,
)
from orchestrator.support.safe_json import read_json
from orchestrator.support.store_urls import DynamoUrl
from orchestrator.support.stored_names import escape_name, unescape_name

_LOCK = {"pk": "documents", "sk": "lock"}
_MOST_WRITES = 99  # (TransactWriteItems: 100 items; the last is the lock)
_PART = 30_000  # characters of a body in one item: 99 of them stay below the 4 MB of a transaction
_LONGEST_NAME = 1_000  # bytes (DynamoDB: a sort key has 1,024)
_STALE = 10.0  # seconds after which a holder that did not change is taken for dead
_PATIENCE = 30.0  # seconds to wait for the lock
_PAUSES = (0.005, 0.2)  # seconds between looks at the lock: the first, and the longest
_TRIES = 8  # of a commit that another's look at the lock has collided with
_DAY = 86_400
_WAY_OUT = "restore it from a backup, or delete what cannot be read"


class _Change:
    """What a transaction has written so far, and what lock it holds."""

    def __init__(self, holder: str, place: int) -> None:
        self.holder = holder
        self.place = place
        self.items: dict[tuple[str, str], Item | None] = {}  # `None` where one is deleted

    def put(self, item: Item) -> None:
        self.items[item["pk"], item["sk"]] = item

    def delete(self, pk: str, sk: str) -> None:
        self.items[pk, sk] = None


class _OfThread(threading.local):
    change: _Change | None = None


class DynamoRows:
    """`DocumentRows` in DynamoDB."""

    def __init__(self, url: DynamoUrl) -> None:
        self._table = DynamoTable(url, WHAT)
        self._mine = _OfThread()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread does meanwhile is one change."""
        change = self._mine.change = self._lock()
        try:
            yield
        except BaseException:
            self._mine.change = None
            with suppress(DependencyFailed, ConditionFailed):  # the first error says more
                self._release(change, [])
            raise
        self._mine.change = None
        self._commit(change)

    def get(self, of: List, id: str) -> str | None:
        """The text of a row."""
        row = self._find_row(of, id)
        return None if row is None else self._read_text(row)

    def put(self, of: List, id: str, name: str | None, text: str) -> None:
        """Writes a row, in place of the one with its id."""
        change, pk = self._change, _list_key(of)
        old = self._find_row(of, id)
        if old is None:
            change.place += 1
        else:
            self._delete_parts(old, keeps_name=old.get("name") == (name and escape_name(name)))
        place = change.place if old is None else _place_of(old)
        row: Item = {"pk": pk, "sk": _at(place), "id": escape_name(id), "list": _describe(of)}
        if name is not None:
            row["name"] = escape_name(name)
            change.put({"pk": pk, "sk": _name_key(name), "place": place, "id": escape_name(id)})
        self._write_text(row, text)
        change.put({"pk": pk, "sk": _id_key(id), "place": place})

    def rewrite(self, of: List, id: str, text: str) -> None:
        """Writes the text of a row that is there."""
        old = self._find_row(of, id)
        if old is not None:
            self._delete_parts(old, keeps_name=True)
            row = {key: it for key, it in old.items() if key not in ("body", "parts", "part_count")}
            self._write_text(row, text)

    def delete(self, of: List, id: str) -> bool:
        """Deletes a row; whether there was one."""
        row = self._find_row(of, id)
        if row is None:
            return False
        self._delete_row(row)
        return True

    def clear(self, of: List) -> None:
        """Deletes all rows of a list."""
        for row in self._query(_list_key(of), "at#"):
            self._delete_row(row)

    def find_id(self, of: List, name: str) -> str | None:
        """The id of the row with a name."""
        found = self._get(_list_key(of), _name_key(name))
        return None if found is None else unescape_name(str(found.get("id")))

    def count(self, of: List) -> int:
        """How many rows a list has."""
        return len(self._query(_list_key(of), "id#"))

    def page(
        self, of: List, start: int, most: int | None, *, newest: bool
    ) -> list[tuple[int, str, str]]:
        """Rows after (before, with `newest`) a place."""
        edge = _at(start)
        found = self._query(_list_key(of), "at#", edge, most, newest_first=newest)
        return [
            (_place_of(row), unescape_name(str(row.get("id"))), self._read_text(row))
            for row in found
        ]

    def page_by_name(
        self, of: List, before: str, within: str, most: int
    ) -> list[tuple[str, str, str]]:
        """Rows with smaller names, the last first, whose ids begin with `within`."""
        found: list[tuple[str, str, str]] = []
        edge, prefix = f"name#{escape_name(before)}", escape_name(within)
        for item in self._query(_list_key(of), "name#", edge, newest_first=True):
            if len(found) == most:
                break
            id = str(item.get("id"))
            text = self.get(of, unescape_name(id)) if id.startswith(prefix) else None
            if text is not None:
                name = unescape_name(item["sk"].removeprefix("name#"))
                found.append((name, unescape_name(id), text))
        return found

    def find_answer(self, key: Answer, since: float) -> tuple[str, str] | None:
        """The hash of a request and its answer; DynamoDB deletes older ones."""
        found = self._get(f"answer#{_hash(key)}", "answer")
        if found is None or not isinstance(made := found.get("made"), int) or made < since:
            return None
        return str(found.get("request")), self._read_text(found)

    def add_answer(self, key: Answer, request: str, answer: str, now: float) -> None:
        """Keeps an answer."""
        pk = f"answer#{_hash(key)}"
        old = self._get(pk, "answer")
        if old is not None:
            self._delete_parts(old, keeps_name=True)
        item: Item = {"pk": pk, "sk": "answer", "request": request, "made": int(now)}
        self._write_text(item | {TTL_ATTRIBUTE: int(now) + 2 * _DAY}, answer)

    def lists(self) -> list[List]:
        """All lists that have rows; the whole table is read."""
        request: dict[str, Any] = {
            "TableName": self._table.name,
            "FilterExpression": "begins_with(pk, :pk) AND begins_with(sk, :sk)",
            "ProjectionExpression": "#list",
            "ExpressionAttributeNames": {"#list": "list"},
            "ExpressionAttributeValues": to_wire({"pk": "list#", "sk": "at#"}, ":"),
            "ConsistentRead": True,
        }
        found: set[str] = set()
        while True:
            page = self._table.call("scan", **request)
            found |= {str(from_wire(item).get("list")) for item in page["Items"]}
            if "LastEvaluatedKey" not in page:
                return [self._read_list(text) for text in sorted(found)]
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def failure(self, text: str) -> DependencyFailed:
        """The error that says `text` of the table."""
        return self._table.failure(text)

    def damage(self, text: str) -> DependencyFailed:
        """The error that says that it does not hold what was written to it."""
        return self._table.damage(text, _WAY_OUT)

    def close(self) -> None:
        """Nothing is open: all stores of a process share one client."""

    # The lock.

    def _lock(self) -> _Change:
        holder, until, pause = os.urandom(16).hex(), time.monotonic() + _PATIENCE, _PAUSES[0]
        seen, since = "", 0.0
        while time.monotonic() < until:
            found = self._table.get(**_LOCK) or {}
            other = str(found.get("holder", ""))
            if other != seen:
                seen, since = other, time.monotonic()
            if not other or time.monotonic() - since > _STALE:
                with suppress(ConditionFailed):  # somebody else was faster
                    return _Change(holder, self._take_lock(holder, other))
            time.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])
        raise ThrottlingError(
            f"{self._table.what} is changed by others all the time; try again",
            resource=self._table.url.display_name,
        )

    def _take_lock(self, holder: str, other: str) -> int:
        # By a condition, so that who was taken for dead writes nothing more.
        values = {"holder": holder, **({"other": other} if other else {})}
        reply = self._table.call(
            "update_item",
            TableName=self._table.name,
            Key=to_wire(_LOCK),
            UpdateExpression="SET holder = :holder",
            ConditionExpression="holder = :other" if other else "attribute_not_exists(holder)",
            ExpressionAttributeValues=to_wire(values, ":"),
            ReturnValues="ALL_NEW",
        )
        place = from_wire(reply["Attributes"]).get("place", 0)
        if not isinstance(place, int):
            raise self.damage("the last place is no number")
        return place

    def _commit(self, change: _Change) -> None:
        writes = [self._to_write(key, item) for key, item in change.items.items()]
        try:
            while len(writes) > _MOST_WRITES:
                self._transact(change, [*writes[:_MOST_WRITES], _check_lock(change)])
                del writes[:_MOST_WRITES]
            self._release(change, writes)
        except ConditionFailed:
            raise self.failure(
                f"was changed by another process, since this change took longer than {_STALE:g} "
                "seconds; nothing, or only its beginning, was written: try again"
            ) from None

    def _release(self, change: _Change, writes: Sequence[Any]) -> None:
        update = {
            "Key": to_wire(_LOCK),
            "UpdateExpression": "SET place = :place REMOVE holder",
            "ConditionExpression": "holder = :holder",
            "ExpressionAttributeValues": to_wire(
                {"place": change.place, "holder": change.holder}, ":"
            ),
        }
        self._transact(change, [*writes, {"Update": update}])

    def _transact(self, change: _Change, writes: Sequence[Any]) -> None:
        for tried in range(_TRIES):
            try:
                self._table.transact(*writes)
                return
            except ConditionFailed:
                # Others who wait for the lock may have touched it in this moment.
                held = (self._table.get(**_LOCK) or {}).get("holder")
                if held != change.holder or tried == _TRIES - 1:
                    raise
            time.sleep(_PAUSES[0] * 2**tried)

    def _to_write(self, key: tuple[str, str], item: Item | None) -> dict[str, Any]:
        if item is None:
            return {"Delete": {"Key": to_wire({"pk": key[0], "sk": key[1]})}}
        return {"Put": {"Item": to_wire(item)}}

    # Items, as this thread's transaction has left them.

    @property
    def _change(self) -> _Change:
        change = self._mine.change
        assert change is not None  # whatever writes is inside of a transaction
        return change

    def _get(self, pk: str, sk: str) -> Item | None:
        change = self._mine.change
        if change is not None and (pk, sk) in change.items:
            return change.items[pk, sk]
        return self._table.get(pk, sk)

    def _query(
        self,
        pk: str,
        prefix: str,
        edge: str = "",
        most: int | None = None,
        *,
        newest_first: bool = False,
    ) -> list[Item]:
        # Items whose sort key has the prefix, behind an edge if there is one.
        first, last = (
            (prefix, edge or f"{prefix}\U0010ffff")
            if newest_first
            else (
                edge or prefix,
                f"{prefix}\U0010ffff",
            )
        )
        written = self._find_written(pk, prefix)
        rows = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {"pk": pk, "first": first, "last": last},
            newest_first=newest_first,
            limit=None if most is None or written else most + 1,
        )
        found = {}
        for row in rows:
            if row["sk"] != edge:
                found[row["sk"]] = row
            if most is not None and not written and len(found) == most:
                break
        for sk, item in written.items():
            if item is None:
                found.pop(sk, None)
            elif first <= sk <= last and sk != edge:
                found[sk] = item
        return [found[sk] for sk in sorted(found, reverse=newest_first)][:most]

    def _find_written(self, pk: str, prefix: str) -> dict[str, Item | None]:
        change = self._mine.change
        return {
            sk: item
            for (own, sk), item in (change.items.items() if change is not None else ())
            if own == pk and sk.startswith(prefix)
        }

    def _find_row(self, of: List, id: str) -> Item | None:
        pk = _list_key(of)
        pointer = self._get(pk, _id_key(id))
        if pointer is None:
            return None
        row = self._get(pk, _at(_place_of(pointer)))
        if row is None or row.get("id") != escape_name(id):
            if self._mine.change is None:  # it may have been deleted in this moment
                return None
            raise self.damage("a document is missing")
        return row

    def _write_text(self, row: Item, text: str) -> None:
        change = self._change
        if len(text) <= _PART:
            change.put({**row, "body": text})
            return
        # Under a new key: who reads the row as it was finds none of the new parts beside the old.
        key = os.urandom(16).hex()
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        for number, part in enumerate(parts):
            change.put({"pk": f"part#{key}", "sk": _part(number), "body": part})
        change.put({**row, "parts": key, "part_count": len(parts)})

    def _read_text(self, row: Item) -> str:
        for _ in range(_TRIES):
            count = row.get("part_count")
            if count is None:
                return str(row.get("body", ""))
            parts = self._query(f"part#{row.get('parts')}", "p#")
            if len(parts) == count:
                return "".join(str(part.get("body")) for part in parts)
            again = self._get(row["pk"], row["sk"])  # it may have been changed in this moment
            if again is None:
                raise self.failure("had a document deleted while it was read; try again")
            if again == row:
                break
            row = again
        raise self.damage("a part of a document is missing")

    def _delete_row(self, row: Item) -> None:
        self._delete_parts(row, keeps_name=False)
        self._change.delete(row["pk"], _id_key(unescape_name(str(row.get("id")))))
        self._change.delete(row["pk"], row["sk"])

    def _delete_parts(self, row: Item, *, keeps_name: bool) -> None:
        count = row.get("part_count", 0)
        for number in range(count if isinstance(count, int) else 0):
            self._change.delete(f"part#{row.get('parts')}", _part(number))
        if not keeps_name and "name" in row:
            self._change.delete(row["pk"], f"name#{row['name']}")

    def _read_list(self, text: str) -> List:
        try:
            tenant, kind, parent = read_json(text)
        except (ValueError, RecursionError):
            raise self.damage("the name of a list cannot be read") from None
        return List(tenant, kind, parent)


def _check_lock(change: _Change) -> dict[str, Any]:
    return {
        "ConditionCheck": {
            "Key": to_wire(_LOCK),
            "ConditionExpression": "holder = :holder",
            "ExpressionAttributeValues": to_wire({"holder": change.holder}, ":"),
        }
    }


def _describe(names: Sequence[str]) -> str:
    return json.dumps(list(names))  # ASCII


def _hash(names: Sequence[str]) -> str:
    return sha256(_describe(names).encode()).hexdigest()


def _list_key(of: List) -> str:
    return f"list#{_hash(of)}"


def _id_key(id: str) -> str:
    return f"id#{_hash([id])}"


def _name_key(name: str) -> str:
    text = escape_name(name)
    if len(text.encode()) > _LONGEST_NAME:
        raise ValidationError(f"a name has at most {_LONGEST_NAME:,} bytes in DynamoDB")
    return f"name#{text}"


def _part(number: int) -> str:
    return f"p#{number:06}"


def _at(place: int) -> str:
    return f"at#{place:020}"


def _place_of(row: Item) -> int:
    place = row.get("place")
    if isinstance(place, int):
        return place
    digits = str(row["sk"]).removeprefix("at#")
    return int(digits) if digits.isdecimal() else 0
