"""Snapshots of plans in DynamoDB: what prompts were made of, by digest.

| item | sort key | members |
|---|---|---|
| snapshot | `s` | `text`, `nonce`; of a long one, `parts` says how many items have the rest;
  `listing` and `name` (the digest) put it into the index `names`; `kept` says when somebody has
  last kept it, in seconds since 1970 |
| part of a long snapshot | `p#`, the nonce and a number | `text` |

Their partition is `plan#` and the digest. Parts are written first, so a snapshot is whole or not
there. They belong to no session: they stay when sessions are deleted, or expire, until
`orchestrator sessions prune` finds that no session names them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

from orchestrator.support.dynamodb import ITEM_BYTES, ConditionFailed, DynamoTable, Item, to_wire

_SNAPSHOT = "s"
_LISTING = "plan"


def save_plan(table: DynamoTable, digest: str, text: str) -> None:
    """Keeps the snapshot of a plan, or notes that one of its digest is still in use.

    Raises:
        DependencyFailed: DynamoDB failed.
    """
    try:
        table.call(
            "update_item",
            TableName=table.name,
            Key=to_wire(_key(digest)),
            UpdateExpression="SET kept = :now",
            ConditionExpression="attribute_exists(pk)",
            ExpressionAttributeValues=to_wire({":now": time.time()}),
        )
    except ConditionFailed:
        # Another process may be quicker: encrypted, its text is another one.
        _write(table, digest, text, "attribute_not_exists(pk)")


def replace_plan(table: DynamoTable, digest: str, old: str, new: str) -> bool:
    """Puts a snapshot in the place of one that stands there still; whether it did.

    Raises:
        DependencyFailed: DynamoDB failed.
    """
    rows = _find(table, digest)
    if _join(rows) != old:
        return False
    nonce = rows[_SNAPSHOT]["nonce"]
    if not _write(table, digest, new, "nonce = :nonce", nonce=nonce):
        return False
    table.write_batch(deletes=_find_parts(rows, nonce))
    return True


def delete_plan(table: DynamoTable, digest: str, idle: float) -> bool:
    """Deletes the snapshot of a plan that nobody has kept for `idle` seconds; whether it did.

    Raises:
        DependencyFailed: DynamoDB failed.
    """
    rows = _find(table, digest)
    if rows.pop(_SNAPSHOT, None) is None:
        return False
    try:
        table.call(
            "delete_item",
            TableName=table.name,
            Key=to_wire(_key(digest)),
            ConditionExpression="attribute_not_exists(kept) OR kept <= :last",
            ExpressionAttributeValues=to_wire({":last": time.time() - idle}),
        )
    except ConditionFailed:
        return False
    table.write_batch(deletes=[*rows.values()])  # without it, its parts are nobody's
    return True


def load_plan(table: DynamoTable, digest: str) -> str | None:
    """The snapshot of the plan with a digest, if one was kept whole.

    Raises:
        DependencyFailed: DynamoDB failed.
    """
    return _join(_find(table, digest))


def list_plans(table: DynamoTable) -> Iterator[str]:
    """The digests of all plans that were kept; as old as the table's index."""
    for row in table.query("listing = :listing", {"listing": _LISTING}, index="names"):
        yield row["name"]


def _write(table: DynamoTable, digest: str, text: str, condition: str, **values: str) -> bool:
    pk, nonce = _partition(digest), secrets.token_hex(8)
    first, *rest = [text[at : at + ITEM_BYTES] for at in range(0, len(text), ITEM_BYTES)] or [""]
    parts: list[Item] = [
        {"pk": pk, "sk": f"p#{nonce}#{number:06}", "text": piece}
        for number, piece in enumerate(rest)
    ]
    table.write_batch(parts)
    head: Item = {**_key(digest), "text": first, "parts": len(rest), "nonce": nonce}
    head |= {"listing": _LISTING, "name": digest, "kept": int(time.time())}
    try:
        table.put(head, condition, **values)
    except ConditionFailed:
        table.write_batch(deletes=parts)
        return False
    return True


def _find(table: DynamoTable, digest: str) -> dict[str, Item]:
    # By sort keys: the parts in their order, those of writers that did not finish among them.
    rows = table.query("pk = :pk", {"pk": _partition(digest)})
    return {row["sk"]: row for row in rows}


def _join(rows: dict[str, Item]) -> str | None:
    head = rows.get(_SNAPSHOT)
    if head is None:
        return None
    rest = _find_parts(rows, head["nonce"])
    if len(rest) != head["parts"]:
        return None
    return "".join(str(row["text"]) for row in (head, *rest))


def _find_parts(rows: dict[str, Item], nonce: str) -> list[Item]:
    return [row for sk, row in rows.items() if sk.startswith(f"p#{nonce}#")]


def _key(digest: str) -> Item:
    return {"pk": _partition(digest), "sk": _SNAPSHOT}


def _partition(digest: str) -> str:
    return f"plan#{digest}"
