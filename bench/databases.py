"""Databases that measures have for themselves, made by the tests' own servers."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from bench.harness import REPOSITORY


@contextmanager
def open_database(kind: str) -> Iterator[str | None]:
    """The URL of a new, empty one of `sqlite`, `postgres` or `dynamodb`.

    PostgreSQL has its usual settings; the URL is `None` where it is not installed. DynamoDB is
    moto's server.
    """
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from dynamodb_server import DynamoServer
    from postgres_server import PostgresServer, find_programs

    with ExitStack() as stack:
        if kind == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            yield f"sqlite:///{folder}/sessions.sqlite"
        elif kind == "postgres":
            programs = find_programs()
            if isinstance(programs, str):
                print(f"left out: {programs}", file=sys.stderr)
                yield None
                return
            server = stack.enter_context(closing(PostgresServer(programs, options=())))
            yield server.url(server.create_database())
        else:
            os.environ |= {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto"}
            moto = stack.enter_context(closing(DynamoServer()))
            yield moto.create_table("bench")
