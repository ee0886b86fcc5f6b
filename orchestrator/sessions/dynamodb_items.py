"""The items of a session in a table of DynamoDB: their keys, what they hold, what commits them.

| item | sort key | members |
|---|---|---|
| session | `s` | `records`, `updated`, `name` (its label), `sum`, `generation`; `listing` and
  `unfinished` put it into the indices of the same names; `oldest` says when the first of its items
  expires |
| append | `r#`, the place of its last record and the generation | `generation`, `count`, `text`
  (records by lines), `sum`; of a long one, `parts` and the `nonce` of the items with the rest |
| part of a long append | `p#`, the generation, a nonce and a number | `text` |

Every session that begins has a generation of its own, in the keys of its items: none is another
session's of the same key, which was deleted before or begins meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from orchestrator.sessions.rows import Append, sum_record
from orchestrator.support.dynamodb import ITEM_BYTES, TTL_ATTRIBUTE, Item, to_wire

SHARDS = 8
"""Partitions of an index, so that no single one takes all writes."""

SESSION = "s"
"""The sort key of a session's own item."""


def build_partition_key(key: str) -> str:
    """The partition of a session."""
    return f"session#{key}"


def build_append_key(place: int, generation: str = "") -> str:
    """The sort key of the append whose last record has this place."""
    return f"r#{place:010}#{generation}"


def build_part_prefix(append: Item) -> str:
    """How the sort keys of the parts of a long append begin."""
    return f"p#{get_generation(append)}#{append.get('nonce')}#"


def get_generation(row: Item) -> str:
    """The generation that an item is of."""
    return str(row.get("generation", ""))


def make_nonce() -> str:
    """A text that no other process makes: a generation, or what parts are told from others by."""
    return os.urandom(8).hex()


def is_expired(row: Item) -> bool:
    """Whether an item counts as deleted."""
    # DynamoDB takes up to two days to delete what has expired.
    return TTL_ATTRIBUTE in row and bool(row[TTL_ATTRIBUTE] <= time.time())


def build_session_item(append: Append) -> Item:
    """The session's own item, as it is after an append."""
    listing = f"session#{int(append.key[:2], 16) % SHARDS}"
    return {
        "pk": build_partition_key(append.key),
        "sk": SESSION,
        "records": append.records,
        "updated": append.updated,
        "sum": append.checksum,
        "listing": listing,
        **({"name": append.label} if append.label else {}),
        **({"unfinished": listing} if append.unfinished else {}),
    }


def build_append_items(
    key: str, generation: str, first: int, texts: Sequence[str], expiry: Item
) -> tuple[Item, list[Item]]:
    """The item of an append whose first record has this place, and the parts of a long one."""
    pk, nonce, text = build_partition_key(key), make_nonce(), "\n".join(texts)
    pieces = [text[at : at + ITEM_BYTES] for at in range(0, len(text), ITEM_BYTES)] or [""]
    item: Item = {
        "pk": pk,
        "sk": build_append_key(first + len(texts) - 1, generation),
        "generation": generation,
        "text": pieces[0],
        "count": len(texts),
        "sum": sum_record(key, first, text),
        **expiry,
    }
    if len(pieces) > 1:
        item |= {"parts": len(pieces) - 1, "nonce": nonce}
    parts = [
        {"pk": pk, "sk": f"p#{generation}#{nonce}#{number:06}", "text": piece, **expiry}
        for number, piece in enumerate(pieces[1:])
    ]
    return item, parts


def build_first_commit(session: Item, expiry: Item) -> dict[str, Any]:
    """The change of a transaction that begins a session."""
    first = {"oldest": expiry[TTL_ATTRIBUTE]} if expiry else {}
    return {
        "Put": {
            "Item": to_wire({**session, **first}),
            "ConditionExpression": "attribute_not_exists(pk) OR #expires <= :now",
            "ExpressionAttributeNames": {"#expires": TTL_ATTRIBUTE},
            "ExpressionAttributeValues": to_wire({":now": int(time.time())}),
        }
    }


def build_next_commit(session: Item, expected: int, since: int) -> dict[str, Any]:
    """The change of one that goes on with a session which has `expected` records.

    `since` is when the last of them was written, if nobody has read that; else 0.
    """
    key = {name: session[name] for name in ("pk", "sk")}
    members = {name: value for name, value in session.items() if name not in key}
    assignments = ", ".join(f"#{name} = :{name}" for name in members)
    removal = "" if "unfinished" in members else " REMOVE #unfinished"
    condition, values = "#records = :expected AND #generation = :generation", {"expected": expected}
    names = {f"#{name}": name for name in (*members, "unfinished")}
    if since:  # nobody has read whether it has expired
        alive = "(attribute_not_exists(#expires) OR #expires > :now)"
        condition = f"{condition} AND #updated = :since AND {alive}"
        values |= {"since": since, "now": int(time.time())}
        names["#expires"] = TTL_ATTRIBUTE
    return {
        "Update": {
            "Key": to_wire(key),
            "UpdateExpression": f"SET {assignments}{removal}",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": to_wire({**members, **values}, ":"),
        }
    }
