"""What `orchestrator import` shows of a whole project: one table, and the agents that it wrote."""

# Lines of the table are as long as what they say.
# ruff: noqa: E501

import json
import re
import shutil
from pathlib import Path

import pytest
from inline_snapshot import snapshot

PROJECTS = Path(__file__).parents[1] / "transfer" / "projects"


@pytest.fixture
def repo(place):
    """A project with several ways to deploy agents in it."""
    shutil.copytree(PROJECTS / "terraform", "repo/infra")
    shutil.copytree(PROJECTS / "sam", "repo/service")
    template = Path("repo/service/template.yaml")
    text = template.read_text()
    # An agent of its own, which does not tell everything.
    text = text.replace("AgentName: garden", "AgentName: park")
    text = text.replace(', Default: "anthropic.claude-3-5-sonnet-20240620-v1:0"}', "}")
    text = text.replace("Polite.GuardrailId", "Elsewhere.GuardrailId")
    text += """
  Rules: {Type: AWS::Bedrock::KnowledgeBase, Properties: {Name: rules}}
  Table: {Type: AWS::DynamoDB::Table}
  Greeting: {Type: AWS::Bedrock::Prompt}
"""
    text = text.replace(
        "      ActionGroups:\n        - ActionGroupName: watering",
        "      KnowledgeBases: [{KnowledgeBaseId: !Ref Rules, Description: The rules.}]\n"
        "      ActionGroups:\n        - ActionGroupName: watering",
    )
    template.write_text(text)
    Path("repo/service/src/loans/requirements.txt").write_text("# of the desk\nrequests>=2.32\n")
    Path("repo/broken").mkdir()
    Path("repo/broken/main.tf").write_text('resource "aws_bedrockagent_agent" "x" {\n')
    return Path("repo")


def test_a_whole_project_is_told_in_one_table(run, repo):
    done = run("import", repo, "--into", "agents")
    assert done.exit_code == 0 and done.stderr == ""
    assert done.stdout == snapshot("""\
library → agents/library  repo/service/template.yaml:44
✓ instruction 93 characters
✓ actions     loans: functions/town-test-loans/app.py:lambda_handler
! not known   the parameter Model is known only when deployed; 'UNKNOWN-Model' stands for it  repo/service/template.yaml:49
              = give it with --parameter, or change it in agent.yaml
! packages    functions/town-test-loans/requirements.txt names 1 package of the function  repo/service/template.yaml:28
              = pip install -r functions/town-test-loans/requirements.txt

park → agents/park  repo/service/template.yaml:74
✓ instruction 86 characters
✓ prompts     ORCHESTRATION
✓ actions     watering: returns control to the caller
! not known   Elsewhere.GuardrailId is known only when deployed; 'elsewhere0' stands for it in guardrailConfiguration.guardrailIdentifier  repo/service/template.yaml:84
              = give it with --parameter, or change it in agent.yaml
! not known   the parameter Model is known only when deployed; 'UNKNOWN-Model' stands for it  repo/service/template.yaml:79 (as above)
! knowledge   Ref Rules is known only when deployed; 'RULES00000' stands for it  repo/service/template.yaml:98
              = write the id of a knowledge base, or add `folder:` with documents

ferry → agents/ferry  repo/service/template.yaml:137
✓ instruction 67 characters
! not known   the parameter Model is known only when deployed; 'UNKNOWN-Model' stands for it  repo/service/template.yaml:142 (as above)

tides → agents/ferry/collaborators/tides (led by ferry)  repo/service/template.yaml:116
✓ instruction 59 characters
✓ actions     water: functions/TidesFunction/tides.py:answer
! not known   the parameter Model is known only when deployed; 'UNKNOWN-Model' stands for it  repo/service/template.yaml:121 (as above)

garden → agents/garden  repo/infra/main.tf:97
✓ model       anthropic.claude-3-5-sonnet-20240620-v1:0
✓ instruction 86 characters
✓ prompts     ORCHESTRATION
✓ actions     watering: returns control to the caller
✓ guardrail   guardrail.yaml

beside the agents
! not read    this is not Terraform's language  repo/broken/main.tf:2
              = mend it and import again, if agents of it are missing here
! twice       library is here, too; it was taken from service/template.yaml  repo/infra/main.tf:48
              = import this file alone to take it from here
! twice       ferry is here, too; it was taken from service/template.yaml  repo/infra/main.tf:161
              = import this file alone to take it from here
– roles       AWS has the agents' roles, which only `orchestrator push` needs
– resources   no counterpart: AWS::Bedrock::Prompt, AWS::DynamoDB::Table

4 agents from CloudFormation, Terraform's sources, 7 decisions to take
""")
    assert run("lint", "agents/garden").stdout == "nothing to complain about\n"
    for name in ("library", "park", "ferry"):
        # What is left to decide is in the table already.
        findings = json.loads(run("lint", f"agents/{name}", "--json").stdout)["diagnostics"]
        assert all("UNKNOWN-Model" in it["message"] for it in findings)


def test_the_table_fits_a_narrow_terminal(run, repo, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run("import", repo, "--into", "agents").stdout)
    long = [it for it in shown.splitlines() if len(it) > 60]
    assert all("/" in it or "functions" in it for it in long)  # a path stays whole


def test_one_agent_of_a_project(run, repo):
    done = run("import", repo, "--agent", "park", "--into", "mine", "--json")
    told = json.loads(done.stdout)
    [agent] = told["agents"]
    assert (agent["name"], agent["folder"]) == ("park", "mine")
    assert agent["source"].endswith("repo/service/template.yaml") and agent["line"] > 1
    assert agent["files"] == ["agent.yaml", "templates/orchestration.json"]
    assert told["unused"] == {"AWS::Bedrock::Prompt": 1, "AWS::DynamoDB::Table": 1}
    assert run("import", repo, "--agent", "nobody").exit_code == 2


def test_a_project_without_agents_is_an_error(run, place):
    Path("empty").mkdir()
    done = run("import", "empty")
    assert done.exit_code == 2
    assert "holds no agent" in done.stderr
