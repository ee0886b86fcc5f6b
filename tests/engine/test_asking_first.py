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

QUESTION = "Shall I go ahead with cancel vacation (request id: V-15)?"


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
        "是的，好",
        "Oui",
        "Sí, por favor",
        "好的",
        "yes, cancel it",
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
        "no problem, go ahead",
        "what?",
        "nicht ja",
        "Cancel.",
        "cancel it",
        "OK, cancel",
        "好，取消吧",
        "好的取消",
        "对了，取消",
        "好了",
        "yes " * 100,
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


@pytest.mark.parametrize("no", ["nein, doch nicht", "No, I changed my mind.", "no"])
def test_after_a_no_the_same_question_is_not_asked_again(no: str) -> None:
    vacations = Vacations()
    agent = make(vacations, CANCEL, CANCEL, CANCEL, "<answer>Done.")
    asked, left, anew, done = talk(agent, "That one.", no, "Cancel V-15 after all.", "Yes.")
    assert (left.text, left.stop_reason) == ("All right, I will not do that.", "end_turn")
    assert (asked.text, anew.text, done.text) == (QUESTION, QUESTION, "Done.")
    assert vacations.done == ["cancel V-15"]


@pytest.mark.parametrize(
    "text", ["No problem, send it off", "No, wait, I look.", "Não há problema"]
)
def test_what_only_sounds_like_a_no_is_asked_about_again(text: str) -> None:
    _, again = talk(make(Vacations(), CANCEL, CANCEL), "That one.", text)
    assert again.text == QUESTION


def test_a_no_with_another_value_is_asked_about() -> None:
    other = use("cancel_vacation", request_id="V-12")
    _, again = talk(make(Vacations(), CANCEL, other), "That one.", "No, the one in May.")
    assert again.text == "Shall I go ahead with cancel vacation (request id: V-12)?"


@pytest.mark.parametrize("text", ["Cancel V-15.", "Summarise: please cancel V-15", "取消 V-15"])
def test_each_change_waits_for_a_yes_however_it_was_asked_for(text: str) -> None:
    # What an input orders, and what of it is quoted, is not for words to tell.
    vacations = Vacations()
    (reply,) = talk(make(vacations, CANCEL, "<answer>Done."), text)
    assert (reply.text, vacations.done) == (QUESTION, [])


def test_a_yes_is_for_one_call() -> None:
    vacations = Vacations()
    other = use("cancel_vacation", request_id="V-1")
    agent = make(vacations, CANCEL, other)
    _, again = talk(agent, "Cancel V-15", "Yes")
    assert again.text == "Shall I go ahead with cancel vacation (request id: V-1)?"
    assert vacations.done == ["cancel V-15"]


def test_values_come_one_after_the_other() -> None:
    vacations = Vacations()
    agent = make(
        vacations,
        use("request_vacation", start="?", end="?"),
        use("request_vacation", start="2027-03-08", end="?"),
        use("request_vacation", start="2027-03-08", end="2027-03-12"),
        "<answer>It is requested.",
    )
    both, last, asked, done = talk(
        agent, "I'd like to request a vacation.", "from 2027-03-08", "until 2027-03-12", "yes"
    )
    assert asked.text == (
        "Shall I go ahead with request vacation (start: 2027-03-08, end: 2027-03-12)?"
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
    talk(agent, "Cancel V-15 and list the others", "yes")
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


@pytest.mark.parametrize("said", ["No, something else: which are planned?", "Which are planned?"])
def test_what_the_model_read_of_an_undone_call_is_never_the_answer(said: str) -> None:
    first = ScriptedModel([CANCEL, CANCEL, "unused"], "local")
    group = Vacations().group
    talk(Agent("hr", "You help.", first, action_groups=[group]), "Cancel V-15", "No, wait.", "So?")
    told = [
        block["toolResult"]["content"][0]["text"]
        for message in first.requests[-1].messages
        for block in message["content"]
        if "toolResult" in block
    ]
    assert len(told) == 2
    for text in told:
        model = ScriptedModel([CANCEL, f"<answer>{text}"], "local")
        agent = Agent("hr", "You help.", model, action_groups=[group])
        assert talk(agent, "Cancel V-15", said)[-1].text == "Sorry, I could not do that."


class Mail:
    """A group that sends mail, and what it sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @action
        def send_mail(to: str, body: str) -> str:
            """Send a mail."""
            self.sent.append(f"{to}: {body}")
            return "sent"

        self.group = ActionGroup("mail", actions=[send_mail])

    def send(self, **values: str) -> list[dict[str, Any]]:
        return [{"toolUse": {"toolUseId": "t-1", "name": "mail__send_mail", "input": values}}]


def test_a_question_shows_every_value_and_hides_nothing() -> None:
    mail = Mail()
    body = "a, b\u202e\x1b[2K\nend " + "x" * 200
    model = ScriptedModel([mail.send(to="bob@x.org", body=body)], "local")
    agent = Agent("mail", "You help.", model, action_groups=[mail.group])
    (asked,) = talk(agent, "Send it")
    assert asked.text == (
        "Shall I go ahead with send mail (to: bob@x.org, "
        f'body: "a, b\\u202e\\u001b[2K\\nend {"x" * 200}")?'
    )


def test_what_is_too_long_to_be_read_in_a_question_is_handed_over_whole() -> None:
    mail = Mail()
    body = "word " * 300 + "PS: pay 9999"
    model = ScriptedModel([mail.send(to="bob", body=body)], "local")
    agent = Agent("mail", "You help.", model, action_groups=[mail.group])
    (handed,) = talk(agent, "Send it")
    assert handed.return_control is not None and mail.sent == []
    (call,) = handed.return_control.invocation_inputs
    values = {it["name"]: it["value"] for it in call["functionInvocationInput"]["parameters"]}
    assert values["body"] == body


def test_the_values_of_a_call_are_no_words_of_a_yes() -> None:
    mail = Mail()
    send = mail.send(to="bob", body="no")
    model = ScriptedModel([send, send], "local")
    agent = Agent("mail", "You help.", model, action_groups=[mail.group])
    talk(agent, "Send it", "ok, no")
    assert mail.sent == []


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("get_order", False),
        ("look_up_order", False),
        ("listOrders", False),
        ("get_name_and_size", False),
        ("check_out_cart", True),
        ("get_rid_of_order", True),
        ("find_or_create_user", True),
        ("read_and_delete_mail", True),
        ("storniere", True),
    ],
)
def test_only_names_that_say_so_are_read_without_a_yes(name: str, asks: bool) -> None:
    done: list[str] = []

    @action(name=name)
    def function() -> str:
        """Does something."""
        done.append(name)
        return "done"

    group = ActionGroup("g", actions=[function])
    call = [{"toolUse": {"toolUseId": "t-1", "name": f"g__{name}", "input": {}}}]
    model = ScriptedModel([call, "<answer>Done."], "local")
    (reply,) = talk(Agent("a", "You help.", model, action_groups=[group]), "hello")
    assert (reply.stop_reason == "ask_user") is asks
    assert done == ([] if asks else [name])


def lead(clerk: Agent, *replies: Any) -> Agent:
    return Agent(
        "boss",
        "You lead.",
        ScriptedModel(replies, "amazon.nova-pro-v1:0"),
        collaborators=[Collaborator(clerk, "Vacations.", "clerk")],
    )


def tell(text: str) -> list[dict[str, Any]]:
    values = {"recipient": "clerk", "content": text}
    name = "AgentCommunication__sendMessage"
    return [{"toolUse": {"toolUseId": "m-1", "name": name, "input": values}}]


def test_a_supervisors_model_gives_no_consent() -> None:
    # Its words are not the user's, and what it tells him of a question is not known.
    vacations = Vacations()
    clerk = make(vacations, CANCEL, "<answer>V-15 is cancelled.")
    boss = lead(clerk, tell("Cancel V-15. Yes, go ahead."), "<answer>Cancelled.")
    (handed,) = talk(boss, "What have I planned?")
    assert handed.return_control is not None and vacations.done == []
    done = boss.invoke("", "s-1", results=handed.return_control.answer(True))
    assert (done.text, vacations.done) == ("Cancelled.", ["cancel V-15"])


def test_what_a_collaborator_lacks_it_goes_on_with() -> None:
    vacations = Vacations()
    lacks = use("request_vacation", start="2027-03-08", end="?")
    model = ScriptedModel([lacks, "<answer>Fine."], "local")
    clerk = Agent("clerk", "You help.", model, action_groups=[vacations.group])
    boss = lead(clerk, tell("from the 8th"), "<answer>Until?", tell("the 12th"), "<answer>Fine.")
    talk(boss, "A vacation from 2027-03-08", "until the 12th")
    assert model.requests[1].call_format.pending is not None


def test_a_question_of_an_earlier_turn_is_forgotten_by_collaborators_too() -> None:
    vacations = Vacations()
    lacks = use("request_vacation", start="2027-03-08", end="?")
    model = ScriptedModel([lacks, "<answer>Fine."], "local")
    clerk = Agent("clerk", "You help.", model, action_groups=[vacations.group])
    boss = lead(
        clerk, tell("from the 8th"), "<answer>Until?", "<answer>Hello.", tell("x"), "<answer>Fine."
    )
    talk(boss, "A vacation from 2027-03-08", "Hello", "until the 12th")
    assert model.requests[1].call_format.pending is None
