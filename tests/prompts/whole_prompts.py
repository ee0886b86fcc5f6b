"""Whole prompts of every dialect and stage, as files to review.

    python -m tests.prompts.whole_prompts

writes `snapshots/`; a test compares them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from orchestrator.message import Message
from orchestrator.prompts import STAGES, Dialect, compile_template, load_dialect
from orchestrator.prompts.placeholders import FAMILIES
from orchestrator.prompts.steps import step_messages
from orchestrator.prompts.values import AgentFacts, render_agent_values, render_memory_values

FOLDER = Path(__file__).parent / "snapshots"
NO_VALUES = {"parameters": []}
HISTORY = [
    Message("user", [{"text": "An earlier question."}]),
    Message("assistant", [{"text": "<answer>An answer.</answer>"}]),
]
SESSIONS = [{"topics": [{"topic": "claims", "summary": "Two were open."}], "text": ""}]


def facts(dialect):
    mark = "__" if dialect.protocol == "tool_use" else "::"
    parameters = [{"name": "id", "type": "string", "description": "The id.", "required": True}]
    tools = [
        {"name": f"user{mark}askuser", "description": "Asks.", **NO_VALUES},
        {"name": f"claims{mark}find", "description": "Finds claims.", "parameters": parameters},
        {
            "name": "GET::x_amz_knowledgebase_KB12345678::Search",
            "description": "",
            "parameters": [],
        },
    ]
    return AgentFacts(
        instruction="You help with claims.",
        tools=tools,
        ask_user=True,
        knowledge_bases=[{"id": "KB12345678", "description": "Rules."}],
        collaborators=[{"name": "payouts", "instruction": "Pays."}],
        memory=True,
        code_interpreter=True,
    )


def of_a_turn(dialect):
    turns = [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}]
    responses = dialect.partial("responses", responses=[{"name": "claims::find", "text": "2"}])
    last = "last_most_specialized_agent_guideline"
    return {
        "question": "What is open?",
        "prompt_session_attributes": dialect.partial(
            "prompt_session_attributes", attributes={"day": "Monday"}
        ),
        "latest_response": "Two are open.",
        "responses": responses,
        "bot_response": responses,
        "query": "open claims",
        "search_results": dialect.partial(
            "search_results", results=[{"content": "c", "source": "k1"}]
        ),
        **render_memory_values(dialect, SESSIONS),
        "code_interpreter_files": dialect.partial(
            "code_interpreter_files", files=[{"name": "a.csv", "type": "text/csv"}]
        ),
        "conversation": dialect.partial("conversation", turns=turns),
        "past_conversation_summary": dialect.partial(
            "past_conversation_summary", sessions=SESSIONS
        ),
        "last_user_request": dialect.partial("last_user_request", question="What is open?"),
        last: dialect.partial(last, agent="payouts"),
    }


def steps(dialect):
    if dialect.protocol != "tool_use":
        result = {"id": "1", "name": "claims::find", "text": "2", "error": False}
        return step_messages(dialect, [{"text": "<thinking>I look it up.</thinking>"}], [result])
    use = {"toolUse": {"toolUseId": "1", "name": "claims__find", "input": {}}}
    result = {"id": "1", "name": "claims__find", "text": "2", "error": False}
    return step_messages(dialect, [{"text": "<thinking>I look it up.</thinking>"}, use], [result])


@cache
def dialect_of(name: str) -> Dialect:
    return load_dialect(name)


def whole(name: str, stage: str) -> str:
    """The prompt of a stage as a text: its settings, then who says what."""
    dialect = dialect_of(name)
    default = dialect.stages[stage]
    template = compile_template(default.template, stage=stage, dialect=dialect)
    names = [use.name for use in template.placeholders]
    template = template.fill_fixed(render_agent_values(names, dialect, facts(dialect)))
    loop = stage == "ORCHESTRATION"
    bound = template.bind(of_a_turn(dialect), HISTORY)
    parts = [f"inference: {json.dumps(default.inference)}"]
    parts += [f"===== system\n{bound.system}"] if bound.system else []
    for message in bound.messages(steps(dialect) if loop else ()):
        role = "raw text" if bound.raw_text else message["role"]
        parts += [f"===== {role}\n{shown(block)}" for block in message["content"]]
    return "\n".join(parts) + "\n"


def shown(block: dict[str, object]) -> str:
    return block["text"] if "text" in block else json.dumps(block, indent=1)


def path_of(name: str, stage: str) -> Path:
    return FOLDER / name / f"{stage.lower()}.txt"


def main() -> None:
    for name in FAMILIES:
        for stage in STAGES:
            path = path_of(name, stage)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(whole(name, stage), encoding="utf-8")


if __name__ == "__main__":
    main()
