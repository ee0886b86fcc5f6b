"""The registry of `$placeholders$`: which names exist in which stage, and who documents them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

PRE_PROCESSING = "PRE_PROCESSING"
ORCHESTRATION = "ORCHESTRATION"
KNOWLEDGE_BASE_RESPONSE_GENERATION = "KNOWLEDGE_BASE_RESPONSE_GENERATION"
POST_PROCESSING = "POST_PROCESSING"
MEMORY_SUMMARIZATION = "MEMORY_SUMMARIZATION"
ROUTING_CLASSIFIER = "ROUTING_CLASSIFIER"

# The prompt types, in the order of a turn.
STAGES = (
    *(PRE_PROCESSING, ORCHESTRATION, KNOWLEDGE_BASE_RESPONSE_GENERATION),
    *(POST_PROCESSING, MEMORY_SUMMARIZATION, ROUTING_CLASSIFIER),
)

# The shipped dialects. AWS documents placeholders by model; each dialect stands for its models:
# `tool-use` for Claude 3.5 and later, `claude-2` for Claude Instant and 2.0.
FAMILIES = (
    *("claude-2", "claude-2.1", "claude-3", "tool-use", "titan"),
    *("llama-3", "mistral", "nova", "general", "deepseek", "local"),
)

_NEAREST = {"xml": "claude-3", "tool_use": "tool-use", "text": "claude-2.1"}

Status = Literal["documented", "undocumented", "unsupported", "unknown"]


class Placeholder(NamedTuple):
    """One placeholder in one stage."""

    name: str
    stage: str  # the prompt type; empty for a name that was only seen inside other texts
    families: tuple[str, ...]  # of models that AWS documents it for; empty when AWS does not
    filled: bool  # whether this engine has a value for it; otherwise it becomes the empty text
    meaning: str


# AWS: "Use placeholder variables in Amazon Bedrock agent prompt templates" documents most of them,
# each for some models; the others are in the default templates of real agents. Everything else
# between dollar signs, and everything in upper case, is ordinary text to Bedrock.
#
# stage | name | the models that AWS documents it for | + filled, - not | meaning
_TABLE = """
PRE_PROCESSING | question | all | + | The user's input.
PRE_PROCESSING | tools | claude-2.1 claude-3 titan | + | The functions that the agent may call.
PRE_PROCESSING | functions | claude-2 | + | The functions that the agent may call.
PRE_PROCESSING | conversation_history | claude-2 claude-2.1 | + | The conversation so far.
PRE_PROCESSING | instruction | - | + | The agent's instruction.

ORCHESTRATION | question | all | + | The user's input.
ORCHESTRATION | instruction | all | + | The agent's instruction.
ORCHESTRATION | agent_scratchpad | all | + | The steps of this turn so far.
ORCHESTRATION | prompt_session_attributes | all | + | The turn's prompt session attributes.
ORCHESTRATION | tools | claude-2.1 claude-3 titan | + | The functions that the agent may call.
ORCHESTRATION | functions | claude-2 | + | The functions that the agent may call.
ORCHESTRATION | conversation_history | claude-2 claude-2.1 | + | The conversation so far.
ORCHESTRATION | any_function_name | claude-2 | + | The name of one of the functions: the first.
ORCHESTRATION | model_instruction | titan | + | The agent's instruction.
ORCHESTRATION | model_instructions | - | + | The same as model_instruction.
ORCHESTRATION | thought | titan | + | The prefix of the model's thoughts.
ORCHESTRATION | bot_response | - | + | In raw text without agent_scratchpad: the same as that.
ORCHESTRATION | knowledge_base_guideline | claude-3 tool-use | + | How to cite sources.
ORCHESTRATION | knowledge_base_additional_guideline | llama-3 | + | How to use search results.
ORCHESTRATION | ask_user_missing_information | claude-2.1 claude-3 | + | How to ask the user.
ORCHESTRATION | ask_user_missing_parameters | claude-2 | + | How to ask for missing values.
ORCHESTRATION | ask_user_confirm_parameters | claude-2 | + | How to have the user confirm values.
ORCHESTRATION | ask_user_function | claude-2 | + | The function that asks the user.
ORCHESTRATION | ask_user_function_format | claude-2 | + | The format of that function's call.
ORCHESTRATION | ask_user_input_examples | claude-2 | + | Examples of asking the user.
ORCHESTRATION | memory_content | claude-3 | + | What is remembered of earlier sessions.
ORCHESTRATION | memory_guideline | claude-3 | + | How to use the memory.
ORCHESTRATION | memory_guidelines | claude-3 | + | The same as memory_guideline.
ORCHESTRATION | memory_action_guideline | claude-3 | + | How to act on what is remembered.
ORCHESTRATION | memory_action_guidelines | claude-3 | + | The same as memory_action_guideline.
ORCHESTRATION | memory_guideline_session_summary | - | + | The same as memory_guideline.
ORCHESTRATION | memory_guideline_conversation_search | - | - | How to search old talks.
ORCHESTRATION | memory_action_guideline_session_summary | - | + | Same as memory_action_guideline.
ORCHESTRATION | memory_action_guideline_conversation_search | - | - | How to act on old talks.
ORCHESTRATION | long_term_memory | - | + | The same as memory_content.
ORCHESTRATION | memory_synopsis | - | + | What memory_content has inside its tags.
ORCHESTRATION | code_interpreter_guideline | - | + | How to use the code interpreter.
ORCHESTRATION | code_interpreter_files | - | + | Files for the code interpreter.
ORCHESTRATION | output_format_guideline | - | + | The format of the reply.
ORCHESTRATION | action_kb_guideline | - | + | When to use actions and when knowledge bases.
ORCHESTRATION | final_answer | - | + | How to give the final answer.
ORCHESTRATION | cannot_answer_guideline | - | + | What to say without an answer.
ORCHESTRATION | respond_to_user_guideline | - | + | How to respond to the user.
ORCHESTRATION | respond_to_user_final_answer | - | + | The same as final_answer.
ORCHESTRATION | respond_to_user_cannot_answer_guideline | - | + | Like cannot_answer_guideline.
ORCHESTRATION | respond_to_user_knowledge_base_additional_guideline | - | + | How to use results.
ORCHESTRATION | agent_collaborators | all | + | The agents that may be asked.
ORCHESTRATION | multi_agent_payload_reference_guideline | all | + | How agents share payloads.
ORCHESTRATION | multi_agent_collaboration | - | + | The same as agent_collaborators.
ORCHESTRATION | multi_agent_collaboration_guideline | - | + | How to work with other agents.
ORCHESTRATION | agent_collaboration_kb_guideline | - | + | How to pass sources on.

KNOWLEDGE_BASE_RESPONSE_GENERATION | query | -llama-3 | + | What was searched for.
KNOWLEDGE_BASE_RESPONSE_GENERATION | search_results | -llama-3 | + | What was found.
KNOWLEDGE_BASE_RESPONSE_GENERATION | question | - | + | The user's input.
KNOWLEDGE_BASE_RESPONSE_GENERATION | instruction | - | + | The agent's instruction.
KNOWLEDGE_BASE_RESPONSE_GENERATION | conversation_history | - | + | The conversation so far.

POST_PROCESSING | question | all | + | The user's input.
POST_PROCESSING | latest_response | all | + | The answer of the orchestration.
POST_PROCESSING | responses | all | + | Results of this turn's calls.
POST_PROCESSING | bot_response | titan | + | The same as responses.
POST_PROCESSING | instruction | - | + | The agent's instruction.

MEMORY_SUMMARIZATION | conversation | all | + | The conversation to summarise.
MEMORY_SUMMARIZATION | past_conversation_summary | all | + | The summaries of earlier sessions.

ROUTING_CLASSIFIER | knowledge_base_routing | all | + | The knowledge bases to choose from.
ROUTING_CLASSIFIER | knowledge_base_routing_guideline | all | + | When to choose a knowledge base.
ROUTING_CLASSIFIER | action_routing | all | + | The functions to choose from.
ROUTING_CLASSIFIER | action_routing_guideline | all | + | When to choose a function.
ROUTING_CLASSIFIER | last_most_specialized_agent_guideline | all | + | When to keep the last agent.
ROUTING_CLASSIFIER | prompt_session_attributes | all | + | The turn's prompt session attributes.
ROUTING_CLASSIFIER | reachable_agents | - | + | The agents to choose from.
ROUTING_CLASSIFIER | conversation | - | + | The conversation so far.
ROUTING_CLASSIFIER | last_user_request | - | + | The user's input.

| user_input | - | - | The user's input, in guardrail texts.
| input | - | - | Seen inside other texts only.
| content | - | - | Seen inside other texts only.
| source | - | - | Seen inside other texts only.
| attributes | - | - | Seen inside other texts only.
"""


def _parse_table() -> Iterator[Placeholder]:
    for line in filter(None, _TABLE.splitlines()):
        stage, name, models, filled, meaning = (cell.strip() for cell in line.split("|", 4))
        yield Placeholder(name, stage, _parse_families(models), filled == "+", meaning)


def _parse_families(models: str) -> tuple[str, ...]:
    if models == "all":
        return FAMILIES
    if models.startswith("-"):  # all others; nobody when it stands alone
        return tuple(name for name in FAMILIES if name != models[1:]) if models[1:] else ()
    return tuple(models.split())


# Every placeholder in every stage.
PLACEHOLDERS: tuple[Placeholder, ...] = tuple(_parse_table())

_BY_STAGE = {(row.stage, row.name): row for row in PLACEHOLDERS}
_NAMES = frozenset(row.name for row in PLACEHOLDERS)
_PATTERN = re.compile(r"\$([a-z][a-z0-9_]*)\$")


def lookup(name: str, stage: str) -> Placeholder | None:
    """The placeholder `name` of `stage`, if there is one."""
    return _BY_STAGE.get((stage, name))


def family_of(lineage: Sequence[str], protocol: str) -> str:
    """The family whose documentation holds for a dialect: the first of its lineage that ships."""
    return next((name for name in lineage if name in FAMILIES), _NEAREST[protocol])


def status(name: str, stage: str, family: str) -> Status:
    """What `$name$` is in a template of `stage` for models of `family`.

    Returns:
        `documented`: AWS documents it for such models. `undocumented`: it has a meaning here all
        the same. `unsupported`: it belongs to other stages. `unknown`: nobody knows the name.
    """
    row = lookup(name, stage)
    if row is None:
        return "unsupported" if name in _NAMES else "unknown"
    return "documented" if family in row.families else "undocumented"


@cache
def names(stage: str) -> tuple[str, ...]:
    """The names that can be used in `stage`."""
    return tuple(row.name for row in PLACEHOLDERS if row.stage == stage)


def scan(text: str, stage: str) -> Iterator[tuple[int, int, str]]:
    """Finds what looks like a placeholder in a template's text: start, end and name, in order."""
    # The closing dollar sign of an unknown name may open the next one: `$us$question$`.
    position = 0
    while found := _PATTERN.search(text, position):
        name = found[1]
        yield found.start(), found.end(), name
        position = found.end() if (stage, name) in _BY_STAGE else found.end() - 1
