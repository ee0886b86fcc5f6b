"""`parserMode: OVERRIDDEN`: one parser of one's own reads every stage of whole turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stage_support import KB_STAGE, MODELS, Handbook, agent, asked, sound, stages

from orchestrator import ActionGroup, action
from orchestrator.actions import USER_INPUT
from orchestrator.engine.plan import Memory
from orchestrator.memory import InMemoryMemory
from orchestrator.prompts.placeholders import FAMILIES
from orchestrator.testing import ScriptedModel

# A grammar that no parser of ours knows: `+` calls, `?` searches, `!` asks, `#` is a mistake.
PARSER = """
import json

def text_of(event):
    raw = event["invokeModelRawResponse"]
    if not raw.startswith("{"):
        return raw
    return "".join(part.get("text", "") for part in json.loads(raw)["content"])

def details_of(text, version):
    if text.startswith("+"):
        calls = [
            {"actionGroupName": "hr", "functionName": "days", "id": f"c{number}",
             "actionGroupInput": {"who": {"value": who}}}
            for number, who in enumerate(text[1:].split())
        ]
        kind, one, many = "ACTION_GROUP", "actionGroupInvocation", "actionGroupInvocations"
    elif text.startswith("?"):
        calls = [{"knowledgeBaseId": "HANDBOOK01", "id": "k", "searchQuery": {"value": text[1:]}}]
        kind, one, many = "KNOWLEDGE_BASE", "agentKnowledgeBase", "agentKnowledgeBases"
    elif text.startswith("!"):
        ask = {"responseText": text[1:], "id": "q"}
        return {"invocationType": "ASK_USER", "agentAskUser": ask}
    else:
        said, _, source = text.partition("@")
        final = {"responseText": said}
        if source:
            part = {"text": said, "references": [{"sourceId": source}]}
            final["citations"] = {"generatedResponseParts": [part]}
        return {"invocationType": "FINISH", "agentFinalResponse": final}
    return {"invocationType": kind, **({one: calls[0]} if version == "1.0" else {many: calls})}

def parse(event, version):
    text, stage = text_of(event), event["promptType"]
    if stage == "ORCHESTRATION":
        if text.startswith("#"):
            wrong = {"repromptResponse": "Begin with <plus> or +."}
            member = {"rationale": "", "parsingErrorDetails": wrong}
        else:
            member = {"rationale": "As it says.", "responseDetails": details_of(text, version)}
        members = {"orchestrationParsedResponse": member}
    elif stage == "PRE_PROCESSING":
        members = {"preProcessingParsedResponse": {"isValidInput": text == "fine",
                                                   "rationale": "Looked at it."}}
    elif stage == "POST_PROCESSING":
        members = {"postProcessingParsedResponse": {"responseText": text.upper()}}
    elif stage == "MEMORY_SUMMARIZATION":
        topics = [{"topic": "days", "summary": text}]
        members = {"memorySummarizationParsedResponse": {"topicwiseSummaries": topics}}
    else:
        part = {"text": "Said: " + text, "references": []}
        made = {"generatedResponse": {"generatedResponseParts": [part]}}
        members = {"knowledgeBaseResponseGenerationParsedResponse": made}
    return {"messageVersion": version, "promptType": stage, **members}

def first(event, context):
    return parse(event, "1.0")

def second(event, context):
    return parse(event, "2.0")
"""
OWN = {"promptState": "ENABLED", "parserMode": "OVERRIDDEN"}
STAGES = ("PRE_PROCESSING", "ORCHESTRATION", KB_STAGE, "POST_PROCESSING", "MEMORY_SUMMARIZATION")
ARN = "arn:aws:lambda:eu-central-1:123456789012:function:my-parser"


def native(*people: str) -> list[dict[str, Any]]:
    """A reply that the parser reads as calls, with the tool uses that Converse wants for them."""
    uses = [
        {"toolUse": {"toolUseId": f"c{number}", "name": "hr__days", "input": {"who": who}}}
        for number, who in enumerate(people)
    ]
    return [{"text": "+" + " ".join(people)}, *uses]


def script(model: str, version: str) -> list[Any]:
    people = ["ana"] if version == "1.0" else ["ana", "bo"]
    calls: Any = "+" + " ".join(people)
    if model in ("tool-use", "llama-3", "mistral", "nova", "general", "local"):
        calls = native(*people)
    return [
        *("fine", "# What?", calls, "?rest days", "twelve", "!Which year?"),
        *("fine", "twelve of 2026", "polished", "They asked for days."),
    ]


def turns(model: str, version: str, parser: Any) -> tuple[ScriptedModel, list[str]]:
    """Two turns of an agent all of whose stages are read by the parser."""
    made: list[str] = []

    @action(require_confirmation=False)
    def days(who: str) -> str:
        """The days that are left."""
        made.append(who)
        return f"{who}: 12"

    scripted = ScriptedModel(script(model, version), MODELS[model])
    one = agent(
        scripted,
        action_groups=[ActionGroup("hr", [days]), ActionGroup("U", signature=USER_INPUT)],
        knowledge_bases=[Handbook()],
        memory=Memory(InMemoryMemory()),
        prompts=dict.fromkeys(STAGES, OWN),
        override_lambda=parser,
    )
    question = one.invoke("How many days?", "s-1", memory_id="m-1")
    assert (question.text, question.stop_reason) == ("Which year?", "ask_user")
    answer = one.invoke("2026", "s-1", memory_id="m-1", end_session=True)
    assert answer.text == "POLISHED"
    (memory,) = one.memories("m-1")
    assert memory["sessionSummary"]["summaryText"] == "days: They asked for days."
    assert made == (["ana"] if version == "1.0" else ["ana", "bo"])
    thoughts = [
        part["trace"]["orchestrationTrace"]["rationale"]["text"]
        for part in sound(question)
        if "rationale" in part["trace"].get("orchestrationTrace", {})
    ]
    assert thoughts == ["As it says."] * 3
    return scripted, made


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("model", FAMILIES)
def test_a_handler_file_reads_every_stage_in_every_dialect(
    model: str, version: str, tmp_path: Path
) -> None:
    file = tmp_path / "parser.py"
    file.write_text(PARSER)
    name = "first" if version == "1.0" else "second"
    scripted, _ = turns(model, version, f"{file}:{name}")
    assert stages(scripted) == [
        *("PRE_PROCESSING", "ORCHESTRATION", "ORCHESTRATION", "ORCHESTRATION", KB_STAGE),
        *("ORCHESTRATION", "PRE_PROCESSING", "ORCHESTRATION", "POST_PROCESSING"),
        "MEMORY_SUMMARIZATION",
    ]
    # Its words reach the model as they were written, tags and all.
    assert "Begin with <plus> or +." in asked(scripted.requests[2])
    assert "ana: 12" in asked(scripted.requests[3])
    assert "Said: twelve" in asked(scripted.requests[5])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("model", ["claude-2", "tool-use"])
def test_a_lambda_of_aws_reads_every_stage(
    model: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestrator.actions.lambda_arn import LambdaArn

    handler: dict[str, Any] = {}
    exec(compile(PARSER, "parser", "exec"), handler)  # what AWS has in the function
    events = []

    def invoke(self: LambdaArn, event: dict[str, Any]) -> Any:
        events.append(json.loads(json.dumps(event)))
        return handler["parse"](event, version)

    monkeypatch.setattr(LambdaArn, "invoke", invoke)
    scripted, _ = turns(model, version, ARN)
    assert [event["promptType"] for event in events] == stages(scripted)
    assert {event["overrideType"] for event in events} == {"OUTPUT_PARSER"}
    assert {event["messageVersion"] for event in events} == {"1.0"}


def test_an_input_that_the_parser_does_not_want_is_refused() -> None:
    handler: dict[str, Any] = {}
    exec(compile(PARSER, "parser", "exec"), handler)
    one = agent(
        ScriptedModel(["off topic"], MODELS["tool-use"]),
        prompts={"PRE_PROCESSING": OWN},
        override_lambda=handler["second"],
    )
    assert one.invoke("How?", "s-1").stop_reason == "refused"


def cite_days(parser: str) -> tuple[Handbook, Any]:
    """The handbook, and a reply that an own parser says is from it."""
    handler: dict[str, Any] = {}
    exec(compile(parser, "parser", "exec"), handler)
    base = Handbook()
    one = agent(
        ScriptedModel(["?days", f"Twelve.@{base.source('days')}"], MODELS["claude-3"]),
        knowledge_bases=[base],
        prompts={"ORCHESTRATION": OWN},
        override_lambda=handler["second"],
    )
    return base, one.invoke("How many?", "s-1")


def test_what_the_parser_cites_becomes_the_answers_citations() -> None:
    base, reply = cite_days(PARSER)
    (cited,) = reply.citations
    assert cited["generatedResponsePart"]["textResponsePart"]["span"] == {"start": 0, "end": 6}
    assert cited["retrievedReferences"] == [base.found("days")]


def test_parts_are_cited_where_they_stand() -> None:
    headed = PARSER.replace('{"responseText": said}', '{"responseText": "So: - " + said}')
    _, reply = cite_days(headed)
    (cited,) = reply.citations
    span = cited["generatedResponsePart"]["textResponsePart"]["span"]
    assert reply.text == "So: - Twelve."
    assert reply.text[span["start"] : span["end"] + 1] == "Twelve."
