"""The settings of a server: plain data, so that every worker process gets the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs.

    Attributes:
        host: The address to listen on.
        port: The port; 0 for any that is free.
        agents: A folder of agents' folders, or one agent's folder; none when `None`.
        state: The SQLite file of sessions; other files of the state lie beside it. `None` keeps
            everything in memory, for one process.
        model: A model spec that answers instead of every other.
        models: Model specs by patterns of the model ids that they answer for.
        lambdas: Handler files (`file.py:function`, or `file.py` for its `lambda_handler`), by
            names or ARNs of Lambda functions.
        buckets: Local folders, by names of S3 buckets.
        keys: The file of access keys; without one nobody has to sign.
        open: Whether to serve without keys on an address that others can reach.
        workers: Worker processes.
        body_bytes: The largest body of a request, in bytes.
        body_seconds: How long a request's body may take to arrive.
        concurrency: Requests that one worker process serves at once.
        turn_seconds: Wall-clock time of one invocation.
        shutdown_seconds: How long running turns may go on after the server was asked to stop.
        region: The region in ARNs.
        account: The account in ARNs.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    agents: Path | None = None
    state: Path | None = None
    model: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    lambdas: Mapping[str, str] = field(default_factory=dict)
    buckets: Mapping[str, Path] = field(default_factory=dict)
    keys: Path | None = None
    open: bool = False
    workers: int = 1
    body_bytes: int = 32_000_000
    body_seconds: float = 30.0
    concurrency: int = 256
    turn_seconds: float = 600.0
    shutdown_seconds: float = 20.0
    region: str = "us-east-1"
    account: str = "000000000000"

    def get_path(self, name: str) -> Path | None:
        """Where a file or folder of the state called `name` lies; `None` when all is in memory."""
        return self.state.resolve().with_name(name) if self.state is not None else None

    def as_text(self) -> str:
        """The settings as JSON, for other processes."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """The settings that `as_text` wrote."""
        members: dict[str, Any] = json.loads(text)
        for name in ("agents", "state", "keys"):
            members[name] = None if members[name] is None else Path(members[name])
        members["buckets"] = {name: Path(folder) for name, folder in members["buckets"].items()}
        return cls(**members)
