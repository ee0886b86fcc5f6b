"""A routed collaborator remembers what its user read of its answers, and no more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from guarded_support import BLOCKED, MASK, SECRET, Watching, prompt_texts, snapshot
from whole_agents import BOTH, INSTRUCTION, Calls, Family, answer, streamed

from orchestrator import Agent, Collaborator, DependencyFailed, SQLiteStore, TextDelta
from orchestrator.engine.plan import Features
from orchestrator.guardrails import Verdict
from orchestrator.testing import ScriptedModel

DAYS = ("vacations::get_days", {"employee": "E-1"})
ON = {"promptState": "ENABLED"}
SAID = pytest.mark.parametrize(
    ("said", "told"), [(f"Ask {SECRET}, please.", f"Ask {MASK}, please."), ("A bomb.", "")]
)
WAYS = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])


def routed(
    family: Family, model: ScriptedModel, turns: int = 2, guardrail: Any = None, **options: Any
) -> Agent:
    member = Agent("payroll", INSTRUCTION, model, **options.pop("member", {}))
    return leading(family, member, guardrail or Watching(), turns=turns, **options)


def leading(
    family: Family,
    member: Agent,
    guardrail: Any,
    name: str = "boss",
    turns: int = 2,
    **options: Any,
) -> Agent:
    return Agent(
        name,
        "You lead.",
        family.model([f"<a>{member.name}</a>"] * turns),
        collaborators=[Collaborator(member, "Knows payments.")],
        collaboration="SUPERVISOR_ROUTER",
        guardrail=guardrail,
        **options,
    )


def ask(one: Agent, question: str, way: str = "invoke") -> str:
    async def gathered() -> list[Any]:
        return [event async for event in one.astream(question, "s-1")]

    if way == "stream":
        return str(list(one.stream(question, "s-1"))[-1].reply.text)
    if way == "astream":
        return str(asyncio.run(gathered())[-1].reply.text)
    if way == "ainvoke":
        return asyncio.run(one.ainvoke(question, "s-1")).text
    return one.invoke(question, "s-1").text


def remembered(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages)


def check(model: ScriptedModel, told: str) -> None:
    assert SECRET not in prompt_texts(model) and "bomb" not in prompt_texts(model)
    if told:
        assert f"<answer>{told}</answer>" in remembered(model) and "First?" in remembered(model)


@BOTH
@SAID
@WAYS
def test_its_next_prompt_tells_what_the_user_read(
    family: Family, said: str, told: str, way: str
) -> None:
    model = family.model([answer(said), answer("Yes.")])
    boss = routed(family, model)
    assert ask(boss, "First?", way) == (told or BLOCKED)
    assert ask(boss, "Second?", way) == "Yes."
    check(model, told)


@BOTH
@SAID
def test_another_process_tells_the_same(
    family: Family, said: str, told: str, tmp_path: Path
) -> None:
    def process(reply: str) -> ScriptedModel:
        model = family.model([answer(reply)])
        store = SQLiteStore(tmp_path / "s.db")
        ask(routed(family, model, sessions=store), f"{reply[:3]}First?")
        return model

    process(said)
    check(process("Yes."), told)
    model = process("Indeed.")
    check(model, told)
    assert "<answer>Yes.</answer>" in remembered(model)


@BOTH
@SAID
def test_the_results_of_a_blocked_turn_stay_known(family: Family, said: str, told: str) -> None:
    model = family.model([family.calls(DAYS), answer(said), answer("Yes.")])
    boss = routed(family, model, member={"action_groups": Calls("12 days").groups()})
    ask(boss, "First?")
    ask(boss, "Second?")
    check(model, told)
    assert "12 days" in remembered(model)


@BOTH
@SAID
def test_the_guardrail_of_the_first_supervisor_counts_for_all(
    family: Family, said: str, told: str
) -> None:
    model = family.model([answer(said), answer("Yes.")])
    lead = leading(family, Agent("payroll", INSTRUCTION, model), None, "lead")
    boss = leading(family, lead, Watching())
    assert ask(boss, "First?") == (told or BLOCKED)
    ask(boss, "Second?")
    check(model, told)


@BOTH
@pytest.mark.parametrize("durable", [False, True])
def test_what_was_never_checked_is_never_told(
    family: Family, durable: bool, tmp_path: Path
) -> None:
    class Broken(Watching):
        def check(self, text: str, source: str) -> Verdict:
            if "Soon" in text:
                raise RuntimeError("down")
            return super().check(text, source)

    options = {"sessions": SQLiteStore(tmp_path / "s.db")} if durable else {}
    model = family.model([answer("Soon."), answer("Yes.")])
    boss = routed(family, model, guardrail=Broken(), **options)
    with pytest.raises(DependencyFailed):
        boss.invoke("First?", "s-1")
    ask(boss, "Second?")
    assert "Soon" not in prompt_texts(model)


@BOTH
def test_a_stream_that_nobody_read_to_its_end_leaves_no_answer(family: Family) -> None:
    model = ScriptedModel([answer("Soon. " * 50), answer("Yes.")], family.model_id, chunk=20)
    boss = routed(family, model)
    stream = boss.stream("First?", "s-1")
    assert any(isinstance(event, TextDelta) for event in stream)
    stream.close()
    ask(boss, "Second?")
    assert "Soon" not in prompt_texts(model)


@BOTH
def test_its_own_words_stay_where_nobody_changed_them(family: Family) -> None:
    model = family.model([f"<thinking>I know.</thinking>{answer('Soon.')}", answer("Yes.")])
    boss = routed(family, model)
    ask(boss, "First?")
    ask(boss, "Second?")
    assert "<thinking>I know.</thinking>" in remembered(model)


@BOTH
def test_a_routed_answer_streams_while_it_is_written(family: Family) -> None:
    said = "Soon and safely. " * 40
    model = ScriptedModel([answer(said)], family.model_id, chunk=10)
    guardrail = Watching()
    boss = routed(family, model, guardrail=guardrail)
    events, error = streamed(boss, "First?", "s-1")
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert error is None
    assert ("".join(pieces), len(pieces) > 5) == (said.strip(), True)
    assert [text for text, _ in guardrail.asked].count(said.strip()) == 1


@BOTH
@pytest.mark.parametrize(("said", "told"), [(f"Ask {SECRET}.", MASK), ("A bomb.", BLOCKED)])
def test_the_last_stage_reads_a_routed_answer_as_it_was_checked(
    family: Family, said: str, told: str
) -> None:
    member = Agent("payroll", INSTRUCTION, family.model([answer(said)]))
    model = family.model(["<a>payroll</a>", "<final_response>So.</final_response>"])
    features = Features(
        guardrail=Watching(),
        guard_results=True,
        collaborators=[Collaborator(member, "Knows payments.").as_member()],
        routes=True,
    )
    boss = Agent("boss", "Lead.", model, features=features, prompts={"POST_PROCESSING": ON})
    text = boss.invoke("q", "s-1").text
    assert SECRET not in prompt_texts(model) and "bomb" not in prompt_texts(model)
    assert (text, MASK in prompt_texts(model)) == (("So.", True) if told is MASK else (told, False))


@BOTH
@SAID
def test_a_turn_that_stopped_before_the_check_goes_on(
    family: Family, said: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.db"
    store = SQLiteStore(file)
    copies: list[Path] = []
    guardrail = Watching(lambda: copies.append(snapshot(file, f"{len(copies)}.db")))
    ask(routed(family, family.model([answer(said)]), guardrail=guardrail, sessions=store), "First?")
    model = family.model([answer("Yes.")])
    boss = routed(family, model, 1, sessions=SQLiteStore(copies[-1]))  # stopped at the last check
    assert ask(boss, "First?") == (told or BLOCKED)
    ask(boss, "Second?")
    check(model, told)
