"""Agents that are not what is invoked any more: what they have begun ends, after their turns."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from control_support import CLAUDE, INSTRUCTION, LAMBDA, Served, says, served, write_agent
from left_out import sampled
from waiting import until

from orchestrator.errors import ResourceNotFound
from orchestrator.server.agents.folders import Folders
from orchestrator.server.operations import Caller

GROUP = {
    "actionGroupName": "shop",
    "actionGroupExecutor": {"lambda": LAMBDA},
    "functionSchema": {"functions": [{"name": "order", "description": "Order it."}]},
}


def held(server: Served, id: str) -> weakref.ref[Any]:
    """Stands for what an agent has begun, which ends when nothing refers to it."""
    return weakref.ref(server.world.agents.resolve_alias(Caller(), id, "TSTALIASID").plan.held[0])


def is_gone(found: weakref.ref[Any]) -> bool:
    gc.collect()
    return found() is None


def prepared_again(server: Served, id: str) -> None:
    server.add(id, **{**GROUP, "actionGroupName": "other"})
    server.prepare(id)


def deleted(server: Served, id: str) -> None:
    server.control.delete_agent(agentId=id)
    with pytest.raises(ResourceNotFound):
        server.world.agents.resolve_alias(Caller(), id, "TSTALIASID")


@pytest.mark.parametrize("change", sampled([prepared_again, deleted]))
def test_what_was_prepared_before_ends_with_the_turns_that_use_it(
    change: Callable[[Served, str], None],
) -> None:
    with served(lambda request: says("Yes."), lambdas={LAMBDA: lambda event, context: {}}) as one:
        id, other = one.create(), one.create("other")
        for it in (id, other):
            one.add(it, **GROUP)
            one.prepare(it)
        assert one.ask(id) == "Yes."
        found, others = held(one, id), held(one, other)
        used: Any = one.world.agents.resolve_alias(Caller(), id, "TSTALIASID")
        change(one, id)
        assert not is_gone(found)
        assert used.invoke("Still there?", "s-still").text == "Yes."
        del used
        until(lambda: is_gone(found))
        assert not is_gone(others)


@pytest.mark.parametrize("stays", sampled([True, False]))
def test_an_agent_in_a_folder_ends_when_its_files_have_changed(tmp_path: Path, stays: bool) -> None:
    data = {
        "agentId": "CHANGED001",
        "agentName": "changed",
        "foundationModel": CLAUDE,
        "instruction": INSTRUCTION,
        "knowledgeBases": [
            {"knowledgeBaseId": "HANDBOOK01", "folder": "documents", "embedder": None}
        ],
    }
    for name in ("CHANGED001", "STAYING001"):
        folder = write_agent(tmp_path / name, {**data, "agentId": name, "agentName": name})
        (folder / "documents").mkdir()
        (folder / "documents" / "one.md").write_text("Pears are green.")
    with served(lambda request: says("Yes."), agents=tmp_path) as one:
        now = [0.0]
        agents = one.world.agents
        agents.folders = Folders(agents.resources, agents.fingerprint_folder, lambda: now[0])
        found, others = held(one, "CHANGED001"), held(one, "STAYING001")
        one.world.bases.base(Caller(), "HANDBOOK01").retrieve("pears")
        file = tmp_path / "CHANGED001" / "agent.json"
        if stays:
            file.write_text(file.read_text().replace("green", "ripe") + "\n")
        else:
            file.unlink()
        now[0] += 10
        one.world.bases.base(Caller(), "HANDBOOK01").retrieve("pears")
        until(lambda: is_gone(found))
        assert not is_gone(others)
