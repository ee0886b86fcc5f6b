"""Where documents are kept: rows of texts in SQLite, PostgreSQL or DynamoDB."""

from __future__ import annotations

from pathlib import Path

from orchestrator.server.document_rows.base import DocumentRows
from orchestrator.server.document_rows.sqlite import SqliteRows
from orchestrator.support.store_urls import DynamoUrl, MemoryUrl, PostgresUrl, SqliteUrl, StoreUrl

__all__ = ["DocumentRows", "open_rows"]


def open_rows(where: str | Path | StoreUrl | None) -> DocumentRows:
    """Opens the rows of a file or a database; `None` keeps all in memory.

    Raises:
        ValidationError: An extra is missing.
        DependencyFailed: It cannot be used.
    """
    match where:
        case None | MemoryUrl():
            return SqliteRows(":memory:")
        case SqliteUrl():
            return SqliteRows(where.path)
        case PostgresUrl():
            from orchestrator.server.document_rows.postgres import PostgresRows

            return PostgresRows(where)
        case DynamoUrl():
            from orchestrator.server.document_rows.dynamodb import DynamoRows

            return DynamoRows(where)
    return SqliteRows(where)
