"""The steps of past turns: small rows, and each model call's prompt exactly as it was sent."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from whole_agents import EACH, NATIVE, Calls, Family, agent, answer

from orchestrator import Agent, Collaborator, Limits, SQLiteStore, ValidationError
from orchestrator.sessions import EncryptedStore
from orchestrator.support.encryption import KEYS
from orchestrator.testing import InMemoryStore, ScriptedModel

CALL = ("vacations::get_days", {"employee": "E-1"})


def sent(model: Any) -> list[tuple[str, str, list[Any]]]:
    return [(it.stage, it.system, list(it.messages)) for it in model.requests]


def shown(of: Agent, session: str = "s-1") -> list[tuple[str, str, list[Any]]]:
    prompts = [it.prompt() for turn in of.turns(session) for it in turn.steps() if it.has_prompt]
    return [(it.stage, str(it.system), it.messages) for it in prompts]


@EACH
def test_the_prompts_of_all_steps_are_those_that_were_sent(family: Family, tmp_path: Path) -> None:
    model = family.model([family.calls(CALL), answer("Twelve."), family.calls(CALL), answer("Yes")])
    asked = agent(model, Calls().groups(), sessions=tmp_path / "s.db")
    asked.invoke("How many days has E-1?", "s-1")
    asked.invoke("And now? 😀", "s-1", prompt_session_attributes={"unit": "days"})
    later = agent(family.model([]), Calls().groups(), sessions=SQLiteStore(tmp_path / "s.db"))
    assert shown(later) == sent(model)


def test_every_character_of_a_prompt_has_one_origin() -> None:
    asked = agent(NATIVE.model([NATIVE.calls(CALL), answer("Twelve.")]), Calls().groups())
    asked.invoke("How many? 😀 Thanks.", "s-1")
    prompt = asked.turns("s-1")[0].steps()[-1].prompt()
    assert list(prompt.tools) == list(asked.plan.orchestration.tools)
    assert "".join(prompt.system[it.start : it.end] for it in prompt.system.spans) == prompt.system
    (span,) = [it for it in prompt[0].spans if it.origin == "question"]
    assert prompt[0]["content"][0]["text"][span.start : span.end] == "How many? 😀 Thanks."


def test_rows_say_what_was_done() -> None:
    broken = "<answer>Hm"
    model = NATIVE.model([NATIVE.calls(CALL), broken, answer("Twelve.")])
    asked = agent(model, Calls().groups())
    asked.invoke("How many?", "s-1")
    steps = asked.turns("s-1")[0].steps()
    assert [(it.kind, it.call, it.stage) for it in steps][:2] == [
        ("model", 1, "ORCHESTRATION"),
        ("action", 0, ""),
    ]
    assert (steps[1].name, dict(steps[1].arguments), steps[1].text) == (
        "vacations::get_days",
        {"employee": "E-1"},
        "12",
    )
    assert steps[0].usage is not None
    assert all(it.began <= it.ended for it in steps)
    parsed = steps[0].parse()
    assert [it["text"] for it in parsed["pieces"] if it["kind"] == "toolUse"]
    with pytest.raises(ValidationError, match="step 2 has no prompt: it is no model call"):
        steps[1].prompt()
    with pytest.raises(ValidationError, match="step 2 is no model call"):
        steps[1].parse()


def test_the_rows_of_a_long_turn_grow_with_it_and_not_with_its_square() -> None:
    sizes = {}
    for count in (20, 40):
        model = NATIVE.model([*[NATIVE.calls(CALL)] * count, answer("Twelve.")])
        asked = agent(
            model, Calls("x" * 2_000).groups(), limits=Limits(iterations=50, model_calls=50)
        )
        asked.invoke("How many?", "s-1")
        steps = asked.turns("s-1")[0].steps()
        sizes[count] = len(json.dumps([it.as_dict() for it in steps]))
    assert sizes[40] < 2.2 * sizes[20]


def test_prompts_of_last_month_have_the_template_of_last_month(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    (folder / "templates").mkdir(parents=True)
    (folder / "agent.yaml").write_text(
        "agentName: own\nfoundationModel: anthropic.claude-3-haiku-20240307-v1:0\n"
        "instruction: You answer questions of all kinds.\n"
    )
    template = folder / "templates" / "orchestration.json"
    messages = '[{"role": "user", "content": "$question$"}]'
    body = f'{{"system": "SAID $instruction$", "messages": {messages}}}'
    template.write_text(body)
    model = ScriptedModel([answer("Yes.")], model_id="anthropic.claude-3-haiku-20240307-v1:0")
    file = tmp_path / "s.db"
    Agent.load(folder, model=model, sessions=file).invoke("So?", "s-1")
    template.write_text(body.replace("SAID", "NEW"))
    changed = Agent.load(folder, model=model, sessions=SQLiteStore(file))
    (turn,) = changed.turns("s-1")
    assert (turn.has_changed, turn.has_todays_prompts) == (True, False)
    assert shown(changed) == sent(model)
    assert turn.steps()[0].prompt().system.startswith("SAID You answer")
    assert "SAID" in str(turn.trace)
    assert changed.render("ORCHESTRATION", "So?").system.startswith("NEW")


class Forgetful(InMemoryStore):
    def save_plan(self, digest: str, text: str) -> None:
        """Keeps none."""


def test_a_store_that_keeps_no_plans_says_that_prompts_are_those_of_today() -> None:
    store = Forgetful()
    agent(NATIVE.model([answer("Yes.")]), Calls().groups(), sessions=store).invoke("So?", "s-1")
    other = Agent("hr", "You do something else.", NATIVE.model([]), sessions=store)
    (turn,) = other.turns("s-1")
    assert turn.has_changed
    assert turn.has_todays_prompts
    assert turn.steps()[0].prompt().system.startswith("You do something else.")


def test_a_turn_that_cannot_be_followed_any_more_keeps_its_rows() -> None:
    store = InMemoryStore()
    asked = agent(
        NATIVE.model([NATIVE.calls(CALL), answer("12")]), Calls().groups(), sessions=store
    )
    asked.invoke("So?", "s-1")
    other = agent(NATIVE.model([]), sessions=store)
    steps = other.turns("s-1")[0].steps()
    assert [it.kind for it in steps] == ["model", "action", "model"]
    assert [it.has_prompt for it in steps] != [True, False, True]


def test_steps_of_collaborators_have_their_own_prompts_and_branches() -> None:
    days = NATIVE.model([NATIVE.calls(CALL), answer("12")])
    send = NATIVE.calls(("AgentCommunication::sendMessage", {"recipient": "days", "content": "?"}))
    boss = Agent(
        "boss",
        "You lead others.",
        NATIVE.model([send, answer("It is 12.")]),
        collaborators=[Collaborator(agent(days, Calls().groups()), "For vacation days.", "days")],
    )
    boss.invoke("How many are left?", "s-1")
    steps = boss.turns("s-1")[0].steps()
    assert [(it.kind, bool(it.branch), it.has_prompt) for it in steps] == [
        ("model", False, True),
        ("model", True, True),
        ("action", True, False),
        ("model", True, True),
        ("agent", False, False),
        ("model", False, True),
    ]
    below = [it.prompt() for it in steps if it.branch and it.has_prompt]
    assert [str(it.system) for it in below] == [it.system for it in days.requests]
    assert [it.messages for it in below] == [list(it.messages) for it in days.requests]
    assert (steps[4].name, dict(steps[4].arguments)) == ("days", {"message": "?"})


def test_what_prompts_were_made_of_is_encrypted_with_the_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, base64.b64encode(bytes(32)).decode())
    file = SQLiteStore(tmp_path / "s.db")
    store = EncryptedStore(file)
    asked = agent(NATIVE.model([answer("Yes.")]), Calls().groups(), sessions=store)
    asked.invoke("So?", "s-1")
    digest = asked.plan.digest
    assert "vacations" not in str(file.load_plan(digest))
    assert "vacations" in str(store.load_plan(digest))
    monkeypatch.setenv(KEYS, base64.b64encode(bytes([1]) * 32).decode())
    assert EncryptedStore(file).load_plan(digest) is None
