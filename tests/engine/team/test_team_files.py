"""Files that a turn made reach its caller, whoever in the team made them, also when read later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from whole_agents import BOTH, INSTRUCTION, XML, Family, answer

from orchestrator import ActionGroup, Agent, Collaborator, Files, ReturnControl
from orchestrator.actions import ActionResult, Call, CallContext
from orchestrator.testing import FakeGuardrail

FUNCTIONS = [
    {
        "name": "draw",
        "description": "Draws.",
        "parameters": {"what": {"type": "string", "description": "What.", "required": True}},
    }
]
LOOK = [{"name": "look", "description": "Looks.", "parameters": {}}]


class Draws:
    def call(self, call: Call, context: CallContext) -> ActionResult:
        return ActionResult("Drawn.", files=[drawn(call.arguments["what"])])


def drawn(what: str) -> dict[str, Any]:
    return {"name": f"{what}.txt", "type": "text/plain", "bytes": what.encode()}


def painter(family: Family, what: str, said: str = "Drawn.", **options: Any) -> Agent:
    script = [family.calls(("paint::draw", {"what": what})), answer(said)]
    groups = [ActionGroup("paint", functions=FUNCTIONS, executor=Draws())]
    return Agent("painter", INSTRUCTION, family.model(script), action_groups=groups, **options)


def sends(family: Family, *names: str) -> Any:
    calls = [
        ("AgentCommunication::sendMessage", {"recipient": name, "content": "Draw."})
        for name in names
    ]
    return family.calls(*calls)


def boss(script: list[Any], family: Family, *members: Agent, **options: Any) -> Agent:
    named = [
        Collaborator(member, "Draws.", name=name)
        for name, member in zip("ab", members, strict=False)
    ]
    return Agent("boss", "You lead.", family.model(script), collaborators=named, **options)


@BOTH
def test_a_collaborators_files_come_with_the_answer(family: Family) -> None:
    def subject() -> Agent:
        own = [ActionGroup("paint", functions=FUNCTIONS, executor=Draws())]
        script = [
            family.calls(("paint::draw", {"what": "sun"})),
            sends(family, "a"),
            answer("All drawn."),
        ]
        return boss(script, family, painter(family, "cat"), action_groups=own)

    expected = [drawn("sun"), drawn("cat")]
    assert subject().invoke("Draw.", "s-1").files == expected
    assert asyncio.run(subject().ainvoke("Draw.", "s-1")).files == expected
    events = list(subject().stream("Draw.", "s-1"))
    assert [one.files for one in events if isinstance(one, Files)] == [expected]
    assert isinstance(events[-2], Files) and events[-1].reply.files == expected


@BOTH
def test_files_of_several_and_of_those_below(family: Family) -> None:
    middle = boss([sends(family, "a"), answer("Done.")], family, painter(family, "dog"))
    subject = boss(
        [sends(family, "a", "b"), answer("Done.")], family, painter(family, "cat"), middle
    )
    names = [file["name"] for file in subject.invoke("Draw.", "s-1").files]
    assert sorted(names) == ["cat.txt", "dog.txt"]


@BOTH
def test_a_routed_answer_has_its_files(family: Family) -> None:
    subject = boss(["<a>a</a>"], family, painter(family, "cat"), collaboration="SUPERVISOR_ROUTER")
    assert subject.invoke("Draw.", "s-1").files == [drawn("cat")]


@BOTH
def test_the_next_turn_has_none_of_them(family: Family) -> None:
    script = [sends(family, "a"), answer("Done."), answer("Yes.")]
    subject = boss(script, family, painter(family, "cat"))
    assert subject.invoke("Draw.", "s-1").files == [drawn("cat")]
    reply = subject.invoke("Is it good?", "s-1")
    assert (reply.text, reply.files) == ("Yes.", [])


@BOTH
@pytest.mark.parametrize("changed", [False, True])
def test_files_of_a_turn_that_is_read_later(family: Family, changed: bool, tmp_path: Path) -> None:
    looks = ActionGroup("eyes", functions=LOOK, executor=ReturnControl())

    def subject(script: list[Any], *groups: ActionGroup) -> Agent:
        member, file = painter(family, "cat"), tmp_path / "sessions.sqlite"
        return boss(script, family, member, action_groups=groups, sessions=file)

    before = subject([sends(family, "a"), family.calls(("eyes::look", {})), answer("Seen.")], looks)
    waiting = before.invoke("Draw.", "s-1")
    assert waiting.return_control is not None and waiting.files == []
    results = waiting.return_control.answer({"look": "a cat"})
    assert before.invoke(session_id="s-1", results=results).files == [drawn("cat")]

    again = subject([], *([] if changed else [looks]))
    reply = again.invoke(session_id="s-1", results=results)  # the same, given twice
    assert (reply.text, reply.files) == ("Seen.", [drawn("cat")])
    assert bool(reply.trace) is not changed
    events = list(again.stream(session_id="s-1", results=results))
    assert [one.files for one in events if isinstance(one, Files)] == [[drawn("cat")]]
    (kept,) = again.turns("s-1")
    assert kept.files == [drawn("cat")]


@BOTH
def test_who_is_refused_gives_no_files(family: Family) -> None:
    guardrail = FakeGuardrail(blocked=["bomb"])
    below = boss([sends(family, "a"), answer("A bomb.")], family, painter(family, "dog"))
    refused = Agent(
        "middle",
        "You lead.",
        family.model([sends(family, "a"), answer("A bomb.")]),
        collaborators=[Collaborator(painter(family, "dog"), "Draws.", name="a")],
        guardrail=guardrail,
    )
    script = [sends(family, "a", "b"), answer("Done.")]
    assert len(boss(script, family, painter(family, "cat"), below).invoke("D", "s-1").files) == 2
    subject = boss(script, family, painter(family, "cat"), refused)
    assert subject.invoke("Draw.", "s-1").files == [drawn("cat")]


def test_an_answer_that_is_refused_has_no_files() -> None:
    subject = painter(XML, "cat", "A bomb.", guardrail=FakeGuardrail(blocked=["bomb"]))
    reply = subject.invoke("Draw.", "s-1")
    assert (reply.stop_reason, reply.files) == ("guardrail_intervened", [])
    (kept,) = subject.turns("s-1")
    assert kept.files == []
