"""What `lint` says and what loading does: an agent that cannot load is never clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.errors import OrchestratorError

HEAD = """agentName: inn
foundationModel: anthropic.claude-3-haiku-20240307-v1:0
"""
SAY = HEAD + "instruction: You help the guests of an inn with their rooms and meals.\n"
FUNCTIONS = "functionSchema: {functions: [{name: f}]}"
CONTROL = "actionGroupExecutor: {customControl: RETURN_CONTROL}"
HELPER = "{folder: helper}"
TEAM = """agentCollaboration: SUPERVISOR
agentCollaborators:
  - {collaboratorName: NAME, collaborationInstruction: Everything., agentDescriptor: WHO}
  - {collaboratorName: cook, collaborationInstruction: Meals., agentDescriptor: {folder: helper}}
"""


def override(members: str, more: str = "") -> str:
    return f"promptOverrideConfiguration: {{promptConfigurations: [{{{members}}}]{more}}}\n"


def groups(*members: str) -> str:
    return "actionGroups:\n" + "".join(f"  - {{{it}}}\n" for it in members)


ORCHESTRATION = "promptType: ORCHESTRATION, promptCreationMode: OVERRIDDEN, "
WRONG = {
    "no instruction": (HEAD, {}),
    "a blank instruction": (HEAD + "instruction: '  '\n", {}),
    "no such model": (SAY.replace("anthropic.claude-3-haiku-20240307-v1:0", "UNKNOWN-Model"), {}),
    "a name of Bedrock's own": (
        SAY + groups(f"actionGroupName: AgentCommunication, {FUNCTIONS}, {CONTROL}"),
        {},
    ),
    "two groups of one name": (
        SAY + groups(*[f"actionGroupName: g, {FUNCTIONS}, {CONTROL}"] * 2),
        {},
    ),
    "two tools of one name": (
        SAY
        + groups(
            f"actionGroupName: a, functionSchema: {{functions: [{{name: b__c}}]}}, {CONTROL}",
            f"actionGroupName: a__b, functionSchema: {{functions: [{{name: c}}]}}, {CONTROL}",
        ),
        {},
    ),
    "no executor": (SAY + groups(f"actionGroupName: g, {FUNCTIONS}"), {}),
    "no schema": (SAY + groups(f"actionGroupName: g, {CONTROL}"), {}),
    "no such function": (
        SAY + groups(f"actionGroupName: g, {FUNCTIONS}, actionGroupExecutor: {{lambda: h.py:x}}"),
        {"h.py": "def y(event, context): pass"},
    ),
    "a schema in a bucket that is not there": (
        SAY
        + groups(
            f"actionGroupName: g, {CONTROL}, apiSchema: {{s3: {{s3BucketName: none-such}}}}",
        ),
        {},
    ),
    "a broken template": (
        SAY + override(ORCHESTRATION + "basePromptTemplate: '{\"messages\": 7}'"),
        {},
    ),
    "a broken template of a dialect": (SAY, {"templates/claude-3/orchestration.json": "{"}),
    "a broken text of a dialect": (SAY, {"templates/tools.j2": "{{ x.y() }}"}),
    "a parser that is not there": (
        SAY + override("promptType: ORCHESTRATION, parserMode: OVERRIDDEN"),
        {},
    ),
    "a parser with a mistake": (
        SAY
        + override("promptType: ORCHESTRATION, parserMode: OVERRIDDEN", ", overrideLambda: p.py"),
        {"p.py": "def lambda_handler(event:"},
    ),
    "an orchestration with a mistake": (
        SAY + "orchestrationType: CUSTOM_ORCHESTRATION\n"
        "customOrchestration: {executor: {lambda: loop.py}}\n",
        {"loop.py": "def other(event, context): pass"},
    ),
    "a leader of nobody": (SAY + "agentCollaboration: SUPERVISOR\n", {}),
    "two collaborators of one name": (
        SAY + TEAM.replace("NAME", "Cook").replace("WHO", HELPER),
        {"helper/agent.yaml": SAY},
    ),
    "a collaborator called user": (
        SAY + TEAM.replace("NAME", "user").replace("WHO", HELPER),
        {"helper/agent.yaml": SAY},
    ),
    "a collaborator that cannot load": (
        SAY + TEAM.replace("NAME", "maid").replace("WHO", HELPER),
        {"helper/agent.yaml": HEAD},
    ),
    "an ARN of nobody": (
        SAY + TEAM.replace("NAME", "maid").replace("WHO", "{aliasArn: UNKNOWN-Alias}"),
        {"helper/agent.yaml": SAY},
    ),
    "a guardrail with a mistake": (
        SAY + "guardrailConfiguration: {file: rules.yaml}\n",
        {"rules.yaml": "name: r\nwordPolicyConfig: 7\n"},
    ),
    "two knowledge bases of one id": (
        SAY + "knowledgeBases:\n"
        "  - {knowledgeBaseId: ABCDEFGHIJ, description: a, folder: kb}\n"
        "  - {knowledgeBaseId: ABCDEFGHIJ, description: b, folder: kb}\n",
        {"kb/a.md": "Rooms."},
    ),
}
RIGHT = {
    "plain": (SAY, {}),
    "a team": (
        SAY + TEAM.replace("NAME", "maid").replace("WHO", HELPER),
        {"helper/agent.yaml": SAY},
    ),
    "with functions": (SAY + groups(f"actionGroupName: g, {FUNCTIONS}, {CONTROL}"), {}),
}


def write(folder: Path, text: str, files: dict[str, str]) -> None:
    for name, content in {"agent.yaml": text, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def loads(folder: Path) -> bool:
    try:
        with Agent.load(folder):
            return True
    except OrchestratorError:
        return False


@pytest.mark.parametrize("name", [*WRONG, *RIGHT])
def test_lint_has_an_error_exactly_when_it_does_not_load(run, place, monkeypatch, name):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    write(place / "inn", *(WRONG | RIGHT)[name])
    done = run("lint", "inn", "--json")
    shown = [one for one in json.loads(done.stdout)["diagnostics"] if one["severity"] == "error"]
    assert bool(shown) == (not loads(place / "inn")) == (name in WRONG), shown
    assert done.exit_code == int(name in WRONG)
    assert len({one["message"] for one in shown}) == len(shown)  # each is told once


def test_an_agent_without_a_model_is_named_and_otherwise_checked(run, place):
    text = SAY.replace("foundationModel: anthropic.claude-3-haiku-20240307-v1:0\n", "")
    write(place / "inn", text, {})
    assert run("lint", "inn").stdout.splitlines()[0] == (
        "inn/agent.yaml:1:1: info: the agent names no foundationModel, and needs one to run "
        "[no-model]"
    )
    assert run("lint", "inn", "--model", "local").stdout == "nothing to complain about\n"
    write(place / "inn", text.replace("instruction:", "description:"), {})
    done = run("lint", "inn")
    assert done.exit_code == 1
    for line in (done.stdout, run("invoke", "inn", "Hi", "--model", "local").stderr):
        assert (
            "inn/agent.yaml:1:1: error: agent 'inn' has no instruction: say what it is for" in line
        )
    assert "characters, and Bedrock wants" not in done.stdout  # which says the same again
