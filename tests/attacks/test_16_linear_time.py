"""Row 16: this project's own regular expressions take a time linear in what others wrote.

Each text is a megabyte that one of them once went through again from every place in it: that takes
hours. It runs in a process of its own, which is given a minute.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

REPLY = """
from orchestrator.parsers import parse
parse("<invoke>x</invoke>" + " " * 1_000_000 + "x", name="tool_use")
"""

HEADER = r"""
from orchestrator.server.operations import Fault
from orchestrator.server.wire.requests import _split_list
for text in ('"' + '\\"' * 500_000, "a" * 1_000_000 + '"', " " * 1_000_000 + '"x"y'):
    try:
        _split_list(text)
    except Fault:
        pass
assert _split_list('a, "b,\\"c" ,,d') == ["a", 'b,"c', "", "d"]
"""

MESSAGE = """
from botocore.exceptions import ClientError
from orchestrator.support.aws.failures import get_safe_message
def message(text):
    return get_safe_message(ClientError({"Error": {"Message": text}}, "InvokeModel"))
message("'" * 1_000_000)
assert message("Value 'secret' at 'inputText' failed") == "Value '…' at 'inputText' failed"
"""

CHOICE = """
from orchestrator.cli.steps import _make_choice_step
_make_choice_step("<a>" + " " * 1_000_000, [])
assert _make_choice_step("<a> claims </a>", []).subject == "claims"
"""


QUERY = """
from orchestrator.server.runtime.generate_query import _unwrap
from orchestrator.server.runtime.single_prompt import extract_tag
_unwrap(extract_tag("<sql>a" + " " * 1_000_000 + "b</sql>", "sql"))
read = extract_tag("<sql>\\n```sql\\nSELECT 1\\n```\\n</sql>", "sql")
assert _unwrap(read) == "SELECT 1"
"""

SCRIPT = """
from orchestrator.flows.ppe.reader import read_script
read_script("a" + " " * 1_000_000 + "b")
"""

PROGRAM = """
from orchestrator import Flow
Flow.from_text("->" * 500_000 + " a", "pl")
"""


# What the embedded model's harness reads in the words of users, models and functions
WORDS = """
from orchestrator.models.answer_check import AnswerCheck
from orchestrator.models.grounds import Grounds
from orchestrator.models.owners import keep_to_own
from orchestrator.models.passages import FirstPassage
from orchestrator.models.user_dates import counts_from_today
ids = [{"description": "The order's id, such as 1042"}]
dogs, cats = "Dogs guard heavy wooden gates", "Cats watch small silver fishes"
found = f"<content>\\n{dogs}\\n</content>\\n<content>\\n{cats}\\n</content>"
clauses = ", ".join(f"my friend has {number}" for number in range(70_000))
for text in (" " * 1_000_000 + "x", "a " * 500_000, "my friend has " * 70_000, clauses):
    FirstPassage(text, found).leaves(dogs)
    keep_to_own(Grounds((text, "My friend has 1042"), now="and when do I get mine?"), ids)
    counts_from_today(text)
FirstPassage("when?", "<content>\\n" * 100_000)
check = AnswerCheck(Grounds(("hello",), now="hello"))
check.find("<" + " " * 1_000_000)
check.find("</" + " " * 1_000_000)
assert not check.find("< / tool_call>").fine
passage = FirstPassage("and when?", found)
assert [passage.leaves(dogs), passage.leaves(cats)] == [False, True]
passage = FirstPassage("when and where?", found)
assert [passage.leaves(dogs), passage.leaves(cats)] == [False, False]
"""


@pytest.mark.parametrize(
    "code",
    [
        *(REPLY, HEADER, MESSAGE, CHOICE, QUERY, SCRIPT),
        *(pytest.param(code, marks=pytest.mark.exhaustive) for code in (PROGRAM, WORDS)),
    ],
    ids=["reply", "header", "message", "choice", "query", "script", "program", "words"],
)
def test_a_long_text_is_gone_through_once(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
