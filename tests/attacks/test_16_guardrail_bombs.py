"""Attack 16: texts and expressions made to keep a guardrail busy. It ends all the same.

Each runs in a process of its own, which is stopped if it does not: an engine that tries every way
to match would need longer than anybody waits.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from left_out import sampled

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from orchestrator.guardrails import LocalGuardrail, Pii, Regex, Topic
from orchestrator.guardrails.pii import PII_TYPES
guardrail = LocalGuardrail(
    topics=[Topic("Insider trading", examples=("a a a a b", "the the the end"))],
    words=["a " * 40 + "c", "+ + x"],
    pii=[Pii(kind, "ANONYMIZE", "ANONYMIZE") for kind in sorted(PII_TYPES)],
    regexes=[Regex(str(n), it, "ANONYMIZE") for n, it in enumerate(
        (r"(a+)+$", r"(x|x|x)*y", r"([0-9]+)*-", r"(.*)*z", "(?:a?){50}a{50}b"))],
)
text = {text} * {times}
guardrail.check(text, "INPUT")
print("done")
"""
BOMBS = {
    "one letter": ("'a'", 100_000),
    "words of a phrase": ("'a '", 50_000),
    "signs between words": ("'insider + + '", 10_000),
    "digits": ("'4'", 100_000),
    "groups of digits": ("'4111 '", 20_000),
    "half addresses": ("'a@a.a.'", 20_000),
    "groups on lines": ("'4111 \\n'", 20_000),
    "addresses without an end": ("'a@' + 'a-' * 30 + '.'", 2_000),
    "dashes": ("'1\\u2011'", 50_000),
    "dots": ("'a.'", 50_000),
    "colons": ("':'", 100_000),
    "announcements": ("'account number is '", 5_000),
    "links": ("'http://.'", 10_000),
    "account numbers": ("'DE89 '", 20_000),
    "marks": ("'a' + '\\u0301' * 9", 10_000),
    "long ligatures": ("'\\ufdfa'", 10_000),
    "nothing to see": ("'\\u200b'", 100_000),
}


@pytest.mark.parametrize("name", sampled(BOMBS))
def test_the_check_ends(name: str) -> None:
    text, times = BOMBS[name]
    code = PROGRAM.replace("{text}", f"({text})").replace("{times}", str(times))
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.stdout == "done\n", ran.stderr[-500:]
