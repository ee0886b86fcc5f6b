"""What an agent remembers of earlier sessions, and the seam of its stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session, summarised (Bedrock: `MemorySessionSummary`)."""

    memory_id: str  # whose memory it belongs to
    session_id: str  # the session
    started: int  # when the session began, in nanoseconds since 1970
    expires: int | None  # when the summary is forgotten, in the same unit; `None` for never
    topics: Sequence[Mapping[str, Any]]  # topics and what was said of each: `{"topic", "summary"}`
    text: str  # the summary as the model wrote it, for people and for `$memory_content$`


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps summaries. Safe for many threads and processes at once.

    `owner` names an agent and its alias; no owner sees another's memory, and ids are data: they are
    never used as names of files.
    """

    def touch(self, owner: str, memory_id: str, session_id: str, at: int) -> None:
        """Notes that a turn of a session began, which is thus to be summarised some day."""

    def find_unsummarised(self, owner: str, before: int, memory_id: str | None = None) -> list[str]:
        """Sessions that were touched last before that time and not summarised since.

        Args:
            owner: Whose.
            before: Nanoseconds since 1970.
            memory_id: Of one memory; of all when `None`.
        """

    def settle(self, owner: str, session_id: str) -> None:
        """Notes that there is nothing (more) to summarise of a session."""

    def add(self, owner: str, summary: SessionSummary) -> None:
        """Keeps a summary and settles its session; one of the same session is replaced."""

    def recent(self, owner: str, memory_id: str, now: int, limit: int) -> list[SessionSummary]:
        """The last `limit` summaries that have not expired at `now`, newest first."""

    def delete(
        self, owner: str, memory_id: str | None = None, session_id: str | None = None
    ) -> None:
        """Forgets what an owner remembers; what is not there is no error.

        Args:
            owner: Whose.
            memory_id: One memory of it; all of them when `None` (Bedrock: DeleteAgentMemory).
            session_id: One session of it; all of them when `None`.
        """
