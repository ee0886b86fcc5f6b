"""Agents in folders of a server, pulled from it: what the API can tell of them, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from transfer_support import place, plain, write

from orchestrator.server.operations import Caller
from orchestrator.transfer import difference, files_of, read_agent, read_folder, write_files

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "files", "notes"),
    [
        ("handbook", ["agent.yaml"], set()),
        (
            "team",
            ["agent.yaml"]
            + [f"collaborators/{it}/agent.yaml" for it in ("claims", "billing", "appointments")],
            {"executor"},
        ),
        ("hr", ["agent.yaml"], {"executor"}),
    ],
)
def test_a_pulled_folder_is_what_the_server_tells(
    tmp_path: Path, canaries: object, name: str, files: list[str], notes: set[str]
) -> None:
    own = tmp_path / "own"
    shutil.copytree(EXAMPLES / name, own)
    with place(agents=own) as there:
        ((agent_id, *_),) = there.world.agents.list_invocable(Caller())
        document = read_agent(there.remote, agent_id)
        told = files_of(document)
        write_files(told, tmp_path / "pulled")
        assert sorted(told) == sorted(files)
        assert {it.code for one in document.iter_agents() for it in one.notes} == notes
        for folder in (tmp_path / "pulled", own):
            assert difference(read_folder(folder), there.remote, agent_id).changes == []


def test_functions_that_the_api_cannot_tell_are_left_out(tmp_path: Path, canaries: object) -> None:
    own = write(
        tmp_path / "own",
        plain(
            "own",
            actionGroups=[
                {"actionGroupName": "tools", "actionGroupExecutor": {"python": "tools.py"}}
            ],
        ),
    )
    (own / "tools.py").write_text(
        "from orchestrator import action\n\n\n@action\ndef get_days() -> int:\n"
        f'    """{"Get the days. " * 200}"""\n    return 1\n'
    )
    with place(agents=own) as there:
        ((agent_id, *_),) = there.world.agents.list_invocable(Caller())
        (group,) = read_agent(there.remote, agent_id).parts("actionGroups")
        assert group == {"actionGroupName": "tools"}
