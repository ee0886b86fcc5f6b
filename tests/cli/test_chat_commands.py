"""The commands of `orchestrator chat`: what they show, undo, ask again and save."""

import json
import os
import stat

import pytest
from cli_support import ANSWER, ORDER, call
from typist import Typist, talk

NOTHING = "nothing was asked yet in this conversation"
PAID = call("bank__pay")


def test_help_lists_all_commands(shop, script, capsys):
    out = talk(shop, script(), Typist("/help"), capsys).out
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("/")]
    assert listed == [
        *("/trace", "/prompt", "/retry", "/edit", "/save"),
        *("/reset", "/session", "/help", "/quit"),
    ]


def test_an_unknown_command_is_answered_with_the_list_and_not_sent(shop, script, capsys):
    out = talk(shop, script("<answer>Sent."), Typist("/nonsense now"), capsys).out
    assert "there is no command '/nonsense'" in out and "/retry" in out
    assert "Sent." not in out


def test_a_question_that_begins_with_a_slash_is_asked_with_two(shop, script, capsys):
    typist = Typist("//help me", "/prompt")
    out = talk(shop, script("<answer>Gladly."), typist, capsys).out
    assert "Gladly." in out
    assert "/help me" in out and "//help me" not in out


def test_a_command_that_takes_nothing_says_so(shop, script, capsys):
    out = talk(shop, script(), Typist("/retry now", "/quit now", "/session"), capsys).out
    assert "/retry stands alone" in out and "/quit stands alone" in out
    assert "s-1" in out


@pytest.mark.parametrize("command", ["/trace", "/prompt", "/retry", "/edit"])
def test_before_the_first_question_there_is_nothing_to_look_at(shop, script, capsys, command):
    assert NOTHING in talk(shop, script(), Typist(command), capsys).out


def test_the_last_trace_is_drawn_as_the_verb_draws_it(run, shop, script, capsys):
    typist = Typist("Where?", "/trace")
    out = talk(shop, script(ORDER, ANSWER), typist, capsys).out
    drawn = out[out.index(" 1. thinks") :]
    assert " 2. calls orders::GET /orders/{orderId} (orderId=1042)" in drawn
    assert '    → {"' in drawn and " 3. thinks" in drawn
    assert " 4. answers\n    Emma will arrive on Thursday.\n2 model calls · " in drawn


def test_the_steps_of_every_turn_are_shown_or_not(shop, script, capsys):
    typist = Typist("/trace on", "Where?", "/trace off", "And now?", "/trace maybe")
    told = talk(shop, script(ORDER, ANSWER, ANSWER), typist, capsys)
    assert told.err.count("1. thinks") == 1
    assert "/trace on or off" in told.out


def test_all_prompts_of_the_last_turn_are_shown_step_by_step(shop, script, capsys):
    typist = Typist("First", "Where?", "/prompt")
    out = talk(shop, script("<answer>Yes?", ORDER, ANSWER), typist, capsys).out
    first, second = out.split("1. ORCHESTRATION for anthropic.")[1].split("2. ORCHESTRATION")
    assert "Where?" in first and "GET__orders__getOrder(orderId)" in first
    assert "toolResult" not in first and "toolResult" in second
    assert "temperature 0" in second


def test_a_question_is_asked_again_in_the_state_before_it(shop, script, capsys):
    typist = Typist("I am Ana", "Who am I?", "/retry", "/prompt")
    out = talk(shop, script("<answer>Hi.", "<answer>Bob?", "<answer>Ana!"), typist, capsys).out
    assert out.count("Bob?") == 1 and "› Who am I?\nAna!\n" in out
    prompt = out[out.index("1. ORCHESTRATION") :]
    assert "I am Ana" in prompt and "Bob?" not in prompt and prompt.count("Who am I?") == 1


def test_a_question_is_edited_and_asked_instead(shop, script, capsys):
    typist = Typist("Where is 1041?", "/edit", "/prompt", edits=["Where is 1042?"])
    out = talk(shop, script("<answer>Nowhere.", "<answer>There."), typist, capsys).out
    assert typist.asked == ["Where is 1041?"]
    prompt = out[out.index("1. ORCHESTRATION") :]
    assert "Where is 1042?" in prompt and "1041" not in prompt


def test_another_question_may_stand_beside_the_command(shop, script, capsys):
    typist = Typist("Where is 1041?", "/edit Where is 1042?", "/prompt")
    out = talk(shop, script("<answer>Nowhere.", "<answer>There."), typist, capsys).out
    assert "› Where is 1042?\nThere.\n" in out


@pytest.mark.parametrize("edit", ["", "Where?", KeyboardInterrupt()])
def test_a_question_that_was_not_changed_stands(shop, script, capsys, edit):
    typist = Typist("Where?", "/edit", "And?", "/prompt", edits=[edit])
    told = talk(shop, script("<answer>There.", "<answer>Here."), typist, capsys)
    assert "There." in told.out[told.out.index("1. ORCHESTRATION") :]


def test_a_conversation_of_an_earlier_process_can_be_gone_back_in(shop, script, capsys, place):
    state = str(place / "s.sqlite")
    talk(shop, script("<answer>Nowhere."), Typist("Where?"), capsys, state=state)
    told = talk(shop, script("<answer>There."), Typist("/trace", "/retry"), capsys, state=state)
    assert "answers\n    Nowhere." in told.out and "› Where?\nThere." in told.out


def test_a_refused_question_undoes_nothing(shop, script, capsys):
    with (shop / "agent.yaml").open("a") as file:
        file.write("limits: {inputChars: 10}\n")
    typist = Typist("I am Ana", "Where is my order?", "/edit Who am I?", "/prompt")
    told = talk(shop, script("<answer>Hi.", "<answer>Ana."), typist, capsys)
    assert "I am Ana" in told.out[told.out.index("1. ORCHESTRATION") :]


def test_after_a_reset_there_is_nothing_to_ask_again(shop, script, capsys):
    out = talk(shop, script("<answer>Hi."), Typist("Hi", "/reset", "/retry"), capsys).out
    assert out.index("begins anew") < out.index(NOTHING)


def test_files_of_a_question_come_again(shop, script, capsys, place):
    (place / "note.txt").write_text("The number is 1042.")
    files = [{"path": place / "note.txt", "use_case": "CHAT"}]
    typist = Typist("What is it?", "/retry", "/prompt")
    out = talk(shop, script("<answer>Read.", "<answer>Again."), typist, capsys, files=files).out
    assert "note.txt" in out[out.index("1. ORCHESTRATION") :]


def test_what_a_turn_did_is_not_done_again_unasked(buyer, script, capsys):
    text = (buyer / "agent.yaml").read_text().replace(", requireConfirmation: ENABLED", "")
    (buyer / "agent.yaml").write_text(text)
    typist = Typist("Pay", "/retry", "/retry", answers=["n", "y"])
    told = talk(buyer, script(PAID, "<answer>Done.", "<answer>Paid."), typist, capsys)
    stays = "What the turn did stays done, and may be done again: bank::pay()"
    assert told.err.count(stays) == 2
    assert typist.asked == ["Ask again? [y/N] "] * 2
    assert told.out.count("› Pay") == 1 and "Paid." in told.out


def test_what_only_reads_is_done_again_unasked(shop, script, capsys):
    typist = Typist("Where?", "/retry")
    told = talk(shop, script(ORDER, ANSWER, ORDER, ANSWER), typist, capsys)
    assert typist.asked == [] and told.out.count("Thursday") == 2


def test_a_stopped_turn_can_be_asked_again(buyer, script, capsys):
    order = call("shop__order_book", title="Emma")
    typist = Typist("Buy", "/retry", answers=[KeyboardInterrupt(), "here"])
    told = talk(buyer, script(order, order, "<answer>Bought."), typist, capsys)
    assert "stopped" in told.err and "Bought." in told.out
    assert typist.asked == ["Its result: "] * 2


def test_a_conversation_is_saved_as_markdown(shop, script, capsys, place):
    typist = Typist("Where\nis it?", "/save talk.md", "/reset", "And now?", "/save talk.md")
    out = talk(shop, script("<answer>There.", "<answer>Here."), typist, capsys).out
    assert "saved 1 turn to talk.md" in out and "saved 2 turns to talk.md" in out
    text = (place / "talk.md").read_text()
    assert text.startswith("# Conversation with shop\n\nSession `s-1`\n\n**You**, ")
    assert "\n\n> Where\n> is it?\n\n**shop**\n\nThere.\n\n*The conversation began anew.*" in text
    assert text.endswith("**shop**\n\nHere.\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_may_read_it(shop, script, capsys, place):
    talk(shop, script("<answer>There."), Typist("Where?", "/save talk.json"), capsys)
    assert stat.S_IMODE((place / "talk.json").stat().st_mode) == 0o600


def test_a_saved_conversation_is_a_trace_too(run, shop, script, capsys, place):
    talk(shop, script(ORDER, ANSWER), Typist("Where?", "/save talk.json"), capsys)
    saved = json.loads((place / "talk.json").read_text())
    (turn,) = saved["turns"]
    assert (saved["agent"], saved["session_id"]) == ("shop", "s-1")
    assert (turn["question"], turn["text"]) == ("Where?", "Emma will arrive on Thursday.")
    assert "2. calls orders::GET" in run("trace", "talk.json").stdout


def test_a_file_of_another_is_not_overwritten_unasked(shop, script, capsys, place):
    (place / "notes.md").write_text("mine")
    typist = Typist("Where?", "/save notes.md", "/save notes.md", answers=["", "y"])
    talk(shop, script("<answer>There."), typist, capsys)
    assert typist.asked == ["'notes.md' exists. Overwrite it? [y/N] "] * 2
    assert "There." in (place / "notes.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "give a file whose name ends in .md or .json"),
        ("talk.txt", "'talk.txt' ends in neither .md nor .markdown nor .json"),
        ("no/folder/talk.md", "'no/folder/talk.md' cannot be written: No such file or directory"),
    ],
)
def test_where_it_cannot_be_saved(shop, script, capsys, words, said):
    told = talk(shop, script("<answer>There."), Typist("Where?", f"/save {words}".strip()), capsys)
    assert said in told.out + told.err.replace("\n", " ")
