"""Attack 12: a stored prompt of one tenant is neither read, changed nor used by another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from control_support import CLAUDE, Served, refused, served, write_keys

SECRET = "s" * 40
VARIANT = {
    "name": "v",
    "templateType": "TEXT",
    "templateConfiguration": {"text": {"text": "The password is swordfish. {{question}}"}},
    "modelId": CLAUDE,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    keys = write_keys(tmp_path / "keys.json", SECRET, one=["*"], two=["*"], none=[])
    with served(lambda request: "Yes.", keys=keys) as running:
        yield running


def test_anothers_prompt_is_not_there(server: Served) -> None:
    one, two = (server.control_as(f"AKID{name}", SECRET) for name in ("ONE", "TWO"))
    made = one.create_prompt(name="mine", variants=[VARIANT], tags={"a": "b"})
    id, arn = made["id"], made["arn"]
    version = one.create_prompt_version(promptIdentifier=id)["arn"]
    assert two.list_prompts()["promptSummaries"] == []
    for identifier in (id, arn, version):
        for call, given in (
            (two.get_prompt, {}),
            (two.delete_prompt, {}),
            (two.list_prompts, {}),
        ):
            with refused("ResourceNotFoundException"):
                call(promptIdentifier=identifier, **given)
    for call, given in ((two.update_prompt, {"name": "x"}), (two.create_prompt_version, {})):
        with refused("ResourceNotFoundException"):
            call(promptIdentifier=id, **given)
    for tagged in (arn, version):
        with refused("ResourceNotFoundException"):
            two.list_tags_for_resource(resourceArn=tagged)
        models = server.client("bedrock-runtime", "AKIDTWO", SECRET)
        with refused("ResourceNotFoundException"):
            models.converse(modelId=tagged, promptVariables={"question": {"text": "?"}})
    assert two.create_prompt(name="mine")["name"] == "mine"
    assert one.get_prompt(promptIdentifier=id)["variants"] == [VARIANT]
    assert server.model.requests == []


def test_a_prompt_asks_no_model_that_its_owner_may_not_use(tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "keys.json", SECRET, none=[])
    with served(keys=keys, answers_for="other.*") as server:
        control = server.control_as("AKIDNONE", SECRET)
        arn = control.create_prompt(name="mine", variants=[VARIANT])["arn"]
        models = server.client("bedrock-runtime", "AKIDNONE", SECRET)
        with refused("AccessDeniedException", CLAUDE):
            models.converse(modelId=arn, promptVariables={"question": {"text": "?"}})
