"""The fixtures of `durable_support`."""

from durable_support import migrated_database, runs, sessions, url, work

__all__ = ["migrated_database", "runs", "sessions", "url", "work"]
