"""Reading agents from an endpoint: what is left out, what is told, what is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from transfer_support import CLAUDE, FUNCTION, INSTRUCTION, ROLE, SCHEMA, Place, whole

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
    ValidationError,
)
from orchestrator.transfer import Remote, connect, files_of, read_agent

ID = "ABCDEFGHIJ"
AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 2, 1, tzinfo=UTC)


class Told:
    """What an endpoint tells, in the order in which it is asked."""

    def __init__(self) -> None:
        self.client = boto3.client(
            "bedrock-agent",
            region_name="eu-central-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        self.stub = Stubber(self.client)
        self.remote = Remote(self.client, "eu-central-1")

    def agent(self, id: str = ID, **members: Any) -> Told:
        agent = {
            "agentId": id,
            "agentName": "claims",
            "agentArn": f"arn:aws:bedrock:eu-central-1:123456789012:agent/{id}",
            "agentVersion": "DRAFT",
            "agentStatus": "PREPARED",
            "idleSessionTTLInSeconds": 1800,
            "agentResourceRoleArn": ROLE,
            "foundationModel": CLAUDE,
            "instruction": INSTRUCTION,
            "createdAt": AT,
            "updatedAt": AT,
            **members,
        }
        self.stub.add_response("get_agent", {"agent": agent})
        return self

    def parts(
        self,
        groups: list[dict[str, Any]] | None = None,
        bases: list[dict[str, Any]] | None = None,
        members: list[dict[str, Any]] | None = None,
        tags: dict[str, str] | None = None,
    ) -> Told:
        summaries = [
            {
                "actionGroupId": f"GROUP0000{n}",
                "actionGroupName": "a",
                "actionGroupState": "ENABLED",
                "updatedAt": AT,
            }
            for n, _ in enumerate(groups or ())
        ]
        self.stub.add_response("list_agent_action_groups", {"actionGroupSummaries": summaries})
        for n, group in enumerate(groups or ()):
            whole_group = {
                "agentId": ID,
                "agentVersion": "DRAFT",
                "actionGroupId": f"GROUP0000{n}",
                "createdAt": AT,
                "updatedAt": AT,
                "actionGroupState": "ENABLED",
                **group,
            }
            self.stub.add_response("get_agent_action_group", {"agentActionGroup": whole_group})
        told = [
            {
                "knowledgeBaseId": it["knowledgeBaseId"],
                "knowledgeBaseState": "ENABLED",
                "updatedAt": AT,
            }
            for it in bases or ()
        ]
        self.stub.add_response("list_agent_knowledge_bases", {"agentKnowledgeBaseSummaries": told})
        for base in bases or ():
            times = {"agentId": ID, "agentVersion": "DRAFT", "createdAt": AT, "updatedAt": AT}
            made = {**times, "knowledgeBaseState": "ENABLED", **base}
            self.stub.add_response("get_agent_knowledge_base", {"agentKnowledgeBase": made})
        team = [
            {
                "agentId": ID,
                "agentVersion": "DRAFT",
                "collaboratorId": "MEMBER0000",
                "collaborationInstruction": "Its questions.",
                "relayConversationHistory": "DISABLED",
                "createdAt": AT,
                "lastUpdatedAt": AT,
                **it,
            }
            for it in members or ()
        ]
        self.stub.add_response("list_agent_collaborators", {"agentCollaboratorSummaries": team})
        self.stub.add_response("list_tags_for_resource", {"tags": tags or {}})
        return self

    def aliases(self, **versions: str) -> Told:
        summaries = [
            {
                "agentAliasId": id,
                "agentAliasName": id.lower(),
                "agentAliasStatus": "PREPARED",
                "routingConfiguration": [{"agentVersion": version}],
                "createdAt": AT,
                "updatedAt": AT,
            }
            for id, version in versions.items()
        ]
        self.stub.add_response("list_agent_aliases", {"agentAliasSummaries": summaries})
        return self

    def alias(self, agent: str, alias: str, version: str) -> Told:
        told = {
            "agentId": agent,
            "agentAliasId": alias,
            "agentAliasName": "live",
            "agentAliasArn": arn(agent, alias),
            "routingConfiguration": [{"agentVersion": version}],
            "createdAt": AT,
            "updatedAt": AT,
            "agentAliasStatus": "PREPARED",
        }
        self.stub.add_response("get_agent_alias", {"agentAlias": told})
        return self


def arn(agent: str, alias: str) -> str:
    return f"arn:aws:bedrock:eu-central-1:123456789012:agent-alias/{agent}/{alias}"


@pytest.fixture
def told() -> Iterator[Told]:
    one = Told()
    with one.stub:
        yield one
        one.stub.assert_no_pending_responses()


def stage(kind: str, mode: str = "DEFAULT", **members: Any) -> dict[str, Any]:
    return {
        "promptType": kind,
        "promptCreationMode": mode,
        "promptState": "ENABLED",
        "basePromptTemplate": f"The service's own {kind} $question$",
        "parserMode": "DEFAULT",
        "inferenceConfiguration": {"temperature": 0, "topP": 1, "topK": 250, "maximumLength": 2048},
        **members,
    }


def test_what_says_nothing_is_left_out(told: Told) -> None:
    prompts = [stage("PRE_PROCESSING"), stage("ORCHESTRATION"), stage("POST_PROCESSING")]
    told.agent(
        promptOverrideConfiguration={"promptConfigurations": prompts},
        agentCollaboration="DISABLED",
        orchestrationType="DEFAULT",
        guardrailConfiguration={},
        clientToken="9f2a6c1e-4b7d-4e0a-8c53-0d1e2f3a4b5c",
    ).parts(tags={"aws:cloudformation:stack-name": "s"})
    assert files_of(read_agent(told.remote, ID)) == {
        "agent.yaml": (
            "agentName: claims\n"
            f"agentId: {ID}\n"
            f"instruction: {INSTRUCTION}\n"
            f"foundationModel: {CLAUDE}\n"
            f"agentResourceRoleArn: {ROLE}\n"
        )
    }


def test_only_stages_that_are_overridden_have_files(told: Told) -> None:
    prompts = [
        stage(
            "POST_PROCESSING", "OVERRIDDEN", basePromptTemplate='{"a": 1}', promptState="DISABLED"
        ),
        stage("ORCHESTRATION"),
        stage("PRE_PROCESSING", "OVERRIDDEN", basePromptTemplate="a\nb"),
    ]
    told.agent(promptOverrideConfiguration={"promptConfigurations": prompts}).parts()
    files = files_of(read_agent(told.remote, ID))
    assert files.pop("templates/pre_processing.txt") == "a\nb"
    assert files.pop("templates/post_processing.json") == '{"a": 1}'
    assert [*files] == ["agent.yaml"]
    assert "ORCHESTRATION" not in files["agent.yaml"]
    assert "promptState: DISABLED" in files["agent.yaml"]
    assert files["agent.yaml"].index("PRE_PROCESSING") < files["agent.yaml"].index("POST_")


def test_a_text_that_a_file_would_change_stays_in_the_definition(told: Told) -> None:
    text = "line\r\nline $question$"
    prompts = [stage("ORCHESTRATION", "OVERRIDDEN", basePromptTemplate=text)]
    told.agent(promptOverrideConfiguration={"promptConfigurations": prompts}).parts()
    files = files_of(read_agent(told.remote, ID))
    assert [*files] == ["agent.yaml"]
    assert '"line\\r\\nline $question$"' in files["agent.yaml"]


def test_a_signature_has_the_name_that_requests_have(told: Told) -> None:
    group = {"actionGroupName": "ask", "parentActionSignature": "AMAZON.UserInput"}
    told.agent().parts(groups=[group])
    found = read_agent(told.remote, ID).data["actionGroups"]
    assert found == [{"actionGroupName": "ask", "parentActionGroupSignature": "AMAZON.UserInput"}]


def test_parts_are_in_the_order_in_which_they_were_made(told: Told) -> None:
    roc = {"actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}
    told.agent().parts(
        groups=[
            {"actionGroupName": "second", "createdAt": LATER, **roc},
            {"actionGroupName": "first", **roc},
        ]
    )
    found = read_agent(told.remote, ID).data["actionGroups"]
    assert [it["actionGroupName"] for it in found] == ["first", "second"]


ALIASES = {"TSTALIASID": "DRAFT", "LIVEALIAS1": "2", "NEXTALIAS1": "3"}
LIVE = {"agentAliasName": "livealias1", "agentAliasId": "LIVEALIAS1"}
NEXT = {"agentAliasName": "nextalias1", "agentAliasId": "NEXTALIAS1"}


def test_the_aliases_of_an_agent_come_along(told: Told) -> None:
    document = read_agent(told.agent().parts().aliases(**ALIASES).remote, ID)
    assert document.data["aliases"] == [LIVE, NEXT]
    assert "agentAliasId: LIVEALIAS1" in files_of(document)["agent.yaml"]


def test_an_alias_comes_along_with_those_of_the_same_version(told: Told) -> None:
    told.aliases(**ALIASES).alias(ID, "LIVEALIAS1", "2").agent()
    version = {"agentId": ID, "agentName": "claims", "version": "2", "agentArn": arn(ID, "x")}
    times = {"createdAt": AT, "updatedAt": AT, "agentStatus": "PREPARED"}
    more = {"idleSessionTTLInSeconds": 1800, "agentResourceRoleArn": ROLE}
    told.stub.add_response("get_agent_version", {"agentVersion": {**version, **times, **more}})
    told.parts().aliases(**ALIASES)
    assert read_agent(told.remote, ID, alias="livealias1").data["aliases"] == [LIVE]


def test_aliases_that_may_not_be_read_are_told(told: Told) -> None:
    told.agent().parts()
    told.stub.add_client_error("list_agent_aliases", "AccessDeniedException", "no", 403)
    document = read_agent(told.remote, ID)
    assert "aliases" not in document.data
    assert [it.code for it in document.notes] == ["aliases"]


def test_what_stays_is_told(told: Told) -> None:
    base = {"knowledgeBaseId": "KB00000001", "description": "Rules."}
    guardrail = {"guardrailIdentifier": "abc123", "guardrailVersion": "1"}
    group = {"actionGroupName": "claims", "actionGroupExecutor": {"lambda": FUNCTION}}
    functions = {"functionSchema": {"functions": [{"name": "f"}]}}
    told.agent(guardrailConfiguration=guardrail).parts(
        groups=[{**group, **functions}], bases=[base]
    )
    told.aliases()
    summary = {"knowledgeBaseId": "KB00000001", "dataSourceId": "SOURCE0001", "name": "rules"}
    times = {"status": "AVAILABLE", "updatedAt": AT}
    told.stub.add_response("list_data_sources", {"dataSourceSummaries": [{**summary, **times}]})
    place = {"bucketArn": "arn:aws:s3:::rules", "inclusionPrefixes": ["2026/"]}
    source = {**summary, **times, "createdAt": AT}
    source["dataSourceConfiguration"] = {"type": "S3", "s3Configuration": place}
    told.stub.add_response("get_data_source", {"dataSource": source})
    document = read_agent(told.remote, ID)
    assert [it.code for it in document.notes] == ["lambda", "knowledge-base", "guardrail"]
    assert "s3://rules/2026/" in document.notes[1].message
    assert FUNCTION in document.notes[0].message and "handler file" in document.notes[0].suggestion
    assert document.data["knowledgeBases"] == [base]
    assert document.data["guardrailConfiguration"] == guardrail


def test_tags_that_may_not_be_read_are_no_reason_to_fail(told: Told) -> None:
    told.agent().parts()
    told.stub._queue.pop()
    told.stub.add_client_error("list_tags_for_resource", "AccessDeniedException", "no", 403)
    document = read_agent(told.remote, ID)
    assert "tags" not in document.data
    assert "the tags were not transferred" in document.notes[0].message


def test_a_schema_in_s3_becomes_a_file(told: Told, s3: Any) -> None:
    where = {"LocationConstraint": "eu-central-1"}
    s3.create_bucket(Bucket="schemas", CreateBucketConfiguration=where)
    s3.put_object(Bucket="schemas", Key="a/claims.json", Body=json.dumps(SCHEMA).encode())
    place = {"s3": {"s3BucketName": "schemas", "s3ObjectKey": "a/claims.json"}}
    lost = {"s3": {"s3BucketName": "schemas", "s3ObjectKey": "lost.json"}}
    own = {"actionGroupExecutor": {"customControl": "RETURN_CONTROL"}}
    told.agent().parts(
        groups=[
            {"actionGroupName": "claims", "apiSchema": place, **own},
            {"actionGroupName": "lost", "apiSchema": lost, **own},
        ]
    )
    document = read_agent(told.remote, ID)
    files = files_of(document)
    assert json.loads(files["action_groups/claims/openapi.json"]) == SCHEMA
    assert document.data["actionGroups"][1]["apiSchema"] == lost
    assert "stays in Amazon S3" in document.notes[0].message


def test_agents_that_lead_each_other_end_somewhere(told: Told) -> None:
    boss, worker = ID, "WORKER0000"
    up, down = arn(boss, "ALIAS00001"), arn(worker, "ALIAS00002")
    told.agent(agentCollaboration="SUPERVISOR").parts(
        members=[{"collaboratorName": "worker", "agentDescriptor": {"aliasArn": down}}]
    )
    told.alias(worker, "ALIAS00002", "DRAFT")
    told.agent(worker, agentName="worker", agentCollaboration="SUPERVISOR").parts(
        members=[{"collaboratorName": "boss", "agentDescriptor": {"aliasArn": up}}]
    )
    document = read_agent(told.remote, boss)
    files = files_of(document)
    assert [*files] == ["agent.yaml", "collaborators/worker/agent.yaml"]
    assert f"aliasArn: {up}" in files["collaborators/worker/agent.yaml"]
    assert "folder: collaborators/worker" in files["agent.yaml"]
    assert any("leads back to itself" in it.message for it in document.all_notes())


def test_a_collaborator_that_may_not_be_read_stays(told: Told) -> None:
    far = arn("FAR0000000", "ALIAS00001")
    told.agent(agentCollaboration="SUPERVISOR").parts(
        members=[{"collaboratorName": "far", "agentDescriptor": {"aliasArn": far}}]
    )
    told.stub.add_client_error("get_agent_alias", "ResourceNotFoundException", "gone", 404)
    document = read_agent(told.remote, ID)
    assert f"aliasArn: {far}" in files_of(document)["agent.yaml"]
    assert "stays where" in document.notes[0].message


def test_another_agent_than_was_asked_for_is_not_believed(told: Told) -> None:
    told.agent("OTHER00000")
    with pytest.raises(DependencyFailed, match="another agent"):
        read_agent(told.remote, ID)


def test_a_list_without_end_is_not_read() -> None:
    one = Told()
    one.agent()
    page = {"actionGroupSummaries": [], "nextToken": "again"}
    one.stub.add_response("list_agent_action_groups", page)
    one.stub.add_response("list_agent_action_groups", page)
    with one.stub, pytest.raises(DependencyFailed, match="the same page again"):
        read_agent(one.remote, ID)


@pytest.mark.parametrize("id", ["", "claims", "../../etc/x", "ABCDEFGHIJK"])
def test_an_id_is_checked(told: Told, id: str) -> None:
    with pytest.raises(ValidationError, match="no id of an agent"):
        read_agent(told.remote, id)


def test_no_such_agent(there: Place) -> None:
    with pytest.raises(ResourceNotFound, match="ABCDEFGHIJ"):
        read_agent(there.remote, ID)


def test_a_server_of_this_machine_needs_no_credentials(
    there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(ResourceNotFound):
        read_agent(connect(there.url), ID)
    with pytest.raises(AccessDenied, match="no AWS credentials"):
        connect("http://agents.example:8080")


@pytest.mark.parametrize("url", ["localhost:8080", "file:///etc/passwd", "http://"])
def test_an_endpoint_is_an_address(url: str) -> None:
    with pytest.raises(ValidationError, match="is no address"):
        connect(url)


def test_nothing_secret_is_told(there: Place, canaries: Any) -> None:
    with pytest.raises(OrchestratorError) as found:
        read_agent(connect(there.url), ID)
    canaries.nowhere_in("error", found.value)


def test_all_pages_are_read(there: Place, another: Callable[[], Place]) -> None:
    client = there.client
    made = client.create_agent(agentName="many", foundationModel=CLAUDE, instruction=INSTRUCTION)
    id = made["agent"]["agentId"]
    for n in range(12):
        client.create_agent_action_group(
            agentId=id,
            agentVersion="DRAFT",
            actionGroupName=f"group{n}",
            actionGroupState="DISABLED",
            actionGroupExecutor={"customControl": "RETURN_CONTROL"},
            functionSchema=whole()["actionGroups"][0]["functionSchema"],
        )
    found = read_agent(there.remote, id).data["actionGroups"]
    assert [it["actionGroupName"] for it in found] == [f"group{n}" for n in range(12)]
