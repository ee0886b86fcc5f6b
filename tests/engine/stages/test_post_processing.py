"""What post-processing reads: the answer, and all that the turn has found out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage_support import ON, Handbook, agent, asked, cited, lookup, sound, stages
from whole_agents import BOTH as BOTH_FAMILIES
from whole_agents import INSTRUCTION, NATIVE, Calls, Family, answer, live_parts, members, streamed

from orchestrator import ActionGroup, Agent, Collaborator, ReturnControl, action
from orchestrator.models.base import ModelReply, Usage
from orchestrator.testing import ScriptedModel

TEMPLATE = (
    '{"system": "", "messages": [{"role": "user", "content": [{"text": '
    '"Q=$question$ A=$latest_response$ R=$responses$"}]}]}'
)
POST = {"POST_PROCESSING": {"promptCreationMode": "OVERRIDDEN", "basePromptTemplate": TEMPLATE}}
DAYS = ("vacations::get_days", {"employee": "E-1"})
FINAL = "<final_response>You have 12 days.</final_response>"


def sends(family: Family, name: str, text: str) -> Any:
    return family.calls(("AgentCommunication::sendMessage", {"recipient": name, "content": text}))


@BOTH_FAMILIES
def test_it_reads_actions_searches_and_collaborators(family: Family) -> None:
    base = Handbook()
    other = Agent("payroll", INSTRUCTION, ScriptedModel([answer("Paid <b>.")], family.model_id))
    model = family.model(
        [
            family.calls(DAYS, lookup("rest")),
            sends(family, "payroll", "Is E-1 paid?"),
            cited(("12 days, paid.", base.source("rest"))),
            FINAL,
        ]
    )
    subject = agent(
        model,
        action_groups=Calls("12 < 20").groups(),
        knowledge_bases=[base],
        collaborators=[Collaborator(other, "Knows payments.")],
        prompts=POST,
    )
    reply = subject.invoke("How many?", "s-1")
    assert reply.text == "You have 12 days."
    told = asked(model.requests[-1])
    assert "Q=How many? A=12 days, paid. R=" in told
    order = [told.index(text) for text in ("12 &lt; 20", "About rest: twelve.", "Paid &lt;b&gt;.")]
    assert order == sorted(order)
    sound(reply)


@pytest.mark.parametrize("name", ["responses", "bot_response"])
def test_both_names_of_the_responses_hold_the_same(name: str) -> None:
    template = TEMPLATE.replace("$responses$", f"${name}$")
    titan = "amazon.titan-text-premier-v1:0"
    call = (
        "<thinking>I call.</thinking><function_calls><invoke><tool_name>vacations::get_days"
        "</tool_name><parameters><employee>E-1</employee></parameters></invoke></function_calls>"
    )
    model = ScriptedModel([call, answer("12."), FINAL], titan)
    made = {**POST["POST_PROCESSING"], "basePromptTemplate": template}
    subject = agent(
        model, action_groups=Calls("TWELVE").groups(), prompts={"POST_PROCESSING": made}
    )
    assert subject.invoke("q", "s-1").text == "You have 12 days."
    assert "TWELVE" in asked(model.requests[-1])


@BOTH_FAMILIES
def test_it_reads_what_the_caller_and_a_confirmed_action_gave(family: Family) -> None:
    @action(require_confirmation=True)
    def delete(account: str) -> str:
        """Deletes an account."""
        return f"{account} gone"

    functions = [{"name": "look", "description": "Looks.", "parameters": {}}]
    groups = [
        ActionGroup("accounts", [delete]),
        ActionGroup("eyes", functions=functions, executor=ReturnControl()),
    ]
    model = family.model(
        [
            family.calls(("accounts::delete", {"account": "a-1"}), ("eyes::look", {})),
            answer("Done."),
            FINAL,
        ]
    )
    subject = agent(model, action_groups=groups, prompts=POST)
    control = subject.invoke("q", "s-1").return_control
    assert control is not None
    results = control.answer({"delete": True, "look": "all dark"})
    reply = subject.invoke(session_id="s-1", results=results)
    told = asked(model.requests[-1])
    assert "a-1 gone" in told and "all dark" in told
    sound(reply)


@BOTH_FAMILIES
def test_without_results_it_reads_the_answer_alone(family: Family) -> None:
    model = family.model([answer("Hello."), FINAL])
    agent(model, prompts=POST).invoke("Hi", "s-1")
    assert "Q=Hi A=Hello. R=" in asked(model.requests[1])


@BOTH_FAMILIES
def test_a_question_to_the_user_and_a_refusal_are_not_processed(family: Family) -> None:
    groups = Calls().groups(ask_user=True)
    model = family.model([family.asks("Who?")])
    reply = agent(model, action_groups=groups, prompts=POST).invoke("q", "s-1")
    assert (reply.text, stages(model)) == ("Who?", ["ORCHESTRATION"])
    model = family.model(["<category>A</category>"])
    reply = agent(model, prompts={**POST, "PRE_PROCESSING": ON}).invoke("q", "s-1")
    assert (reply.stop_reason, stages(model)) == ("refused", ["PRE_PROCESSING"])


@BOTH_FAMILIES
@pytest.mark.parametrize(
    "reply",
    [
        ModelReply([{"text": "<final_response>You ha"}], "max_tokens", Usage(1, 1, calls=1)),
        "",
        "<final_response></final_response>",
    ],
    ids=["cut", "nothing", "empty"],
)
def test_the_draft_stays_when_there_is_nothing_better(family: Family, reply: Any) -> None:
    model = family.model([answer("12 days."), reply])
    made = agent(model, prompts=POST).invoke("q", "s-1")
    assert made.text == "12 days."
    sound(made)


@BOTH_FAMILIES
def test_streams_and_tasks_show_its_text_alone(family: Family) -> None:
    def one() -> Agent:
        model = family.model([family.calls(DAYS), answer("Draft."), FINAL], chunk=3)
        return agent(model, action_groups=Calls().groups(), prompts=POST)

    events, error = streamed(one(), "q", "s-1")
    assert error is None
    shown = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    assert shown == "You have 12 days."

    async def parts() -> list[Any]:
        return [event async for event in one().astream("q", "s-1")]

    assert members(live_parts(asyncio.run(parts()))) == members(live_parts(events))
    assert asyncio.run(one().ainvoke("q", "s-1")).text == "You have 12 days."


def test_citations_stay_only_where_their_text_does() -> None:
    base = Handbook()
    part = ("Twelve days.", base.source("a"))
    for final, kept in (("Twelve days. Enjoy!", True), ("You have 12.", False)):
        model = NATIVE.model(
            [
                NATIVE.calls(lookup("a")),
                cited(part),
                f"<final_response>{final}</final_response>",
            ]
        )
        reply = agent(model, knowledge_bases=[base], prompts=POST).invoke("q", "s-1")
        assert reply.text == final
        for one in reply.citations:
            told = one["generatedResponsePart"]["textResponsePart"]
            span = told["span"]
            assert reply.text[span["start"] : span["end"] + 1] == told["text"]
        assert bool(reply.citations) is kept


@BOTH_FAMILIES
def test_later_turns_read_the_final_answer_alone(family: Family) -> None:
    model = family.model(
        [
            f"<thinking>Secretly.</thinking>{answer('A draft.')}",
            FINAL,
            *(answer("Kept."), ""),
            *(answer("Bye."), ""),
        ]
    )
    subject = agent(model, prompts=POST)
    subject.invoke("One?", "s-1")
    subject.invoke("Two?", "s-1")
    told = asked(model.requests[2])
    assert "You have 12 days." in told and "draft" not in told and "Secretly" not in told
    # A draft that stays is the answer.
    subject.invoke("Three?", "s-1")
    assert "Kept." in asked(model.requests[4])
