"""A run as JUnit's XML, for what shows the tests of a build; the run's own file is the record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from orchestrator.agent.evaluation.results import CaseResult
from orchestrator.agent.evaluation.run_file import Run

# Characters that no XML document may hold (XML 1.0, "Char").
_FORBIDDEN = re.compile("[^\u0009\u000a\u000d\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_CHARS = 8_000


def build_junit(run: Run) -> str:
    """The XML: a suite a variant, a test case a result."""
    suites = [_build_suite(run, name) for name in run.variants]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites{_counts(run.results)}>"]
    return "\n".join([*lines, *suites, "</testsuites>", ""])


def _build_suite(run: Run, variant: str) -> str:
    results = run.of(variant)
    name = f"{run.head['agent']} with {variant}"
    opening = f"<testsuite name={_quote(name)}{_counts(results)} timestamp={_quote(_time(run))}>"
    cases = [line for result in results for line in _build_case(name, result)]
    return "\n".join([opening, *cases, "</testsuite>"])


def _time(run: Run) -> str:
    return str(run.head["started"])[:19]


def _counts(results: list[CaseResult]) -> str:
    statuses = [result.status for result in results]
    seconds = sum(result.seconds for result in results)
    return (
        f' tests="{len(results)}" failures="{statuses.count("failed")}"'
        f' errors="{statuses.count("error")}" time="{seconds:.3f}"'
    )


def _build_case(suite: str, result: CaseResult) -> Iterator[str]:
    name = result.case if result.repetition == 1 else f"{result.case} ({result.repetition})"
    time = f"{result.seconds:.3f}"
    yield f'<testcase classname={_quote(suite)} name={_quote(name)} time="{time}">'
    if result.tags:
        tags = [f'<property name="tag" value={_quote(tag)}/>' for tag in result.tags]
        yield f"<properties>{''.join(tags)}</properties>"
    failures = list(result.failures())
    for number, check in failures:
        kind, text = ("error", check.error) if check.error else ("failure", check.actual)
        message = f"turn {number}: {check.check}: {check.error or check.expected}"
        yield (
            f"<{kind} type={_quote(check.check)} message={_quote(message)}>"
            f"{_escape(f'expected: {check.expected} / actual: {text}')}</{kind}>"
        )
    for error in filter(None, [result.error, *(turn.error for turn in result.turns)]):
        yield f'<error type="error" message={_quote(error)}/>'
    if result.status != "passed":
        yield f"<system-out>{_escape(_show_turns(result))}</system-out>"
    yield "</testcase>"


def _show_turns(result: CaseResult) -> str:
    turns = (f"user: {' / '.join(turn.said)}\nagent: {turn.answer}" for turn in result.turns)
    return "\n".join([f"session {result.session}", *turns])


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)[:_MOST_CHARS]


def _quote(text: str) -> str:
    # Line ends would become spaces in an attribute.
    return quoteattr(_clean(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _escape(text: str) -> str:
    return escape(_clean(text))
