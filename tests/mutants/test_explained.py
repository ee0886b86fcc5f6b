"""What `explained.toml` says is about the code as it stands."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parent
SURVIVORS = tomllib.loads((_FOLDER / "explained.toml").read_text(encoding="utf-8"))["survivor"]


@pytest.mark.parametrize("one", SURVIVORS, ids=lambda one: f"{one['file']}-{one['definition']}")
def test_an_explained_mutant_changes_code_that_is_there(one: dict[str, Any]) -> None:
    source = (_FOLDER.parents[1] / one["file"]).read_text(encoding="utf-8")
    code = " ".join(line.strip() for line in source.splitlines())
    assert one["before"] in code
    assert one["after"] != one["before"]
    assert one["reason"].endswith(".")


def test_each_is_explained_once() -> None:
    keys = [(it["file"], it["definition"], it["before"], it["after"]) for it in SURVIVORS]
    assert len(keys) == len(set(keys))
