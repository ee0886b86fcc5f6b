"""The prompt of a stage, as far as it is known before a turn."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.engine.collaboration import routing_values
from orchestrator.engine.plan import Plan, StagePlan
from orchestrator.engine.prompt_history import Talk
from orchestrator.engine.rendered_prompt import Prompt
from orchestrator.engine.run.restore import restore_history
from orchestrator.errors import ValidationError
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    MEMORY_SUMMARIZATION,
    ROUTING_CLASSIFIER,
)
from orchestrator.sessions import Session, Sessions, session_label


def render_stage(
    plan: Plan,
    sessions: Sessions,
    stage: str,
    question: str,
    *,
    session_id: str | None,
    attributes: Mapping[str, str] | None,
    values: Mapping[str, str] | None,
) -> Prompt:
    """The prompt that a stage would send; see `Agent.render`."""
    found = plan.stages.get(stage)
    if found is None:
        raise ValidationError(f"there is no stage {stage!r}; there are {', '.join(plan.stages)}")
    session = Session("", "")
    if session_id is not None:
        session = sessions.peek(session_label(plan.owner, session_id))
        restore_history(plan, session)
    filled = {
        "question": question,
        **(found.attribute_values(attributes) if attributes else {}),
        **_preview_values(found, question, session),
        **(values or {}),
    }
    # The same binding as in a turn, so that the prompt is exact.
    bound = found.template.bind(filled, session.history)
    system, messages, model_id = bound.system, bound.messages(), found.model.model_id
    tools = () if found.tools_in_prompt else found.tools
    return Prompt(stage, model_id, system, messages, tools, found.inference)


def _preview_values(stage: StagePlan, question: str, session: Session) -> dict[str, str]:
    # The values of a stage outside the loop.
    talk = Talk(session, len(session.talk), None)
    if stage.stage == ROUTING_CLASSIFIER:
        return routing_values(stage.dialect, question, session.last_agent, talk)
    if stage.stage == MEMORY_SUMMARIZATION:
        return {"conversation": talk.conversation(stage.dialect, [("user", question)])}
    if stage.stage == KNOWLEDGE_BASE_RESPONSE_GENERATION:
        return {"query": question}
    return {}
