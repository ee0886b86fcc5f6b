"""The messages that docs/troubleshooting.md explains are those of the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| `([^`]+)`", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def literals() -> str:
    """All code, with texts that span several lines put together."""
    files = sorted((ROOT / "orchestrator").rglob("*.py"))
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return re.sub(r'"\s*\n\s*f?"', "", code)


@pytest.mark.parametrize("message", [it for it in MESSAGES if not it.startswith("agent.yaml")])
def test_a_message_is_one_that_can_come(message: str, literals: str) -> None:
    assert message in literals


def test_the_page_explains_some() -> None:
    assert len(MESSAGES) > 15
