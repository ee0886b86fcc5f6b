"""Members beyond prompts and actions: read in both spellings, written back, mistakes named."""

from __future__ import annotations

import pytest

from orchestrator.definition import collaborators_of, dump_definition, parse_definition
from orchestrator.errors import DefinitionError

EVERYTHING = """\
agentName: home
actionGroups:
  - actionGroupName: api
    apiSchema:
      s3:
        s3BucketName: schemas
        s3ObjectKey: api.json
    actionGroupExecutor:
      http:
        baseUrl: https://api.example
        headers:
          X-Key: ${env:KEY}
        timeoutSeconds: 2.5
        allowPrivate:
          - localhost
  - actionGroupName: tools
    actionGroupExecutor:
      mcp:
        command:
          - server
          - --stdio
        tools:
          - find
        requireConfirmation:
          - find
        lockFile: tools.lock
knowledgeBases:
  - knowledgeBaseId: rules
    description: The rules.
    folder: rules
    embedder: null
    chunkingConfiguration:
      maxTokens: 200
      overlapPercentage: 10
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: ORCHESTRATION
      promptState: DISABLED
      parserMode: OVERRIDDEN
    - promptType: ROUTING_CLASSIFIER
      foundationModel: local
  overrideLambda: parser.py:parse
guardrailConfiguration:
  file: guardrail.yaml
  checkResults: true
memoryConfiguration:
  enabledMemoryTypes:
    - SESSION_SUMMARY
  storageDays: 0
  sessionSummaryConfiguration:
    maxRecentSessions: 3
agentCollaboration: SUPERVISOR_ROUTER
agentCollaborators:
  - collaboratorName: bills
    agentDescriptor:
      folder: bills
    collaborationInstruction: Bills and payments.
    relayConversationHistory: TO_COLLABORATOR
  - collaboratorName: claims
    agentDescriptor:
      aliasArn: arn:aws:bedrock:eu-central-1:123456789012:agent-alias/AAAAAAAAAA/BBBBBBBBBB
    collaborationInstruction: Claims.
awsCompat:
  - single_knowledge_base
"""


def test_what_is_read_is_written_back_as_it_was() -> None:
    definition = parse_definition(EVERYTHING)
    assert dump_definition(definition) == EVERYTHING
    assert parse_definition(dump_definition(definition)) == definition


def test_the_members_say_what_was_written() -> None:
    definition = parse_definition(EVERYTHING)
    guardrail, memory = definition.guardrail_configuration, definition.memory_configuration
    assert guardrail is not None and (guardrail.file, guardrail.check_results) == (
        "guardrail.yaml",
        True,
    )
    assert memory is not None and memory.storage_days == 0
    assert memory.session_summary_configuration is not None
    assert memory.session_summary_configuration.max_recent_sessions == 3
    (base,) = definition.knowledge_bases
    assert (base.folder, base.embedder) == ("rules", None)
    bills, claims = definition.agent_collaborators
    assert bills.agent_descriptor is not None and claims.agent_descriptor is not None
    assert (bills.agent_descriptor.folder, bills.agent_descriptor.alias_arn) == ("bills", None)
    assert claims.agent_descriptor.folder is None
    assert bills.relay_conversation_history == "TO_COLLABORATOR"
    assert definition.aws_compat == ("single_knowledge_base",)
    orchestration = definition.prompt("ORCHESTRATION")
    assert orchestration is not None
    assert (orchestration.prompt_state, orchestration.parser_mode) == ("DISABLED", "OVERRIDDEN")


def test_what_is_left_out_has_a_meaning() -> None:
    definition = parse_definition(
        "agentName: a\n"
        "guardrailConfiguration: {file: g.yaml}\n"
        "knowledgeBases: [{knowledgeBaseId: rules, folder: rules}]\n"
    )
    assert definition.guardrail_configuration is not None
    assert definition.guardrail_configuration.check_results is False
    assert definition.knowledge_bases[0].embedder == "local"
    assert definition.agent_collaborators == definition.aws_compat == ()
    assert "embedder" not in dump_definition(definition)


MEMBER = "agentCollaborators: [{collaboratorName: bills, %s}]"


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            "guardrailConfiguration: {checkResult: true}",
            "2:26: 'checkResult' is not a member of guardrailConfiguration; "
            "did you mean 'checkResults'?",
        ),
        (
            "guardrailConfiguration: {file: g.yaml, checkResults: yes please}",
            "2:54: guardrailConfiguration.checkResults must be true or false, not 'yes please'",
        ),
        (
            "guardrailConfiguration: {guardrailVersion: v1}",
            "2:44: guardrailConfiguration.guardrailVersion must be a number of up to 8 digits, "
            "or DRAFT, not 'v1'",
        ),
        (
            "knowledgeBases: [{knowledgeBaseId: r, folder: r, embeddings: local}]",
            "2:50: 'embeddings' is not a member of knowledgeBases[0]; did you mean 'embedder'?",
        ),
        (
            "knowledgeBases: [{knowledgeBaseId: r, chunkingConfiguration: {maxTokens: 50}}]",
            "2:62: knowledgeBases[0].chunkingConfiguration: chunkingConfiguration is for a folder "
            "of documents; give a folder",
        ),
        (
            "knowledgeBases: [{knowledgeBaseId: r, folder: r, chunkingConfiguration: "
            "{maxTokens: 5}}]",
            "2:85: knowledgeBases[0].chunkingConfiguration.maxTokens must be at least 20, not 5",
        ),
        (
            "aliases: [{agentAliasName: live, agentAliasId: TSTALIASID}]",
            "2:48: aliases[0].agentAliasId: every agent has it; leave it out",
        ),
        (
            "awsCompat: [single_kb]",
            "2:13: awsCompat[0] may not be 'single_kb'; did you mean 'single_knowledge_base'?",
        ),
        (
            "memoryConfiguration: {enabledMemoryTypes: []}",
            "2:43: memoryConfiguration.enabledMemoryTypes: there is no type; write SESSION_SUMMARY",
        ),
        (
            "memoryConfiguration: {enabledMemoryTypes: [SESSION_SUMMARY], storageDays: 366}",
            "2:75: memoryConfiguration.storageDays must be at most 365, not 366",
        ),
        (
            "agentCollaboration: SUPERVISER",
            "2:21: agentCollaboration may not be 'SUPERVISER'; did you mean 'SUPERVISOR'?",
        ),
        (
            "collaborators: []",
            "2:1: 'collaborators' is not a member of an agent; did you mean 'agentCollaborators'?",
        ),
        (
            MEMBER % "folder: bills",
            "2:48: 'folder' is not a member of agentCollaborators[0]; 'folder' belongs into "
            "'agentDescriptor'",
        ),
        (
            MEMBER % "agentDescriptor: {folder: b, aliasArn: arn}",
            "2:65: agentCollaborators[0].agentDescriptor: give exactly one of aliasArn or folder, "
            "not 2 of them",
        ),
        (
            MEMBER % "agentDescriptor: {}",
            "2:65: agentCollaborators[0].agentDescriptor: give exactly one of aliasArn or folder",
        ),
        (
            MEMBER % "collaborationInstruction: Bills.",
            "2:22: agentCollaborators[0]: say where 'bills' is: agentDescriptor: {folder: <its "
            "folder>} or {aliasArn: <the ARN of its alias>}",
        ),
        (
            MEMBER % "agentDescriptor: {folder: b}, relayConversationHistory: yes",
            "2:104: agentCollaborators[0].relayConversationHistory may not be 'yes'; it is one of "
            "TO_COLLABORATOR, DISABLED",
        ),
        (
            "agentCollaborators: [{collaboratorName: User, agentDescriptor: {folder: b}}]",
            "2:41: agentCollaborators[0].collaboratorName: messages to 'User' are answers; "
            "rename it",
        ),
        (
            "agentCollaborators:\n"
            "  - {collaboratorName: b, agentDescriptor: {folder: b}}\n"
            "  - {collaboratorName: b, agentDescriptor: {folder: c}}",
            "4:24: agentCollaborators[1].collaboratorName: there is a second collaborator 'b'; "
            "rename one",
        ),
        (
            "parser: parser.py",
            "2:1: 'parser' is not a member of an agent; 'overrideLambda' belongs into "
            "'promptOverrideConfiguration'",
        ),
    ],
)
def test_a_message_has_the_place_and_the_way_out(member: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_definition(f"agentName: a\n{member}\n")
    assert str(caught.value) == f"agent.yaml:{message}"


def test_more_than_ten_collaborators_are_too_many() -> None:
    team = "".join(
        f"  - {{collaboratorName: c{n}, agentDescriptor: {{folder: c{n}}}}}\n" for n in range(11)
    )
    with pytest.raises(DefinitionError, match=r"may have at most 10 items, not 11"):
        parse_definition(f"agentName: a\nagentCollaborators:\n{team}")


@pytest.mark.parametrize("how", ["", "agentCollaboration: DISABLED\n"])
def test_an_agent_that_leads_nobody_has_no_collaborators(how: str) -> None:
    member = MEMBER % "agentDescriptor: {folder: bills}"
    assert collaborators_of(parse_definition(f"agentName: a\n{how}{member}\n")) == ()


def test_an_agent_that_leads_others_has_collaborators() -> None:
    leads = "agentName: a\nagentCollaboration: SUPERVISOR\n"
    member = MEMBER % "agentDescriptor: {folder: bills}"
    (bills,) = collaborators_of(parse_definition(leads + member))
    assert bills.collaborator_name == "bills"
    with pytest.raises(DefinitionError, match=r"agent\.yaml:2:21: an agent that leads others"):
        collaborators_of(parse_definition(leads))
