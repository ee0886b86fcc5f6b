"""The HTML page: whole, alone, without scripts, whatever was said."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from orchestrator.agent.evaluation import (
    CaseResult,
    CheckResult,
    Run,
    TurnResult,
    build_report,
    compare_runs,
    compare_variants,
)
from orchestrator.agent.evaluation.run_file import build_head

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> ' \" & </style> </svg> ]]> "
    "javascript:alert(1) \x1b[31m \u202e \x00 [a](http://evil.example) {{ 7 * 7 }} \ud800"
)


def result(case, passed, variant="a", repetition=1, text="It is 857.", **more):
    check = CheckResult("contains", passed, f"says {text}", text)
    turn = TurnResult(
        [text], text, "end_turn", [], [check], [{"kind": "result", "text": text}], seconds=2.5
    )
    return CaseResult(case, variant, repetition, "s-1", [text, "list"], [turn], **more)


def run(results, variants=("a",), repeat=1, **head):
    measured = {
        "agent": "desk",
        "cases": {"file": "cases.jsonl", "sha256": "0" * 64, "count": len(results)},
        "variants": [{"name": name} for name in variants],
        "repeat": repeat,
        "judge": "",
    }
    return Run(build_head({**measured, **head}), results)


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def hostile():
    failing = [result(f"{HOSTILE} {n}", False, HOSTILE, text=HOSTILE) for n in range(3)]
    found = run(failing, variants=(HOSTILE,), agent=HOSTILE, judge=HOSTILE)
    changed = compare_runs(found, run([result(one.case, True) for one in failing]))
    return build_report(found, changed, [HOSTILE])


def test_nothing_that_was_said_is_more_than_text(hostile):
    page = Page(hostile)
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link"}
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("style", "src")}
    assert all(it["href"].startswith("#") for it in page.all("a"))
    assert "{{ 7 * 7 }}" in hostile
    assert "<script>alert(1)</script>" in "".join(page.texts)


def test_a_browser_is_told_to_load_and_run_nothing(hostile):
    (policy,) = [it["content"] for it in Page(hostile).all("meta") if "http-equiv" in it]
    style = re.search("<style>(.*?)</style>", hostile, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"url\(|@import|https?:", style)


def test_every_plot_has_a_name_and_a_table():
    results = [result("one", True), result("two", False)]
    page = Page(build_report(run(results)))
    plots = page.all("svg")
    assert len(plots) >= 3
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)
    kinds = [tag for tag, _ in page.tags if tag in ("svg", "table")]
    assert all(kinds[place + 1] == "table" for place, it in enumerate(kinds) if it == "svg")


def test_what_did_not_pass_has_its_details():
    results = [result("good", True, text="fine"), result("bad", False, text="It is 858.")]
    html = build_report(run(results), faults=["a passed 1 of 2"])
    page = Page(html)
    (case,) = [it for it in page.all("details") if "case" in it.get("class", "")]
    assert case["id"] == "case-1"
    assert [it["href"] for it in page.all("a")] == ["#case-1"]
    texts = " ".join(page.texts)
    assert all(it in texts for it in ("Not good enough", "says It is 858.", "session s-1"))


def test_lost_cases_come_first():
    before = [result(f"c{n}", n != 1, "a") for n in range(4)]
    after = [result(f"c{n}", n not in (1, 3), "b") for n in range(4)]
    both = run([*before, *after], variants=("a", "b"))
    html = build_report(both, compare_variants(both))
    matrix = html.partition('<table class="matrix">')[2].partition("</table>")[0]
    assert re.findall(r'<th scope="row">(c\d)', matrix) == ["c3", "c1", "c0", "c2"]


def test_a_run_that_is_not_complete_says_so():
    html = build_report(run([result("one", True)], repeat=2))
    assert "not complete: 1 of 2 results" in html


@pytest.mark.parametrize("results", [[], [result("one", True)]])
def test_little_is_enough(results):
    assert build_report(run(results)).rstrip().endswith("</html>")


def test_values_have_a_scale_of_round_numbers():
    from orchestrator.agent.evaluation.report.plots import plot_strips

    for most in (0.004, 0.7, 1, 6.1, 99, 123_456):
        one = result("one", True)
        plot = plot_strips("t", [("a", [one])], lambda _, most=most: most, lambda it: f"{it:g}")
        assert 2 <= len(plot.ticks) <= 8
        assert float(plot.ticks[-1].label) >= most
        assert all(tick.x <= plot.ticks[-1].x for tick in plot.ticks)
