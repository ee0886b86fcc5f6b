"""Every dialect's prompt of every stage, whole: compared with files that were reviewed."""

import pytest

from orchestrator.prompts import STAGES
from orchestrator.prompts.placeholders import FAMILIES
from orchestrator.support.content_root import content_root

from .whole_prompts import FOLDER, path_of, whole


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_prompt_is_the_one_that_was_reviewed(name, stage):
    # `python -m tests.prompts.whole_prompts` writes them again; read the difference.
    assert whole(name, stage) == path_of(name, stage).read_text(encoding="utf-8")


def test_every_dialect_and_stage_has_its_file_and_no_other_is_there():
    expected = {path_of(name, stage) for name in FAMILIES for stage in (*STAGES, "conversation")}
    assert set(FOLDER.rglob("*.txt")) == expected


def test_every_shipped_dialect_is_a_family():
    shipped = {path.parent.name for path in (content_root() / "templates").glob("*/dialect.yaml")}
    assert shipped == set(FAMILIES)
