"""The registry of `$placeholders$`: which names exist in which stage, and who documents them.

AWS documents most of them on "Use placeholder variables in Amazon Bedrock agent prompt templates",
for some models each; others are only seen in the default templates of real agents. Everything
else between dollar signs, and everything in upper case, is ordinary text to Bedrock and to us.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

__all__ = [
    "KNOWLEDGE_BASE_RESPONSE_GENERATION",
    "MEMORY_SUMMARIZATION",
    "ORCHESTRATION",
    "PLACEHOLDERS",
    "POST_PROCESSING",
    "PRE_PROCESSING",
    "ROUTING_CLASSIFIER",
    "STAGES",
    "Placeholder",
    "Status",
    "lookup",
    "names",
    "scan",
    "status",
]

PRE_PROCESSING = "PRE_PROCESSING"
ORCHESTRATION = "ORCHESTRATION"
KNOWLEDGE_BASE_RESPONSE_GENERATION = "KNOWLEDGE_BASE_RESPONSE_GENERATION"
POST_PROCESSING = "POST_PROCESSING"
MEMORY_SUMMARIZATION = "MEMORY_SUMMARIZATION"
ROUTING_CLASSIFIER = "ROUTING_CLASSIFIER"

STAGES = (
    PRE_PROCESSING,
    ORCHESTRATION,
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    POST_PROCESSING,
    MEMORY_SUMMARIZATION,
    ROUTING_CLASSIFIER,
)
"""The prompt types, in the order of a turn."""

Status = Literal["documented", "undocumented", "unsupported", "unknown"]


class Placeholder(NamedTuple):
    """One placeholder in one stage.

    Attributes:
        name: The name between the dollar signs.
        stage: The prompt type; empty for a name that was only seen inside other texts.
        protocols: Protocols of the models that AWS documents it for; empty when AWS does not.
        filled: Whether this engine has a value for it; otherwise it becomes the empty text.
        meaning: What it is replaced by.
    """

    name: str
    stage: str
    protocols: tuple[str, ...]
    filled: bool
    meaning: str


_PROTOCOLS = {
    "all": ("xml", "tool_use", "text"),
    "xml": ("xml",),
    "xml+text": ("xml", "text"),
    "xml+tool_use": ("xml", "tool_use"),
    "tool_use": ("tool_use",),
    "text": ("text",),
    "-": (),
}

# stage | name | protocols of the documented models | + filled, - not yet | meaning
_TABLE = """
PRE_PROCESSING | question | all | + | The user's input.
PRE_PROCESSING | tools | xml+text | + | The functions that the agent may call.
PRE_PROCESSING | functions | text | - | The functions that the agent may call.
PRE_PROCESSING | conversation_history | text | + | The conversation so far.
PRE_PROCESSING | instruction | - | + | The agent's instruction.

ORCHESTRATION | question | all | + | The user's input.
ORCHESTRATION | instruction | all | + | The agent's instruction.
ORCHESTRATION | agent_scratchpad | all | + | The steps of this turn so far.
ORCHESTRATION | prompt_session_attributes | all | + | The turn's prompt session attributes.
ORCHESTRATION | tools | xml+text | + | The functions that the agent may call.
ORCHESTRATION | functions | text | - | The functions that the agent may call.
ORCHESTRATION | conversation_history | text | + | The conversation so far.
ORCHESTRATION | any_function_name | text | - | The name of one of the functions.
ORCHESTRATION | model_instruction | text | - | The agent's instruction.
ORCHESTRATION | model_instructions | - | - | The agent's instruction.
ORCHESTRATION | thought | text | - | The prefix of the model's thoughts.
ORCHESTRATION | bot_response | - | - | Results of this turn's calls.
ORCHESTRATION | knowledge_base_guideline | xml+tool_use | + | How to cite sources.
ORCHESTRATION | knowledge_base_additional_guideline | tool_use | + | How to use search results.
ORCHESTRATION | ask_user_missing_information | all | + | How to ask the user for what is missing.
ORCHESTRATION | ask_user_missing_parameters | text | - | How to ask the user for what is missing.
ORCHESTRATION | ask_user_confirm_parameters | text | - | How to have the user confirm values.
ORCHESTRATION | ask_user_function | text | - | The function that asks the user.
ORCHESTRATION | ask_user_function_format | text | - | The format of that function's call.
ORCHESTRATION | ask_user_input_examples | text | - | Examples of asking the user.
ORCHESTRATION | memory_content | xml | - | What is remembered of earlier sessions.
ORCHESTRATION | memory_guideline | xml | - | How to use the memory.
ORCHESTRATION | memory_guidelines | xml | - | The same as memory_guideline.
ORCHESTRATION | memory_action_guideline | xml | - | How to act on what is remembered.
ORCHESTRATION | memory_action_guidelines | xml | - | The same as memory_action_guideline.
ORCHESTRATION | memory_guideline_session_summary | - | - | How to use session summaries.
ORCHESTRATION | memory_guideline_conversation_search | - | - | How to search old talks.
ORCHESTRATION | memory_action_guideline_session_summary | - | - | How to act on session summaries.
ORCHESTRATION | memory_action_guideline_conversation_search | - | - | How to act on old talks.
ORCHESTRATION | long_term_memory | - | - | What is remembered of earlier sessions.
ORCHESTRATION | memory_synopsis | - | - | What is remembered of earlier sessions.
ORCHESTRATION | code_interpreter_guideline | - | - | How to use the code interpreter.
ORCHESTRATION | code_interpreter_files | - | - | Files for the code interpreter.
ORCHESTRATION | output_format_guideline | - | - | The format of the reply.
ORCHESTRATION | action_kb_guideline | - | - | When to use actions and when knowledge bases.
ORCHESTRATION | final_answer | - | - | How to give the final answer.
ORCHESTRATION | cannot_answer_guideline | - | - | What to say without an answer.
ORCHESTRATION | respond_to_user_guideline | - | - | How to respond to the user.
ORCHESTRATION | respond_to_user_final_answer | - | - | How to give the final answer.
ORCHESTRATION | respond_to_user_cannot_answer_guideline | - | - | What to say then.
ORCHESTRATION | respond_to_user_knowledge_base_additional_guideline | - | - | How to use results.
ORCHESTRATION | agent_collaborators | all | - | The agents that may be asked.
ORCHESTRATION | multi_agent_payload_reference_guideline | all | - | How agents share payloads.
ORCHESTRATION | multi_agent_collaboration | - | - | The agents that may be asked.
ORCHESTRATION | multi_agent_collaboration_guideline | - | - | How to work with other agents.
ORCHESTRATION | agent_collaboration_kb_guideline | - | - | When to ask whom.

KNOWLEDGE_BASE_RESPONSE_GENERATION | query | all | + | What was searched for.
KNOWLEDGE_BASE_RESPONSE_GENERATION | search_results | all | + | What was found.
KNOWLEDGE_BASE_RESPONSE_GENERATION | question | - | + | The user's input.
KNOWLEDGE_BASE_RESPONSE_GENERATION | instruction | - | + | The agent's instruction.
KNOWLEDGE_BASE_RESPONSE_GENERATION | conversation_history | - | + | The conversation so far.

POST_PROCESSING | question | all | + | The user's input.
POST_PROCESSING | latest_response | all | + | The answer of the orchestration.
POST_PROCESSING | responses | all | + | Results of this turn's calls.
POST_PROCESSING | bot_response | text | + | The same as responses.
POST_PROCESSING | instruction | - | + | The agent's instruction.

MEMORY_SUMMARIZATION | conversation | all | - | The conversation to summarise.
MEMORY_SUMMARIZATION | past_conversation_summary | all | - | The summaries of earlier sessions.

ROUTING_CLASSIFIER | knowledge_base_routing | all | - | The knowledge bases to choose from.
ROUTING_CLASSIFIER | knowledge_base_routing_guideline | all | - | When to choose a knowledge base.
ROUTING_CLASSIFIER | action_routing | all | - | The functions to choose from.
ROUTING_CLASSIFIER | action_routing_guideline | all | - | When to choose a function.
ROUTING_CLASSIFIER | last_most_specialized_agent_guideline | all | - | When to keep the last agent.
ROUTING_CLASSIFIER | prompt_session_attributes | all | - | The turn's prompt session attributes.
ROUTING_CLASSIFIER | reachable_agents | - | - | The agents to choose from.
ROUTING_CLASSIFIER | conversation | - | - | The conversation so far.
ROUTING_CLASSIFIER | last_user_request | - | - | The user's input.

| user_input | - | - | The user's input, in guardrail texts.
| input | - | - | Seen inside other texts only.
| content | - | - | Seen inside other texts only.
| source | - | - | Seen inside other texts only.
| attributes | - | - | Seen inside other texts only.
"""


def _rows() -> Iterator[Placeholder]:
    for line in filter(None, _TABLE.splitlines()):
        stage, name, models, filled, meaning = (cell.strip() for cell in line.split("|", 4))
        yield Placeholder(name, stage, _PROTOCOLS[models], filled == "+", meaning)


PLACEHOLDERS: tuple[Placeholder, ...] = tuple(_rows())
"""Every placeholder in every stage."""

_BY_STAGE = {(row.stage, row.name): row for row in PLACEHOLDERS}
_NAMES = frozenset(row.name for row in PLACEHOLDERS)
_PATTERN = re.compile(r"\$([a-z][a-z0-9_]*)\$")


def lookup(name: str, stage: str) -> Placeholder | None:
    """The placeholder `name` of `stage`, if there is one."""
    return _BY_STAGE.get((stage, name))


def status(name: str, stage: str, protocol: str) -> Status:
    """What `$name$` is in a template of `stage` for models of `protocol`.

    Returns:
        `documented`: AWS documents it for such models. `undocumented`: it has a meaning here all
        the same. `unsupported`: it belongs to other stages, or to text-completion models only and
        this engine has no value for it. `unknown`: nobody knows the name.
    """
    row = lookup(name, stage)
    if row is None:
        return "unsupported" if name in _NAMES else "unknown"
    if protocol in row.protocols:
        return "documented"
    return "unsupported" if row.protocols == ("text",) and not row.filled else "undocumented"


@cache
def names(stage: str) -> tuple[str, ...]:
    """The names that can be used in `stage`."""
    return tuple(row.name for row in PLACEHOLDERS if row.stage == stage)


def scan(text: str, stage: str) -> Iterator[tuple[int, int, str]]:
    """Finds what looks like a placeholder in a template's text: start, end and name, in order.

    After a name that means nothing in `stage` the search goes on at its closing dollar sign,
    which may open the next one: `$us$question$` holds `question`.
    """
    position = 0
    while found := _PATTERN.search(text, position):
        name = found[1]
        yield found.start(), found.end(), name
        position = found.end() if (stage, name) in _BY_STAGE else found.end() - 1
