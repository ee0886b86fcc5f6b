"""AWS's tables of placeholders in whole turns: each row, in templates of one's own, for each model.

The rows and what their values hold are those of `tests/prompts/test_placeholder_tables.py`, which
looks at templates alone. Here a conversation is held with an agent that has everything, all of
whose stages have templates with all of their stage's placeholders, and the prompts are looked at.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
import stage_support
from stage_support import KB_STAGE

from orchestrator import ActionGroup, Agent, Collaborator
from orchestrator.actions import USER_INPUT
from orchestrator.engine.plan import Memory
from orchestrator.memory import InMemoryMemory
from orchestrator.models import ModelRequest
from orchestrator.prompts.placeholders import PLACEHOLDERS, STAGES
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

PRE, ORCH, KB, POST, MEMORY, ROUTING = STAGES
MODELS = {name: id for name, id in stage_support.MODELS.items() if name != "local"}
TEXT = ("claude-2", "claude-2.1", "titan")
NATIVE = ("tool-use", "llama-3", "mistral", "nova", "general")
LITERALS = "$TOOL_NAME $ANSWER$ $PAYLOAD_ID $no_such_thing$"
APART = ("question", "agent_scratchpad")  # they have places of their own

ALL = tuple(MODELS)
OLD, XML = ("claude-2",), ("claude-2.1", "claude-3", "titan")
CITING = ("claude-3", "tool-use")
ASKING = ("claude-2.1", "claude-3")
NOT_LLAMA = tuple(name for name in ALL if name != "llama-3")
NAME = "claims(::|__)find"
ROWS: list[tuple[str, str, tuple[str, ...], str]] = [
    (PRE, "functions", OLD, f"<function_name>{NAME}</function_name>"),
    (PRE, "tools", XML, f"<tool_name>{NAME}</tool_name>"),
    (PRE, "conversation_history", ("claude-2", "claude-2.1"), "What is open\\?(.|\n)*Two are"),
    (PRE, "question", ALL, "^And now\\?$"),
    (ORCH, "functions", OLD, f"<function_name>{NAME}</function_name>"),
    (
        ORCH,
        "tools",
        XML,
        f"<tool_name>{NAME}</tool_name>(.|\n)*<tool_name>user::askuser</tool_name>",
    ),
    (ORCH, "agent_scratchpad", ALL, "claim 7 is open"),
    (ORCH, "any_function_name", OLD, f"^{NAME}$"),
    (ORCH, "conversation_history", ("claude-2", "claude-2.1"), "What is open\\?(.|\n)*Two are"),
    (ORCH, "instruction", ALL, "^You help with claims\\.$"),
    (ORCH, "model_instruction", ("titan",), "^You help with claims\\.$"),
    (ORCH, "prompt_session_attributes", ALL, "<name>day</name><value>Monday</value>"),
    (ORCH, "question", ALL, "^And now\\?$"),
    (ORCH, "thought", ("titan",), "^Thought:$"),
    (ORCH, "knowledge_base_guideline", CITING, "<answer_part><text>"),
    (ORCH, "knowledge_base_additional_guideline", ("llama-3",), "Search results are"),
    (ORCH, "memory_content", ("claude-3",), "^<memory_synopsis>(.|\n)*They asked(.|\n)*synopsis>$"),
    (
        ORCH,
        "memory_guideline",
        ("claude-3",),
        "<memory_guidelines>\n- (.|\n)*</memory_guidelines>$",
    ),
    (
        ORCH,
        "memory_guidelines",
        ("claude-3",),
        "<memory_guidelines>\n- (.|\n)*</memory_guidelines>",
    ),
    (ORCH, "memory_action_guideline", ("claude-3",), "<action_with_memory_guidelines>\n- "),
    (ORCH, "memory_action_guidelines", ("claude-3",), "</action_with_memory_guidelines>$"),
    (ORCH, "ask_user_missing_parameters", OLD, "required argument is missing"),
    (ORCH, "ask_user_missing_information", ASKING, "user::askuser"),
    (ORCH, "ask_user_confirm_parameters", OLD, "ask whether that is right"),
    (ORCH, "ask_user_function", OLD, "<function_name>user::askuser</function_name>"),
    (ORCH, "ask_user_function_format", OLD, '<function_call>user::askuser\\(askuser="'),
    (ORCH, "ask_user_input_examples", OLD, "<example>\n<question>"),
    (ORCH, "agent_collaborators", ALL, '<agent name="payouts">Pays\\.</agent>'),
    (ORCH, "multi_agent_payload_reference_guideline", ALL, '<br:payload id="\\$PAYLOAD_ID">'),
    (KB, "query", NOT_LLAMA, "^open claims$"),
    (KB, "search_results", NOT_LLAMA, "<search_result>(.|\n)*Rules of claims(.|\n)*<source>"),
    (POST, "latest_response", ALL, "^Three are\\.$"),
    (POST, "bot_response", ("titan",), "claim 7 is open"),
    (POST, "question", ALL, "^And now\\?$"),
    (POST, "responses", ALL, "claim 7 is open(.|\n)*Rules of claims, in short"),
    (MEMORY, "conversation", ALL, "And now\\?(.|\n)*Three, in short"),
    (MEMORY, "past_conversation_summary", ALL, "They asked"),
    (ROUTING, "knowledge_base_routing", ALL, '<knowledge_base id="KB12345678">Rules'),
    (ROUTING, "knowledge_base_routing_guideline", ALL, "<a>knowledge_base</a>"),
    (ROUTING, "action_routing", ALL, f'<function name="{NAME}">Finds a claim'),
    (ROUTING, "action_routing_guideline", ALL, "<a>tool_use</a>"),
    (ROUTING, "last_most_specialized_agent_guideline", ALL, "keep_previous_agent(.|\n)*payouts"),
    (ROUTING, "prompt_session_attributes", ALL, "<name>day</name><value>Monday</value>"),
]
CASES = [(stage, name, model, holds) for stage, name, models, holds in ROWS for model in models]


def template(stage: str, model: str) -> str:
    """A template of the model's shape that has all of the stage's placeholders."""
    names = [row.name for row in PLACEHOLDERS if row.stage == stage]
    body = "\n".join(f"{name}=[[${name}$]]" for name in names if name not in APART)
    body = f"{body}\n{LITERALS}\n"
    question = "question=[[$question$]]" if "question" in names else "Go on."
    steps = "agent_scratchpad" in names
    if model in TEXT:
        one, other = ("User", "Bot") if model == "titan" else ("\n\nHuman", "\n\nAssistant")
        last = "agent_scratchpad=[[$agent_scratchpad$]]" if steps else ""
        return f"{one}: {body}{question}\n{other}:{last}"
    texts = [("user", question), *([("assistant", "$agent_scratchpad$")] if steps else [])]
    if model in ("claude-3", "tool-use"):
        messages: list[Any] = [{"role": role, "content": text} for role, text in texts]
        version = {"anthropic_version": "bedrock-2023-05-31"}
        return json.dumps({**version, "system": body, "messages": messages})
    messages = [{"role": role, "content": [{"text": text}]} for role, text in texts]
    return json.dumps({"system": body, "messages": messages})


def call(model: str, name: str, key: str, value: str) -> Any:
    if model in NATIVE:
        use = {"toolUseId": f"t-{key}", "name": name.replace("::", "__"), "input": {key: value}}
        return [{"text": "<thinking>I look.</thinking>"}, {"toolUse": use}]
    if model == "claude-2":
        return f'<scratchpad>I look.</scratchpad><function_call>{name}({key}="{value}")'
    tag = "fnCall" if model == "deepseek" else "function_calls"
    values = f"<parameters><{key}>{value}</{key}></parameters>"
    return f"<thinking>I look.</thinking><{tag}><invoke><tool_name>{name}</tool_name>{values}"


def find(number: str) -> str:
    """Finds a claim."""
    return f"claim {number} is open"


@cache
def asked(model: str, led: bool) -> dict[str, ModelRequest]:
    """The last prompt of each stage, after two sessions with an agent that has everything.

    Args:
        model: The dialect.
        led: Whether it leads a collaborator, to whom the second session's first input is routed;
            else it may ask the user.
    """
    looks = call(model, "claims::find", "number", "7")
    search = call(
        model, "GET::x_amz_knowledgebase_KB12345678::Search", "searchQuery", "open claims"
    )
    begin = ["<category>D</category>", *(["<a>undecidable</a>"] if led else [])]
    routed = ["<category>D</category>", "<a>payouts</a>", "<final_response>Paid.</final_response>"]
    topic = "<summary><topic name='claims'>They asked.</topic></summary>"
    turn = [looks, search, "<answer>Rules of claims, in short</answer>"]
    scripted = ScriptedModel(
        [
            *(*begin, "<answer>None.</answer>", "<final_response>None.</final_response>", topic),
            *(routed if led else ()),
            *(*begin, "<answer>Two are.</answer>", "<final_response>Two are.</final_response>"),
            *(*begin, *turn, "<answer>Three are.</answer>"),
            *("<final_response>Three, in short.</final_response>", topic),
        ],
        MODELS[model],
    )
    helper = Agent("payouts", "Pays.", ScriptedModel(["<answer>Paid."], MODELS[model]))
    prompts = {
        stage: {"promptState": "ENABLED", "basePromptTemplate": template(stage, model)}
        for stage in STAGES
        if led or stage != ROUTING
    }
    one = Agent(
        "lead",
        "You help with claims.",
        scripted,
        action_groups=[
            ActionGroup("claims", [find]),
            *([] if led else [ActionGroup("U", signature=USER_INPUT)]),
        ],
        knowledge_bases=[FakeKnowledgeBase("KB12345678", ["Rules of claims."], "Rules.")],
        memory=Memory(InMemoryMemory()),
        collaborators=[Collaborator(helper, "Pays.")] if led else [],
        collaboration="SUPERVISOR_ROUTER" if led else "SUPERVISOR",
        prompts=prompts,
    )
    day = {"day": "Monday"}
    said = {"memory_id": "ana", "prompt_session_attributes": day}
    one.invoke("Hello?", "s-1", **said, end_session=True)
    if led:
        assert one.invoke("Pay it.", "s-2", **said).text == "Paid."
    one.invoke("What is open?", "s-2", **said)
    reply = one.invoke("And now?", "s-2", **said, end_session=True)
    assert reply.text == "Three, in short."
    return {request.stage: request for request in scripted.requests}


def value(request: ModelRequest, name: str) -> str:
    told = [str(request.system or "")]
    told += [
        block["text"] if "text" in block else json.dumps(block, ensure_ascii=False)
        for message in request.messages
        for block in message["content"]
    ]
    text = "\n".join(told)
    assert LITERALS in text
    if name == "agent_scratchpad" and not request.raw_text:
        return "\n".join(told[told.index("question=[[And now?]]") + 1 :])
    found = re.search(rf"^.*{name}=\[\[((.|\n)*?)\]\]", text, re.MULTILINE)
    assert found, text
    return found[1]


@pytest.mark.parametrize(
    ("stage", "name", "model", "holds"), CASES, ids=[f"{it[0]}-{it[1]}-{it[2]}" for it in CASES]
)
def test_each_row_is_filled_in_a_turn(stage: str, name: str, model: str, holds: str) -> None:
    led = stage == ROUTING or name in ("agent_collaborators",) or name.startswith("multi_agent")
    assert re.search(holds, value(asked(model, led)[stage], name))


def test_the_rows_are_those_of_the_registry() -> None:
    told = {(stage, name): set(models) for stage, name, models, _ in ROWS}
    known = {
        (row.stage, row.name): set(row.families) - {"local"} for row in PLACEHOLDERS if row.families
    }
    assert told == known
    assert KB == KB_STAGE
