"""Which operations the server carries out, asked of one that is opened; see `coverage_page.py`."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.server.wire.api import Api

Row = tuple[str, ...]


def operations() -> Iterator[Row]:
    """By service: the operations that have a handler, and those that are refused by name."""
    world = ServerState(Settings())
    try:
        told = Api(world.operations()).list_operations()
    finally:
        world.close()
    for service, (there, left) in told.items():
        for state, names in (("works", there), ("not yet", left)):
            if names:
                listed = ", ".join(f"`{name}`" for name in names)
                yield f"`{service}`", f"{state} ({len(names)})", listed
