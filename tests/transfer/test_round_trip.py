"""pull → push → pull is the identity, and what was carried does the same elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from left_out import sampled
from transfer_support import Place, led, place, plain, texts, whole, write

from orchestrator import Agent
from orchestrator.errors import ResourceNotFound
from orchestrator.testing import ScriptedModel
from orchestrator.transfer import read_agent, read_folder, write_files


def pulled(there: Place, agent_id: str, folder: Path) -> Path:
    write_files(there.pull(agent_id), folder)
    return folder


def without_id(files: dict[str, str]) -> dict[str, str]:
    return {
        path: "".join(it for it in text.splitlines(True) if not it.startswith("agentId:"))
        for path, text in files.items()
    }


def test_an_agent_comes_back_as_it_went(there: Place, tmp_path: Path) -> None:
    pushed = there.push(read_folder(write(tmp_path / "by-hand", whole())))
    first = pulled(there, pushed.agent_id, tmp_path / "first")

    again = there.push(read_folder(first))
    assert (again.agent_id, again.steps) == (pushed.agent_id, ())
    second = pulled(there, pushed.agent_id, tmp_path / "second")

    assert texts(second) == texts(first)
    assert [*texts(first)] == [
        "action_groups/claims/openapi.json",
        "agent.yaml",
        "templates/orchestration.json",
    ]
    assert read_folder(first).data["agentId"] == pushed.agent_id


def test_another_place_gets_the_same_agent(
    there: Place, another: Callable[[], Place], tmp_path: Path
) -> None:
    pushed = there.push(read_folder(write(tmp_path / "by-hand", whole())))
    first = pulled(there, pushed.agent_id, tmp_path / "first")

    elsewhere = another()
    made = elsewhere.push(read_folder(first))
    assert made.steps[0].verb == "create"
    second = pulled(elsewhere, made.agent_id, tmp_path / "second")

    assert without_id(texts(second)) == without_id(texts(first))


def test_a_team_comes_back_as_it_went(
    there: Place, another: Callable[[], Place], tmp_path: Path
) -> None:
    root = write(
        tmp_path / "by-hand",
        plain(
            "boss",
            agentCollaboration="SUPERVISOR",
            agentCollaborators=[led("bills"), led("visits"), led("again", folder="bills")],
        ),
    )
    write(root / "bills", whole(agentName="bills"))
    write(root / "visits", plain("visits"))
    pushed = there.push(read_folder(root))
    first = pulled(there, pushed.agent_id, tmp_path / "first")
    assert {it.partition("/")[2] for it in texts(first) if it.endswith("agent.yaml")} == {
        "",
        "bills/agent.yaml",
        "visits/agent.yaml",
    }
    assert there.push(read_folder(first)).steps == ()

    elsewhere = another()
    made = elsewhere.push(read_folder(first))
    second = pulled(elsewhere, made.agent_id, tmp_path / "second")
    assert without_id(texts(second)) == without_id(texts(first))
    assert elsewhere.push(read_folder(first)).steps == ()


def trace_of(there: Place, agent_id: str, alias_id: str) -> list[Any]:
    answer = there.runtime.invoke_agent(
        agentId=agent_id,
        agentAliasId=alias_id,
        sessionId="s-1",
        inputText="I need a visit on Monday.",
        enableTrace=True,
    )
    return [told(event) for event in answer["completion"]]


CHANGING = (
    *("agentId", "agentAliasId", "agentAliasArn", "callerChain", "traceId", "invocationId"),
    *("eventTime", "startTime", "endTime", "totalTimeMs", "operationTotalTimeMs"),
    "clientRequestId",
)


def told(value: Any) -> Any:
    """A trace without ids of agents and calls, and without times."""
    if isinstance(value, dict):
        return {k: told(v) for k, v in value.items() if k not in CHANGING}
    if isinstance(value, str):  # the message's id, in a model's raw reply
        return re.sub(r"msg_bdrk_[0-9a-f]+", "<message>", value)
    return [told(it) for it in value] if isinstance(value, list) else value


def test_it_does_the_same_elsewhere(tmp_path: Path) -> None:
    call = {
        "toolUse": {
            "toolUseId": "t-1",
            "name": "visits__book_visit",
            "input": {"day": "Monday"},
        }
    }
    replies = [[{"text": "<thinking>Book it.</thinking>"}, call]]
    agent = whole(promptOverrideConfiguration=None, guardrailConfiguration=None)
    with place(replies) as here, place(replies) as elsewhere:
        pushed = here.push(read_folder(write(tmp_path / "by-hand", agent)), alias="live")
        first = pulled(here, pushed.agent_id, tmp_path / "first")
        made = elsewhere.push(read_folder(first), alias="live")
        traces = [
            trace_of(here, pushed.agent_id, pushed.alias_id),
            trace_of(elsewhere, made.agent_id, made.alias_id),
        ]
    assert traces[0] == traces[1]
    assert any("returnControl" in it for it in traces[0])
    assert any("trace" in it for it in traces[0])


def test_what_was_pulled_runs_here(there: Place, tmp_path: Path) -> None:
    groups = whole()["actionGroups"][:1]
    agent = plain("claims", actionGroups=groups)
    pushed = there.push(read_folder(write(tmp_path / "by-hand", agent)))
    first = pulled(there, pushed.agent_id, tmp_path / "first")
    model = ScriptedModel(["<answer>Good day.</answer>"], "anthropic.claude-3-sonnet-20240229-v1:0")
    assert Agent.load(first, model=model).invoke("Hello?", "s-1").text == "Good day."


@pytest.mark.parametrize("which", sampled(["alias", "name", "version"]))
def test_a_version_is_pulled(there: Place, tmp_path: Path, which: str) -> None:
    folder = write(tmp_path / "by-hand", plain("claims", description="The first."))
    pushed = there.push(read_folder(folder), alias="live")
    write(folder, plain("claims", description="The second."))
    there.push(read_folder(folder))

    told = {"alias": pushed.alias_id, "name": "live", "version": "1"}[which]
    options = {"version" if which == "version" else "alias": told}
    then = read_agent(there.remote, pushed.agent_id, **options)
    now = read_agent(there.remote, pushed.agent_id)
    assert then.data["description"] == "The first."
    assert now.data["description"] == "The second."
    draft = read_agent(there.remote, pushed.agent_id, alias="TSTALIASID")
    assert draft.data == now.data
    with pytest.raises(ResourceNotFound, match="no alias"):
        read_agent(there.remote, pushed.agent_id, alias="nothing")
