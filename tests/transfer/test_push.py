"""Carrying a folder to an endpoint: what is done, in which order, and what is refused before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transfer_support import (
    CLAUDE,
    FUNCTION,
    FUNCTIONS,
    INSTRUCTION,
    NOW,
    PARSER,
    SCHEMA,
    TEMPLATE,
    Place,
    led,
    plain,
    whole,
    write,
)

from orchestrator.errors import (
    DefinitionError,
    DependencyFailed,
    OrchestratorError,
    ValidationError,
)
from orchestrator.transfer import (
    Document,
    Options,
    Remote,
    difference,
    push,
    read_agent,
    read_folder,
)
from orchestrator.transfer.push_steps import Waiter

ROC = {"customControl": "RETURN_CONTROL"}


def steps(pushed: Any) -> list[str]:
    return [f"{it.agent}: {it.text_when_done}" for it in pushed.steps]


def group(name: str, **members: Any) -> dict[str, Any]:
    schema = {"functions": FUNCTIONS}
    return {
        "actionGroupName": name,
        "functionSchema": schema,
        "actionGroupExecutor": ROC,
        **members,
    }


def test_a_new_agent_is_made_prepared_and_given_an_alias(there: Place, folder: Path) -> None:
    pushed = there.push(read_folder(write(folder, whole())), alias="live")
    assert steps(pushed) == [
        "claims: created the agent",
        "claims: created the action group 'visits'",
        "claims: created the action group 'claims'",
        "claims: created the action group 'ask'",
        "claims: added the knowledge base 'KB00000001'",
        "claims: added the knowledge base 'KB00000002'",
        "claims: prepared the agent",
        "claims: created the alias 'live'",
    ]
    agent = there.client.get_agent(agentId=pushed.agent_id)["agent"]
    assert agent["agentStatus"] == "PREPARED"
    alias = there.client.get_agent_alias(agentId=pushed.agent_id, agentAliasId=pushed.alias_id)
    assert alias["agentAlias"]["agentAliasName"] == "live"
    assert alias["agentAlias"]["routingConfiguration"][0]["agentVersion"] == "1"


def test_the_second_time_there_is_nothing_to_do(there: Place, folder: Path) -> None:
    document = read_folder(write(folder, whole()))
    first = there.push(document, alias="live")
    again = there.push(read_folder(folder), alias="live")
    assert (again.agent_id, again.alias_id, again.steps) == (first.agent_id, first.alias_id, ())


def test_only_what_differs_is_changed(there: Place, folder: Path) -> None:
    before = plain(
        "claims",
        description="One.",
        tags={"a": "1", "b": "2"},
        actionGroups=[group("same"), group("other"), group("gone")],
    )
    first = there.push(read_folder(write(folder, before)), alias="live")
    after = plain(
        "claims",
        description="Two.",
        tags={"a": "1", "c": "3"},
        actionGroups=[group("same"), group("other", description="Another."), group("fresh")],
    )
    second = there.push(read_folder(write(folder, after)), alias="live")
    assert steps(second) == [
        "claims: updated the agent (description)",
        "claims: changed the tags",
        "claims: deleted the action group 'gone'",
        "claims: updated the action group 'other'",
        "claims: created the action group 'fresh'",
        "claims: prepared the agent",
        "claims: moved the alias 'live' to a new version",
    ]
    assert second.alias_id == first.alias_id
    now = read_agent(there.remote, first.agent_id, alias=first.alias_id).data
    assert now["description"] == "Two."
    assert {it["actionGroupName"] for it in now["actionGroups"]} == {"same", "other", "fresh"}
    assert now["tags"] == {"a": "1", "c": "3"}


def test_members_that_are_left_out_are_taken_away(there: Place, folder: Path) -> None:
    first = there.push(read_folder(write(folder, whole())))
    there.push(read_folder(write(folder, plain("claims"))))
    now = read_agent(there.remote, first.agent_id).data
    assert now == {**plain("claims"), "agentId": first.agent_id}


def test_knowledge_bases_are_changed_one_by_one(there: Place, folder: Path) -> None:
    there.push(read_folder(write(folder, whole())))
    bases = [
        {"knowledgeBaseId": "KB00000002", "description": "Older rules."},
        {"knowledgeBaseId": "KB00000003", "description": "New rules."},
    ]
    second = there.push(read_folder(write(folder, whole(knowledgeBases=bases))))
    assert steps(second) == [
        "claims: took away the knowledge base 'KB00000001'",
        "claims: updated the knowledge base 'KB00000002'",
        "claims: added the knowledge base 'KB00000003'",
        "claims: prepared the agent",
    ]
    found = {
        it["knowledgeBaseId"]: it
        for it in read_agent(there.remote, second.agent_id).data["knowledgeBases"]
    }
    assert found == {it["knowledgeBaseId"]: it for it in bases}


def test_a_role_that_the_folder_does_not_name_is_kept(there: Place, folder: Path) -> None:
    there.push(read_folder(write(folder, plain("claims"))))
    data = plain("claims", description="Changed.")
    del data["agentResourceRoleArn"]
    second = there.push(read_folder(write(folder, data)))
    assert steps(second)[0] == "claims: updated the agent (description)"
    assert there.push(read_folder(folder)).steps == ()


def test_a_dry_run_tells_the_same_and_does_nothing(there: Place, folder: Path) -> None:
    root = write(
        folder,
        plain("boss", agentCollaboration="SUPERVISOR", agentCollaborators=[led("worker")]),
    )
    write(root / "worker", plain("worker", actionGroups=[group("visits")]))
    told = there.push(read_folder(root), alias="live", dry_run=True)
    assert there.client.list_agents()["agentSummaries"] == []
    done = there.push(read_folder(root), alias="live")
    assert [it.what for it in told.steps] == [it.what for it in done.steps]
    assert told.agent_id == told.alias_id == ""
    assert told.steps[0].dry_run_text == "would create the agent"


def test_those_that_are_led_come_first(there: Place, folder: Path) -> None:
    root = write(
        folder,
        plain("boss", agentCollaboration="SUPERVISOR", agentCollaborators=[led("worker")]),
    )
    write(root / "worker", plain("worker"))
    first = there.push(read_folder(root))
    assert steps(first) == [
        "worker: created the agent",
        "worker: prepared the agent",
        "worker: created the alias 'live'",
        "boss: created the agent",
        "boss: added the collaborator 'worker'",
        "boss: prepared the agent",
    ]
    write(root / "worker", plain("worker", description="Changed."))
    assert steps(there.push(read_folder(root))) == [
        "worker: updated the agent (description)",
        "worker: prepared the agent",
        "worker: moved the alias 'live' to a new version",
    ]
    assert there.push(read_folder(root)).steps == ()
    write(root, plain("boss"))
    assert steps(there.push(read_folder(root))) == [
        "boss: took away the collaborator 'worker'",
        "boss: updated the agent (agentCollaboration)",
        "boss: prepared the agent",
    ]


def test_copies_of_an_agent_are_one_agent(there: Place, folder: Path, tmp_path: Path) -> None:
    """Who is led by two others is in the folders of both."""

    def leading(name: str, *names: str) -> dict[str, Any]:
        team = [led(it) for it in names]
        return plain(name, agentCollaboration="SUPERVISOR", agentCollaborators=team)

    root = write(folder, leading("boss", "left", "right"))
    for side in ("left", "right"):
        write(root / side, leading(side, "shared"))
        write(root / side / "shared", plain("shared"))
    pushed = there.push(read_folder(root))
    assert steps(pushed).count("shared: created the agent") == 1
    assert there.push(read_folder(root)).steps == ()
    assert there.push(read_agent(there.remote, pushed.agent_id)).steps == ()

    write(root / "left" / "shared", plain("shared", description="Another."))
    with pytest.raises(ValidationError, match="different things about the agent 'shared'"):
        there.push(read_folder(root))


def test_an_alias_that_is_used_already_is_kept(there: Place, folder: Path, tmp_path: Path) -> None:
    worker = write(tmp_path / "worker", plain("worker"))
    made = there.push(read_folder(worker), alias="theirs")
    alias = there.client.get_agent_alias(agentId=made.agent_id, agentAliasId=made.alias_id)
    arn = alias["agentAlias"]["agentAliasArn"]
    member = {**led("worker"), "agentDescriptor": {"aliasArn": arn}}
    team = plain("boss", agentCollaboration="SUPERVISOR", agentCollaborators=[member])
    boss = there.push(read_folder(write(folder, team)))

    for path, text in there.pull(boss.agent_id).items():
        file = tmp_path / "pulled" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert there.push(read_folder(tmp_path / "pulled")).steps == ()


def test_a_schema_that_says_the_same_is_the_same(there: Place, folder: Path) -> None:
    def agent(payload: str) -> dict[str, Any]:
        executor = {"lambda": FUNCTION}
        one = {"actionGroupName": "claims", "actionGroupExecutor": executor}
        return plain("claims", actionGroups=[{**one, "apiSchema": {"payload": payload}}])

    there.push(read_folder(write(folder, agent(json.dumps(SCHEMA)))))
    again = there.push(read_folder(write(folder, agent(json.dumps(SCHEMA, indent=4)))))
    assert again.steps == ()


def test_the_agent_is_found_by_its_id_and_then_by_its_name(there: Place, folder: Path) -> None:
    first = there.push(read_folder(write(folder, plain("one"))))
    renamed = plain("two", agentId=first.agent_id)
    assert steps(there.push(read_folder(write(folder, renamed)))) == [
        "two: updated the agent (agentName)",
        "two: prepared the agent",
    ]
    elsewhere = plain("two", agentId="ABCDEFGHIJ")
    assert there.push(read_folder(write(folder, elsewhere))).agent_id == first.agent_id


def test_which_agent_is_changed_can_be_said(there: Place, folder: Path) -> None:
    first = there.push(read_folder(write(folder, plain("one"))))
    with pytest.raises(ValidationError, match="already"):
        there.push(read_folder(folder), create=True)
    write(folder, plain("other", description="d"))
    assert there.push(read_folder(folder), agent_id=first.agent_id).agent_id == first.agent_id
    with pytest.raises(ValidationError, match="ABCDEFGHIJ"):
        there.push(read_folder(folder), agent_id="ABCDEFGHIJ")


def test_it_goes_on_where_it_stopped(there: Place, folder: Path) -> None:
    class Breaking:
        """A client that fails when it is asked for one thing."""

        def __init__(self, client: Any) -> None:
            self.client = client

        def __getattr__(self, name: str) -> Any:
            if name == "create_agent_action_group" and len(told) == 2:
                raise OSError("the network is gone")
            return getattr(self.client, name)

    told: list[str] = []
    document = read_folder(write(folder, whole()))
    broken = Remote(Breaking(there.client), "us-east-1", None, there.url)
    with pytest.raises(DependencyFailed):
        push(document, broken, wait=NOW, report=lambda step: told.append(step.text_when_done))
    assert told == ["created the agent", "created the action group 'visits'"]
    assert steps(there.push(document)) == [
        "claims: created the action group 'claims'",
        "claims: created the action group 'ask'",
        "claims: added the knowledge base 'KB00000001'",
        "claims: added the knowledge base 'KB00000002'",
        "claims: prepared the agent",
    ]


def nothing_there(there: Place) -> None:
    assert there.client.list_agents()["agentSummaries"] == []


def refusals(there: Place, document: Document, **options: Any) -> list[str]:
    with pytest.raises(DefinitionError) as found:
        there.push(document, **options)
    nothing_there(there)
    diagnostics = found.value.diagnostics
    assert all(it.file and it.line for it in diagnostics if "changes the shipped" not in it.message)
    return [it.message for it in diagnostics]


OURS: dict[str, tuple[dict[str, Any], str]] = {
    "limits": ({"limits": {"iterations": 3}}, "no limits of a turn"),
    "aws_compat": ({"awsCompat": ["single_knowledge_base"]}, "no awsCompat"),
    "model": ({"foundationModel": "openai:gpt-5@http://x"}, "no model 'openai:gpt-5@http://x'"),
    "guardrail": ({"guardrailConfiguration": {"file": "g.yaml"}}, "guardrail is a file"),
    "handler": (
        {"actionGroups": [group("a", actionGroupExecutor={"lambda": "handler.py"})]},
        "runs 'handler.py' in this process",
    ),
    "python": (
        {"actionGroups": [{"actionGroupName": "a", "actionGroupExecutor": {"python": "tools.py"}}]},
        "runs Python functions",
    ),
    "mcp": (
        {
            "actionGroups": [
                {
                    "actionGroupName": "a",
                    "actionGroupExecutor": {"mcp": {"url": "https://mcp.example"}},
                }
            ]
        },
        "is an MCP server",
    ),
    "http": (
        {
            "actionGroups": [
                {
                    "actionGroupName": "a",
                    "apiSchema": {"payload": json.dumps(SCHEMA)},
                    "actionGroupExecutor": {"http": {"baseUrl": "https://api.example"}},
                }
            ]
        },
        "calls an API over HTTP",
    ),
    "documents": (
        {"knowledgeBases": [{"knowledgeBaseId": "rules", "folder": "documents"}]},
        "is a folder of documents",
    ),
    "stage": (
        {
            "promptOverrideConfiguration": {
                "promptConfigurations": [
                    {"promptType": "ORCHESTRATION", "inferenceConfiguration": {"temperature": 0.5}}
                ]
            }
        },
        "only together with its template",
    ),
    "parser": (
        {
            "promptOverrideConfiguration": {
                "overrideLambda": "parser.py",
                "promptConfigurations": [
                    {
                        "promptType": "ORCHESTRATION",
                        "basePromptTemplate": TEMPLATE,
                        "parserMode": "OVERRIDDEN",
                    }
                ],
            }
        },
        "'parser.py' runs in this process",
    ),
    "orchestration": (
        {
            "orchestrationType": "CUSTOM_ORCHESTRATION",
            "customOrchestration": {"executor": {"lambda": "loop.py"}},
        },
        "'loop.py' runs in this process",
    ),
}


def with_files(folder: Path, members: dict[str, Any]) -> Document:
    write(folder, plain("claims", **members))
    (folder / "documents").mkdir()
    handler = "def lambda_handler(event, context):\n    return {}\n"
    for name in ("handler.py", "parser.py", "loop.py"):
        (folder / name).write_text(handler)
    (folder / "g.yaml").write_text("blockedInputMessaging: no\n")
    (folder / "tools.py").write_text(
        "from orchestrator import action\n\n"
        "@action\n"
        "def get_claim(claim_id: str, most: int = 3) -> str:\n"
        '    """Details of one claim.\n\n    Args:\n        claim_id: Its number.\n    """\n'
        "    return claim_id\n"
    )
    return read_folder(folder)


@pytest.mark.parametrize("which", OURS)
def test_what_bedrock_does_not_have_is_told_before_anything_is_sent(
    there: Place, folder: Path, which: str
) -> None:
    members, text = OURS[which]
    found = refusals(there, with_files(folder, members))
    assert len(found) == 1
    assert text in found[0]


@pytest.mark.parametrize("which", [it for it in OURS if it != "model"])
def test_it_can_be_left_out(there: Place, folder: Path, which: str) -> None:
    members, text = OURS[which]
    document = with_files(folder, members)
    pushed = there.push(document, skip=True)
    assert any(text in it.message for it in pushed.notes)
    assert there.push(document, skip=True).steps == ()


def test_a_template_of_the_folder_that_nothing_names_is_told(there: Place, folder: Path) -> None:
    write(folder, plain("claims"))
    (folder / "templates").mkdir()
    (folder / "templates" / "README.md").write_text("Put templates here.")
    assert there.push(read_folder(folder), dry_run=True).notes == ()
    (folder / "templates" / "tools.j2").write_text("x")
    assert "'templates/tools.j2' changes the shipped" in refusals(there, read_folder(folder))[0]


def test_a_function_stands_for_what_runs_in_this_process(there: Place, folder: Path) -> None:
    members = {
        "actionGroups": [
            *OURS["python"][0]["actionGroups"],
            group("b", actionGroupExecutor={"lambda": "handler.py"}, environment={"A": "1"}),
        ],
        **OURS["parser"][0],
    }
    document = with_files(folder, members)
    functions = {"a": FUNCTION, "claims/b": FUNCTION, "overrideLambda": PARSER, "b": "arn:no"}
    pushed = there.push(document, lambdas=functions)
    now = read_agent(there.remote, pushed.agent_id).data
    assert [it["actionGroupExecutor"] for it in now["actionGroups"]] == 2 * [{"lambda": FUNCTION}]
    assert now["promptOverrideConfiguration"]["overrideLambda"] == PARSER
    assert now["actionGroups"][0]["functionSchema"]["functions"] == [
        {
            "name": "get_claim",
            "description": "Details of one claim.",
            "parameters": {
                "claim_id": {"type": "string", "description": "Its number.", "required": True},
                "most": {"type": "integer"},
            },
        }
    ]
    assert any("environment" in it.message for it in pushed.notes)
    # The functions are known there from now on.
    assert there.push(document).steps == ()


def test_values_of_an_environment_are_told_to_nobody(
    there: Place, folder: Path, canaries: Any
) -> None:
    secret = canaries["session attribute"]
    handler = group("b", actionGroupExecutor={"lambda": "handler.py"}, environment={"A": secret})
    document = with_files(folder, {"actionGroups": [handler]})
    with pytest.raises(DefinitionError) as found:
        there.push(document)
    pushed = there.push(document, lambdas={"b": FUNCTION})
    compared = difference(document, there.remote)
    pulled = there.pull(pushed.agent_id)
    canaries.nowhere_in("what is told", found.value, pushed, compared, pulled)


def test_a_local_model_has_another_name_at_aws(there: Place, folder: Path) -> None:
    document = read_folder(write(folder, plain("claims", foundationModel="local")))
    at_aws = Remote(there.client, "us-east-1")
    with pytest.raises(DefinitionError, match="no model 'local'"):
        push(document, at_aws, wait=NOW)
    nothing_there(there)
    pushed = push(document, at_aws, Options(model=CLAUDE), wait=NOW)
    assert read_agent(there.remote, pushed.agent_id).data["foundationModel"] == CLAUDE
    write(folder, plain("local-one", foundationModel="local"))
    local = there.push(read_folder(folder))
    assert read_agent(there.remote, local.agent_id).data["foundationModel"] == "local"


LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "short": ({"instruction": "Help."}, "instruction has 5 characters, and Bedrock wants at least"),
    "long": ({"description": "x" * 201}, "description has 201 characters"),
    "role": ({"agentResourceRoleArn": "me"}, "agentResourceRoleArn is 'me'"),
    "function": (
        {"actionGroups": [group("a", description="x" * 201)]},
        "actionGroups[0].description has 201",
    ),
    "base": (
        {"knowledgeBases": [{"knowledgeBaseId": "ABCDEFGHIJ"}]},
        "knowledgeBases[0].description is missing",
    ),
    "model": ({"foundationModel": None}, "foundationModel is missing"),
    "team": (
        {"agentCollaborators": [{**led("w"), "agentDescriptor": {"aliasArn": "arn:aws:x"}}]},
        "nothing says that they are led",
    ),
}


@pytest.mark.parametrize("which", LIMITS)
@pytest.mark.parametrize("skip", [False, True])
def test_what_bedrock_would_refuse_is_told_before_anything_is_sent(
    there: Place, folder: Path, which: str, skip: bool
) -> None:
    members, text = LIMITS[which]
    document = read_folder(write(folder, plain("claims", **members)))
    if skip and which == "team":
        assert there.push(document, skip=True).agent_id
    else:
        assert [it for it in refusals(there, document, skip=skip) if text in it]


def test_a_long_instruction_is_within_the_quota(there: Place, folder: Path) -> None:
    document = read_folder(write(folder, plain("claims", instruction=INSTRUCTION * 100)))
    assert there.push(document, dry_run=True).steps


def test_all_agents_of_a_team_are_checked_first(there: Place, folder: Path) -> None:
    team = plain("boss", agentCollaboration="SUPERVISOR", agentCollaborators=[led("worker")])
    root = write(folder, {**team, "limits": {"tokens": 10}})
    write(root / "worker", plain("worker", awsCompat=["single_knowledge_base"]))
    assert {it.split(":")[0] for it in refusals(there, read_folder(root))} == {"boss", "worker"}


DONE = ("PREPARED", "NOT_PREPARED")


def status_of(*told: str) -> Callable[[], dict[str, Any]]:
    left = [*told]
    return lambda: {"agentStatus": left.pop(0), "failureReasons": ["no such model"]}


def test_waiting_takes_longer_each_time() -> None:
    waits: list[float] = []
    wait = Waiter(first=1.0, seconds=5.0, sleep=waits.append)
    looks = status_of("CREATING", "UPDATING", "PREPARING", "PREPARED")
    wait.wait_for_status("it", looks, "agentStatus", DONE)
    assert waits == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        (["CREATING", "FAILED"], "FAILED: no such model"),
        (4 * ["PREPARING"], "PREPARING after 5 seconds"),
        (["DELETING"], "DELETING"),
    ],
)
def test_waiting_ends(statuses: list[str], text: str) -> None:
    wait = Waiter(first=1.0, seconds=4.0, sleep=lambda seconds: None)
    with pytest.raises(OrchestratorError, match=text):
        wait.wait_for_status("it", status_of(*statuses), "agentStatus", DONE)
