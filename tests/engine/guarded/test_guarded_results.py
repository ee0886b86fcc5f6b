"""The guardrail reads what actions, searches and collaborators returned, when it is asked to."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from guarded_support import BLOCKED, MASK, SECRET, Watching, kinds, prompt_texts, sound
from whole_agents import BOTH, INSTRUCTION, XML, Calls, Family, answer, live_parts, streamed

from orchestrator import ActionGroup, Agent, ReturnControl
from orchestrator.actions import ActionResult
from orchestrator.engine.plan import Features, Member
from orchestrator.errors import DependencyFailed
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

DAYS = ("vacations::get_days", {"employee": "E-1"})
SEARCH = ("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "q"})
KB_STAGE = "KNOWLEDGE_BASE_RESPONSE_GENERATION"
ON = {"promptState": "ENABLED"}
LOOK = [{"name": "look", "description": "Looks.", "parameters": {}}]


def made(model: Any, guardrail: Any = None, **options: Any) -> Agent:
    members = options.pop("members", ())
    features = Features(
        guardrail=guardrail or Watching(), guard_results=True, collaborators=members
    )
    return Agent("hr", INSTRUCTION, model, features=features, **options)


@BOTH
@pytest.mark.parametrize(("result", "told"), [(f"12 for {SECRET}", MASK), ("a bomb", BLOCKED)])
def test_the_model_reads_what_the_guardrail_lets_through(
    family: Family, result: str, told: str
) -> None:
    model = family.model([family.calls(DAYS), answer("Done."), answer("Yes.")])
    guardrail = Watching()
    subject = made(model, guardrail, action_groups=Calls(result).groups())
    reply = subject.invoke("How many?", "s-1")
    subject.invoke("Sure?", "s-1")
    assert guardrail.asked[1] == (result, "OUTPUT")
    prompts = prompt_texts(model)
    assert told in prompts and SECRET not in prompts and "bomb" not in prompts
    assert kinds(sound(reply)) == [
        "guardrail-pre-0 NONE",
        "modelInvocationInput",
        "modelInvocationOutput",
        "rationale",
        "invocationInput",
        "ACTION_GROUP",
        "guardrail-result-0-0 INTERVENED",
        "modelInvocationInput",
        "modelInvocationOutput",
        "rationale",
        "guardrail-post-0 NONE",
        "FINISH",
    ]


@BOTH
@pytest.mark.parametrize("prompts", [{}, {KB_STAGE: ON}], ids=["raw", "generated"])
@pytest.mark.parametrize("passage", [f"Ask {SECRET}.", "A bomb."])
def test_no_stage_reads_what_a_search_may_not_tell(
    family: Family, prompts: dict[str, Any], passage: str
) -> None:
    blocked = "bomb" in passage
    script = [family.calls(SEARCH)]
    script += [f"<answer>Ask {SECRET}!</answer>"] * (bool(prompts) and not blocked)
    model = family.model([*script, answer("Done.")])
    base = FakeKnowledgeBase("HANDBOOK01", [passage])
    reply = made(model, knowledge_bases=[base], prompts=prompts).invoke("q", "s-1")
    assert reply.text == "Done."
    assert SECRET not in prompt_texts(model) and "bomb" not in prompt_texts(model)
    assert (BLOCKED if blocked else MASK) in prompt_texts(model)
    sound(reply)


@BOTH
def test_collaborators_and_callers_are_read_too(family: Family) -> None:
    other = Agent("payroll", INSTRUCTION, ScriptedModel([answer(f"Ask {SECRET}")], family.model_id))
    sends = ("AgentCommunication::sendMessage", {"recipient": "payroll", "content": "Who?"})
    model = family.model([family.calls(sends), family.calls(("eyes::look", {})), answer("Done.")])
    subject = made(
        model,
        members=[Member("payroll", "Knows payments.", other.plan)],
        action_groups=[ActionGroup("eyes", functions=LOOK, executor=ReturnControl())],
    )
    control = subject.invoke("q", "s-1").return_control
    assert control is not None
    reply = subject.invoke(session_id="s-1", results=control.answer(f"I see {SECRET} and a bomb"))
    assert reply.text == "Done."
    assert SECRET not in prompt_texts(model) and "bomb" not in prompt_texts(model)
    sound(reply)


@BOTH
def test_post_processing_reads_no_more_than_the_loop(family: Family) -> None:
    model = family.model(
        [family.calls(DAYS), answer("Done."), "<final_response>So.</final_response>"]
    )
    groups = Calls(f"12 for {SECRET}").groups()
    reply = made(model, action_groups=groups, prompts={"POST_PROCESSING": ON}).invoke("q", "s-1")
    assert reply.text == "So."
    assert SECRET not in prompt_texts(model)
    assert MASK in f"{model.requests[-1].messages}{model.requests[-1].system}"


@BOTH
def test_each_of_several_results_is_read(family: Family) -> None:
    results = iter(["12", f"13 for {SECRET}", "a bomb"])

    def count() -> str:
        """Counts."""
        return next(results)

    model = family.model([family.calls(*[("numbers::count", {})] * 3), answer("Done.")])
    subject = made(model, action_groups=[ActionGroup("numbers", [count])])
    events, error = streamed(subject, "q", "s-1")
    assert error is None
    found = [kind for kind in kinds(live_parts(events)) if "result" in kind]
    assert sorted(kind.split()[1] for kind in found) == ["INTERVENED", "INTERVENED", "NONE"]
    assert [kind.split()[0] for kind in found] == [f"guardrail-result-0-{i}" for i in range(3)]


@BOTH
def test_mistakes_and_nothing_are_not_read(family: Family) -> None:
    guardrail = Watching()
    calls = family.calls(("vacations::fly", {}), DAYS)
    model = family.model([calls, answer("Done.")])
    made(model, guardrail, action_groups=Calls("").groups()).invoke("q", "s-1")
    assert [text for text, _ in guardrail.asked] == ["q", "Done."]


def test_without_being_asked_results_are_not_read() -> None:
    model = XML.model([XML.calls(DAYS), answer("Done.")])
    guardrail = Watching()
    subject = Agent(
        "hr", INSTRUCTION, model, guardrail=guardrail, action_groups=Calls("a bomb").groups()
    )
    assert subject.invoke("q", "s-1").text == "Done."
    assert [text for text, _ in guardrail.asked] == ["q", "Done."]


@BOTH
def test_tasks_do_the_same(family: Family) -> None:
    model = family.model([family.calls(DAYS), answer("Done.")])
    subject = made(model, action_groups=Calls(SECRET).groups())
    assert asyncio.run(subject.ainvoke("q", "s-1")).text == "Done."
    assert SECRET not in prompt_texts(model)


class Handler:
    """Returns what it was made with, in order."""

    def __init__(self, *results: ActionResult | Exception) -> None:
        self._results = iter(results)

    def call(self, call: Any, context: Any) -> ActionResult:
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result


def eyes(*results: ActionResult | Exception) -> list[ActionGroup]:
    return [ActionGroup("eyes", functions=LOOK, executor=Handler(*results))]


@BOTH
@pytest.mark.parametrize(("text", "told"), [(f"Ask {SECRET} first.", MASK), ("A bomb.", BLOCKED)])
def test_what_a_handler_asks_to_be_mended_is_read(family: Family, text: str, told: str) -> None:
    guardrail, result = Watching(), ActionResult(text, "REPROMPT")
    options: dict[str, Any] = {"prompts": {"POST_PROCESSING": ON}}
    model = family.model([family.calls(("eyes::look", {})), answer("Done."), "<final_response>So."])
    reply = made(model, guardrail, action_groups=eyes(result), **options).invoke("q", "s-1")
    assert guardrail.asked[1] == (text, "OUTPUT")
    prompts = prompt_texts(model)
    assert told in prompts and SECRET not in prompts and "bomb" not in prompts
    # It still is a mistake to the model, however it was masked.
    plain = family.model([family.calls(("eyes::look", {})), answer("Done."), "<final_response>So."])
    mistake = ActionResult(told if told == BLOCKED else text.replace(SECRET, MASK), "REPROMPT")
    made(plain, action_groups=eyes(mistake), **options).invoke("q", "s-1")
    assert re.sub(r"t-\d+", "", prompts) == re.sub(r"t-\d+", "", prompt_texts(plain))
    sound(reply)


@BOTH
def test_what_a_caller_asks_to_be_mended_is_read(family: Family) -> None:
    model = family.model([family.calls(("eyes::look", {})), answer("Done.")])
    groups = [ActionGroup("eyes", functions=LOOK, executor=ReturnControl())]
    subject = made(model, action_groups=groups)
    control = subject.invoke("q", "s-1").return_control
    assert control is not None
    results = control.answer(f"Ask {SECRET} and a bomb")
    results["returnControlInvocationResults"][0]["functionResult"]["responseState"] = "REPROMPT"
    assert subject.invoke(session_id="s-1", results=results).text == "Done."
    prompts = prompt_texts(model)
    assert BLOCKED in prompts and SECRET not in prompts and "bomb" not in prompts


@BOTH
def test_no_later_turn_reads_what_a_failed_one_left_unread(family: Family) -> None:
    both = family.calls(("eyes::look", {}), ("eyes::look", {}))
    model, guardrail = family.model([both, answer("Hello.")]), Watching()
    groups = eyes(ActionResult(f"A bomb for {SECRET}"), RuntimeError("no"))
    subject = made(model, guardrail, action_groups=groups)
    with pytest.raises(DependencyFailed):
        subject.invoke("q", "s-1")
    assert subject.invoke("And now?", "s-1").text == "Hello."
    prompts = prompt_texts(model)
    assert "There was a result, which was not kept." in prompts
    assert "The action failed." in prompts
    assert SECRET not in prompts and "bomb" not in prompts
