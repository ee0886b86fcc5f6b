"""Values of a stage's prompt, as far as they are known before a turn."""

from __future__ import annotations

from orchestrator.engine.collaboration import routing_values
from orchestrator.engine.plan import StagePlan
from orchestrator.engine.prompt_history import Talk
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    MEMORY_SUMMARIZATION,
    ROUTING_CLASSIFIER,
)
from orchestrator.sessions import Session


def preview_values(stage: StagePlan, question: str, session: Session) -> dict[str, str]:
    """The values of a stage outside the loop, as far as they are known before the turn."""
    talk = Talk(session, len(session.talk), None)
    if stage.stage == ROUTING_CLASSIFIER:
        return routing_values(stage.dialect, question, session.last_agent, talk)
    if stage.stage == MEMORY_SUMMARIZATION:
        return {"conversation": talk.conversation(stage.dialect, [("user", question)])}
    if stage.stage == KNOWLEDGE_BASE_RESPONSE_GENERATION:
        return {"query": question}
    return {}
