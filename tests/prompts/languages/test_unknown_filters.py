"""Filters and tests of Jinja2 that are none: told where they are, before anything is rendered."""

from __future__ import annotations

import pytest

from orchestrator import TemplateError, load_template
from orchestrator.prompts import load_dialect
from orchestrator.prompts.compiler import lint_template
from orchestrator.prompts.languages import read_template


@pytest.mark.parametrize("language", ["jinja2", "prompty"])
@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("{{ x | uper }}", "No filter named 'uper'; did you mean 'upper'?"),
        ("{{ x is odddd }}", "No test named 'odddd'; did you mean 'odd'?"),
        ("{% if x | uper %}a{% endif %}", "No filter named 'uper'"),
        ("{{ 'a' if x is odddd else 'b' }}", "No test named 'odddd'"),
        ("{% filter uper %}a{% endfilter %}", "No filter named 'uper'"),
        ("{{ x | map('upper') | format }}", "No filter named 'format'"),
        ("{{ x | center(9) }}", "No filter named 'center'"),
        ("{% block a %}{% endblock %}{% block a %}{% endblock %}", "block 'a' defined twice"),
    ],
)
def test_a_filter_or_test_that_is_none_has_its_file_and_line(language, tag, told, tmp_path):
    file = tmp_path / "t.x"
    file.write_text(f"user:\nHello\n{tag}", encoding="utf-8")
    with pytest.raises(TemplateError) as raised:
        load_template(file, language=language)
    assert raised.value.reason.startswith(f"the template is wrong: {told}")
    assert (raised.value.file, raised.value.line) == (str(file), 3)


def test_a_template_that_asks_whether_there_is_a_filter_is_no_mistake():
    text = "user:\n{% if 'markdown' is filter %}{{ x | markdown }}{% else %}{{ x }}{% endif %}"
    assert read_template(text, "prompty").render({"x": "a"}).messages[0].text == "a"


def test_lint_tells_it_of_a_stage():
    (found,) = lint_template(
        "{% if question | uper %}{{ question }}{% endif %}",
        stage="ORCHESTRATION",
        dialect=load_dialect("claude-3"),
        language="jinja2",
        source="s.j2",
    )
    assert (found.severity, found.file, found.line) == ("error", "s.j2", 1)
    assert "No filter named 'uper'" in found.message
