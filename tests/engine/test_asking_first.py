"""Calls that change something wait for the user's wish, where the dialect says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    Reply,
    ReturnControl,
    SQLiteStore,
    action,
)
from orchestrator.testing import ScriptedModel

QUESTION = "Shall I go ahead with cancel vacation (V-15)?"


class Vacations:
    """A group of functions, and which of their calls were carried out."""

    def __init__(self, confirm: bool | None = None) -> None:
        self.done: list[str] = []

        @action(require_confirmation=confirm)
        def cancel_vacation(request_id: str) -> str:
            """Cancel one planned vacation.

            Args:
                request_id: Id of the vacation request, for example V-12.
            """
            self.done.append(f"cancel {request_id}")
            return f"{request_id} is cancelled"

        @action
        def list_vacations() -> str:
            """List the planned vacations."""
            self.done.append("list")
            return "V-12 in May, V-15 in July"

        @action
        def request_vacation(start: str, end: str) -> str:
            """Request a vacation.

            Args:
                start: First day of the vacation as YYYY-MM-DD, for example 2027-06-14.
                end: Last day of the vacation as YYYY-MM-DD, for example 2027-06-18.
            """
            self.done.append(f"request {start} {end}")
            return "requested"

        self.group = ActionGroup(
            "vacations", actions=[cancel_vacation, list_vacations, request_vacation]
        )


def use(name: str, **values: Any) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": f"t-{name}", "name": f"vacations__{name}", "input": values}}]


CANCEL = use("cancel_vacation", request_id="V-15")


def make(vacations: Vacations, *replies: Any, model_id: str = "local", **options: Any) -> Agent:
    model = ScriptedModel(replies, model_id)
    return Agent("hr", "You help.", model, action_groups=[vacations.group], **options)


def talk(agent: Agent, *inputs: str) -> list[Reply]:
    return [agent.invoke(text, "s-1") for text in inputs]


def test_what_the_user_did_not_name_is_asked_about_and_done_after_a_yes() -> None:
    vacations = Vacations()
    agent = make(vacations, CANCEL, "<answer>V-15 is cancelled.")
    asked, done = talk(agent, "Cancel the one in July.", "Yes.")
    assert (asked.text, asked.stop_reason) == (QUESTION, "ask_user")
    assert done.text == "V-15 is cancelled."
    assert vacations.done == ["cancel V-15"]


@pytest.mark.parametrize(
    "yes",
    [
        "yes, please",
        "OK, do it!",
        "Ja, bitte.",
        "是的，请取消",
        "Oui",
        "Sí, por favor",
        "好的",
        "cancel it",
    ],
)
def test_a_yes_is_understood_in_several_languages(yes: str) -> None:
    vacations = Vacations()
    talk(make(vacations, CANCEL, "<answer>Done."), "That one.", yes)
    assert vacations.done == ["cancel V-15"]


@pytest.mark.parametrize(
    "other",
    [
        "yes, but not that one",
        "cancel the other one",
        "please",
        "Ja, aber erst morgen",
        "没有",
        "Kyllä",
        "no",
        "what?",
        "nicht ja",
    ],
)
def test_what_is_not_understood_as_a_yes_does_nothing(other: str) -> None:
    vacations = Vacations()
    agent = make(vacations, CANCEL, CANCEL)
    asked, again = talk(agent, "That one.", other)
    assert (asked.text, again.text) == (QUESTION, QUESTION)
    assert vacations.done == []


def test_after_a_plain_no_the_call_is_not_offered_again() -> None:
    model = ScriptedModel([CANCEL, "<answer>All right."], "local")
    agent = Agent("hr", "You help.", model, action_groups=[Vacations().group])
    talk(agent, "That one.", "Nein, danke.")
    assert model.requests[1].call_format.excluded == {"vacations__cancel_vacation"}


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Cancel V-15.", False),
        ("Please cancel the vacation V-15", False),
        ("OK, do it: cancel number 15!", False),
        ("I would like to cancel V-15, thanks", False),
        ("How would I cancel V-15?", True),
        ("Can I cancel V-15?", True),
        ("Don't cancel V-15", True),
        ("If it rains, cancel V-15", True),
        ("Cancelling V-15 sounds good", True),
        ("Tell me about V-15", True),
        ("Storniere V-15", True),
        ("Bitte cancel V-15 nicht", True),
        ("请取消 V-15", True),
        ("Bob said “cancel V-15”", True),
    ],
)
def test_only_an_order_in_plain_words_needs_no_yes(text: str, asks: bool) -> None:
    vacations = Vacations()
    (reply,) = talk(make(vacations, CANCEL, "<answer>Done."), text)
    assert (reply.text == QUESTION) is asks
    assert vacations.done == ([] if asks else ["cancel V-15"])


def test_an_id_that_was_said_a_while_ago_is_not_said_any_more() -> None:
    vacations = Vacations()
    hello = ["<answer>Hello."] * 3
    agent = make(vacations, "<answer>Which?", *hello, CANCEL)
    *_, last = talk(agent, "It is V-15", "Hi", "Hi", "Hi", "Cancel it.")
    assert last.text == QUESTION and vacations.done == []


def test_a_wish_and_the_values_for_it_come_one_after_the_other() -> None:
    vacations = Vacations()
    agent = make(
        vacations,
        use("request_vacation", start="?", end="?"),
        use("request_vacation", start="2027-03-08", end="?"),
        use("request_vacation", start="2027-03-08", end="2027-03-12"),
        "<answer>It is requested.",
    )
    both, last, done = talk(
        agent, "I'd like to request a vacation.", "from 2027-03-08", "until 2027-03-12"
    )
    assert both.text == (
        "Could you tell me the first day of the vacation and the last day of the vacation?"
    )
    assert last.text == "Could you tell me the last day of the vacation?"
    assert done.text == "It is requested."
    assert vacations.done == ["request 2027-03-08 2027-03-12"]


def test_the_model_reads_which_call_waits() -> None:
    model = ScriptedModel(
        [use("request_vacation", start="2027-03-08", end="?"), "<answer>Fine."], "local"
    )
    agent = Agent("hr", "You help.", model, action_groups=[Vacations().group])
    talk(agent, "from 2027-03-08", "hm")
    request = model.requests[1]
    assert request.call_format.pending == (
        "vacations__request_vacation",
        {"start": "2027-03-08", "end": "?"},
    )
    *_, call, result, question, _ = (one for one in request.messages if one["content"])
    assert call["content"][0]["toolUse"]["input"]["end"] == "?"
    told = result["content"][0]["toolResult"]["content"][0]["text"]
    assert told == "Missing: the last day of the vacation. Ask the user."
    assert "Could you tell me the last day" in question["content"][0]["text"]
    assert model.requests[0].call_format.pending is None


def test_what_waits_is_in_the_journal_and_goes_on_in_another_process(tmp_path: Path) -> None:
    vacations = Vacations()
    first = make(vacations, CANCEL, sessions=SQLiteStore(tmp_path / "s.sqlite"))
    (asked,) = talk(first, "The one in July")
    second = make(vacations, "<answer>Done.", sessions=SQLiteStore(tmp_path / "s.sqlite"))
    (done,) = talk(second, "Yes")
    assert vacations.done == ["cancel V-15"]
    assert "Done." in done.text
    turns = second.turns("s-1")
    end = turns[0].records[-1]
    assert end["pending"] == {
        "name": "vacations__cancel_vacation",
        "arguments": {"request_id": "V-15"},
        "confirms": True,
    }
    assert "pending" not in turns[1].records[-1]
    assert turns[1].trace == done.trace  # made again, from the journal
    assert asked.text == turns[0].text


def test_a_question_is_forgotten_after_another_input() -> None:
    vacations = Vacations()
    agent = make(vacations, CANCEL, "<answer>Hello.", "<answer>Yes what?")
    talk(agent, "That one.", "Hello!", "Yes")
    assert vacations.done == []


def test_a_yes_makes_a_step_in_the_trace_and_in_the_history() -> None:
    model = ScriptedModel([CANCEL, "<answer>Done.", "<answer>It was V-15."], "local")
    agent = Agent("hr", "You help.", model, action_groups=[Vacations().group])
    _, done, _ = talk(agent, "That one.", "Yes", "Which was it?")
    parts = [one["trace"]["orchestrationTrace"] for one in done.trace]
    kinds = [next(iter(part)) for part in parts]
    assert kinds.index("invocationInput") < kinds.index("modelInvocationInput")
    uses = [
        block["toolUse"]["input"]
        for message in model.requests[2].messages
        for block in message["content"]
        if "toolUse" in block
    ]
    assert uses[-2:] == [{"request_id": "V-15"}, {"request_id": "V-15"}]


def test_an_author_who_says_disabled_is_not_asked_for_again() -> None:
    vacations = Vacations(confirm=False)
    talk(make(vacations, CANCEL, "<answer>Done."), "That one.")
    assert vacations.done == ["cancel V-15"]


def test_enabled_hands_over_to_the_caller_as_before() -> None:
    vacations = Vacations(confirm=True)
    (reply,) = talk(make(vacations, CANCEL), "That one.")
    assert reply.stop_reason == "return_control" and reply.return_control is not None


def test_a_confirmed_call_that_is_repeated_gets_its_result_again() -> None:
    vacations = Vacations(confirm=True)
    agent = make(vacations, CANCEL, CANCEL, "<answer>V-15 is cancelled.")
    (asked,) = talk(agent, "That one.")
    assert asked.return_control is not None
    done = agent.invoke("", "s-1", results=asked.return_control.answer(True))
    assert (done.text, done.stop_reason) == ("V-15 is cancelled.", "end_turn")
    assert vacations.done == ["cancel V-15"]


def test_what_only_reads_may_be_read_again_and_the_loop_ends() -> None:
    vacations = Vacations()
    look = use("list_vacations")
    model = ScriptedModel([look, look, "<answer>V-12 and V-15."], "local")
    agent = Agent("hr", "You help.", model, action_groups=[vacations.group])
    talk(agent, "Which?")
    assert vacations.done == ["list", "list"]
    assert model.requests[2].call_format.excluded == {"vacations__list_vacations"}


def test_what_was_read_before_a_change_is_no_repetition_after_it() -> None:
    vacations = Vacations()
    look = use("list_vacations")
    model = ScriptedModel([look, CANCEL, look, "<answer>V-12 is left."], "local")
    agent = Agent("hr", "You help.", model, action_groups=[vacations.group])
    talk(agent, "Cancel V-15 and list the others")
    assert vacations.done == ["list", "cancel V-15", "list"]
    assert model.requests[3].call_format.excluded == frozenset()


def test_a_call_that_the_caller_carries_out_waits_for_the_wish_too() -> None:
    functions = [{"name": "open_door", "description": "Opens a door."}]
    group = ActionGroup("vacations", functions=functions, executor=ReturnControl())
    model = ScriptedModel([use("open_door"), use("open_door")], "local")
    agent = Agent("house", "You help.", model, action_groups=[group])
    asked, handed = talk(agent, "Is it cold outside", "ja")
    assert asked.text == "Shall I go ahead with open door?"
    assert handed.return_control is not None
    assert handed.return_control.invocation_inputs[0]["functionInvocationInput"]["function"] == (
        "open_door"
    )


def test_other_dialects_ask_nothing() -> None:
    vacations = Vacations()
    agent = make(vacations, CANCEL, "<answer>Done.", model_id="amazon.nova-pro-v1:0")
    talk(agent, "That one.")
    assert vacations.done == ["cancel V-15"]


def test_a_correction_of_the_model_is_never_the_answer() -> None:
    wrong = use("cancel_vacation", other=1)
    model = ScriptedModel([wrong, "unused"], "local")
    agent = Agent("hr", "You help.", model, action_groups=[Vacations().group])
    copy = make(Vacations(), wrong, "<answer>Done.").invoke("Cancel V-15", "s-2")
    told = [
        one["trace"]["orchestrationTrace"]["observation"]["repromptResponse"]["text"]
        for one in copy.trace
        if "repromptResponse" in one["trace"]["orchestrationTrace"].get("observation", {})
    ]
    assert told
    model = ScriptedModel([wrong, f"<answer>{told[0]}"], "local")
    agent = Agent("hr", "You help.", model, action_groups=[Vacations().group])
    assert agent.invoke("Cancel V-15", "s-1").text == "Sorry, I could not do that."


def test_a_collaborator_asks_its_supervisor_and_goes_on_after_the_yes() -> None:
    vacations = Vacations()
    clerk = make(vacations, CANCEL, "<answer>V-15 is cancelled.")

    def send(text: str) -> list[dict[str, Any]]:
        values = {"recipient": "clerk", "content": text}
        name = "AgentCommunication__sendMessage"
        return [{"toolUse": {"toolUseId": "m-1", "name": name, "input": values}}]

    replies = [send("the one in July"), "<answer>Shall I?", send("yes"), "<answer>Cancelled."]
    boss = Agent(
        "boss",
        "You lead.",
        ScriptedModel(replies, "amazon.nova-pro-v1:0"),
        collaborators=[Collaborator(clerk, "Vacations.", "clerk")],
    )
    talk(boss, "Cancel my July vacation", "Yes")
    assert vacations.done == ["cancel V-15"]
