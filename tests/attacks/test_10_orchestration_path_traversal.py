"""Row 10, for orchestrations of one's own: a file outside the agent's folder is never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.errors import DefinitionError
from orchestrator.flows.custom import LambdaOrchestration


@pytest.mark.parametrize(
    "spec",
    [
        "../outside.py",
        "../outside.py:lambda_handler",
        "link.py",
        "folder/outside.py",
        "{root}/a.py",
    ],
)
def test_an_orchestration_outside_the_folder_is_refused(spec: str, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    ran = tmp_path / "ran"
    for name in ("outside.py", "a.py"):
        (tmp_path / name).write_text(
            f"open({str(ran)!r}, 'w').close()\ndef lambda_handler(event, context): pass\n"
        )
    (agent / "link.py").symlink_to(tmp_path / "outside.py")
    (agent / "folder").symlink_to(tmp_path, target_is_directory=True)
    spec = spec.format(root=tmp_path)
    with pytest.raises(
        DefinitionError, match=r"the orchestration .* is outside the agent's folder"
    ):
        LambdaOrchestration(spec, agent)
    (agent / "agent.yaml").write_text(
        "agentName: a\ninstruction: You help.\nfoundationModel: local\n"
        "orchestrationType: CUSTOM_ORCHESTRATION\n"
        f"customOrchestration: {{executor: {{lambda: '{spec}'}}}}\n"
    )
    with pytest.raises(DefinitionError) as refused:
        Agent.load(agent)
    assert refused.value.line == 5
    assert not ran.exists()
