"""A conversation as a file: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.session_state import TurnView, describe_ending, local_time, read_turns
from orchestrator.cli.terminal import clean, format_count
from orchestrator.errors import ValidationError
from orchestrator.sessions import SessionInfo, session_label
from orchestrator.support.private_files import open_private

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent

_MARKDOWN, _JSON = (".md", ".markdown"), (".json",)


def save_conversation(file: Path, agent: Agent, session: str) -> str:
    """Writes all turns of a session to a file that only its owner may read.

    Returns:
        How much it was, such as `3 turns`.

    Raises:
        ValidationError: The file's name has another ending, or it cannot be written.
        DependencyFailed: The session's journal cannot be read.
    """
    ending = file.suffix.lower()
    if ending not in (*_MARKDOWN, *_JSON):
        raise ValidationError(
            f"{str(file)!r} ends in neither {' nor '.join((*_MARKDOWN, *_JSON))}, which says how "
            "the conversation is written"
        )
    label = session_label(agent.plan.owner, session)
    info = SessionInfo(agent.sessions.key(label), label, 0, 0)
    turns = list(read_turns(agent.sessions, info, agent))
    if ending in _JSON:
        text = _to_json(turns, agent, session)
    else:
        text = _to_markdown(turns, agent, session)
    try:
        with open_private(file, encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        raise ValidationError(f"{str(file)!r} cannot be written: {error.strerror}") from error
    return format_count(len(turns), "turn")


def _to_json(turns: list[TurnView], agent: Agent, session: str) -> str:
    document = {
        "agent": agent.plan.name,
        "session_id": session,
        "turns": [turn.as_dict(trace=True) for turn in turns],
    }
    return json.dumps(document, ensure_ascii=False, indent=2, default=str) + "\n"


def _to_markdown(turns: list[TurnView], agent: Agent, session: str) -> str:
    blocks = [f"# Conversation with {clean(agent.plan.name)}", f"Session `{session}`"]
    for view in turns:
        turn = view.turn
        if turn.new:
            blocks.append("*The conversation began anew.*")
        asked = clean(turn.question).replace("\n", "\n> ")
        blocks.append(f"**You**, {local_time(turn.at)}\n\n> {asked}")
        ending = describe_ending(view)
        who = f"**{clean(agent.plan.name)}**" + (f", {clean(ending)}" if ending else "")
        blocks += [who, *filter(None, [clean(turn.text)])]
    return "\n\n".join(blocks) + "\n"
