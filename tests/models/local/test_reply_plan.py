"""Conversations with an embedded model that says what a test wants, as far as it may."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pretend_runtime import PretendRuntime, pretend

from orchestrator import ActionGroup, Agent, Limits, Reply, TextDelta, action
from orchestrator.models.scope import REFUSAL, LearnedScope
from orchestrator.testing import FakeKnowledgeBase

KNOWN = {"1042": "Emma, arrives on Thursday", "1043": "Dune and Ulysses, arrives on Monday"}


@action
def get_order(order_id: str) -> str:
    """Get one order.

    Args:
        order_id: Number of the order, for example 1042.
    """
    return KNOWN.get(order_id, "there is no such order")


@action
def list_orders(status: str = "", limit: int = 0) -> str:
    """List orders.

    Args:
        status: Only orders of this status.
        limit: How many.
    """
    return f"orders of status {status!r}, at most {limit}: 1042, 1043"


@action
def request_vacation(start: str, end: str) -> str:
    """Request a vacation.

    Args:
        start: First day of the vacation as YYYY-MM-DD, for example 2027-06-14.
        end: Last day of the vacation as YYYY-MM-DD, for example 2027-06-18.
    """
    return f"requested from {start} to {end}"


@action
def list_absent(day: str) -> str:
    """List who is away.

    Args:
        day: Which day as YYYY-MM-DD, for example 2027-06-14.
    """
    return f"nobody on {day}"


@action
def pay(order_id: str, amount: float) -> str:
    """Pay an order.

    Args:
        order_id: Number of the order, for example 1042.
        amount: The amount in euros.
    """
    return "paid"


def call(name: str, **values: Any) -> str:
    body = json.dumps({"name": f"shop__{name}", "arguments": values}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


class Talk:
    """A conversation with an agent of these functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._patch, self._folder = monkeypatch, folder
        self.runtime = PretendRuntime()
        self.agent: Agent | None = None

    def wishes(self, *wishes: Any, **members: Any) -> Talk:
        model, self.runtime = pretend(self._patch, self._folder, *wishes)
        group = ActionGroup(
            "shop", actions=[get_order, list_orders, request_vacation, list_absent, pay]
        )
        self.agent = Agent("shop", "You help customers.", model, action_groups=[group], **members)
        return self

    def say(self, text: str) -> Reply:
        assert self.agent is not None
        return self.agent.invoke(text, "s-1")

    def streams(self, text: str) -> str:
        assert self.agent is not None
        events = self.agent.stream(text, "s-1")
        return "".join(one.text for one in events if isinstance(one, TextDelta))


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Talk:
    return Talk(monkeypatch, tmp_path)


def measure(monkeypatch: pytest.MonkeyPatch, **distances: float) -> None:
    def answer(self: LearnedScope, text: str) -> float | None:
        return distances.get(text.split()[0])

    monkeypatch.setattr(LearnedScope, "measure", answer)


ASK = call("get_order", order_id="?")


@pytest.mark.parametrize(
    "value", ["1042", "It's 1042.", "die Bestellung 1042", "订单1042", "no 1042"]
)
def test_the_value_that_was_asked_for_goes_on_with_the_call(talk: Talk, value: str) -> None:
    talk.wishes(
        ASK, ["It is at the bookstore.", call("get_order", order_id="1042")], "On Thursday."
    )
    asked = talk.say("Where is my order?")
    assert (asked.text, asked.stop_reason) == (
        "Could you tell me the number of the order?",
        "ask_user",
    )
    assert talk.say(value).text == "On Thursday."


def test_an_input_without_the_value_is_answered_freely(talk: Talk) -> None:
    # Without a value the call has only one form, for which no model is asked.
    talk.wishes(ASK, "You are welcome.")
    talk.say("Where is my order?")
    assert talk.say("Thanks anyway").text == "You are welcome."


def test_another_question_is_no_value(talk: Talk) -> None:
    talk.wishes(ASK, call("list_orders"), "There are 1042 and 1043.")
    talk.say("Where is my order?")
    assert talk.say("Which orders are there?").text == "There are 1042 and 1043."


def test_what_was_said_fills_one_gap_and_the_other_is_asked_for(talk: Talk) -> None:
    twice = call("request_vacation", start="2027-03-08", end="2027-03-08")
    rest = call("request_vacation", start="2027-03-08", end="2027-03-12")
    talk.wishes(call("request_vacation", start="?", end="?"), twice, rest, "It is requested.")
    talk.say("I would like to request a vacation.")
    asked = talk.say("from 2027-03-08")
    assert asked.text == "Could you tell me the last day of the vacation?"
    talk.say("bis 2027-03-12")
    assert talk.say("yes").text == "It is requested."
    assert talk.runtime.said[2] == rest


def test_two_dates_at_once_are_no_answer_to_one_question(talk: Talk) -> None:
    changed = call("request_vacation", start="2027-03-09", end="2027-03-13")
    talk.wishes(call("request_vacation", start="2027-03-08", end="?"), changed, "Fine.")
    talk.say("I would like to request a vacation from 2027-03-08")
    talk.say("no, from 2027-03-09 until 2027-03-13")
    done = talk.say("yes")
    assert results(done) == ["requested from 2027-03-09 to 2027-03-13"]


def test_what_the_agent_asked_for_is_told_as_a_call(talk: Talk) -> None:
    talk.wishes(ASK, ASK, "Fine.")
    talk.say("Where is my order?")
    talk.say("never mind")
    told = [text for _, text in talk.runtime.prompts[-1]]
    at = next(place for place, text in enumerate(told) if text.strip() == ASK)
    assert "Missing: the number of the order." in told[at + 1]
    assert "1042" not in told[at + 2]  # no example that could be copied
    assert "never mind" in told[at + 3]


def test_what_the_model_said_is_no_ground_for_a_value(talk: Talk) -> None:
    talk.wishes("Hello, order 12 of 9 people.", [call("get_order", order_id="12"), ASK])
    talk.say("Hi")
    assert talk.say("And my order?").stop_reason == "ask_user"


def test_an_id_makes_a_call_of_what_reads_it(talk: Talk) -> None:
    looked = call("get_order", order_id="1043")
    talk.wishes(["It is on its way.", looked], "It arrives on Monday.")
    assert talk.say("no, 1043").text == "It arrives on Monday."
    assert talk.runtime.said[0] == looked


def test_an_id_forces_no_call_that_changes_something(talk: Talk) -> None:
    talk.wishes(["I can't say.", call("pay", order_id="1043", amount=1043)], "That is possible.")
    assert talk.say("Could one pay 1043 in parts?").text == "That is possible."


def results(reply: Reply) -> list[str]:
    observations = [
        one["trace"]["orchestrationTrace"].get("observation", {}) for one in reply.trace
    ]
    return [
        one["actionGroupInvocationOutput"]["text"]
        for one in observations
        if "actionGroupInvocationOutput" in one
    ]


def test_optional_values_that_nobody_spoke_of_are_left_out(talk: Talk) -> None:
    talk.wishes(call("list_orders", status="open", limit=20), "1042 and 1043.")
    reply = talk.say("Show my orders")
    assert results(reply) == ["orders of status '', at most 0: 1042, 1043"]


@pytest.mark.parametrize("text", ["Show three open orders", "zeige drei offene, also open, orders"])
def test_optional_values_that_were_spoken_of_stay(talk: Talk, text: str) -> None:
    talk.wishes(call("list_orders", status="open", limit=3), "1042 and 1043.")
    assert results(talk.say(text)) == ["orders of status 'open', at most 3: 1042, 1043"]


def test_a_number_that_nobody_named_is_asked_for(talk: Talk) -> None:
    paid = call("pay", order_id="1042", amount=99.5)
    asked = talk.wishes(paid, paid).say("Please pay order 1042")
    assert asked.text == "Could you tell me the amount in euros?"


def test_a_made_up_answer_becomes_a_call(talk: Talk) -> None:
    talk.wishes("Your 27 orders come on Friday.", call("list_orders"), "They are 1042 and 1043.")
    assert talk.streams("What about my orders") == "They are 1042 and 1043."


def test_what_is_still_made_up_is_not_said(talk: Talk) -> None:
    listed = call("list_orders")
    talk.wishes(listed, "They are 1042 and 1043. They come on Friday.")
    assert talk.streams("What about my orders").strip() == "They are 1042 and 1043."
    talk.wishes(listed, "You ordered “The Great Gatsby”.", listed, "It was “Moby Dick”.")
    assert talk.say("What about my orders").text == "Sorry, I don't know that."
    talk.wishes(listed, "They are 27.", listed, ["They are 27.", "They are two."])
    assert talk.say("How many orders do I have").text == "They are two."


def test_facts_of_results_are_said_in_other_words(talk: Talk) -> None:
    text = "Am Donnerstag kommt “Emma”, Bestellung 1042."
    talk.wishes(call("get_order", order_id="1042"), text)
    assert talk.say("Wo ist 1042?").text == text


def test_out_of_scope_is_refused_without_the_model(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(monkeypatch, Tell=0.3)
    assert talk.wishes().say("Tell me a joke").text == REFUSAL


def test_what_has_a_word_of_the_last_result_is_not_refused(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(monkeypatch, Where=0.0, Who=0.3)
    talk.wishes(call("get_order", order_id="1042"), "On Thursday.", "It is a woman in a novel.")
    talk.say("Where is 1042?")
    assert talk.say("Who is Emma?").text == "It is a woman in a novel."
    assert talk.say("Who won?").text == REFUSAL


def test_a_refusal_of_what_is_in_scope_is_no_answer(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(monkeypatch, I=0.05, Raise=0.12, which=0.18)
    talk.wishes(REFUSAL, REFUSAL, ASK, REFUSAL, ASK, REFUSAL)
    assert talk.say("Raise my salary").text == REFUSAL
    assert talk.say("I have a problem with my delivery.").stop_reason == "ask_user"
    assert talk.say("which books are in it?").stop_reason == "ask_user"
    assert talk.say("Raise my salary").text == REFUSAL


@pytest.mark.parametrize(
    "refusal", ["I can't help with that.", "I'm sorry, but I can't help with that, either."]
)
def test_a_refusal_in_other_words_of_what_is_in_scope_is_no_answer(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    measure(monkeypatch, I=0.05)
    talk.wishes(refusal, ASK)
    assert talk.say("I have a problem with my delivery.").stop_reason == "ask_user"


def test_where_the_scope_is_not_known_the_model_decides(talk: Talk) -> None:
    assert talk.wishes(REFUSAL).say("Erzähl mir einen Witz").text == REFUSAL


def test_an_agent_never_names_a_maker_of_models(talk: Talk) -> None:
    opening, brief = (
        "I'm an assistant, and I can help you with",
        "I'm an assistant. How can I help you?",
    )
    introduction = f"{opening} your orders."
    talk.wishes("I am an AI language model created by Anthropic.", introduction)
    assert talk.say("Hello, who are you?").text == introduction
    talk.wishes("我是阿里云的通义千问。", f"{opening} Qwen.")
    assert talk.say("你是谁？").text == brief
    talk.wishes("I'm Qwen.", f"{opening} orders and other topics.")
    assert talk.say("Who are you, and which other topics are there?").text == brief
    longer = f"{opening} orders, but not with jokes."
    talk.wishes("I'm Qwen.", [longer, introduction])
    assert talk.say("Who are you?").text == introduction


SEARCH = """<tool_call>
{"name": "x_amz_knowledgebase_PAPERS__Search", "arguments": {"searchQuery": "prices"}}
</tool_call>"""


@pytest.mark.parametrize(
    ("question", "made_up"),
    [
        ("What does a puncture cost?", "A puncture costs money."),
        ("When are you open?", "I'm open from 9 AM to 5 PM."),
        ("补胎要多少钱？", "补胎很便宜。"),
    ],
)
def test_a_question_is_not_answered_before_the_papers_are_searched(
    talk: Talk, question: str, made_up: str
) -> None:
    base = FakeKnowledgeBase("PAPERS", ["A puncture costs 15 euros."], "Prices.")
    told = "A puncture costs 15 euros."
    assert talk.wishes(made_up, SEARCH, told, knowledge_bases=[base]).streams(question) == told
    assert base.queries == [f"prices {question}"]


def test_a_question_about_something_else_is_searched_for_anew(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["A puncture costs 15 euros."], "Prices.")
    told, unknown = "A puncture costs 15 euros.", "I do not know."
    wishes = [SEARCH, told, "You can bring your dog.", SEARCH, unknown, told]
    talk.wishes(*wishes, knowledge_bases=[base])
    assert talk.say("What does a puncture cost?").text == told
    assert talk.say("And may I bring my dog?").text == unknown
    assert len(base.queries) == 2
    assert talk.say("How much was the puncture?").text == told  # by what was found before
    assert len(base.queries) == 2


def test_nothing_is_refused_before_the_papers_are_searched(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["Dogs may come in."], "Prices.")
    wishes = [REFUSAL, SEARCH, "Dogs may come in.", REFUSAL, SEARCH, REFUSAL]
    talk.wishes(*wishes, knowledge_bases=[base])
    assert talk.say("Darf mein Hund mit?").text == "Dogs may come in."
    assert talk.say("Und wie ist das Wetter?").text == REFUSAL  # after the search
    assert len(base.queries) == 2


def test_what_seems_far_is_searched_before_it_is_refused(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(monkeypatch, Lunch=0.25, Tell=0.45)
    base = FakeKnowledgeBase("PAPERS", ["Lunch costs nothing."], "Prices.")
    talk.wishes(REFUSAL, SEARCH, "Lunch costs nothing.", knowledge_bases=[base])
    assert talk.say("Lunch for guests?").text == "Lunch costs nothing."
    assert talk.say("Tell me a joke").text == REFUSAL
    assert len(base.queries) == 1


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Hello there!", "Hello there! How can I help you?"),
        ("What do you need for a repair?", "Which repair is it?"),
        ("How are you?", "I'm fine, thanks."),
    ],
)
def test_small_talk_searches_nothing(talk: Talk, said: str, answer: str) -> None:
    base = FakeKnowledgeBase("PAPERS", ["A puncture costs 15 euros."], "Prices.")
    assert talk.wishes(answer, SEARCH, knowledge_bases=[base]).say(said).text == answer
    assert not base.queries


def test_a_search_has_the_users_words_and_those_that_they_go_on_with(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["A puncture costs 15 euros."], "Prices.")
    told, unknown = "A puncture costs 15 euros.", "I do not know."
    talk.wishes(SEARCH, told, SEARCH, unknown, SEARCH, unknown, knowledge_bases=[base])
    first, then = "What are the prices of a puncture?", "and of a new chain?"
    for question in (first, then, "Prices?"):
        talk.say(question)
    # What the search has already is not repeated.
    assert base.queries == [f"prices {first}", f"prices {first} {then}", f"prices {then}"]


def test_a_search_has_no_words_of_questions_that_are_answered(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["A puncture costs 15 euros."], "Prices.")
    told, first, then = "It is so.", "What does a puncture cost?", "Are dogs welcome upstairs?"
    copied = SEARCH.replace("prices", f"prices {first}")
    talk.wishes(SEARCH, told, copied, told, copied, told, knowledge_bases=[base])
    for question in (first, then, "And is that cheap?"):
        talk.say(question)
    assert base.queries == [
        f"prices {first}",
        f"prices {then}",
        f"prices {then} And is that cheap?",
    ]


LOST = "A lost bicycle is reported to the workshop within two days."
LENT = "A bicycle must never be lent to tourists without helmets."


def test_an_answer_stays_with_the_passage_that_it_begins_with(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", [LOST, LENT], "Prices.")
    talk.wishes(SEARCH, f"{LOST} {LENT}", knowledge_bases=[base])
    assert talk.streams("Mine has been lost, what now?").strip() == LOST


@pytest.mark.parametrize(
    "question",
    [
        "What of those that are lost, and of those that are lent?",
        "What are all rules?",
        "What is both sides' duty?",
        "Is it stolen, or is it borrowed?",
        "ما هي القواعد؟ متى؟",
    ],
)
def test_an_answer_to_several_questions_has_several_passages(talk: Talk, question: str) -> None:
    base = FakeKnowledgeBase("PAPERS", [LOST, LENT], "Prices.")
    both = f"{LOST} {LENT}"
    assert talk.wishes(SEARCH, both, knowledge_bases=[base]).streams(question) == both


@pytest.mark.parametrize(
    "question",
    ["What are the bicycle rules?", "Which rules are there for bicycles?", "May I lend my bike?"],
)
def test_a_sentence_with_a_word_of_the_question_is_not_dropped(talk: Talk, question: str) -> None:
    base = FakeKnowledgeBase("PAPERS", [LOST, LENT], "Prices.")
    both = f"{LOST} {LENT}"
    assert talk.wishes(SEARCH, both, knowledge_bases=[base]).streams(question) == both


def test_the_last_answer_is_none_to_a_question_that_goes_on(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", [LOST], "Prices.")
    told = "A key costs nine euros."
    talk.wishes(SEARCH, LOST, LOST, SEARCH, told, LOST, knowledge_bases=[base])
    talk.say("I lost my bicycle, what now?")
    assert talk.say("and my spare key as well").text == told
    assert talk.say("Thanks for that").text == LOST
    assert len(base.queries) == 2


def request(start: str, end: str) -> str:
    return call("request_vacation", start=start, end=end)


@pytest.mark.parametrize(
    ("said", "start", "end"),
    [
        ("One more, a week later please", "2027-03-08", "2027-03-12"),
        ("lieber zwei Tage früher", "2027-02-27", "2027-03-03"),
        ("the next month, please", "2027-04-01", "2027-04-05"),
        ("the day after", "2027-03-02", "2027-03-06"),
    ],
)
def test_dates_are_moved_by_what_the_user_says(talk: Talk, said: str, start: str, end: str) -> None:
    first = request("2027-03-01", "2027-03-05")
    # What the model would rather say cannot be decoded, nor one date of the call for the other.
    talk.wishes(first, "Fine.", [first, request(end, end)], "Fine.", [first, request(start, end)])
    talk.say("Vacation from 2027-03-01 until 2027-03-05 please")
    talk.say("yes")
    question = talk.say(said).text
    assert f"(start: {start}, end: {end})" in question
    talk.say("yes")
    # What is said of no date any more is said of those that were named last.
    assert question == talk.say("Once more for these days, please").text


@pytest.mark.parametrize(
    "said",
    [
        "2 weeks and 3 days later",
        "The start two days later and the end one week later",
        "It begins two days before Christmas",
        "Not a week later",
    ],
)
def test_dates_that_are_not_moved_clearly_are_asked_for(talk: Talk, said: str) -> None:
    first = request("2027-03-01", "2027-03-05")
    talk.wishes(first, "Fine.", [first, request("?", "?")])
    talk.say("Vacation from 2027-03-01 until 2027-03-05 please")
    talk.say("yes")
    assert talk.say(said).text.startswith("Could you tell me the first day")


def test_dates_of_the_question_before_a_call_may_be_meant(talk: Talk) -> None:
    talk.wishes(call("list_absent", day="2027-03-01"), "Yes.", request("2027-03-01", "2027-03-05"))
    talk.say("Is anybody away on 2027-03-01? I am until 2027-03-05")
    assert "(start: 2027-03-01, end: 2027-03-05)" in talk.say("A vacation on these days").text


@pytest.mark.parametrize("end", ["?", "2027-03-08"])
def test_a_moved_date_is_not_left_to_the_model(talk: Talk, end: str) -> None:
    first = request("2027-03-01", "2027-03-05")
    talk.wishes(first, "Fine.", request("2027-03-08", end))
    talk.say("Vacation from 2027-03-01 until 2027-03-05 please")
    talk.say("yes")
    assert "(start: 2027-03-08, end: 2027-03-12)" in talk.say("and a week later, too").text


def test_dates_of_no_call_are_not_moved_but_asked_for(talk: Talk) -> None:
    talk.wishes("Fine.", [request("2027-03-01", "2027-03-05"), request("?", "?")])
    talk.say("I am away from 2027-03-01 until 2027-03-05")
    asked = talk.say("I need a vacation a week later").text
    assert (
        asked == "Could you tell me the first day of the vacation and the last day of the vacation?"
    )


@action
def order_taxi(time: str) -> str:
    """Order a taxi.

    Args:
        time: The time as HH:MM, for example 08:15.
    """
    return f"ordered for {time}"


def test_a_time_is_not_cut(talk: Talk) -> None:
    model, _ = pretend(
        talk._patch,
        talk._folder,
        [call("order_taxi", time="07"), call("order_taxi", time="07:45")],
        "It is ordered.",
    )
    shop = ActionGroup("shop", actions=[order_taxi])
    agent = Agent("shop", "You help customers.", model, action_groups=[shop])
    assert "time: 07:45" in agent.invoke("A taxi at 07:45, please", "s-1").text
    assert results(agent.invoke("yes", "s-1")) == ["ordered for 07:45"]


def test_a_follow_up_is_not_refused_by_its_words_alone(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = call("get_order", order_id="1043")
    distances = {"and how many books are left?": 0.3, "Is there a note for that?": 0.3}

    def answer(self: LearnedScope, text: str) -> float | None:
        return distances.get(text, 0.3 if text.startswith("Tell") else -0.1)

    monkeypatch.setattr(LearnedScope, "measure", answer)
    talk.wishes(looked, "On Monday.", "Two are left.", "There is none.")
    talk.say("Where is 1043?")
    assert talk.say("and how many books are left?").text == "Two are left."
    assert talk.say("Is there a note for that?").text == "There is none."
    assert talk.say("Tell me a joke").text == REFUSAL


def test_a_title_is_no_sentence(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["Dr. Ilse Brandt is here on Monday."], "Doctors.")
    told = "Dr. Ilse Brandt is here on Monday."
    talk.wishes("Dr. Moreau will see 20 people.", SEARCH, told, knowledge_bases=[base])
    assert talk.say("Which doctor will see me?").text == told


@pytest.mark.parametrize(
    "made_up",
    [
        "Its customer is John Doe.",
        "It is for Mrs Doe.",
        "You reach her at emma.doe@example.com.",
        "It is at https://example.com/1042.",
    ],
)
def test_people_and_addresses_that_nobody_named_are_not_said(talk: Talk, made_up: str) -> None:
    told = "It arrives on Thursday."
    looked = call("get_order", order_id="1042")
    talk.wishes(looked, [made_up, told], looked, told)
    assert talk.streams("Whose is order 1042").strip() == told


@pytest.mark.parametrize(
    "answer",
    [
        "You can reach our Customer Service team.",
        "You can fly to New York with it.",
        'You return it at "https://shop.example/r".',
        "You return it at **https://shop.example/r**.",
        "Write to <jane@shop.example>.",
    ],
)
def test_names_of_nobody_and_addresses_that_were_named_are_said(talk: Talk, answer: str) -> None:
    talk.wishes(answer)
    asked = "Does https://shop.example/r/ or 写信jane@shop.example吧 help me to get to NYC"
    assert talk.say(asked).text == answer


@pytest.mark.parametrize("made_up", ["x@evil.example", "https://evil.example"])
def test_a_part_of_an_address_is_another_one(talk: Talk, made_up: str) -> None:
    looked = call("get_order", order_id="1042")
    told = "It arrives on Thursday."
    talk.wishes(looked, [f"Write to {made_up}.", told], looked, told)
    asked = "Where is 1042, asks xx@evil.example.org of https://evil.example.org"
    assert talk.streams(asked).strip() == told


def test_people_that_were_named_are_said(talk: Talk) -> None:
    told = "The order is for Mrs Jane Ashby, and jane@example.com is her address."
    talk.wishes(told)
    assert talk.say("For Jane Ashby (jane@example.com), please").text == told


def test_the_beginning_of_a_call_is_no_text_of_an_answer(talk: Talk) -> None:
    looked = call("get_order", order_id="1042")
    talk.wishes(looked, "It arrives on Thursday. < tool_call>")
    assert talk.say("Where is 1042?").text.strip() == "It arrives on Thursday."


@pytest.mark.parametrize(
    "said",
    [
        *("tomorrow", "next week", "in two days", "on Friday", "nächste Woche", "mañana", "下周"),
        *("aujourd’hui", "on Fri", "next Mon", "this weekend", "in a fortnight"),
        *("el proximo lunes", "manana", "uebermorgen", "ce lundi"),
    ],
)
def test_days_that_are_counted_from_today_are_asked_for(talk: Talk, said: str) -> None:
    first = request("2027-03-01", "2027-03-05")
    # The dates of the call before, which a small model repeats, cannot be decoded.
    talk.wishes(first, "Fine.", [first, request("?", "?")])
    talk.say("Vacation from 2027-03-01 until 2027-03-05 please")
    talk.say("yes")
    assert talk.say(f"A vacation, {said}").text.startswith("Could you tell me the first day")


@pytest.mark.parametrize("said", ["Guten Morgen, once more", "for these days, on that day"])
def test_what_is_not_counted_from_today_may_be_a_date_that_was_named(talk: Talk, said: str) -> None:
    first = request("2027-03-01", "2027-03-05")
    talk.wishes(first, "Fine.", [first])
    talk.say("Vacation from 2027-03-01 until 2027-03-05 please")
    talk.say("yes")
    assert "(start: 2027-03-01, end: 2027-03-05)" in talk.say(said).text


def test_a_date_goes_before_a_day_that_is_counted_from_today(talk: Talk) -> None:
    talk.wishes(request("2027-03-01", "2027-03-05"))
    said = "Next week off, from 2027-03-01 until 2027-03-05"
    assert "(start: 2027-03-01, end: 2027-03-05)" in talk.say(said).text


@pytest.mark.parametrize(
    "others",
    [
        ["My friend has 1042, when does hers come?"],
        ["My sister ordered 1042. Where is it?"],
        ["Where is my neighbour's order?", "1042"],
        ["Their order is 1042. Where is it?"],
        ["She ordered 1042. Where is it?"],
        ["My parents have 1042. Where is it?"],
        ["1042 is for them. Where is it?"],
    ],
)
def test_the_id_of_somebody_else_is_not_taken_for_ones_own(talk: Talk, others: list[str]) -> None:
    looked = call("get_order", order_id="1042")
    first = [looked, "On Thursday."] if len(others) == 1 else [ASK, looked, "On Thursday."]
    talk.wishes(*first, [looked, "On Thursday.", ASK])
    for text in others:
        talk.say(text)
    assert talk.say("and when do I get mine?").stop_reason == "ask_user"


def test_ones_own_id_is_taken_after_that_of_somebody_else(talk: Talk) -> None:
    hers, own = call("get_order", order_id="1042"), call("get_order", order_id="1043")
    talk.wishes(own, "On Monday.", hers, "On Thursday.", [hers, "On Thursday.", own], "On Monday.")
    talk.say("My order is 1043. Where is it?")
    talk.say("My friend has 1042, when does hers come?")
    assert talk.say("and when does my order come?").text == "On Monday."
    assert talk.runtime.said[-2] == own


def test_an_id_of_nobody_else_may_be_ones_own(talk: Talk) -> None:
    talk.wishes(call("get_order", order_id="1042"), "On Thursday.", "On Thursday, as I said.")
    talk.say("Where is 1042?")
    assert talk.say("and when do I get mine?").text == "On Thursday, as I said."


@pytest.mark.parametrize(
    "said",
    [
        "They told me that 1042 is late, is it?",
        "He said 1042 is late, is it?",
        "My address has changed for 1042, is that seen?",
        "I am waiting for them to send 1042. Is it on its way?",
    ],
)
def test_an_id_is_nobody_elses_because_somebody_speaks_of_it(talk: Talk, said: str) -> None:
    talk.wishes(call("get_order", order_id="1042"), "On Thursday.", "On Thursday, as I said.")
    talk.say(said)
    assert talk.say("So where is my order?").text == "On Thursday, as I said."


@pytest.mark.parametrize("steps", [3, 10])
def test_ids_are_read_only_as_long_as_an_answer_is_possible(talk: Talk, steps: int) -> None:
    ids = [str(number) for number in range(2000, 2014)]
    calls = [call("get_order", order_id=one) for one in ids]
    answer = "They all are on their way."
    limits = Limits(iterations=steps)
    talk.wishes(calls, *[[answer, *calls]] * (steps - 1), limits=limits)
    assert talk.say(f"Where are {', '.join(ids)}?").text == answer
    assert len(talk.runtime.said) == steps - 1  # one is left for a call of the model's own


def test_each_id_of_a_question_is_read(talk: Talk) -> None:
    first, second = call("get_order", order_id="1042"), call("get_order", order_id="1043")
    told = "1042 comes on Thursday, and 1043 on Monday."
    talk.wishes(first, ["1043 is for you.", second], told)
    assert talk.say("Where is 1042, and what is in 1043?").text == told


@pytest.mark.parametrize(
    "told",
    ["1042 has Dune, and 1043 has Emma.", "1043 arrives on Thursday while 1042 comes on Monday."],
)
def test_what_was_read_of_one_id_is_not_told_of_another(talk: Talk, told: str) -> None:
    first, second = call("get_order", order_id="1042"), call("get_order", order_id="1043")
    talk.wishes(first, second, told, first, told)
    assert talk.streams("Where is 1042, and what is in 1043?") == "Sorry, I don't know that."


@pytest.mark.parametrize(
    "told",
    ["1042 has Emma, and 1043 has Dune.", "Neither arrives today.", "1043 and 1042 arrive apart."],
)
def test_what_was_read_of_each_id_is_told(talk: Talk, told: str) -> None:
    first, second = call("get_order", order_id="1042"), call("get_order", order_id="1043")
    talk.wishes(first, second, told)
    assert talk.streams("Where is 1042, and what is in 1043?") == told


def test_an_id_that_is_corrected_is_not_read(talk: Talk) -> None:
    talk.wishes(call("get_order", order_id="1043"), "On Monday.")
    assert talk.say("Not 1042, where is 1043?").text == "On Monday."


def test_documents_are_searched_when_a_function_has_no_word_of_the_question(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["Parcels go to France, too."], "Shipping.")
    told = "Parcels go to France, too."
    talk.wishes(ASK, SEARCH, told, knowledge_bases=[base])
    assert talk.say("Do you ship abroad?").text == told
    for text in ("Where is my order?", "Where is my parcel?"):
        talk.wishes(ASK, knowledge_bases=[base])
        assert talk.say(text).stop_reason == "ask_user"
    assert len(base.queries) == 1


def test_the_id_of_a_passage_is_no_value(talk: Talk) -> None:
    base = FakeKnowledgeBase("PAPERS", ["We ship to France.", "We open at nine."], "Shipping.")
    talk.wishes(SEARCH, "We ship to France.", knowledge_bases=[base])
    talk.say("Do you ship abroad?")
    first, *_ = talk.runtime.prompts
    found = [text for _, text in talk.runtime.prompts[-1][len(first) :]]
    sources = re.findall(r"<source>\n(.+)\n</source>", "\n".join(found))
    assert len(sources) == 2
    talk.runtime.wishes.append([*(call("get_order", order_id=one) for one in sources), ASK])
    assert talk.say("Where is my parcel?").stop_reason == "ask_user"


def test_documents_are_searched_before_a_change_that_the_question_has_no_word_of(
    talk: Talk,
) -> None:
    base = FakeKnowledgeBase("PAPERS", ["A visa is needed."], "Rules.")
    told, visa = "A visa is needed.", "Could I travel if I need a visa for it?"
    wish = call("request_vacation", start="?", end="?")
    assert talk.wishes(wish, SEARCH, told, knowledge_bases=[base]).say(visa).text == told
    asked = talk.wishes(wish, knowledge_bases=[base]).say("Could I request a vacation?")
    assert asked.stop_reason == "ask_user"
