"""What an answer states and nobody has said is found, however it is written."""

import pytest

from orchestrator import ValidationError
from orchestrator.agent.evaluation.grounding import find_inventions

CLAIM = (
    '{"claimId": "claim-857", "amountEUR": 23800, "createdOn": "2026-10-15", '
    '"lastActivityOn": "2026-10-29", "contact": {"phone": "+49 89 5550 1214"}}'
)
VACATION = '{"request_id": "V-15", "start_date": "2027-07-12", "end_date": "2027-07-23"}'
ORDER = '{"books": ["Emma"], "arrives": "Thursday"}'


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ("Claim-857 is about €23,800.00, or 23.800 EUR, or 23 800.", CLAIM),
        ("Call +498955501214, +49-89-5550-1214 or 5550 1214.", CLAIM),
        ("It was created on 15 October 2026 and last touched on Oct. 29th.", CLAIM),
        ("Erstellt am 15. Oktober 2026, also am 15.10.2026.", CLAIM),
        ("You mean claim-857.", "claim #857, please"),
        ("You mean claim-857.", "857"),
        ("V-15 is from July 12–23, 2027, or from the 12th to the 23rd of July.", VACATION),
        ("Vom 12. bis 23. Juli, vom 12.7. bis 23.7. und am 12.07.2027 frei.", VACATION),
        ("The days are 07/12/2027 and 7/23/2027.", VACATION),
        ("您的假期是2027年7月12日到7月23日。", VACATION),
        ("Der V-15-Antrag ist da. You may 12 times.", VACATION),
        ("Am Donnerstag, das heißt 星期四.", ORDER),
        ("On March 8 and on May 3.", "from 8 march, then 3 may"),
        ("There are 12 of them, and 7,5 days.", ""),
        ("1. one\n14. fourteenth", ""),
        ("What is the number, for example 1042?", ""),
        ("Please provide the days, such as 2027-06-14.", ""),
        ("Soll ich den Urlaub vom 15. Juni stornieren?", ""),
    ],
)
def test_what_was_said_is_known_in_every_spelling(answer, given):
    assert find_inventions(answer, [given]) == []


@pytest.mark.parametrize(
    ("answer", "given", "invented"),
    [
        ("It arrives on the 20th of May.", ORDER, ["20th of May"]),
        ("It arrives on Friday.", ORDER, ["Friday"]),
        ("周五送达。", ORDER, ["周五"]),
        ("It is claim-858.", CLAIM, ["claim-858"]),
        ("It is about €23,801.", CLAIM, ["23,801"]),
        ("You have 13.5 days.", "13 days", ["13.5"]),
        ("V-2 is cancelled.", "2 days are left", ["V-2"]),
        ("V-16 and V-17.", VACATION, ["V-16", "V-17"]),
        ("It ends on 2027-07-14, a day later.", VACATION, ["2027-07-14"]),
        ("You are off on June 5.", VACATION, ["June 5"]),
        ("Am 3.8. sind Sie frei.", VACATION, ["3.8."]),
        ("8月3日您放假。", VACATION, ["8月3日"]),
        ("In 2028.", VACATION, ["2028"]),
        ("Is that right? It comes on Monday.", ORDER, ["Monday"]),
        ("Order 1042 is late. Order 1042.", ORDER, ["1042"]),
    ],
)
def test_what_nobody_said_is_found_once(answer, given, invented):
    assert find_inventions(answer, [given]) == invented


def test_all_texts_of_a_conversation_count():
    assert find_inventions("V-15, 1042, Thursday", ["order 1042", ORDER, VACATION]) == []


@pytest.mark.parametrize(
    ("answer", "given", "invented"),
    [
        ("V-15-2 and V-15-3.", "v 15-2-4", ["V-15-3"]),
        ("Claim-857a.", "claim857a", []),
        ("Claim-857 it is.", "the sub-claim #857", []),
        ("Claim-12.", "reclaim 12", ["Claim-12"]),
        ("X-1234.", "no. A-1234", ["X-1234"]),
    ],
)
def test_an_id_is_known_by_its_words(answer, given, invented):
    assert find_inventions(answer, [given]) == invented


# Each took minutes or hours when a text of this size was looked at once for each of its parts.
LONG = {
    "empty lines": ("\n" * 99_000, "", 0),
    "ids": (" ".join(f"v-{n}" for n in range(20, 6_000)), "word " * 20_000, 5_980),
    "codes": ("a" + "-1a1" * 10_000, "a" + "-1a1" * 10_000, 0),
    "days": ("2027-01-01 " * 4_000, "2027-01-01", 0),
    "spaces": ("12" + " " * 90_000 + "x", "12", 0),
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_are_looked_at_once(name):
    answer, given, count = LONG[name]
    assert len(find_inventions(answer, [given])) == count


def test_a_text_that_is_too_long_is_not_looked_at():
    with pytest.raises(ValidationError, match="the answer has 100,001 characters"):
        find_inventions("x" * 100_001, [])
    with pytest.raises(ValidationError, match="before it has 1,000,001 characters"):
        find_inventions("x", ["x" * 500_000] * 2)
