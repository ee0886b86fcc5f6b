"""`orchestrator lint` of what a definition names: other agents, guardrails, documents, parsers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SUPERVISOR = """\
agentName: %s
instruction: You lead the agents of a shop and answer its customers with their help.
foundationModel: local
agentCollaboration: SUPERVISOR
agentCollaborators:
  - collaboratorName: helper
    agentDescriptor: {folder: helper}
    collaborationInstruction: Helps.
"""
ALONE = """\
agentName: alone
instruction: You help the agent that leads you with everything that it asks you for.
foundationModel: local
"""


def team(place: Path, levels: int, last: str = ALONE) -> Path:
    """Agents that lead one another, one inside the other's folder."""
    folder = Path("boss")
    for level in range(levels):
        here = Path(folder, *["helper"] * level)
        (place / here).mkdir()
        text = last if level == levels - 1 else SUPERVISOR % f"level{level}"
        (place / here / "agent.yaml").write_text(text)
    return folder


def found(done):
    return [
        (it["severity"], it["code"], it["file"], it["line"], it["message"])
        for it in json.loads(done.stdout)["diagnostics"]
    ]


@pytest.mark.parametrize("levels", [2, 3])
def test_a_good_team_is_clean(run, place, levels):
    done = run("lint", team(place, levels), "--strict")
    assert (done.exit_code, done.stdout) == (0, "nothing to complain about\n")


@pytest.mark.parametrize("levels", [2, 3])
def test_a_collaborators_mistake_is_told_with_its_own_file_and_line(run, place, levels):
    boss = team(place, levels, ALONE + "instructon: x\n")
    done = run("lint", boss)
    file = "/".join(["boss", *["helper"] * (levels - 1), "agent.yaml"])
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{file}:4:1: error: 'instructon' is not a member of an agent")
    assert "did you mean 'instruction'?" in done.stdout


def test_a_collaborators_templates_and_actions_are_checked(run, place):
    group = "actionGroups:\n  - {actionGroupName: g, actionGroupExecutor: {python: acts.py}}\n"
    boss = team(place, 2, ALONE + group)
    helper = place / "boss" / "helper"
    (helper / "acts.py").write_text("from orchestrator import action\n\nx = 1 +\n")
    (helper / "templates").mkdir()
    (helper / "templates" / "orchestration.json").write_text("{")
    done = run("lint", boss, "--json")
    assert done.exit_code == 1
    files = {Path(file).relative_to(place) for _, _, file, _, _ in found(done)}
    assert Path("boss/helper/templates/orchestration.json") in files
    assert Path("boss/helper/acts.py") in files or Path("boss/helper/agent.yaml") in files


def test_too_many_levels_are_told_where_they_begin(run, place):
    done = run("lint", team(place, 5), "--json")
    ((severity, code, file, line, message),) = found(done)
    assert (severity, code, line) == ("error", "definition", 7)
    assert Path(file).relative_to(place) == Path("boss/helper/helper/agent.yaml")
    assert message == (
        "with 'helper' there are 4 levels of agents that lead agents; the most are 3"
    )


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (".", "'helper' is the agent's own folder; name one inside of it"),
        ("..", "'helper' links to a place outside of the agent's folder; copy it in"),
    ],
)
def test_an_agent_that_would_lead_itself_is_refused(run, place, link, message):
    boss = team(place, 1, SUPERVISOR % "boss")
    (place / boss / "helper").symlink_to(link, target_is_directory=True)
    done = run("lint", boss, "--json")
    assert done.exit_code == 1
    assert [(line, text) for _, _, _, line, text in found(done)] == [(7, message)]


def test_a_circle_through_a_collaborators_folder_is_refused(run, place):
    boss = team(place, 2, SUPERVISOR % "helper")
    (place / boss / "helper" / "helper").symlink_to("..", target_is_directory=True)
    done = run("lint", boss, "--json")
    ((_, _, file, line, message),) = found(done)
    assert (Path(file).relative_to(place), line) == (Path("boss/helper/agent.yaml"), 7)
    assert message.startswith("'helper' links to a place outside of the agent's folder")


def test_a_collaborators_folder_without_an_agent_is_told(run, place):
    boss = team(place, 1, SUPERVISOR % "boss")
    (place / boss / "helper").mkdir()
    done = run("lint", boss)
    assert done.exit_code == 1
    assert done.stdout.startswith("boss/helper: error: the folder has no agent.yaml")


def test_what_has_no_effect_in_a_team_is_noted(run, place):
    own = "memoryConfiguration: {enabledMemoryTypes: [SESSION_SUMMARY]}\n"
    boss = team(place, 2, ALONE + own + "idleSessionTTLInSeconds: 600\n")
    done = run("lint", boss, "--json", "--strict")
    assert done.exit_code == 0
    assert [(severity, code, line) for severity, code, _, line, _ in found(done)] == [
        ("info", "unused-memory", 4),
        ("info", "unused-time-out", 5),
    ]
    assert {Path(file).relative_to(place) for _, _, file, _, _ in found(done)} == {
        Path("boss/helper/agent.yaml")
    }
    assert found(run("lint", boss / "helper", "--json")) == []  # it may run alone, too


def test_a_leader_of_nobody_is_told(run, place):
    boss = team(place, 1, ALONE + "agentCollaboration: SUPERVISOR_ROUTER\n")
    ((severity, _, _, line, message),) = found(run("lint", boss, "--json"))
    assert (severity, line) == ("error", 4)
    assert message.startswith("an agent that leads others needs agentCollaborators")


def test_a_given_model_is_the_collaborators_too(run, place):
    boss = team(place, 2, ALONE.replace("foundationModel: local", "foundationModel: gpt-5"))
    assert [code for _, code, *_ in found(run("lint", boss, "--json"))] == ["model"]
    assert found(run("lint", boss, "--json", "--model", "local")) == []


@pytest.mark.parametrize(
    ("member", "line", "message"),
    [
        ("guardrailConfiguration: {file: gone.yaml}", 4, "there is no file 'gone.yaml'"),
        ("guardrailConfiguration: {checkResults: true}", 4, "give guardrailConfiguration either"),
        (
            "guardrailConfiguration: {guardrailIdentifier: a, file: notes.txt}",
            4,
            "give guardrailConfiguration either a guardrailIdentifier or a file",
        ),
        (
            "knowledgeBases: [{knowledgeBaseId: rules, folder: gone}]",
            4,
            "there is no folder 'gone' in the agent's folder",
        ),
        ("knowledgeBases: [{knowledgeBaseId: rules}]", 4, "'rules' is no id"),
        (
            "promptOverrideConfiguration: {overrideLambda: gone.py}",
            4,
            "there is no file 'gone.py' in the agent's folder",
        ),
        (
            "promptOverrideConfiguration: {promptConfigurations: "
            "[{promptType: ORCHESTRATION, parserMode: OVERRIDDEN}]}",
            4,
            "the stage's parser is OVERRIDDEN, and there is none",
        ),
        (
            "promptOverrideConfiguration: {overrideLambda: notes.txt, promptConfigurations: "
            "[{promptType: ORCHESTRATION, parserMode: OVERRIDDEN}]}",
            4,
            "the parser 'notes.txt' is not a Python file",
        ),
        (
            "agentCollaborators: [{collaboratorName: b, agentDescriptor: {folder: gone}}]",
            4,
            "there is no folder 'gone' in the agent's folder",
        ),
    ],
)
def test_what_cannot_be_had_is_told_with_its_line(run, place, member, line, message):
    boss = team(place, 1, f"{ALONE}{member}\n")
    (place / boss / "notes.txt").write_text("agentName: x\n")
    errors = [it for it in found(run("lint", boss, "--json")) if it[0] == "error"]
    ((_, _, file, at, told),) = errors
    assert (Path(file).name, at) == ("agent.yaml", line)
    assert message in told


def test_mistakes_in_a_guardrails_file_are_told_with_its_lines(run, place):
    boss = team(place, 1, f"{ALONE}guardrailConfiguration: {{file: guardrail.yaml}}\n")
    (place / boss / "guardrail.yaml").write_text("name: shop\nwordPolicyConfg: {}\n")
    done = run("lint", boss)
    assert done.exit_code == 1
    assert "boss/guardrail.yaml:2:1: error: 'wordPolicyConfg' is not a member" in done.stdout


def test_a_parser_is_looked_at_and_not_run(run, place):
    parser = (
        "promptOverrideConfiguration: {overrideLambda: 'parser.py:parse', promptConfigurations: "
        "[{promptType: ORCHESTRATION, parserMode: OVERRIDDEN}]}\n"
    )
    boss = team(place, 1, ALONE + parser)
    file = place / boss / "parser.py"
    file.write_text("open('ran', 'w')\ndef parse(event): return {}\n")
    assert run("lint", boss).exit_code == 0
    assert not Path("ran").exists()
    file.write_text("def other(event): return {}\n")
    done = run("lint", boss)
    assert done.exit_code == 1 and "parse" in done.stdout
    file.write_text("def parse(event) return {}\n")
    assert run("lint", boss).exit_code == 1


def test_documents_are_neither_read_nor_indexed(run, place):
    base = "knowledgeBases: [{knowledgeBaseId: rules, description: R., folder: rules}]\n"
    boss = team(place, 1, ALONE + base)
    (place / boss / "rules").mkdir()
    assert run("lint", boss).exit_code == 0
    assert not (place / boss / ".orchestrator").exists()
