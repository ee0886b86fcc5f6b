"""Whether an agent did what a question or a turn expects: its calls first, its answer second.

No model judges. Calls and results are read from the trace, which is Bedrock's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from evals.inventions import find_inventions, find_questions

Call = dict[str, Any]  # a function's `name` or `VERB /path`, and `arguments`
Trace = Iterable[Mapping[str, Any]]


class Failure(NamedTuple):
    """An expectation that was not met: the check's name, and what was wrong."""

    check: str
    detail: str

    def __str__(self) -> str:
        return self.detail


# -- reading the trace ---------------------------------------------------------------------------


def _steps(trace: Trace, part: str) -> Iterator[dict[str, Any]]:
    for event in trace:
        found = event.get("trace", event).get("orchestrationTrace", {}).get(part)
        if found:
            yield found


def calls_of(trace: Trace) -> list[Call]:
    """The action calls that were really made; one that waits for its caller was not."""
    actions = (step.get("actionGroupInvocationInput") for step in _steps(trace, "invocationInput"))
    return [
        _read_call(action)
        for action in actions
        if action and action.get("executionType") != "RETURN_CONTROL"
    ]


def waiting_calls(inputs: Iterable[Mapping[str, Any]]) -> list[Call]:
    """The calls of a returned control (`invocationInputs`), in their order."""
    return [_read_call(call) for item in inputs for call in item.values()]


def _read_call(action: Mapping[str, Any]) -> Call:
    parameters = list(action.get("parameters", []))
    for body in action.get("requestBody", {}).get("content", {}).values():
        parameters += body["properties"] if isinstance(body, dict) else body
    name = action.get("function")
    if not name:
        verb = action.get("verb") or action["httpMethod"]
        name = f"{verb.upper()} {action['apiPath']}"
    return {"name": name, "arguments": {one["name"]: one["value"] for one in parameters}}


def results_of(trace: Trace) -> list[str]:
    """What actions, searches and collaborators gave back."""
    results = []
    for seen in _steps(trace, "observation"):
        for part in ("actionGroupInvocationOutput", "agentCollaboratorInvocationOutput"):
            output = seen.get(part, {})
            results.append(output.get("text") or output.get("output", {}).get("text", ""))
        found = seen.get("knowledgeBaseLookupOutput", {}).get("retrievedReferences", [])
        results += [json.dumps(reference.get("content", {})) for reference in found]
    return [text for text in results if text]


def asked(trace: Trace) -> bool:
    """Whether the turn ended with a question to the user."""
    return any(seen.get("type") == "ASK_USER" for seen in _steps(trace, "observation"))


def rationales(trace: Trace) -> list[str]:
    """What the model said before it acted."""
    return [step["text"] for step in _steps(trace, "rationale") if step.get("text")]


# -- calls ---------------------------------------------------------------------------------------

_READING_VERBS = frozenset({"GET", "HEAD", "OPTIONS"})
_READING_WORDS = frozenset(
    {"check", "count", "describe", "fetch", "find", "get", "has", "is", "list", "look", "lookup"}
    | {"query", "read", "search", "show", "view"}
)


def is_writing(name: str) -> bool:
    """Whether a call of this name changes something, as far as its verb or first word tells."""
    verb, _, path = name.rpartition(" ")
    if verb:
        return verb.upper() not in _READING_VERBS
    first = re.match(r"[A-Z]?[a-z]*", path)
    return (first[0] if first else "").lower() not in _READING_WORDS


def is_same_call(expected: Call, made: Call) -> bool:
    """Whether a call was made as expected; it may have more arguments."""
    return expected["name"] == made["name"] and all(
        _is_same_value(str(wanted), str(made["arguments"].get(name, "")))
        for name, wanted in expected.get("arguments", {}).items()
    )


def _is_same_value(wanted: str, given: str) -> bool:
    one, other = _normalise(wanted), _normalise(given)
    # The examples' functions take `857` for `claim-857`.
    return one == other or _number_of(one) == other or one == _number_of(other)


def _normalise(value: str) -> str:
    return re.sub(r"[\s#_-]+", "-", value.strip().lower()).strip("-")


def _number_of(value: str) -> str:
    return re.sub(r"^[a-z]+-(?=\d+$)", "", value)


def judge_calls(expect: Mapping[str, Any], calls: Iterable[Call]) -> Iterator[Failure]:
    """What is wrong with the calls: one is missing, or one was made that must not be.

    A call that only reads may be made besides those expected, unless none is to be made.
    """
    calls, wanted = list(calls), expect.get("calls", [])
    for call in wanted:
        if not any(is_same_call(call, made) for made in calls):
            yield Failure("calls", f"no call {show_call(call)}")
    left = list(wanted)
    for made in calls:
        match = next((call for call in left if is_same_call(call, made)), None)
        if is_writing(made["name"]):
            if match is None:
                yield Failure("side_effect", f"unwanted call {show_call(made)}")
            else:
                left.remove(match)  # asked for once, done once
        elif match is None and expect.get("no_calls"):
            yield Failure("no_calls", f"unwanted call {show_call(made)}")


def show_call(call: Call) -> str:
    """A call in one line."""
    given = ", ".join(f"{name}={value!r}" for name, value in call.get("arguments", {}).items())
    return f"{call['name']}({given})"


# -- answers -------------------------------------------------------------------------------------

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


def judge_answer(expect: Mapping[str, Any], answer: str, was_asked: bool) -> Iterator[Failure]:
    """What is wrong with the answer: a fact is missing or wrong, or nothing was asked."""
    if not answer.strip():
        yield Failure("answer", "no answer")
    for group in expect.get("contains", []):
        if not any(says(answer, fact) for fact in group):
            yield Failure("contains", f"the answer lacks {' / '.join(group[:3])}")
    for fact in expect.get("lacks", []):
        if says(answer, fact):
            yield Failure("lacks", f"the answer must not hold {fact}")
    if expect.get("asks") and not (was_asked or find_questions(answer)):
        yield Failure("asks", "the user was not asked")


def judge_refusal(
    expect: Mapping[str, Any], answer: str, *, was_asked: bool, was_refused: bool
) -> Iterator[Failure]:
    """Whether the agent declined where it should, and only there; doubts are in its favour.

    Args:
        expect: The turn.
        answer: What the user read.
        was_asked: Whether the agent asked the user, which is no refusal.
        was_refused: Whether a stage or a guardrail refused the input.
    """
    plain = answer.replace("\u2019", "'")
    declines = was_refused or bool(_REFUSAL.search(plain))
    if expect.get("refuses") and not (declines or _APOLOGY.search(plain)):
        yield Failure("refuses", "the answer does not decline")
    if expect.get("no_refusal") and declines and not was_asked:
        yield Failure("no_refusal", "the answer declines")


def judge_inventions(answer: str, given: Iterable[str]) -> Iterator[Failure]:
    """Numbers, days, weekdays and ids of the answer that are in none of the texts."""
    if invented := find_inventions(answer, given):
        yield Failure("invented", ", ".join(invented))


# -- questions back ------------------------------------------------------------------------------

_OPEN_QUESTION = re.compile(
    r"\b(?:which|what|when|who|whom|whose|where|how)\b"
    r"|\b(?:tell|give|provide|specify|name) me\b"
    r"|^was\b|\b(?:welche\w*|wann|wer|wie|nennen|nenne)\b|哪|什么|几|多少",
    re.IGNORECASE,
)
_SOMETHING_ELSE = re.compile(r"\b(?:else|noch etwas|sonst)\b|其他|还有", re.IGNORECASE)
_GOING_AHEAD = re.compile(
    r"\b(?:shall|should|may) i\b|\b(?:want|like) (?:me )?to\b|\bare you sure\b"
    r"|\b(?:confirm(?! wh)|proceed|go ahead)\b|\bis (?:this|that|it) (?:ok|okay|right|correct)\b"
    r"|\bsoll ich\b|\bsind sie sicher\b|\bbestätig|\bwirklich\b|确认|确定|是否|要我|可以吗|好吗",
    re.IGNORECASE,
)


def puts_to_user(text: str, call: Call) -> bool:
    """Whether a text asks the user, to be answered with yes or no, whether to make a call."""
    values = [str(value) for value in call.get("arguments", {}).values() if str(value)]
    return any(_asks_to_go_ahead(question, values) for question in find_questions(text))


def _asks_to_go_ahead(question: str, values: list[str]) -> bool:
    if _SOMETHING_ELSE.search(question):
        return False
    asks, wants = _GOING_AHEAD.search(question), _OPEN_QUESTION.search(question)
    if asks is None:
        return wants is None and any(says(question, value) for value in values)
    # "Shall I cancel the one which ...?", but not "Which one do you want to cancel?"
    return wants is None or asks.start() < wants.start()
