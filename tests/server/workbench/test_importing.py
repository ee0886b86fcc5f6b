"""Agents and templates that are dropped: shown first, written after a click, and only inside."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from workbench_support import Answer, Workbench, workbench, write_shop

AGENT = {
    "agent": {
        "agentId": "ABCDEFGHIJ",
        "agentName": "claims",
        "agentArn": "arn:aws:bedrock:eu-central-1:123456789012:agent/ABCDEFGHIJ",
        "agentResourceRoleArn": "arn:aws:iam::123456789012:role/claims",
        "agentStatus": "PREPARED",
        "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
        "instruction": "You tell people how their insurance claims stand, whatever they ask.",
        "idleSessionTTLInSeconds": 600,
    }
}
GROUP = {
    "agentActionGroup": {
        "agentId": "ABCDEFGHIJ",
        "actionGroupName": "letters",
        "actionGroupState": "ENABLED",
        "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
        "functionSchema": {"functions": [{"name": "send", "description": "Sends a letter."}]},
    }
}
PROMPTY = """---
name: greeting
inputs:
  question:
    type: string
---
system:
You greet people.

user:
{{question}}
"""
TEMPLATE = (
    '{"system": "$instruction$", "messages": ['
    '{"role": "user", "content": [{"text": "$question$"}]},'
    '{"role": "assistant", "content": [{"text": "$agent_scratchpad$"}]}]}'
)


def pack(name: str, content: Any) -> dict[str, str]:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"name": name, "data": base64.b64encode(text.encode()).decode()}


def send(bench: Workbench, *files: dict[str, str], into: str = "new:0", **more: Any) -> Answer:
    return bench.client.post("/import", {"files": list(files), "into": into, **more})


def test_an_agent_is_shown_and_then_written_beside_the_others(tmp_path: Path) -> None:
    root = tmp_path / "agents"
    folder = write_shop(root)
    with workbench(folder) as bench:
        assert [one["kind"] for one in bench.client.get("/import").json["places"]] == [
            "new",
            "agent",
        ]
        files = (pack("agent.json", AGENT), pack("group.json", GROUP))
        shown = send(bench, *files)
        assert shown.status == 200, shown.text
        assert shown.json["format"] == "GetAgent"
        assert [(one["path"], one["kind"]) for one in shown.json["files"]] == [
            ("agent.yaml", "new")
        ]
        assert any("letters" in one["text"] for one in shown.json["rows"])
        target = folder / "imported/claims"
        assert not target.exists()
        written = send(bench, *files, digest=shown.json["digest"])
        assert written.json["written"] is True
        assert "agentName: claims" in (target / "agent.yaml").read_text()
        assert [one["name"] for one in bench.client.get("/").json["agents"]] == ["shop", "claims"]
        assert bench.client.get("/agents/claims/definition").json["wrong"] == ""
        assert send(bench, *files).json["files"] == []
    with workbench(folder) as again:
        assert [one["name"] for one in again.client.get("/").json["agents"]] == ["shop", "claims"]


def test_an_agent_of_the_workbench_is_replaced_after_its_difference_was_seen(
    tmp_path: Path,
) -> None:
    with workbench(tmp_path) as bench:
        file = pack("agent.json", AGENT)
        shown = send(bench, file, into="shop").json
        (change,) = shown["files"]
        assert change["kind"] == "changed"
        assert ["-", "agentName: shop"] in change["lines"]
        changed = (bench.folder / "agent.yaml").read_text() + "# mine\n"
        (bench.folder / "agent.yaml").write_text(changed)
        assert send(bench, file, into="shop", digest=shown["digest"]).status == 409
        assert (bench.folder / "agent.yaml").read_text() == changed
        digest = send(bench, file, into="shop").json["digest"]
        assert send(bench, file, into="shop", digest=digest).status == 200
        assert bench.client.get("/").json["agents"][0]["name"] == "claims"


@pytest.mark.parametrize("name", ["agent.yml", "agent.json"])
def test_an_agent_in_a_file_of_another_name_is_not_given_a_second_one(
    name: str, tmp_path: Path
) -> None:
    with workbench(tmp_path) as bench:
        (bench.folder / "agent.yaml").rename(bench.folder / name)
        refused = send(bench, pack("agent.json", AGENT), into="shop")
        assert (refused.status, name in refused.text) == (400, True)
        assert not (bench.folder / "agent.yaml").exists()


def test_a_name_that_is_taken_is_refused_before_the_click(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        refused = send(
            bench, pack("agent.json", {"agent": {**AGENT["agent"], "agentName": "shop"}})
        )
        assert (refused.status, "import into the agent itself" in refused.text) == (400, True)


def test_of_several_agents_one_is_chosen(tmp_path: Path) -> None:
    resource = {
        "Type": "AWS::Bedrock::Agent",
        "Properties": {
            "AgentName": "one",
            "FoundationModel": "anthropic.claude-3-haiku-20240307-v1:0",
            "Instruction": "You answer whatever people ask you, in a few words.",
        },
    }
    other = {**resource, "Properties": {**resource["Properties"], "AgentName": "two"}}  # type: ignore[dict-item]
    file = pack("template.json", {"Resources": {"One": resource, "Two": other}})
    with workbench(tmp_path) as bench:
        shown = send(bench, file).json
        assert [one["name"] for one in shown["choices"]] == ["one", "two"]
        assert len(shown["files"]) == 2
        assert send(bench, file, into="shop").status == 400
        assert [one["name"] for one in send(bench, file, agent="Two").json["agents"]] == ["two"]


def test_a_template_becomes_a_stages_own_or_a_file(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        file = pack("greeting.prompty", PROMPTY)
        shown = send(bench, file, into="shop").json
        assert (shown["kind"], shown["format"], shown["inputs"]) == (
            "template",
            "prompty",
            ["question"],
        )
        send(bench, file, into="shop", digest=shown["digest"])
        assert (bench.folder / "prompts/greeting.prompty").read_text() == PROMPTY
        own = bench.folder / "templates"
        own.mkdir()
        (own / "orchestration.json").write_text(TEMPLATE)
        as_stage = send(bench, file, into="shop", stage="ORCHESTRATION").json
        assert [(one["path"], one["kind"]) for one in as_stage["files"]] == [
            ("templates/orchestration.prompty", "new"),
            ("templates/orchestration.json", "removed"),
        ]
        send(bench, file, into="shop", stage="ORCHESTRATION", digest=as_stage["digest"])
        assert [it.name for it in own.iterdir()] == ["orchestration.prompty"]
        stage = bench.client.get("/agents/shop/definition").json["stages"]
        assert any(str(it["source"]).endswith("orchestration.prompty") for it in stage)


@pytest.mark.parametrize(
    "name", ["../x.json", "a/b.json", "a\\b.json", ".env", "", "a\x00b", "c:x.json", "x" * 300]
)
def test_names_that_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        refused = send(bench, {**pack("x", AGENT), "name": name})
        assert refused.status == 400
        assert "no file's name" in refused.json["message"]


def test_nothing_is_written_through_a_link_or_elsewhere(tmp_path: Path) -> None:
    folder = write_shop(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with workbench(folder) as bench:
        (folder / "imported").symlink_to(elsewhere)
        assert "link" in send(bench, pack("a.json", AGENT)).json["message"]
        (folder / "prompts").symlink_to(elsewhere)
        file = pack("greeting.prompty", PROMPTY)
        assert "link" in send(bench, file, into="shop").json["message"]
        (folder / "templates").symlink_to(elsewhere)
        refused = send(bench, file, into="shop", stage="ORCHESTRATION")
        assert refused.status == 400
        assert list(elsewhere.iterdir()) == []
        assert send(bench, file, into="new:7").status in (400, 404)
        assert send(bench, file, into="../x").status == 404


def test_too_much_and_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        assert send(bench).status == 400
        many = [pack(f"{n}.json", {}) for n in range(51)]
        assert send(bench, *many).status == 400
        big = {"name": "x.json", "data": base64.b64encode(b"x" * 20_000_001).decode()}
        assert "20,000,000" in send(bench, big).json["message"]
        assert "holds no agent" in send(bench, pack("x.json", {"a": 1})).json["message"]
        assert send(bench, {"name": "x.json", "data": "%"}).status == 400
        assert send(bench, pack("x.json", AGENT), pack("x.json", AGENT)).status == 400


def test_an_agent_that_names_what_is_on_this_machine_is_refused(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()")
    group = json.loads(json.dumps(GROUP))
    group["agentActionGroup"]["actionGroupExecutor"] = {"lambda": str(tmp_path / "evil.py")}
    with workbench(tmp_path) as bench:
        refused = send(bench, pack("a.json", AGENT), pack("g.json", group))
        assert refused.status in (400, 422)
        assert not ran.exists()


def test_hostile_names_are_text_in_what_is_shown(tmp_path: Path) -> None:
    hostile = json.loads(json.dumps(AGENT))
    hostile["agent"]["instruction"] = "<img src=x onerror=alert(1)> " * 3
    hostile["agent"]["agentName"] = "../../evil"
    with workbench(tmp_path) as bench:
        (agent,) = send(bench, pack("a.json", hostile)).json["agents"]
        assert Path(agent["folder"]) == bench.folder / "imported/evil"
        page = bench.client.page("/import?into=%3Cscript%3E")
        assert "<script>" not in page.text.replace("<script src", "").replace("<script type", "")
