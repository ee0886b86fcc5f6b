"""How a folder differs from an agent elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transfer_support import (
    FUNCTION,
    FUNCTIONS,
    SCHEMA,
    TEMPLATE,
    Place,
    led,
    place,
    plain,
    texts,
    whole,
    write,
)

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.transfer import (
    Document,
    changes,
    difference,
    files_of,
    read_agent,
    read_folder,
    write_files,
)


def test_what_was_pulled_is_the_same(there: Place, folder: Path, tmp_path: Path) -> None:
    pushed = there.push(read_folder(write(folder, whole())))
    write_files(files_of(read_agent(there.remote, pushed.agent_id)), tmp_path / "pulled")
    for one in (folder, tmp_path / "pulled"):
        found = difference(read_folder(one), there.remote)
        assert (found.agent_id, found.changes) == (pushed.agent_id, [])


def test_a_difference_is_told_file_by_file(there: Place, folder: Path) -> None:
    there.push(read_folder(write(folder, whole())))
    changed = whole(description="Changed.")
    stages = changed["promptOverrideConfiguration"]["promptConfigurations"]
    stages[0]["basePromptTemplate"] = TEMPLATE.replace("sailor", "pirate")
    changed["actionGroups"].reverse()  # which says nothing
    found = difference(read_folder(write(folder, changed)), there.remote)
    assert [it.path for it in found.changes] == ["agent.yaml", "templates/orchestration.json"]
    definition, template = found.changes
    assert "Answers questions about claims." in str(definition.before)
    assert "description: Changed." in str(definition.after)
    assert "pirate" in str(template.after) and "sailor" in str(template.before)


def test_a_file_that_is_only_on_one_side_is_told(there: Place, folder: Path) -> None:
    there.push(read_folder(write(folder, whole())))
    found = difference(read_folder(write(folder, plain("claims"))), there.remote)
    gone = {it.path for it in found.changes if it.after is None}
    assert gone == {"templates/orchestration.json", "action_groups/claims/openapi.json"}


def test_a_team_is_compared_by_its_names(there: Place, folder: Path) -> None:
    team = plain("boss", agentCollaboration="SUPERVISOR", agentCollaborators=[led("worker")])
    root = write(folder, team)
    write(root / "worker", plain("worker"))
    there.push(read_folder(root))
    assert difference(read_folder(root), there.remote).changes == []
    write(root / "worker", plain("worker", description="Changed."))
    found = difference(read_folder(root), there.remote)
    assert [it.path for it in found.changes] == ["collaborators/worker/agent.yaml"]
    write(root / "second", plain("second"))
    team["agentCollaborators"].append(led("second"))
    write(root, team)
    found = difference(read_folder(root), there.remote)
    assert [it.path for it in found.changes if it.before is None] == [
        "collaborators/second/agent.yaml"
    ]


def test_how_it_runs_here_is_no_difference(there: Place, folder: Path) -> None:
    group = {
        "actionGroupName": "claims",
        "functionSchema": {"functions": FUNCTIONS},
        "actionGroupExecutor": {"lambda": FUNCTION},
    }
    there.push(read_folder(write(folder, plain("claims", actionGroups=[group]))))
    local = {**group, "actionGroupExecutor": {"lambda": "handler.py"}}
    data = plain("claims", actionGroups=[local], limits={"iterations": 3})
    del data["agentResourceRoleArn"]
    write(folder, data)
    (folder / "handler.py").write_text("def lambda_handler(event, context): ...")
    found = difference(read_folder(folder), there.remote)
    assert found.changes == []
    assert any("limits" in it.message for it in found.notes)


def test_a_schema_that_is_written_differently_is_the_same(there: Place, folder: Path) -> None:
    def agent(payload: str) -> Path:
        one = {"actionGroupName": "claims", "actionGroupExecutor": {"lambda": FUNCTION}}
        group = {**one, "apiSchema": {"payload": payload}}
        return write(folder, plain("claims", actionGroups=[group]))

    there.push(read_folder(agent(json.dumps(SCHEMA))))
    found = difference(read_folder(agent(json.dumps(SCHEMA, indent=3))), there.remote)
    assert found.changes == []


def test_a_version_can_be_compared_with(there: Place, folder: Path) -> None:
    pushed = there.push(read_folder(write(folder, plain("claims"))), alias="live")
    write(folder, plain("claims", description="Changed."))
    there.push(read_folder(folder))
    document = read_folder(folder)
    assert difference(document, there.remote).changes == []
    for options in ({"version": "1"}, {"alias": pushed.alias_id}):
        found = difference(document, there.remote, pushed.agent_id, **options)
        assert [it.path for it in found.changes] == ["agent.yaml"]


def test_there_is_nothing_to_compare_with(there: Place, folder: Path) -> None:
    with pytest.raises(ResourceNotFound, match="orchestrator push"):
        difference(read_folder(write(folder, plain("claims"))), there.remote)


def test_what_a_server_does_not_tell_is_no_difference(folder: Path) -> None:
    group = {
        "actionGroupName": "claims",
        "functionSchema": {"functions": FUNCTIONS},
        "actionGroupExecutor": {"lambda": "handler.py"},
    }
    write(folder, plain("claims", actionGroups=[group]))
    handler = "def lambda_handler(event, context): ..."
    (folder / "handler.py").write_text(handler)
    with place(agents=folder) as there:
        found = difference(read_folder(folder), there.remote)
        assert found.changes == []
        pulled = read_agent(there.remote, found.agent_id)
    assert [it.code for it in pulled.notes] == ["executor"]
    assert "actionGroupExecutor" not in pulled.data["actionGroups"][0]


def test_what_an_earlier_pull_has_left_is_a_difference(there: Place, folder: Path) -> None:
    write(folder, plain("claims"))
    there.push(read_folder(folder))
    left = {"templates/orchestration.txt": TEMPLATE, "action_groups/old/openapi.json": "{}"}
    for path, text in left.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    found = difference(read_folder(folder), there.remote)
    assert {it.path: (it.before, it.after) for it in found.changes} == {
        path: (None, text) for path, text in left.items()
    }


def test_what_the_agent_does_not_have_any_more_is_taken_away(there: Place, folder: Path) -> None:
    pushed = there.push(read_folder(write(folder, whole())))
    before = there.pull(pushed.agent_id)
    write_files(before, folder, force=True)
    (folder / "action_groups" / "mine.txt").write_text("mine")
    data = {**whole(), "actionGroups": []}
    del data["promptOverrideConfiguration"]
    after = files_of(Document(data))
    gone = sorted({*before} - {*after})
    assert any(it.startswith("templates/") for it in gone)
    assert any(it.startswith("action_groups/") for it in gone)
    told = [it for it in changes(after, folder) if it.after is None]
    assert sorted((it.path, it.before) for it in told) == [(it, before[it]) for it in gone]

    with pytest.raises(ValidationError, match="removed"):
        write_files(after, folder)
    assert all((folder / it).is_file() for it in gone)

    assert set(write_files(after, folder, force=True)) >= set(told)
    assert texts(folder) == {**after, "action_groups/mine.txt": "mine"}
    assert write_files(after, folder) == []


def test_upper_and_lower_case_may_be_one_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "action_groups" / "claims").mkdir(parents=True)
    file = tmp_path / "action_groups" / "claims" / "openapi.json"
    file.write_text("{}")
    write_files({"agent.yaml": "", "action_groups/CLAIMS/openapi.json": "{}"}, tmp_path)
    assert file.read_text() == "{}"


def test_a_link_to_what_would_be_taken_away_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (tmp_path / "agent" / "templates").mkdir(parents=True)
    (tmp_path / "agent" / "templates" / "orchestration.txt").symlink_to(mine)
    with pytest.raises(ValidationError, match="through a link"):
        write_files({"agent.yaml": ""}, tmp_path / "agent", force=True)
    assert mine.read_text() == "mine"
