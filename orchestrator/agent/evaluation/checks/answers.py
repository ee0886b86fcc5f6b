"""Checks of what an agent said. No model judges here; a rubric is for `judge`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.agent.evaluation.checks.base import Judging, Verdict, shorten
from orchestrator.agent.evaluation.checks.values import read_count, read_texts, show
from orchestrator.agent.evaluation.grounding import find_inventions, find_questions
from orchestrator.support.regexes import Regex
from orchestrator.support.safe_json import read_json

_REFUSAL = re.compile(
    r"\bonly (?:able to )?(?:help|assist|answer|handle|support|talk|provide|look|tell|deal)\b"
    r"|\bi(?: can|'m| am) only\b|\bnot something i\b"
    r"|\bi do(?:n't| not) (?:do|handle|know|deal|support)\b"
    r"|\b(?:can(?:no|')?t|can not|could(?:n't| not)|won't|unable to|not able to)\b.{0,30}"
    r"\b(?:help|assist|answer|do (?:that|this)|provide|tell|write|talk|handle|support|access)\b"
    r"|\boutside\b|\bnot (?:related|part)\b|\bnothing to do with\b"
    r"|\bdo(?:n't| not) have (?:access|information)\b"
    r"|\bnur\b.{0,40}\b(?:helfen|behilflich|beantworten|auskunft)|\bnicht (?:weiter)?helfen"
    r"|\bkann\b.{0,40}\bnicht\b.{0,30}\b(?:helfen|beantworten|sagen)"
    r"|只能|(?:无法|不能).{0,8}(?:帮|回答|提供|处理)",
    re.IGNORECASE | re.DOTALL,
)
_APOLOGY = re.compile(r"\bsorry\b|\bleider\b|抱歉|对不起", re.IGNORECASE)
_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_REFUSED = ("refused", "guardrail_intervened", "content_filtered")


def says(text: str, fact: str) -> bool:
    """Whether a text holds a fact; a number must be whole: `13` is not in `2013`."""
    left = r"(?<!\d)" if fact[0].isdigit() else ""
    right = r"(?!\d)" if fact[-1].isdigit() else ""
    return any(
        re.search(left + re.escape(form(fact)) + right, form(text)) for form in (str.lower, _plain)
    )


def _plain(text: str) -> str:
    """Lower case, and numbers without separators: `23,800` and `5550 1214` are one number each."""
    return re.sub(r"(?<=\d)[ ,.'](?=\d)", "", text.lower().replace("\u2019", "'"))


def judge_contains(groups: Sequence[Sequence[str]], judging: Judging) -> Iterator[Verdict]:
    """One text of every group is in the answer."""
    answer = judging.outcome.answer
    for group in groups:
        passed = any(says(answer, fact) for fact in group)
        yield Verdict(passed, f"says {' or '.join(map(repr, group))}", shorten(answer))


def judge_lacks(facts: Sequence[str], judging: Judging) -> Iterator[Verdict]:
    """None of the texts is in the answer."""
    answer = judging.outcome.answer
    for fact in facts:
        yield Verdict(not says(answer, fact), f"does not say {fact!r}", shorten(answer))


def judge_equals(wanted: Sequence[str], judging: Judging) -> Iterator[Verdict]:
    """The answer is one of the texts, but for white space around it."""
    answer = judging.outcome.answer.strip()
    passed = any(answer == one.strip() for one in wanted)
    yield Verdict(passed, " or ".join(map(repr, wanted)), shorten(answer))


def judge_regex(patterns: Sequence[tuple[str, Regex]], judging: Judging) -> Iterator[Verdict]:
    """Each expression matches somewhere in the answer."""
    answer = judging.outcome.answer
    for text, pattern in patterns:
        yield Verdict(pattern.search(answer), f"matches {text}", shorten(answer))


def judge_answered(wanted: bool, judging: Judging) -> Iterator[Verdict]:
    """There is an answer, or there is none."""
    answer = judging.outcome.answer
    expected = "an answer" if wanted else "no answer"
    yield Verdict(bool(answer.strip()) == wanted, expected, shorten(answer) or "no answer")


def judge_asks_user(wanted: bool, judging: Judging) -> Iterator[Verdict]:
    """The user was asked something, or was not."""
    outcome = judging.outcome
    asks = outcome.asked or bool(find_questions(outcome.answer))
    yield Verdict(
        asks == wanted,
        "asks the user" if wanted else "does not ask the user",
        shorten(outcome.answer),
    )


def judge_refuses(wanted: bool, judging: Judging) -> Iterator[Verdict]:
    """The agent declined, or did not; doubts are in its favour."""
    outcome = judging.outcome
    plain = outcome.answer.replace("\u2019", "'")
    declines = outcome.stop_reason in _REFUSED or bool(_REFUSAL.search(plain))
    if wanted:
        passed = declines or bool(_APOLOGY.search(plain))
    else:
        # A question through AMAZON.UserInput is no refusal.
        passed = not declines or outcome.asked
    expected = "declines" if wanted else "does not decline"
    yield Verdict(passed, expected, shorten(outcome.answer))


def judge_grounded(_: bool, judging: Judging) -> Iterator[Verdict]:
    """Numbers, days, weekdays and ids of the answer are in what the user or a result said."""
    outcome = judging.outcome
    invented = find_inventions(outcome.stated, outcome.known)
    actual = f"invented: {', '.join(invented)}" if invented else "grounded"
    yield Verdict(not invented, "nothing that nobody has said", shorten(actual))


# -- JSON ----------------------------------------------------------------------------------------


def read_schema(value: Any, _: Path) -> Mapping[str, Any]:
    """A JSON Schema."""
    from orchestrator.flows.ppe.json_schemas import describe_schema_mistake

    if not isinstance(value, dict):
        raise ValueError(f"{show(value)} is no JSON Schema")
    if mistake := describe_schema_mistake(value):
        raise ValueError(f"the JSON Schema is wrong: {mistake}")
    return value


def judge_json(schema: Mapping[str, Any], judging: Judging) -> Iterator[Verdict]:
    """The answer is JSON, in a fence or not, that fits a schema."""
    from orchestrator.flows.ppe.json_schemas import describe_mismatch
    from orchestrator.flows.tree import ScriptError

    answer = judging.outcome.answer
    fenced = _FENCE.match(answer)
    try:
        value = read_json(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        yield Verdict(False, "JSON", shorten(answer))
        return
    try:
        mismatch = describe_mismatch(value, schema)
    except ScriptError as error:  # too deep, or too large
        mismatch = error.message
    yield Verdict(not mismatch, "JSON that fits the schema", mismatch or shorten(answer))


# -- citations -----------------------------------------------------------------------------------


def read_citations(value: Any, folder: Path) -> Any:
    """True, a number of sources, or texts that must be in them."""
    if value is True:
        return 1
    if isinstance(value, int):
        return read_count(value, folder)
    return read_texts(value, folder)


def judge_citations(wanted: Any, judging: Judging) -> Iterator[Verdict]:
    """The answer cites so many sources, or sources with these texts or places."""
    found = [
        json.dumps(reference, ensure_ascii=False, default=str)
        for citation in judging.outcome.citations
        for reference in citation.get("retrievedReferences", ())
    ]
    actual = shorten("; ".join(found)) or "no citation"
    if isinstance(wanted, int):
        least = "no source" if not wanted else f"at least {wanted} cited source(s)"
        passed = len(found) >= wanted if wanted else not found
        yield Verdict(passed, least, f"{len(found)}: {actual}" if found else actual)
        return
    for text in wanted:
        passed = any(text.lower() in one.lower() for one in found)
        yield Verdict(passed, f"cites {text!r}", actual)
