"""Whatever a file or an endpoint tells: an agent, or an error of this package."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import test_import_answers as answers
import test_import_plans as plans
from hypothesis import given
from hypothesis import strategies as st
from town import PROJECTS
from transfer_support import CLAUDE, whole

from orchestrator.errors import OrchestratorError
from orchestrator.transfer import Remote, files_of, read_agent, read_source

JUNK: list[Any] = [
    *(None, 1, 1.5, True, "x", "", [], {}, [1], {"a": 1}, [[]], [None], "../x"),
    *({"Ref": 1}, {"Fn::GetAtt": []}, {"Fn::Sub": []}, [{"references": 3}], {"b": {"c": {}}}),
]
TEMPLATE = {
    "Resources": {
        "A": {
            "Type": "AWS::Bedrock::Agent",
            "Properties": {
                "AgentName": {"Fn::Sub": "a-${AWS::Region}"},
                "FoundationModel": CLAUDE,
                "GuardrailConfiguration": {
                    "GuardrailIdentifier": {"Ref": "G"},
                    "GuardrailVersion": "1",
                },
                "ActionGroups": [
                    {
                        "ActionGroupName": "g",
                        "ActionGroupExecutor": {"Lambda": {"Fn::GetAtt": ["F", "Arn"]}},
                        "FunctionSchema": {
                            "Functions": [{"Name": "f", "Parameters": {"a": {"Type": "string"}}}]
                        },
                    }
                ],
                "AgentCollaborators": [
                    {
                        "CollaboratorName": "z",
                        "AgentDescriptor": {"AliasArn": {"Fn::GetAtt": ["L", "AgentAliasArn"]}},
                    }
                ],
                "PromptOverrideConfiguration": {
                    "PromptConfigurations": [
                        {"PromptType": "ORCHESTRATION", "BasePromptTemplate": "x"}
                    ]
                },
            },
        },
        "L": {"Type": "AWS::Bedrock::AgentAlias", "Properties": {"AgentId": {"Ref": "A"}}},
        "F": {
            "Type": "AWS::Serverless::Function",
            "Properties": {
                "InlineCode": "def handler(event, context): ...",
                "Handler": "index.handler",
                "Environment": {"Variables": {"A": "b"}},
                "Layers": ["l"],
            },
        },
        "G": {
            "Type": "AWS::Bedrock::Guardrail",
            "Properties": {"WordPolicyConfig": {"WordsConfig": [{"Text": "no"}]}},
        },
    },
    "Globals": {"Function": {"Runtime": "python3.13"}},
}
PLAN = plans.plan(
    [
        plans.resource(plans.AGENT, "a", plans.agent("a")),
        plans.resource(plans.GROUP, "g", plans.group("g")),
        plans.resource(plans.MEMBER, "m", {"agent_descriptor": [{"alias_arn": "q"}]}),
    ],
    [plans.configured(plans.GROUP, "g", agent_id=[f"{plans.AGENT}.a"])],
)
FILES = [
    answers.toolkit(collaborators=[answers.toolkit("billing")]),
    {"agent": answers.AGENT, "actionGroups": [answers.GROUP], "knowledgeBases": [answers.BASE]},
    TEMPLATE,
    PLAN,
    *(json.loads((PROJECTS / name).read_text()) for name in ("plan/plan.json", "state/state.json")),
    json.loads((PROJECTS / "tfstate/terraform.tfstate").read_text()),
]
changes = st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(JUNK)), min_size=1, max_size=3)


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in [*value] if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from spots(value[key])


def changed(data: Any, where: list[tuple[int, Any]]) -> Any:
    data = deepcopy(data)
    for place, junk in where:
        if found := [*spots(data)]:
            holder, key = found[place % len(found)]
            holder[key] = deepcopy(junk)
    return data


@given(st.sampled_from(FILES), changes)
def test_a_file(data: Any, where: list[tuple[int, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "told.json"
        file.write_text(json.dumps(changed(data, where)))
        try:
            for document in read_source(file).agents.values():
                assert "agent.yaml" in files_of(document)
        except OrchestratorError as error:
            assert error.message


ID = "ABCDEFGHIJ"
ARN = f"arn:aws:bedrock:eu-central-1:123456789012:agent-alias/{ID}/KLMNOPQRST"
AGENT = whole(agentId=ID, agentArn=f"arn:aws:bedrock:eu-central-1:123456789012:agent/{ID}")
ANSWERS = {
    "get_agent": {"agent": {k: v for k, v in AGENT.items() if k != "actionGroups"}},
    "list_agent_action_groups": {"actionGroupSummaries": [{"actionGroupId": "GROUP00001"}]},
    "get_agent_action_group": {"agentActionGroup": AGENT["actionGroups"][1]},
    "list_agent_knowledge_bases": {
        "agentKnowledgeBaseSummaries": [{"knowledgeBaseId": "KB00000001"}]
    },
    "get_agent_knowledge_base": {"agentKnowledgeBase": AGENT["knowledgeBases"][0]},
    "list_agent_collaborators": {
        "agentCollaboratorSummaries": [
            {"collaboratorName": "boss", "agentDescriptor": {"aliasArn": ARN}}
        ]
    },
    "list_tags_for_resource": {"tags": {"a": "b"}},
    "list_agent_aliases": {
        "agentAliasSummaries": [
            {
                "agentAliasName": "live",
                "agentAliasId": "LIVEALIAS1",
                "routingConfiguration": [{"agentVersion": "1"}],
            }
        ]
    },
    "list_data_sources": {"dataSourceSummaries": [{"dataSourceId": "SOURCE0001"}]},
    "get_data_source": {
        "dataSource": {
            "dataSourceConfiguration": {
                "type": "S3",
                "s3Configuration": {"bucketArn": "arn:aws:s3:::b", "inclusionPrefixes": ["p/"]},
            }
        }
    },
}


class Client:
    """Tells what it is given; structures are such, as botocore's parser sees to."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        return lambda **params: deepcopy(self.answers[name])


scalars = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from([None, 1, True, "x", "", "../x", "a\nb"])),
    max_size=3,
)


@given(scalars)
def test_an_endpoint(where: list[tuple[int, Any]]) -> None:
    told = deepcopy(ANSWERS)
    for place, junk in where:
        leaves = [(h, k) for h, k in spots(told) if not isinstance(h[k], (dict, list))]
        holder, key = leaves[place % len(leaves)]
        holder[key] = junk
    try:
        files = files_of(read_agent(Remote(Client(told)), ID))
    except OrchestratorError as error:
        assert error.message
    else:
        assert all(".." not in path and not path.startswith("/") for path in files)
