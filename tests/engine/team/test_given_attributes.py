"""Prompt session attributes that come with results are the whole team's from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from whole_agents import CLAUDE_35

from orchestrator import ActionGroup, Agent, Collaborator, ReturnControl, SQLiteStore
from orchestrator.testing import ScriptedModel

DO = [{"name": "do", "description": "Does it."}]
TEMPLATE = (
    '{"system": "$prompt_session_attributes$", "messages": [{"role": "user", "content": '
    '[{"text": "$question$"}]}, {"role": "assistant", "content": '
    '[{"text": "$agent_scratchpad$"}]}]}'
)
TOLD = {
    "ORCHESTRATION": {
        "promptState": "ENABLED",
        "promptCreationMode": "OVERRIDDEN",
        "basePromptTemplate": TEMPLATE,
    }
}


def uses(name: str, **given: Any) -> list[Any]:
    return [{"toolUse": {"toolUseId": f"t-{name}", "name": name, "input": given}}]


def sends(to: str) -> list[Any]:
    return uses("AgentCommunication__sendMessage", recipient=to, content="Do it.")


class Team:
    """A boss that leads a lead, who leads a worker; and a helper that is asked later."""

    def __init__(self, store: SQLiteStore, *done: int) -> None:
        says = ["<answer>Done.</answer>"]
        scripts = [
            [sends("lead"), sends("helper"), *says],
            [sends("worker"), *says],
            [uses("till__do"), *says],
            says,
        ]
        names = ["boss", "lead", "worker", "helper"]
        left = done or (0,) * 4
        self.models = {
            name: ScriptedModel(script[upto:], CLAUDE_35)
            for name, script, upto in zip(names, scripts, left, strict=True)
        }
        till = ActionGroup("till", functions=DO, executor=ReturnControl())
        worker = self._agent("worker", action_groups=[till])
        lead = self._agent("lead", worker)
        self.boss = self._agent("boss", lead, self._agent("helper"), sessions=store)

    def _agent(self, name: str, *team: Agent, **options: Any) -> Agent:
        members = [Collaborator(one, "Helps.") for one in team]
        model = self.models[name]
        return Agent(name, "Work.", model, collaborators=members, prompts=TOLD, **options)

    def told(self, name: str) -> list[str | None]:
        """The colour that each prompt of an agent tells."""
        colours = ("green", "blue")
        return [
            next((one for one in colours if one in str(request.system)), None)
            for request in self.models[name].requests
        ]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("given", "after"), [({"colour": "blue"}, "blue"), (None, "green")])
def test_all_that_follows_knows_them(
    given: dict[str, str] | None, after: str, restart: bool, tmp_path: Path
) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    team = Team(store)
    first = {"colour": "green"}
    control = team.boss.invoke("q", "s-1", prompt_session_attributes=first).return_control
    assert control is not None
    begun = [team.told(name) for name in ("boss", "lead", "worker", "helper")]
    assert begun == [["green"], ["green"], ["green"], []]
    if restart:
        team = Team(store, 1, 1, 1, 0)
    reply = team.boss.invoke(
        session_id="s-1", results=control.answer("done"), prompt_session_attributes=given
    )
    assert reply.text == "Done."
    rest = [after] if restart else ["green", after]
    assert [team.told(name) for name in ("worker", "lead", "helper")] == [rest, rest, [after]]
    assert team.told("boss") == [*rest, after]
    # The turn can be read again, with the same prompts.
    prompts = [
        part["trace"]["orchestrationTrace"]["modelInvocationInput"]["text"]
        for turn in team.boss.turns("s-1")
        for part in turn.trace
        if "modelInvocationInput" in part["trace"].get("orchestrationTrace", {})
    ]
    assert ["blue" in text for text in prompts].count(True) == (5 if after == "blue" else 0)
