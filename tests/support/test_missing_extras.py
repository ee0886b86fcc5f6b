"""What is said where an extra is not installed: one form of words."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

import orchestrator
from orchestrator.errors import OrchestratorError
from orchestrator.models.embeddings.base import import_dependency
from orchestrator.support.lazy_imports import describe_missing_extra


def test_the_form() -> None:
    assert describe_missing_extra("MCP servers need", "mcp") == (
        "MCP servers need the extra 'mcp': pip install 'bedrock-orchestrator[mcp]'"
    )
    assert describe_missing_extra("it needs", "serve", "uvicorn") == (
        "it needs the extra 'serve' ('uvicorn' is not installed): "
        "pip install 'bedrock-orchestrator[serve]'"
    )


def test_no_other_code_writes_it() -> None:
    root = Path(orchestrator.__file__).parent
    # A docstring may say what to install; a message asks the function.
    written = re.compile(r"pip install 'bedrock-orchestrator\[(?!\w+\]'`)")
    files = [it for it in root.rglob("*.py") if written.search(it.read_text(encoding="utf-8"))]
    assert [it.name for it in files] == ["lazy_imports.py"]


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("numpy", "knowledge", lambda: import_dependency("numpy")),
    ],
)
def test_each_names_its_library(
    library: str, extra: str, use: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(use)
    monkeypatch.setitem(sys.modules, library, None)
    importlib.invalidate_caches()
    with pytest.raises(OrchestratorError) as caught:
        use()
    assert f"the extra {extra!r} ({library!r} is not installed): pip install" in str(caught.value)
