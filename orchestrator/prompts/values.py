"""The values of placeholders that are the same in every turn of an agent.

Most of them are texts of the dialect: the partial of the placeholder's name, rendered with what the
agent has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.prompts.dialect import Dialect

# Placeholders whose values only a turn knows.
OF_A_TURN = frozenset(
    "question prompt_session_attributes conversation_history agent_scratchpad latest_response "
    "responses bot_response query search_results memory_content memory_synopsis long_term_memory "
    "code_interpreter_files conversation past_conversation_summary last_user_request "
    "last_most_specialized_agent_guideline".split()
)

# Names that stand for the same text as another.
SAME_TEXT = {
    "model_instructions": "model_instruction",
    "memory_guidelines": "memory_guideline",
    "memory_guideline_session_summary": "memory_guideline",
    "memory_action_guidelines": "memory_action_guideline",
    "memory_action_guideline_session_summary": "memory_action_guideline",
    "respond_to_user_final_answer": "final_answer",
    "respond_to_user_cannot_answer_guideline": "cannot_answer_guideline",
    "respond_to_user_knowledge_base_additional_guideline": "knowledge_base_additional_guideline",
    "multi_agent_collaboration": "agent_collaborators",
}

_BUILT_IN = re.compile(
    r"user(::|__)askuser|AgentCommunication(::|__)|([A-Z]+(::|__))?x_amz_knowledgebase_"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AgentFacts:
    """Plain data about an agent, of which the values are made."""

    instruction: str = ""
    # All that its model may call, built in or not: `name` (as the dialect writes it),
    # `description`, `parameters` (`name`, `type`, `description`, `required`).
    tools: Sequence[Mapping[str, Any]] = ()
    ask_user: bool = False  # whether it may ask the user (`AMAZON.UserInput`)
    knowledge_bases: Sequence[Mapping[str, str]] = ()  # what it may search: `id`, `description`
    # The agents that it may send messages to: `name`, `instruction`.
    collaborators: Sequence[Mapping[str, str]] = ()
    memory: bool = False
    code_interpreter: bool = False


def render_agent_values(
    names: Iterable[str], dialect: Dialect, facts: AgentFacts
) -> dict[str, str]:
    """The values of these placeholders, except of those that only a turn knows."""
    return {
        name: _render_value(SAME_TEXT.get(name, name), dialect, facts)
        for name in names
        if name not in OF_A_TURN
    }


def _render_value(name: str, dialect: Dialect, facts: AgentFacts) -> str:
    if name in _INSTRUCTIONS:
        return facts.instruction
    if name == _FUNCTION:
        # AWS picks one at random; here the same turn has the same prompt, so that caches work.
        return str(next((tool["name"] for tool in (*_actions(facts), *facts.tools)), ""))
    condition = _CONDITIONS.get(name)
    if condition is None or not condition(facts):
        return ""
    context = _CONTEXTS.get(name)
    return dialect.partial(name, **(context(facts, dialect) if context else {}))


def render_memory_values(dialect: Dialect, sessions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The values of the placeholders about memory; none when nothing is remembered.

    Each session, newest first, has `topics` (a list of `topic` and `summary`) and `text`, which is
    used when there are no topics.
    """
    if not sessions:
        return {}
    content = dialect.partial("memory_content", sessions=list(sessions))
    # `memory_synopsis` is the same text without the tags.
    synopsis = content.strip().removeprefix("<memory_synopsis>").removesuffix("</memory_synopsis>")
    return {
        "memory_content": content,
        "long_term_memory": content,
        "memory_synopsis": synopsis.strip(),
    }


_INSTRUCTIONS = ("instruction", "model_instruction")
_FUNCTION = "any_function_name"
_FACTS = (*_INSTRUCTIONS, _FUNCTION)

# AWS: "These instructions are only added if a knowledge base is associated with the agent". So a
# guideline for something that the agent does not have is the empty text.
_NAMES_BY_CONDITION: tuple[tuple[Callable[[AgentFacts], bool], str], ...] = (
    (
        lambda facts: True,
        "tools functions thought output_format_guideline final_answer cannot_answer_guideline "
        "respond_to_user_guideline",
    ),
    (
        lambda facts: facts.ask_user,
        "ask_user_missing_information ask_user_missing_parameters ask_user_confirm_parameters "
        "ask_user_function ask_user_function_format ask_user_input_examples",
    ),
    (
        lambda facts: bool(facts.knowledge_bases),
        "knowledge_base_guideline knowledge_base_additional_guideline knowledge_base_routing "
        "knowledge_base_routing_guideline",
    ),
    (lambda facts: bool(facts.knowledge_bases and _actions(facts)), "action_kb_guideline"),
    (lambda facts: facts.memory, "memory_guideline memory_action_guideline"),
    (lambda facts: facts.code_interpreter, "code_interpreter_guideline"),
    (
        lambda facts: bool(facts.collaborators),
        "agent_collaborators multi_agent_payload_reference_guideline reachable_agents "
        "multi_agent_collaboration_guideline agent_collaboration_kb_guideline",
    ),
    (lambda facts: bool(_actions(facts)), "action_routing action_routing_guideline"),
)
_CONDITIONS = {
    name: condition for condition, names in _NAMES_BY_CONDITION for name in names.split()
}


# The placeholders whose values are the agent's own: what `render_agent_values` gives them.
OF_AN_AGENT = frozenset(
    name
    for name in (*_CONDITIONS, *_FACTS, *SAME_TEXT)
    if SAME_TEXT.get(name, name) in {*_CONDITIONS, *_FACTS}
)


def _actions(facts: AgentFacts) -> list[Mapping[str, Any]]:
    return [tool for tool in facts.tools if not _BUILT_IN.match(tool["name"])]


def _team(facts: AgentFacts, dialect: Dialect) -> dict[str, Any]:
    mark = "__" if dialect.protocol == "tool_use" else "::"
    tool = f"AgentCommunication{mark}sendMessage"
    return {"agents": list(facts.collaborators), "tool": tool}


# What a partial is rendered with, where it is not rendered as it stands.
_CONTEXTS: dict[str, Callable[[AgentFacts, Dialect], dict[str, Any]]] = {
    "tools": lambda facts, _: {"tools": list(facts.tools)},
    "functions": lambda facts, _: {"tools": list(facts.tools)},
    "action_routing": lambda facts, _: {"tools": _actions(facts)},
    "knowledge_base_routing": lambda facts, _: {"knowledge_bases": list(facts.knowledge_bases)},
    "agent_collaborators": _team,
    "reachable_agents": _team,
}
