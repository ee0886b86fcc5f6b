"""Row 10, for parsers of one's own: a file outside the agent's folder is never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.actions.parser_lambda import parser_function
from orchestrator.errors import DefinitionError


@pytest.mark.parametrize(
    "spec",
    [
        "../outside.py", "../outside.py:lambda_handler", "sub/../../outside.py", "link.py",
        "folder/outside.py", "{root}/outside.py",
    ],
)  # fmt: skip
def test_a_parser_outside_the_folder_is_refused(spec: str, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    (agent / "sub").mkdir(parents=True)
    ran = tmp_path / "ran"
    (tmp_path / "outside.py").write_text(
        f"open({str(ran)!r}, 'w').close()\ndef lambda_handler(event, context): pass\n"
    )
    (agent / "link.py").symlink_to(tmp_path / "outside.py")
    (agent / "folder").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(DefinitionError, match="outside the agent's folder"):
        parser_function(spec.format(root=tmp_path), agent)
    assert not ran.exists()
