"""What is read as it is, and what is warned of."""

import pytest

from orchestrator.definition import lint_definition, parse_definition

PROMPTS = "promptOverrideConfiguration: {promptConfigurations: [%s]}"
GROUP = "actionGroups: [{actionGroupName: g, %s}]"


@pytest.mark.parametrize(
    "member",
    [
        "agentCollaboration: DISABLED",
        "agentCollaboration: SUPERVISOR_ROUTER",
        "agentCollaborators: [{collaboratorName: b, agentDescriptor: {aliasArn: arn}}]",
        "orchestrationType: DEFAULT",
        "orchestrationType: CUSTOM_ORCHESTRATION\n"
        "customOrchestration: {executor: {lambda: orchestration.py}}",
        "guardrailConfiguration: {guardrailIdentifier: a}",
        "guardrailConfiguration: {file: guardrail.yaml, checkResults: true}",
        "memoryConfiguration: {enabledMemoryTypes: [SESSION_SUMMARY]}",
        "promptOverrideConfiguration: {overrideLambda: parser.py}",
        PROMPTS % "{promptType: ORCHESTRATION, parserMode: OVERRIDDEN}",
        PROMPTS % "{promptType: ORCHESTRATION, promptState: DISABLED}",
        PROMPTS % "{promptType: ROUTING_CLASSIFIER, promptState: ENABLED}",
        "knowledgeBases: [{knowledgeBaseId: rules, knowledgeBaseState: DISABLED}]",
        "knowledgeBases: [{knowledgeBaseId: rules, folder: rules}]",
        "awsCompat: [single_knowledge_base]",
        GROUP % "actionGroupExecutor: {http: {}}, apiSchema: {s3: {s3BucketName: abc}}",
        GROUP % "actionGroupExecutor: {mcp: {command: [server]}}",
        GROUP % "parentActionGroupSignature: AMAZON.CodeInterpreter",
    ],
)
def test_what_the_engine_does_is_read(member: str) -> None:
    definition = parse_definition(f"agentName: a\n{member}\n")
    assert definition.model_fields_set > {"agent_name"}
    assert definition.source.notes == ()


def warnings(text: str) -> list[tuple[str, int | None, str]]:
    found = lint_definition(parse_definition("agentName: a\n" + text))
    return [(it.code, it.line, it.message) for it in found]


FINE = "instruction: You help the staff of an insurance company with claims.\n"


def test_nothing_to_say() -> None:
    assert warnings(FINE) == []


def test_an_orchestration_that_is_not_used() -> None:
    ((code, line, message),) = warnings(FINE + "customOrchestration: {executor: {lambda: a.py}}")
    assert (code, line) == ("unused-orchestration", 3)
    assert "orchestrationType is not CUSTOM_ORCHESTRATION" in message


def test_bedrocks_limits_are_warnings() -> None:
    assert warnings("instruction: short\n") == [
        ("bedrock-limit", 2, "the instruction has 5 characters, and Bedrock wants at least 40")
    ]
    assert warnings("instruction: " + "x" * 20_001) == [
        (
            "bedrock-limit",
            2,
            "the instruction has 20,001 characters, and Bedrock takes at most 20,000",
        )
    ]
    long = "x" * 501
    assert warnings(
        FINE
        + f"description: {long}\n"
        + "actionGroups:\n"
        + "  - actionGroupName: g\n"
        + f"    description: {long}\n"
        + "    functionSchema: {functions: [{name: f, parameters: {p: {type: string, "
        + f"description: {long}}}}}}}]}}\n"
    ) == [
        ("bedrock-limit", 3, "this has 501 characters, and Bedrock takes at most 200"),
        ("bedrock-limit", 6, "this has 501 characters, and Bedrock takes at most 200"),
        ("bedrock-limit", 7, "this has 501 characters, and Bedrock takes at most 500"),
    ]
    assert warnings(FINE + f"knowledgeBases: [{{knowledgeBaseId: b, description: {long}}}]") == [
        ("bedrock-limit", 3, "this has 501 characters, and Bedrock takes at most 200")
    ]
    groups = "".join(f"  - actionGroupName: g{number}\n" for number in range(21))
    assert warnings(FINE + "actionGroups:\n" + groups) == [
        ("bedrock-limit", 4, "there are 21 action groups, and Bedrock takes at most 20")
    ]


def test_invisible_characters_in_the_instruction() -> None:
    ((code, line, message),) = warnings(
        'instruction: "You help the staff \\u202E with their insurance claims."'
    )
    assert (code, line) == ("invisible-character", 2)
    assert "U+202E" in message


def test_a_template_that_is_not_used() -> None:
    prompt = "{promptType: ORCHESTRATION, promptCreationMode: DEFAULT, basePromptTemplateFile: x}"
    assert warnings(FINE + PROMPTS % prompt) == [
        (
            "unused-template",
            3,
            "the template of ORCHESTRATION is not used: its mode is DEFAULT",
        )
    ]


def test_a_template_that_get_agent_returned_beside_the_mode_default_is_fine() -> None:
    prompt = "{promptType: ORCHESTRATION, promptCreationMode: DEFAULT, basePromptTemplate: x}"
    (finding,) = lint_definition(parse_definition("agentName: a\n" + FINE + PROMPTS % prompt))
    assert (finding.severity, finding.code) == ("info", "default-template")


def test_a_template_that_is_missing() -> None:
    prompt = "{promptType: ORCHESTRATION, promptCreationMode: OVERRIDDEN}"
    assert warnings(FINE + PROMPTS % prompt) == [
        (
            "missing-template",
            3,
            "ORCHESTRATION is OVERRIDDEN without a template: the default one is used",
        )
    ]
    assert not warnings(FINE + PROMPTS % "{promptType: ORCHESTRATION, promptState: ENABLED}")


def test_notes_of_the_reading_are_reported() -> None:
    assert warnings(FINE + "agentStatus: PREPARED\n") == [
        ("read-only-member", 3, "'agentStatus' is set by Bedrock only and was left out")
    ]


def test_a_parser_that_no_stage_uses() -> None:
    parser = "promptOverrideConfiguration: {overrideLambda: parser.py, promptConfigurations: [%s]}"
    used = "{promptType: ORCHESTRATION, parserMode: OVERRIDDEN}"
    assert warnings(FINE + parser % "{promptType: ORCHESTRATION}") == [
        ("unused-parser", 3, "the parser is not used: no stage has parserMode: OVERRIDDEN")
    ]
    assert warnings(FINE + parser % used) == []


MEMBER = "agentCollaborators: [{collaboratorName: bills, agentDescriptor: {folder: bills}%s}]\n"
WHEN = ", collaborationInstruction: Bills and payments."


def test_collaborators_that_nobody_leads() -> None:
    assert warnings(FINE + MEMBER % WHEN) == [
        (
            "unused-collaborators",
            3,
            "the collaborators are not used: there is no agentCollaboration",
        )
    ]
    for how in ("SUPERVISOR", "SUPERVISOR_ROUTER", "DISABLED"):
        assert warnings(f"{FINE}agentCollaboration: {how}\n{MEMBER % WHEN}") == []


def test_a_collaborator_of_whom_the_model_knows_nothing() -> None:
    assert warnings(f"{FINE}agentCollaboration: SUPERVISOR\n{MEMBER % ''}") == [
        ("missing-instruction", 4, "nothing says when to give 'bills' work")
    ]
