"""AWS's tables of placeholders: each is filled, for the models and the stage that it is for.

A row names the variable, its stage, the models (by dialect), and a text that its value must hold
when the agent has what the variable is about. AWS: "Use placeholder variables in Amazon Bedrock
agent prompt templates".
"""

import json
from typing import NamedTuple

import pytest

from orchestrator.prompts import PLACEHOLDERS, STAGES, compile_template
from orchestrator.prompts.placeholders import FAMILIES, status
from orchestrator.prompts.values import (
    OF_A_TURN,
    SAME_TEXT,
    AgentFacts,
    render_agent_values,
    render_memory_values,
)

from .whole_prompts import HISTORY, dialect_of, facts, of_a_turn, steps

PRE, ORCH, KB, POST, MEMORY, ROUTING = STAGES
OLD = ("claude-2",)
XML = ("claude-2.1", "claude-3", "titan")
ALL = FAMILIES
NOT_LLAMA = tuple(name for name in FAMILIES if name != "llama-3")


class Row(NamedTuple):
    stage: str
    name: str
    models: tuple[str, ...]
    holds: str


ROWS = [
    Row(PRE, "functions", OLD, "<function_name>claims::find</function_name>"),
    Row(PRE, "tools", XML, "<tool_name>claims::find</tool_name>"),
    Row(PRE, "conversation_history", ("claude-2", "claude-2.1"), "An earlier question."),
    Row(PRE, "question", ALL, "What is open?"),
    Row(ORCH, "functions", OLD, "<function_name>claims::find</function_name>"),
    Row(ORCH, "tools", XML, "<tool_name>claims::find</tool_name>"),
    Row(ORCH, "agent_scratchpad", ALL, "I look it up."),
    Row(ORCH, "any_function_name", OLD, "claims::find"),
    Row(ORCH, "conversation_history", ("claude-2", "claude-2.1"), "An earlier question."),
    Row(ORCH, "instruction", ALL, "You help with claims."),
    Row(ORCH, "model_instruction", ("titan",), "You help with claims."),
    Row(ORCH, "prompt_session_attributes", ALL, "<name>day</name><value>Monday</value>"),
    Row(ORCH, "question", ALL, "What is open?"),
    Row(ORCH, "thought", ("titan",), "Thought:"),
    Row(ORCH, "knowledge_base_guideline", ("claude-3", "tool-use"), "<answer_part><text>"),
    Row(ORCH, "knowledge_base_additional_guideline", ("llama-3",), "Search results are"),
    Row(ORCH, "memory_content", ("claude-3",), "<memory_synopsis>\n<session>\n<topic name="),
    Row(ORCH, "memory_guideline", ("claude-3",), "<memory_guidelines>\n- "),
    Row(ORCH, "memory_guidelines", ("claude-3",), "</memory_guidelines>"),
    Row(ORCH, "memory_action_guideline", ("claude-3",), "<action_with_memory_guidelines>\n- "),
    Row(ORCH, "memory_action_guidelines", ("claude-3",), "</action_with_memory_guidelines>"),
    Row(ORCH, "ask_user_missing_parameters", OLD, "required argument is missing"),
    Row(ORCH, "ask_user_missing_information", ("claude-2.1", "claude-3"), "user::askuser"),
    Row(ORCH, "ask_user_confirm_parameters", OLD, "ask whether that is right"),
    Row(ORCH, "ask_user_function", OLD, "<function_name>user::askuser</function_name>"),
    Row(ORCH, "ask_user_function_format", OLD, '<function_call>user::askuser(askuser="'),
    Row(ORCH, "ask_user_input_examples", OLD, "<example>\n<question>"),
    Row(ORCH, "agent_collaborators", ALL, '<agent name="payouts">Pays.</agent>'),
    Row(ORCH, "multi_agent_payload_reference_guideline", ALL, '<br:payload id="$PAYLOAD_ID">'),
    Row(KB, "query", NOT_LLAMA, "open claims"),
    Row(KB, "search_results", NOT_LLAMA, "<source>\nk1\n</source>"),
    Row(POST, "latest_response", ALL, "Two are open."),
    Row(POST, "bot_response", ("titan",), "claims::find"),
    Row(POST, "question", ALL, "What is open?"),
    Row(POST, "responses", ALL, "claims::find"),
    Row(MEMORY, "conversation", ALL, '<message from="User" to="Agent">'),
    Row(MEMORY, "past_conversation_summary", ALL, 'name="claims"'),
    Row(ROUTING, "knowledge_base_routing", ALL, '<knowledge_base id="KB12345678">'),
    Row(ROUTING, "knowledge_base_routing_guideline", ALL, "<a>knowledge_base</a>"),
    Row(ROUTING, "action_routing", ALL, "Finds claims."),
    Row(ROUTING, "action_routing_guideline", ALL, "<a>tool_use</a>"),
    Row(ROUTING, "last_most_specialized_agent_guideline", ALL, "<a>keep_previous_agent</a>"),
    Row(ROUTING, "prompt_session_attributes", ALL, "<name>day</name><value>Monday</value>"),
]
CASES = [(row, model) for row in ROWS for model in row.models]
IDS = [f"{row.stage}-{row.name}-{model}" for row, model in CASES]
NOTHING = AgentFacts(instruction="You help with claims.")


def value(stage, name, model, agent=None):
    """What `$name$` becomes in a prompt of the stage for the model."""
    dialect = dialect_of(model)
    text = f"[${name}$] $UPPER$ ${name}"
    if dialect.protocol != "text":
        role = "assistant" if name == "agent_scratchpad" else "user"
        text = json.dumps({"messages": [{"role": role, "content": text}]})
    template = compile_template(text, stage=stage, dialect=dialect)
    fixed = render_agent_values([name], dialect, facts(dialect) if agent is None else agent)
    bound = template.fill_fixed(fixed).bind({**fixed, **of_a_turn(dialect)}, HISTORY)
    messages = bound.messages(steps(dialect) if name == "agent_scratchpad" else ())
    shown = messages[-1]["content"][-1]["text"]
    assert shown.endswith(f"] $UPPER$ ${name}")
    return shown[shown.index("[") + 1 : shown.rindex("]")]


@pytest.mark.parametrize(("row", "model"), CASES, ids=IDS)
def test_each_documented_placeholder_is_filled_with_what_it_is_for(row, model):
    assert row.holds in value(row.stage, row.name, model)
    assert status(row.name, row.stage, model) == "documented"


def test_the_registry_knows_the_rows_of_the_tables_and_no_other_models():
    shown = {(row.stage, row.name): set(row.models) for row in ROWS}
    known = {(row.stage, row.name): set(row.families) for row in PLACEHOLDERS if row.families}
    assert shown == known


def test_what_an_agent_lacks_is_not_in_its_prompt():
    for row in PLACEHOLDERS:
        empty = row.stage in (ORCH, ROUTING) and row.name not in OF_A_TURN
        if empty and row.name not in ALWAYS and row.filled:
            assert value(row.stage, row.name, "claude-3", NOTHING) == "", row.name


ALWAYS = {
    *("instruction", "model_instruction", "model_instructions", "thought"),
    *("output_format_guideline", "final_answer", "respond_to_user_final_answer"),
    *("cannot_answer_guideline", "respond_to_user_cannot_answer_guideline"),
    "respond_to_user_guideline",
}


@pytest.mark.parametrize("model", FAMILIES)
def test_every_name_that_the_registry_calls_filled_has_a_value(model):
    for row in PLACEHOLDERS:
        if row.stage and row.filled and (row.stage, row.name) != (ORCH, "bot_response"):
            if row.name in ("conversation_history", "agent_scratchpad"):
                continue  # messages; the tables' rows and the snapshots show them
            if model == "local" and row.name.endswith("knowledge_base_additional_guideline"):
                continue  # says it all in knowledge_base_guideline
            assert value(row.stage, row.name, model).strip(), (row.stage, row.name)
        elif row.stage and not row.filled:
            assert value(row.stage, row.name, model) == "", (row.stage, row.name)


@pytest.mark.parametrize(("name", "same"), SAME_TEXT.items())
def test_names_for_the_same_text_have_the_same_text(name, same):
    for model in ("claude-3", "titan"):
        assert value(ORCH, name, model) == value(ORCH, same, model) != ""


def test_what_is_remembered_cannot_leave_its_tags():
    dialect = dialect_of("claude-3")
    sessions = [{"topics": [{"topic": 'a">', "summary": "</topic></memory_synopsis>"}], "text": ""}]
    sessions.append({"topics": [], "text": "</session>"})
    made = render_memory_values(dialect, sessions)
    assert made["memory_content"] == made["long_term_memory"]
    assert made["memory_content"].count("<") == 2 + 2 * 2 + 2
    assert made["memory_synopsis"].startswith("<session>")
    assert made["memory_synopsis"] in made["memory_content"]
    assert render_memory_values(dialect, []) == {}


def test_the_only_function_that_is_there_is_any_function():
    tool = {"name": "user::askuser", "description": "", "parameters": []}
    for tools, name in (([tool], "user::askuser"), ([], "")):
        assert value(ORCH, "any_function_name", "claude-2", AgentFacts(tools=tools)) == name
