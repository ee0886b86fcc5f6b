"""What is said against a template's placeholders, and the registry behind it."""

import json

import pytest

from orchestrator.prompts import PLACEHOLDERS, STAGES, compile_template, lint_template

HI = '{"messages": [{"role": "user", "content": "Hi"}]}'


def body(system="$instruction$", question="$question$"):
    return json.dumps(
        {
            "system": system,
            "messages": [
                {"role": "user", "content": question},
                {"role": "assistant", "content": "$agent_scratchpad$"},
            ],
        },
        indent=1,
    )


def findings(text, dialect, stage="ORCHESTRATION"):
    found = lint_template(text, stage=stage, dialect=dialect, source="t.json")
    return [(d.severity, d.code, d.place, d.suggestion) for d in found]


def test_a_good_template_has_no_findings(native):
    assert findings(body(), native) == []


def test_an_unknown_name_stays_and_gets_a_suggestion(native):
    text = body("$instruction$ \\ $promt_session_attributes$")
    assert findings(text, native) == [
        (
            "warning",
            "unknown-placeholder",
            "t.json:2:30",
            "did you mean $prompt_session_attributes$?",
        )
    ]
    template = compile_template(text, stage="ORCHESTRATION", dialect=native)
    assert template.bind({}).system.endswith("$promt_session_attributes$")


def test_a_name_of_another_stage_stays_too(native):
    (finding,) = findings(body("$instruction$ $search_results$"), native)
    assert finding[:3] == ("warning", "unsupported-placeholder", "t.json:2:27")


def test_a_name_that_nothing_fills_becomes_empty(native):
    text = body("$instruction$[$memory_guideline_conversation_search$]")
    (finding,) = findings(text, native)
    assert finding[:2] == ("info", "unfilled-placeholder")
    bound = compile_template(text, stage="ORCHESTRATION", dialect=native).bind({})
    assert bound.system == "[]"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$INSTRUCTION$", "write $instruction$"),
        ("$Instruction$", "write $instruction$"),
        ("${instruction}", "write $instruction$"),
        ("$instruction now", "write $instruction$"),
    ],
)
def test_a_name_that_is_not_written_as_a_placeholder_is_pointed_out(written, meant, native):
    found = findings(body(f"$instruction$ {written}"), native)
    assert found == [("warning", "misspelt-placeholder", "t.json:2:27", meant)]


@pytest.mark.parametrize(
    "text", ["$TOOL_NAME", "$ANSWER$", "$PARAMETER_VALUE</$PARAMETER_NAME>", "5$ or 6$", "$$"]
)
def test_what_only_looks_like_a_placeholder_is_left_in_peace(text, native):
    assert findings(body(f"$instruction$ {text}"), native) == []
    template = compile_template(body(text), stage="ORCHESTRATION", dialect=native)
    assert template.bind({}).system == text


@pytest.mark.parametrize(
    ("stage", "text", "missing"),
    [
        (
            "ORCHESTRATION",
            HI,
            {"question": "error", "instruction": "warning", "agent_scratchpad": "warning"},
        ),
        ("PRE_PROCESSING", HI, {"question": "error"}),
        ("POST_PROCESSING", HI, {"latest_response": "error"}),
        ("KNOWLEDGE_BASE_RESPONSE_GENERATION", "Hi", {"search_results": "error"}),
        ("MEMORY_SUMMARIZATION", HI, {"conversation": "error"}),
        ("ROUTING_CLASSIFIER", "Hi", {"last_user_request": "error", "reachable_agents": "warning"}),
    ],
)
def test_what_is_missing_is_named(stage, text, missing, native):
    found = lint_template(text, stage=stage, dialect=native)
    assert {d.message.split("$")[1]: d.severity for d in found} == missing
    assert {d.code for d in found} == {"missing-placeholder"}


def test_another_name_for_the_same_will_do(native):
    text = body("$model_instruction$").replace("agent_scratchpad", "bot_response")
    assert findings(text, native) == []


def test_members_that_do_nothing_or_are_repeated_are_named(native):
    text = body()[:-1] + ', "temperature": 0, "anthropic_version": "x", "system": "$instruction$"}'
    codes = {finding[1] for finding in findings(text, native)}
    assert codes == {"ignored-member", "repeated-member"}


def test_a_broken_template_is_one_error_with_its_place(native):
    assert findings('{\n"messages" []}', native) == [
        ("error", "broken-template", "t.json:2:12", "")
    ]
    found = lint_template('{"a": "\n"}', stage="ORCHESTRATION", dialect=native, strict=True)
    assert [(d.code, d.line, d.column) for d in found] == [("broken-template", 1, 8)]


def test_every_use_knows_its_status_and_place(xml, native):
    text = '{"system": "\\u0041\\n$tools$ $us$question$",\n "messages": [{"role": "user",'
    text += '\n  "content": "é $long_term_memory$"}]}'

    def uses(dialect):
        template = compile_template(text, stage="ORCHESTRATION", dialect=dialect)
        return [(use.name, use.status, use.line, use.column) for use in template.placeholders]

    assert uses(xml) == [
        ("tools", "documented", 1, 21),
        ("us", "unknown", 1, 29),
        ("question", "documented", 1, 32),
        ("long_term_memory", "undocumented", 3, 17),
    ]
    assert uses(native)[0][1] == "undocumented"


def test_the_registry_is_consistent():
    rows = [(row.stage, row.name) for row in PLACEHOLDERS]
    assert len(rows) == len(set(rows))
    assert {row.stage for row in PLACEHOLDERS} == {*STAGES, ""}
    memory = {row.name for row in PLACEHOLDERS if row.name.startswith("memory_guideline")}
    assert {"memory_guideline", "memory_guidelines"} <= memory
    assert all(row.meaning for row in PLACEHOLDERS)


def test_an_anchor_that_occurs_twice_is_named(native):
    (finding,) = findings(body(question="$question$ $agent_scratchpad$"), native)
    assert finding[:3] == ("warning", "repeated-anchor", "t.json:10:16")


def test_a_template_full_of_unknown_names_is_checked_soon(native):
    text = "".join(f"$a{n}b$ " for n in range(10_000))
    found = lint_template(text, stage="KNOWLEDGE_BASE_RESPONSE_GENERATION", dialect=native)
    assert sum(d.code == "unknown-placeholder" for d in found) == 10_000


@pytest.mark.parametrize("written", ["${instruction}", "$instruction", "$INSTRUCTION$"])
def test_what_is_no_placeholder_is_named_as_it_is_written(written, native):
    template = compile_template(
        body(f"$instruction$ {written} "), stage="ORCHESTRATION", dialect=native
    )
    messages = [it.message for it in template.diagnostics if it.code == "misspelt-placeholder"]
    assert messages == [f"{written} is not a placeholder; it stays in the text as it is"]
