"""The settings of a server: plain data, so that every worker process gets the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.support.store_urls import (
    DynamoUrl,
    MemoryUrl,
    PostgresUrl,
    SqliteUrl,
    StoreUrl,
    parse_store,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server runs."""

    host: str = "127.0.0.1"  # the address to listen on
    port: int = 8080  # 0 for any that is free
    agents: Path | None = None  # a folder of agents' folders, or one agent's folder
    # Where sessions are kept: a SQLite file, beside which the state's other files lie, or the URL
    # of a store. `None` keeps everything in memory, for one process
    state: str | Path | None = None
    # A folder for indexes of knowledge bases, where the state is in a database
    data: Path | None = None
    model: str | None = None  # a model spec that answers instead of every other
    # Model specs by patterns of the model ids that they answer for
    models: Mapping[str, str] = field(default_factory=dict)
    # Handler files (`file.py:function`, or `file.py` for its `lambda_handler`), by names or ARNs of
    # Lambda functions
    lambdas: Mapping[str, str] = field(default_factory=dict)
    buckets: Mapping[str, Path] = field(default_factory=dict)  # folders, by names of S3 buckets
    # Files of local guardrails, by ids or ARNs of guardrails
    guardrails: Mapping[str, Path] = field(default_factory=dict)
    keys: Path | None = None  # the file of access keys; without one nobody has to sign
    open: bool = False  # whether to serve others without keys, where they can reach the server
    workers: int = 1  # worker processes
    body_bytes: int = 32_000_000  # the largest body of a request
    body_seconds: float = 30.0  # how long a request's body may take to arrive
    concurrency: int = 256  # requests that one worker process serves at once
    turn_seconds: float = 600.0  # wall-clock time of one invocation
    # How long running turns may go on after the server was asked to stop
    shutdown_seconds: float = 20.0
    # Where `GET /metrics` is answered without a key, besides; nowhere when `None`
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"  # the address of that port
    # Whether the workbench is at `/workbench`, and prices of models for it, such as `MODEL=3,15`
    workbench: bool = False
    price: Sequence[str] = ()
    log_format: str = "text"  # of the log on stderr: `text`, or `json` with an object a line
    region: str = "us-east-1"  # in ARNs
    account: str = "000000000000"  # in ARNs

    def get_path(self, name: str) -> Path | None:
        """Where a file or folder of the state called `name` lies; `None` when it has no files."""
        file = self.state_file
        if file is None:
            return self.data.resolve() / name if self.data is not None else None
        return file.resolve().with_name(name)

    def get_store(self, name: str) -> Path | StoreUrl | None:
        """Where what would be in the file called `name` is: there, or in the state's database."""
        url = self._store_url
        return self.get_path(name) if isinstance(url, MemoryUrl | SqliteUrl) else url

    @property
    def state_file(self) -> Path | None:
        """The SQLite file of the state; `None` when the state is none."""
        url = self._store_url
        return url.path if isinstance(url, SqliteUrl) else None

    @property
    def is_in_memory(self) -> bool:
        """Whether other processes cannot see the state."""
        return isinstance(self._store_url, MemoryUrl)

    @property
    def is_database(self) -> bool:
        """Whether the state is in a database, which other machines may share."""
        return isinstance(self._store_url, DynamoUrl | PostgresUrl)

    @property
    def _store_url(self) -> StoreUrl:
        return parse_store("memory:" if self.state is None else self.state)

    def as_text(self) -> str:
        """The settings as JSON, for other processes."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """The settings that `as_text` wrote."""
        members: dict[str, Any] = json.loads(text)
        for name in ("agents", "data", "keys"):
            members[name] = None if members[name] is None else Path(members[name])
        for name in ("buckets", "guardrails"):
            members[name] = {key: Path(path) for key, path in members[name].items()}
        return cls(**members)
