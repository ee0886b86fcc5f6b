"""The same four agents of a harbour town, in every form that agents are deployed in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from orchestrator import Agent
from orchestrator.testing import ScriptedModel
from orchestrator.transfer.sources import ImportedAgents

PROJECTS = Path(__file__).parent / "projects"
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
KINDS = ("terraform", "plan", "state", "tfstate", "sam", "cloudformation", "cdk")

TEMPLATE = (
    '{"system":"$instruction$","messages":[{"role":"user","content":[{"text":"$question$"}]},'
    '{"role":"assistant","content":[{"text":"$agent_scratchpad$"}]}]}'
)
LIBRARY = (
    "You are the desk of a small library. You tell readers what they have borrowed and until when."
)
FERRY = "You tell passengers when the ferry goes, which depends on the tide."


def copy_project(kind: str, folder: Path) -> Path:
    """A project of a kind; plans and states lie beside the sources' code."""
    made = Path(shutil.copytree(PROJECTS / kind, folder / kind))
    if kind in ("plan", "state", "tfstate"):
        shutil.copytree(PROJECTS / "terraform" / "functions", made / "functions")
    return made


def describe(found: ImportedAgents) -> dict[str, Any]:
    """What was imported, without what each form says in its own way: ids, roles, names of files."""
    agents = {one.name: one for top in found.agents.values() for one in top.iter_agents()}
    return {name: _describe(one.data) for name, one in sorted(agents.items())}


def _describe(data: dict[str, Any]) -> dict[str, Any]:
    own = {k: v for k, v in data.items() if k not in ("agentId", "agentResourceRoleArn")}
    if own.get("idleSessionTTLInSeconds") == 600:  # what Terraform's provider sets
        del own["idleSessionTTLInSeconds"]
    for group in own.get("actionGroups", ()):
        group["apiSchema"] = yaml.safe_load(group.get("apiSchema", {}).get("payload", "")) or {}
        executor = group["actionGroupExecutor"]
        executor["lambda"] = executor.get("lambda", "").rpartition(":")[2]
        group.get("environment", {}).pop("STAGE", None)
        group.pop("isolation", None)  # where the code came along
        if data["agentName"] == "tides":
            group.pop("environment", None)
    for member in own.get("agentCollaborators", ()):
        member.pop("agentDescriptor", None)
    return own


def call(tool: str, /, **values: Any) -> list[dict[str, Any]]:
    """A scripted reply that calls a tool."""
    return [{"toolUse": {"toolUseId": "t-1", "name": tool, "input": values}}]


def hold_turns(folder: Path) -> dict[str, str]:
    """A whole turn of each agent in a folder of imported ones, and what came of it."""
    return {
        "library": _ask_library(folder / "library"),
        "garden": _ask_garden(folder / "garden"),
        "garden, guarded": _offend_garden(folder / "garden"),
        "ferry": _ask_ferry(folder / "ferry"),
    }


def _ask_library(folder: Path) -> str:
    model = ScriptedModel([call("GET__loans__listLoans", reader="7"), "<answer>Moss."], CLAUDE)
    answer = Agent.load(folder, model=model).invoke("What have I?", session_id="s-1").text
    [result] = model.requests[1].messages[-1]["content"]
    return f"{result['toolResult']['content'][0]['text']} {answer}"


def _ask_garden(folder: Path) -> str:
    model = ScriptedModel([call("watering__water_bed", bed="B", minutes=5)], CLAUDE)
    reply = Agent.load(folder, model=model).invoke("Water bed B.", session_id="s-1")
    assert reply.return_control is not None
    [invocation] = reply.return_control.invocation_inputs
    assert (
        model.requests[0].system
        == yaml.safe_load((folder / "agent.yaml").read_text())["instruction"]
    )
    wanted = invocation["functionInvocationInput"]
    values = ", ".join(f"{it['name']}={it['value']}" for it in wanted["parameters"])
    return f"{wanted['function']}: {values}"


def _offend_garden(folder: Path) -> str:
    model = ScriptedModel([], CLAUDE)
    return Agent.load(folder, model=model).invoke("Where is the weedkiller?", "s-1").text


def _ask_ferry(folder: Path) -> str:
    ask = call("AgentCommunication__sendMessage", recipient="tides", content="When?")
    replies = [ask, call("water__high_water", pier="A"), "<answer>Noon.", "<answer>At noon."]
    model = ScriptedModel(replies, CLAUDE)
    answer = Agent.load(folder, model=model).invoke("When do you go?", session_id="s-1").text
    [result] = model.requests[2].messages[-1]["content"]
    return f"{result['toolResult']['content'][0]['text']} {answer}"
