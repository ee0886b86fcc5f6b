"""Summaries of sessions: built from a model's reply, and rendered for prompts and for callers."""

# What a model wrote about a conversation is data, and so is what a user once wrote: it is bounded
# in size here, and gets into a prompt only through partials, which encode it.

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orchestrator.memory.base import SessionSummary
from orchestrator.support.encryption import refuse_sealed

DAY = 86_400_000_000_000
"""A day in nanoseconds."""

MAX_SUMMARY = 20_000
"""Most characters of one session's summary: a prompt holds many of them."""

MAX_PROMPTED = 60_000
"""Most characters of all summaries together in one prompt."""

_TAGS = re.compile(r"</?(?:thinking|answer|answer_part|text|final_response)>")
# A reply that was cut off has no closing tag: everything after the opening one is left out then.
_THINKING = re.compile(r"<thinking>.*?(?:</thinking>|\Z)", re.DOTALL)
_NOISE = re.compile(
    r"<(function_calls|function_call|function_results|sources)>.*?(?:</\1>|\Z)", re.DOTALL
)


def build_summary(
    memory_id: str,
    session_id: str,
    topics: Iterable[Mapping[str, Any]],
    *,
    started: int,
    now: int,
    storage_days: int = 30,
    text: str = "",
) -> SessionSummary:
    """The summary of a session, as a store keeps it.

    Args:
        memory_id: Whose memory it belongs to.
        session_id: The session.
        topics: `topicwiseSummaries` of the parsed reply: mappings with `topic` and `summary`.
        started: When the session began, in nanoseconds since 1970.
        now: The present time, in the same unit.
        storage_days: After how many days it is forgotten (Bedrock: `storageDays`).
        text: The model's reply, for when no topics were found in it.

    Returns:
        The summary; of more than `MAX_SUMMARY` characters the later ones are left out.
    """
    left, kept_topics = MAX_SUMMARY, []
    for topic in topics:
        if not isinstance(topic, Mapping):  # a record that was changed on the disk
            continue
        name = str(topic.get("topic") or "")[:left]
        summary = str(topic.get("summary") or "")[: left - len(name)]
        left -= len(name) + len(summary)
        if summary:
            kept_topics.append({"topic": name, "summary": summary})
    return SessionSummary(
        memory_id=memory_id,
        session_id=session_id,
        started=started,
        expires=now + storage_days * DAY,
        topics=kept_topics,
        text=(summary_text(kept_topics) or strip_markup(text))[:MAX_SUMMARY],
    )


def summary_text(topics: Iterable[Mapping[str, Any]]) -> str:
    """Topics as a text for people (Bedrock: `summaryText`): a line for each of them."""
    return "\n".join(
        f"{topic['topic']}: {topic['summary']}" if topic["topic"] else str(topic["summary"])
        for topic in topics
    )


def to_prompt_summaries(summaries: Sequence[SessionSummary]) -> list[dict[str, Any]]:
    """Summaries as the partials of prompts take them.

    Args:
        summaries: Newest first, as `MemoryStore.recent` gives them.

    Returns:
        `topics` and `text` of each; when there are more than `MAX_PROMPTED` characters, the oldest
        are left out.
    """
    rendered: list[dict[str, Any]] = []
    left = MAX_PROMPTED
    for summary in summaries:
        _refuse_sealed(summary)
        left -= len(summary.text)
        # They come newest first; one that is too long alone is still better than none.
        if left < 0 and rendered:
            break
        rendered.append({"topics": [dict(it) for it in summary.topics], "text": summary.text})
    return rendered


def strip_markup(text: str) -> str:
    """What a user reads of a reply: no thinking, calls and results, and no tags."""
    if "<" not in text:
        return text.strip()
    return _TAGS.sub("", _NOISE.sub("", _THINKING.sub("", text))).strip()


def memory_contents(summaries: Iterable[SessionSummary]) -> list[dict[str, Any]]:
    """Summaries as `memoryContents` of GetAgentMemory (Bedrock: `Memory`), ready for JSON."""
    return [{"sessionSummary": _to_bedrock(summary)} for summary in summaries]


def _refuse_sealed(summary: SessionSummary) -> None:
    # Whoever reads a store without its key must not take what is sealed for a summary.
    refuse_sealed(summary.text, f"the summary of session {summary.session_id!r}")


def _to_bedrock(summary: SessionSummary) -> dict[str, Any]:
    _refuse_sealed(summary)
    summarised = {
        "memoryId": summary.memory_id,
        "sessionId": summary.session_id,
        "sessionStartTime": _time(summary.started),
        "summaryText": summary.text,
    }
    if summary.expires is not None:
        summarised["sessionExpiryTime"] = _time(summary.expires)
    return summarised


def _time(nanoseconds: int) -> str:
    from datetime import UTC, datetime

    # Written by hand, since a `datetime` holds no nanoseconds.
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
