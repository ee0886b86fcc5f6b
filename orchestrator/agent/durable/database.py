"""DBOS's database: the one place that opens it, from a URL, and without any pickle."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed, ValidationError
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.private_files import create_private, tighten_file
from orchestrator.support.store_urls import parse_store

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Engine

APPLICATION = "orchestrator"
"""Whose queues and workflows they are, among those that share the database."""

# Of the workflows' shape, not of this package: the journal has versions of its own, so a worker may
# run what an older or newer one has begun. DBOS would bind each workflow to one release.
VERSION = "1"

# Seconds to wait for another process that writes to a SQLite file, as long as DBOS waits.
_PATIENCE = 30.0


def check_url(url: str) -> str:
    """The URL of a database that DBOS can use.

    Raises:
        ValidationError: It is none; the message shows no password, wherever it stands in it.
    """
    if not isinstance(url, str) or not url.startswith(("sqlite:///", "postgresql://")):
        raise ValidationError(
            "the URL of the database is neither sqlite:///FILE (to try it, on one machine) nor "
            "postgresql://USER@HOST/NAME"
        )
    parse_store(url)
    return url


# DBOS asks SQLite for milliseconds (`unixepoch('subsec')`) where Python is 3.12 or later. An older
# SQLite answers with NULL, and no turn can be stored.
def _check_sqlite() -> None:
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        raise DependencyFailed(
            f"durable runs in a SQLite file need SQLite 3.42 or later with this Python, and it has "
            f"{sqlite3.sqlite_version}; use PostgreSQL, or another build of Python",
            resource="sqlite3",
        )


def show_url(url: str) -> str:
    """The URL without its password."""
    return parse_store(url).display_name


def import_dbos(url: str) -> Any:
    """The package, for a database; it then neither writes nor reads pickles.

    Raises:
        DependencyFailed: It is not installed, or cannot use the SQLite that is here.
    """
    try:
        import dbos
    except ImportError as error:
        library = error.name or "dbos"
        raise DependencyFailed(
            describe_missing_extra("durable runs need", "dbos", library), resource=library
        ) from error
    if url.startswith("sqlite:"):
        _check_sqlite()
    _refuse_pickles()
    return dbos


# A row names its format, whatever serializer DBOS was given: whoever can write a row could have any
# worker load a pickle, which runs code. Its errors are then written as JSON under the same name.
def _refuse_pickles() -> None:
    from dbos._serialization import DBOSPortableJSON, DefaultSerializer
    from dbos._serialization import exception_to_workflow_error_data as describe

    def write(self: object, data: Any) -> str:
        return str(DBOSPortableJSON.serialize(describe(data)))

    def refuse(self: object, serialized_data: str) -> Any:
        raise ValidationError("a record of the database is a pickle, which is never read")

    kind: Any = DefaultSerializer
    kind.serialize, kind.deserialize = write, refuse


def make_private(url: str) -> None:
    """Makes a SQLite file where it is missing, and takes it from everybody but its owner.

    Raises:
        OSError: It cannot be made.
    """
    from sqlalchemy import make_url

    address = make_url(url)
    if address.drivername != "sqlite" or address.database in (None, "", ":memory:"):
        return
    file = Path(str(address.database))
    create_private(file)
    tighten_file(file)


def open_client(url: str) -> DBOSClient:
    """A client of the database, whose tables are made where they are missing.

    Raises:
        DependencyFailed: DBOS is not installed, or the database cannot be reached.
        ValidationError: The URL is none of a database.
    """
    check_url(url)
    dbos = import_dbos(url)
    from dbos._serialization import DBOSPortableJSON

    try:
        make_private(url)
        dbos.DBOS.migrate(url)
        client: DBOSClient = dbos.DBOSClient(
            system_database_url=url,
            serializer=DBOSPortableJSON,
            application_name=APPLICATION,
        )
    except Exception as error:
        raise build_database_error(url, error) from error
    return client


def build_database_error(url: str, error: Exception) -> DependencyFailed:
    """The error of a database that does not answer; its URL without the password."""
    shown = show_url(url)
    return DependencyFailed(
        f"the database {shown!r} cannot be used ({type(error).__name__}): check that it runs, that "
        "the name and the password are right, and that tables can be made in it",
        resource=shown,
    )


def open_engine(url: str) -> Engine:
    """A plain engine of the same database, with one connection."""
    from sqlalchemy import create_engine, make_url

    address, arguments = make_url(url), dict[str, Any]()
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    else:
        arguments["timeout"] = _PATIENCE
    return create_engine(
        address, connect_args=arguments, pool_size=1, max_overflow=1, pool_pre_ping=True
    )
