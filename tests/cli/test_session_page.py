"""The terminal session of docs/tutorial.md is what `python tests/session_page.py` writes."""

import json
import re

import pytest
from cli_support import CLAUDE, call

pytest.importorskip("pty")

import session_page


def test_the_page_has_what_is_typed():
    section = session_page.find_section(session_page.PAGE.read_text(encoding="utf-8"))
    assert tuple(session_page.list_typed(section)) == session_page.TYPED, (
        "run `python tests/session_page.py`"
    )
    # It shows what a newcomer came for: answers that are facts, an action that asks first, a trace
    # and a prompt.
    _, *turns = re.split("^› ", section, flags=re.MULTILINE)
    assert turns[0].rstrip().endswith("?")  # the agent asks for the number
    assert "Thursday" in turns[1] and "Monday" in turns[2]
    assert "(orderId=1043)" in turns[3] and "[y/N] y\n" in turns[3]
    assert re.search(r"^ +1\. thinks ", turns[4], re.MULTILINE)
    assert "[… " in turns[5] and re.search(r"^ *system$", turns[5], re.MULTILINE)
    assert "error" not in section


@pytest.mark.exhaustive
def test_a_session_is_recorded_as_it_is_seen(place):
    replies = [
        call("user__askuser", question="What is its number?"),
        call("GET__orders__getOrder", orderId="1042"),
        "<answer>Emma will arrive on Thursday.</answer>",
        call("GET__orders__getOrder", orderId="1043"),
        "<answer>Dune and Ulysses are being packed.</answer>",
        call("POST__orders__cancelOrder", orderId="1043"),
        "<answer>Order 1043 is cancelled.</answer>",
    ]
    script = place / "replies.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    shown = session_page.record(f"--model=scripted:{script}@{CLAUDE}")
    assert shown.startswith("$ orchestrator init bookshop\nmade 'bookshop' with ")
    assert tuple(session_page.list_typed(shown)) == session_page.TYPED
    assert "› 1042\nEmma will arrive on Thursday.\n" in shown
    assert "May it? [y/N] y\nOrder 1043 is cancelled.\n" in shown
    assert "[… " in shown and shown.endswith("› /quit\n")
    assert "\x1b" not in shown and "thinking…" not in shown
    assert str(place.parent) not in shown.replace(str(script), "")
