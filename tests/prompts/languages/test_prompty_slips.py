"""What lint says of lines that an author meant as marks of roles."""

from __future__ import annotations

import pytest

from orchestrator.prompts.languages import read_template


def doubts(text, **options):
    return read_template(text, "prompty", **options).diagnostics


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("usr:", "did you mean 'user:'?"),
        ("uesr:", "did you mean 'user:'?"),
        ("  # Sytem :", "did you mean 'system:'?"),
        ("asistant[name=A]:", "did you mean 'assistant:'?"),
        ("user[name=A:", 'write it as user[name="value"]: in a line of its own'),
        ("user[name={{who}}]", 'write it as user[name="value"]: in a line of its own'),
        ("tool:", "the other dialect has the role 'tool'"),
        ("{% if past %}usr:{% endif %}", "did you mean 'user:'?"),
    ],
)
def test_a_line_that_is_nearly_a_mark_is_doubtful(line, told):
    text = f"---\nname: x\n---\nsystem:\nA\n\n{line}\nHi {{{{who}}}} {{{{past}}}}"
    (found,) = doubts(text)
    assert (found.severity, found.code, found.line) == ("warning", "misspelt-mark", 7)
    assert found.suggestion == told
    assert "is no role's mark" in found.message


@pytest.mark.parametrize(
    "line",
    [
        *("user:", "note:", "Uses:", "a user:", "user: Hi", "- usr:", "user[0] is first", "usr"),
        *('user[name="{{ d["x"] }}"]:', "# User:", "{{usr}}:", "{# usr: #}", "{#\nusr:\n#}"),
    ],
)
def test_other_lines_are_not(line):
    assert not doubts(f"system:\nA\n{line}\nHi")


def test_keys_of_yaml_are_not():
    text = (
        "tools:\n- id: a\n  type: function\nfunctions:\n  x: 1\n\n"
        'assistant[type="tool_call"]:\nid: 1\nfunctions:\n  name: f\n\nuser:\nHi'
    )
    assert not doubts(text, dialect="legacy")
    (found,) = doubts(text + "\nfunctions:\n", dialect="legacy")
    assert found.line == 14
