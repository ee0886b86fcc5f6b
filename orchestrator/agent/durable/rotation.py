"""Writes the rows of submitted turns anew with the first key, so that an older one can be removed.

Turns may be submitted and run meanwhile: what they write is of the first key anyway, and a row that
somebody has changed since it was read is left to the next time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.agent.durable.database import open_client
from orchestrator.agent.durable.sealing import (
    reseal_input,
    reseal_message,
    reseal_result,
    reseal_schedule,
)
from orchestrator.agent.durable.workflow import SCHEDULED, TURN
from orchestrator.errors import EncryptionError

if TYPE_CHECKING:
    from sqlalchemy import Column, Engine

Reseal = Callable[[Any, str], Any]


class _Place(NamedTuple):
    """A column with content, beside the one that names its row, and how it is sealed anew."""

    what: str
    name: Column[str]
    content: Column[str]
    reseal: Reseal


@contextmanager
def open_rotations(url: str) -> Iterator[Iterator[tuple[str, Callable[[], int]]]]:
    """Of each row of a database of submitted turns what it is, and what seals it anew.

    That returns how many texts were not of the first key.

    Raises:
        DependencyFailed: The database cannot be used.
        ValidationError: The URL is none of a database.
    """
    client = open_client(url)
    with closing(_Database(client)) as database:
        yield database.list_rotations()


class _Database:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._engine: Engine = client._sys_db.engine
        self._tables = client._sys_db.tables

    def close(self) -> None:
        self._client.destroy()

    def list_rotations(self) -> Iterator[tuple[str, Callable[[], int]]]:
        for place in self._list_places():
            for name in self._list_names(place):
                yield f"{place.what} {name!r}", partial(self._rotate, place, name)

    def _list_places(self) -> list[_Place]:
        inputs, outputs = self._tables.workflow_input, self._tables.workflow_output
        schedules = self._tables.workflow_schedules
        result, error = outputs.c.output, outputs.c.error
        return [
            _Place("the input of", inputs.c.workflow_uuid, inputs.c.inputs, _reseal_arguments),
            _Place("the result of", outputs.c.workflow_uuid, result, reseal_result),
            _Place("the error of", outputs.c.workflow_uuid, error, _reseal_error),
            _Place("the schedule", schedules.c.schedule_name, schedules.c.context, reseal_schedule),
        ]

    def _list_names(self, place: _Place) -> list[str]:
        import sqlalchemy as sa

        # The database may be other programs' of DBOS, too.
        own = sa.select(place.name).where(place.content.is_not(None))
        table = self._tables.workflow_status
        if place.name.table is self._tables.workflow_schedules:
            own = own.where(place.name.table.c.workflow_name == SCHEDULED)
        else:
            own = own.join(table, table.c.workflow_uuid == place.name).where(
                table.c.name.in_((TURN, SCHEDULED))
            )
        with self._engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(own)]

    def _rotate(self, place: _Place, name: str) -> int:
        import sqlalchemy as sa

        mine = place.name == name
        with self._engine.begin() as connection:
            row = connection.execute(sa.select(place.content).where(mine)).first()
            if row is None or row[0] is None:
                return 0
            stored = _read(row[0], f"{place.what} {name!r}")
            sealed = place.reseal(stored, name)
            if sealed == stored:
                return 0
            unchanged = sa.and_(mine, place.content == row[0])
            change = sa.update(place.name.table).where(unchanged)
            return connection.execute(change.values({place.content: json.dumps(sealed)})).rowcount


def _read(text: str, what: str) -> dict[str, Any]:
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        raise EncryptionError(f"{what} is no JSON that a worker writes")
    return stored


def _reseal_arguments(stored: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    # A client writes positional arguments, and a worker's schedules `args`: the turn is the last.
    member = "positionalArgs" if "positionalArgs" in stored else "args"
    arguments = stored.get(member)
    if not isinstance(arguments, list) or not arguments or not isinstance(arguments[-1], dict):
        raise EncryptionError(f"the input of {workflow_id!r} is not what `Agent.submit` writes")
    return {**stored, member: [*arguments[:-1], reseal_input(arguments[-1], workflow_id)]}


def _reseal_error(stored: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    return {**stored, "message": reseal_message(str(stored.get("message", "")), workflow_id)}
