"""A stream shows nothing that the verdict on the whole text would have kept back."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.guardrails import GuardedStream, LocalGuardrail, Pii, Regex, Topic, Verdict
from orchestrator.guardrails import stream as stream_room

MASKED = (
    *("EMAIL", "PHONE", "CREDIT_DEBIT_CARD_NUMBER", "URL", "IP_ADDRESS", "PASSWORD"),
    "INTERNATIONAL_BANK_ACCOUNT_NUMBER",
)
GUARDRAIL = LocalGuardrail(
    topics=[Topic("Insider trading")],
    words=["C++"],
    pii=[
        *(Pii(kind, "ANONYMIZE", "ANONYMIZE") for kind in MASKED),
        Pii("US_SOCIAL_SECURITY_NUMBER"),
    ],
    regexes=[Regex("x", r"secret \d{3,5}", "ANONYMIZE", "ANONYMIZE")],
    blocked_outputs_messaging="[blocked]",
)
PIECES = (
    st.sampled_from(
        ["hello ", "the ", "lorem ipsum dolor sit amet " * 5, "john.doe@example.com", " ", "\n",
         "4111 1111 1111 1111", "1", "5 ", "+49 170 1234567", "http://a.example/b?c", "10.0.0.1",
         "DE89 3704 0044 0532 0130 00", "password: x1y2", "a", "@", "中文", "{EMAIL}", "{",
         "\u200b", "secret 1234", "ｊ", "password", ".", ", "]
    )
    | st.text(max_size=5)
)  # fmt: skip
BAD = st.sampled_from(["insider ", "trading", "insider trading", "123-45-6789", "C++"])
SECRETS = ("john.doe@example.com", "4111 1111 1111 1111", "DE89 3704", "a.example/b?c", "x1y2")


def streamed(text, interval, seed, bounded):
    rng = random.Random(seed)
    stream = GuardedStream(
        lambda it: GUARDRAIL.check(it, "OUTPUT"), interval, reach=GUARDRAIL.reach, bounded=bounded
    )
    out, place = [], 0
    while place < len(text):
        size = rng.choice((1, 3, 20, 200))
        out.append(stream.feed(text[place : place + size]))
        place += size
    return stream, "".join(out), stream.finish()


@given(st.lists(PIECES, max_size=80).map("".join), st.integers(1, 80), st.integers(), st.booleans())
def test_what_comes_out_is_what_the_whole_text_becomes(text, interval, seed, bounded):
    whole = GUARDRAIL.check(text, "OUTPUT")
    stream, before, rest = streamed(text, interval, seed, bounded)
    if stream.blocked and not whole.blocked:
        return  # what was bad at an earlier time is not good later: three digits, then four
    assert not stream.blocked
    assert before + rest == whole.text
    for secret in SECRETS:
        assert (secret in before + rest) == (secret in whole.text)


@given(
    st.lists(PIECES | BAD, max_size=80).map("".join),
    st.integers(1, 80),
    st.integers(),
    st.booleans(),
)
def test_after_a_block_there_is_the_message_and_nothing_more(text, interval, seed, bounded):
    whole = GUARDRAIL.check(text, "OUTPUT")
    stream, before, rest = streamed(text, interval, seed, bounded)
    assert stream.blocked or not whole.blocked
    if stream.blocked:
        out = before + rest
        assert out.endswith("[blocked]") and out.count("[blocked]") == 1
        shown = out.removesuffix("[blocked]")
        assert not GUARDRAIL.check(shown, "OUTPUT").blocked
        assert not any(secret in shown for secret in SECRETS)
        assert stream.feed("more") == stream.finish() == ""


def test_text_comes_out_while_it_goes_in():
    stream = GuardedStream(lambda text: Verdict(text=text), 10, reach=20)
    out = [stream.feed(f"word{number:03} ") for number in range(100)]
    text = "".join(out)
    assert len([it for it in out if it]) > 40
    assert "word095 " in text and "word099" not in text
    assert text + stream.finish() == "".join(f"word{number:03} " for number in range(100))
    assert stream.verdict.action == "NONE"


def test_checks_are_made_at_the_interval_and_at_the_end():
    seen = []

    def check(text):
        seen.append(len(text))
        return Verdict(text=text)

    stream = GuardedStream(check, 50, reach=0)
    for _ in range(100):
        stream.feed("ab ")
    stream.finish()
    assert seen == [51, 102, 153, 204, 255, 300]
    assert stream.checks == 6


def test_a_bounded_guardrail_is_asked_about_the_end_only():
    seen = []

    def check(text):
        seen.append(len(text))
        return Verdict(text=text)

    stream = GuardedStream(check, 50, reach=100, bounded=True)
    out = [stream.feed("word ") for _ in range(2000)]
    assert max(seen) < 500
    assert "".join(out) + stream.finish() == "word " * 2000
    assert seen[-1] == 10_000


def test_nothing_is_asked_while_nothing_could_be_shown():
    seen = []

    def check(text):
        seen.append(text)
        return Verdict(text=text)

    stream = GuardedStream(check, 10, reach=200)
    assert stream.feed("a short answer of a few words") == ""
    assert stream.finish() == "a short answer of a few words"
    assert len(seen) == 1
    empty = GuardedStream(check, 10)
    assert empty.finish() == "" and len(seen) == 1


def test_an_address_that_is_being_written_is_held_back():
    out = []
    stream = GuardedStream(lambda it: GUARDRAIL.check(it, "OUTPUT"), 1, reach=0)
    for char in "Mail john.doe@example.com, please":
        out.append(stream.feed(char))
    assert "".join(out) == "Mail {EMAIL}, "
    assert stream.finish() == "please"


def test_a_text_without_spaces_comes_out_in_time():
    stream = GuardedStream(lambda text: Verdict(text=text), 50, reach=20)
    assert len(stream.feed("x" * 5000)) == 4000
    chinese = GuardedStream(lambda text: Verdict(text=text), 50, reach=20)
    assert len(chinese.feed("你好" * 100)) == 180


def test_many_masks_do_not_stop_the_stream():
    stream = GuardedStream(lambda it: GUARDRAIL.check(it, "OUTPUT"), 20, reach=GUARDRAIL.reach)
    text = "Mail a@b.com or c@d.org at once, or go to www.example.com and read. " * 40
    out = [stream.feed(text[place : place + 7]) for place in range(0, len(text), 7)]
    assert len("".join(out)) > 1500
    assert "".join(out) + stream.finish() == GUARDRAIL.check(text, "OUTPUT").text


@pytest.mark.parametrize("blocks", [True, False])
def test_a_guardrail_that_changes_its_mind(blocks):
    """What was shown is not shown again, and nothing that is different follows before the end."""

    def check(text):
        if "late" in text:
            return Verdict("INTERVENED", "no" if blocks else text.replace("early", "*"), blocks)
        return Verdict(text=text)

    stream = GuardedStream(check, 5, reach=0)
    assert stream.feed("early words ") == "early words "
    rest = stream.feed("and late ones ") + stream.feed("and more ") + stream.finish()
    assert rest == ("no" if blocks else "* words and late ones and more ")


@pytest.mark.parametrize(
    "unit", ["-", "a", "| ", "@a", "|---", "\u200b", "word ", "4 ", "http://", "x@y.co ", "x@y.co"]
)
def test_the_work_grows_as_the_text_does(unit, monkeypatch):
    """Characters that are looked at: by the guardrail, and to find where to cut."""
    looked = 0

    def is_letter(char):
        nonlocal looked
        looked += 1
        return letter(char)

    def check(text):
        nonlocal looked
        looked += len(text)
        return Verdict(text=text) if guardrail is None else guardrail.check(text, "OUTPUT")

    letter = stream_room.is_letter
    monkeypatch.setattr(stream_room, "is_letter", is_letter)
    for guardrail in (None, LocalGuardrail(pii=[Pii("EMAIL", "NONE", "ANONYMIZE")])):
        looked, length, out = 0, 40_000, []
        stream = GuardedStream(check, 50, reach=65, bounded=True)
        text = (unit * length)[:length]
        for place in range(0, length, 4):
            out.append(stream.feed(text[place : place + 4]))
        out.append(stream.finish())
        assert looked < 50 * length  # half of its square would be 20,000 of its length
        assert "".join(out) == (guardrail.check(text, "OUTPUT").text if guardrail else text)


def test_a_long_word_is_a_border():
    seen = []

    def check(text):
        seen.append(len(text))
        return Verdict(text=text)

    stream = GuardedStream(check, 50, reach=65, bounded=True)
    for _ in range(2000):
        stream.feed("letters")
    stream.finish()
    assert max(seen[:-1]) < 1500 and seen[-1] == 14_000


def test_a_mask_in_a_long_word_is_not_cut():
    address = "x" * 3000 + "@example.com"
    stream = GuardedStream(
        lambda text: GUARDRAIL.check(text, "OUTPUT"), 50, reach=GUARDRAIL.reach, bounded=True
    )
    text = f"http://a.example/{'y' * 5000} and {address}"
    out = "".join(stream.feed(text[place : place + 9]) for place in range(0, len(text), 9))
    assert "a.example" not in out and "y" not in out and out.startswith("{URL} and ")
    assert "example.com" not in out + stream.finish()
