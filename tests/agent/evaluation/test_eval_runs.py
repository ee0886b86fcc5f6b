"""Runs: the matrix, its file, going on with it, and what two runs show."""

import json
import threading
import xml.etree.ElementTree as ET

import pytest
from evaluation_support import CLAUDE, answer

from orchestrator import DependencyFailed, ValidationError
from orchestrator.agent.evaluation import (
    Evaluation,
    Matrix,
    RunFile,
    Variant,
    build_junit,
    compare_runs,
    read_cases,
    read_run,
    sum_tags,
    sum_variants,
)
from orchestrator.agent.evaluation.statistics import (
    bootstrap_difference,
    exact_mcnemar,
    wilson_interval,
)
from orchestrator.models import Model, ModelReply
from orchestrator.models.base import Usage
from orchestrator.testing import ScriptedModel


class Reader(Model):
    """Answers rightly where a template asks for it, but for some cases of its own."""

    def __init__(self, *wrong, model_id=CLAUDE):
        self.model_id = model_id
        self.wrong = wrong

    def complete(self, request):
        asked = str(request.messages)
        right = "terse" not in str(request.system)
        right = right and not any(f"case {number}!" in asked for number in self.wrong)
        text = answer("yes" if right else "no")
        return ModelReply([{"text": text}], "end_turn", Usage(output_tokens=1, calls=1))


def questions(count, **more):
    return [
        {"id": f"c{n}", "question": f"case {n}!", "expect": {"contains": "yes"}, **more}
        for n in range(count)
    ]


@pytest.fixture
def run(desk, write_cases, tmp_path):
    """A run of as many cases."""
    numbers = iter(range(100))

    def run(*variants, count=30, cases=None, **settings):
        file = write_cases(*(cases or questions(count)))
        evaluation = Evaluation(desk, read_cases(file), variants, **settings)
        path = tmp_path / f"run-{next(numbers)}.jsonl"
        with Matrix(evaluation) as matrix, RunFile(path, matrix.head()) as kept:
            for result in matrix.run():
                kept.add(result)
        return read_run(path)

    return run


@pytest.fixture
def terse(desk, tmp_path):
    """A folder of templates of which one is spoilt: it asks for terse answers."""
    from orchestrator.prompts import load_dialect

    dialect = load_dialect("tool-use", model_id=CLAUDE)
    text, _ = dialect.read("orchestration.json")
    folder = tmp_path / "spoilt"
    folder.mkdir()
    (folder / "orchestration.json").write_text(
        text.replace("$instruction$", "Be terse. $instruction$")
    )
    return folder


# -- regressions ---------------------------------------------------------------------------------


def test_a_spoilt_template_is_found(run, terse):
    (found,) = compare_runs(run(Variant(Reader(), terse)), run(Variant(Reader(3, 4))))
    assert (found.outcome, len(found.lost), found.gained) == ("regression", 28, [])
    assert found.method == (
        "exact McNemar test on 30 common cases: 0 gained, 28 lost, p = 7.45e-09, level 0.05 "
        "(1 comparison)"
    )


def test_noise_is_not(run):
    # Five cases change in one direction, two in the other: p = 0.45.
    (found,) = compare_runs(run(Variant(Reader(1, 2, 3, 4, 5))), run(Variant(Reader(8, 9))))
    assert (found.outcome, len(found.lost), len(found.gained)) == ("no difference shown", 5, 2)


def test_five_lost_cases_are_too_few_and_six_are_not(run):
    before = run(Variant(Reader()))
    (five,) = compare_runs(run(Variant(Reader(*range(5)))), before)
    (six,) = compare_runs(run(Variant(Reader(*range(6)))), before)
    assert (five.outcome, six.outcome) == ("no difference shown", "regression")


def test_better_is_no_regression(run):
    (found,) = compare_runs(run(Variant(Reader())), run(Variant(Reader(*range(9)))))
    assert (found.outcome, len(found.gained)) == ("improvement", 9)


def test_with_repetitions_cases_are_drawn(run, terse):
    before = run(Variant(Reader(1, 2)), repeat=3)
    (found,) = compare_runs(run(Variant(Reader(), terse), repeat=3), before)
    assert found.outcome == "regression"
    assert "cluster bootstrap over 30 common cases (2,000 draws, seed 2026): " in found.method
    (same,) = compare_runs(run(Variant(Reader(3, 4)), repeat=3), before)
    assert same.outcome == "no difference shown"
    # One case, however often it was held, is one case.
    (one,) = compare_runs(run(Variant(Reader(1, 2, 3)), repeat=5), before)
    assert one.outcome == "no difference shown"


def test_several_comparisons_need_more(run):
    before = run(Variant(Reader(model_id="a.model")), Variant(Reader(model_id="b.model")))
    after = run(Variant(Reader(*range(6), model_id="a.model")), Variant(Reader(model_id="b.model")))
    found, _ = compare_runs(after, before)
    assert found.outcome == "no difference shown"  # p = 0.03, and the level is 0.025
    assert "level 0.025 (2 comparisons)" in found.method


def test_what_only_one_run_has_is_listed(run):
    (found,) = compare_runs(run(Variant(Reader()), count=12), run(Variant(Reader()), count=10))
    assert (found.common, found.left_out) == (10, ["c10", "c11"])


def test_a_case_that_was_changed_is_not_compared(run):
    before = run(Variant(Reader()), count=8)
    # The checks of seven were made weaker, and the eighth has another tag only.
    cases = [
        *({"id": f"c{n}", "question": f"case {n}!", "expect": {}} for n in range(6)),
        {"id": "c6", "question": "case 6, please!", "expect": {"contains": "yes"}},
        {"id": "c7", "question": "case 7!", "expect": {"contains": "yes"}, "tags": ["new"]},
    ]
    (found,) = compare_runs(run(Variant(Reader(*range(8))), cases=cases), before)
    assert (found.common, found.left_out) == (1, [])
    assert found.changed == [f"c{n}" for n in range(7)]
    assert [change.case for change in found.lost] == ["c7"]


def test_a_case_is_the_same_with_a_default_or_its_own_check(run):
    before = run(Variant(Reader()), count=1)
    cases = [
        {"defaults": {"expect": {"contains": "yes", "no_calls": True}}},
        {"expect": {"no_calls": None}, "question": "case 0!", "id": "c0"},
    ]
    (found,) = compare_runs(run(Variant(Reader()), cases=cases), before)
    assert (found.common, found.changed) == (1, [])


def test_runs_without_a_common_variant(run):
    one = run(Variant(Reader(model_id="a.model")), count=1)
    two = run(Variant(Reader(model_id="b.model")), Variant(Reader(model_id="c.model")), count=1)
    with pytest.raises(ValidationError, match=r"no variant of the run \(a.model\) is in the base"):
        compare_runs(one, two)


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(8, 0, 0.0078), (6, 0, 0.0312), (0, 5, 0.0625), (9, 1, 0.0215)]
)
def test_the_exact_test(gained, lost, p):
    assert exact_mcnemar(gained, lost) == pytest.approx(p, abs=1e-4)
    assert exact_mcnemar(lost, gained) == exact_mcnemar(gained, lost)


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    [(26, 30, 0.70, 0.95), (18, 30, 0.42, 0.75), (5, 5, 0.57, 1.0), (0, 0, 0.0, 1.0)],
)
def test_the_interval_of_a_pass_rate(passed, of, low, high):
    assert wilson_interval(passed, of) == pytest.approx((low, high), abs=0.005)


def test_the_bootstrap_is_the_same_each_time():
    differences = [-1.0, 0.0, 0.5, 0.0, -0.5, 0.0]
    first = bootstrap_difference(differences)
    assert first == bootstrap_difference(differences)
    assert first.low < sum(differences) / 6 < first.high


# -- the matrix ----------------------------------------------------------------------------------


def test_every_case_is_held_with_every_variant(run):
    variants = Variant(Reader(model_id="a.model")), Variant(Reader(2, model_id="b.model"))
    found = run(*variants, count=4, repeat=2, concurrency=3)
    assert len(found.results) == found.result_count == 16
    figures = {
        one.name: (one.passed, one.of, one.cases, one.all_passed) for one in sum_variants(found)
    }
    assert figures == {"a.model": (8, 8, 4, 4), "b.model": (6, 8, 4, 3)}


def test_tags_have_figures(run):
    cases = [*questions(2, tags=["x"]), {"id": "z", "question": "Hi", "tags": ["y", "x"]}]
    found = run(Variant(Reader(1)), cases=cases)
    (name,) = found.variants
    assert [(one.name, one.passed, one.of) for one in sum_tags(found, name)] == [
        ("x", 2, 3),
        ("y", 1, 1),
    ]


class Meeting(Reader):
    """Answers when two ask at the same time, or when nobody comes."""

    def __init__(self, **more):
        super().__init__(**more)
        self.barrier = threading.Barrier(2, timeout=60)

    def complete(self, request):
        self.barrier.wait()
        return super().complete(request)


def test_a_model_answers_several_cases_at_the_same_time(run):
    found = run(Variant(Meeting()), count=4, concurrency=2)
    assert [result.status for result in found.results] == ["passed"] * 4


def test_models_answer_side_by_side(run):
    one = Meeting(model_id="a.model")
    other = Meeting(model_id="b.model")
    other.barrier = one.barrier
    found = run(Variant(one), Variant(other), count=3, concurrency=1)
    assert [result.status for result in found.results] == ["passed"] * 6


def test_a_script_is_asked_one_by_one(run):
    replies = [answer("yes")] * 6
    found = run(Variant(ScriptedModel(replies, CLAUDE)), count=6, concurrency=6)
    assert [result.case for result in found.results] == [f"c{n}" for n in range(6)]


def test_each_repetition_has_a_session_of_its_own(run):
    found = run(Variant(Reader()), count=2, repeat=2)
    assert len({result.session for result in found.results}) == 4


def test_agents_of_several_folders(desk, write_cases, tmp_path):
    cases = [{"id": "a", "agent": "desk", "question": "Hi", "expect": {"contains": "yes"}}]
    evaluation = Evaluation(tmp_path, read_cases(write_cases(*cases)), (Variant(Reader()),))
    with Matrix(evaluation) as matrix:
        assert [result.status for result in matrix.run()] == ["passed"]


def test_a_named_template_is_the_folders_where_it_has_one(desk, run, terse):
    # As `templates eject` leaves an agent: its file names the template.
    own = desk / "templates"
    own.mkdir()
    text = (terse / "orchestration.json").read_text().replace("Be terse. ", "")
    (own / "orchestration.json").write_text(text)
    with (desk / "agent.yaml").open("a") as file:
        file.write(
            "promptOverrideConfiguration:\n  promptConfigurations:\n"
            "    - promptType: ORCHESTRATION\n      promptCreationMode: OVERRIDDEN\n"
            "      basePromptTemplateFile: templates/orchestration.json\n"
        )
    assert [it.status for it in run(Variant(Reader()), count=1).results] == ["passed"]
    assert [it.status for it in run(Variant(Reader(), terse), count=1).results] == ["failed"]


def test_the_size_is_checked_before_the_matrix_is_built(desk, write_cases, monkeypatch):
    monkeypatch.setattr(Evaluation, "keys", lambda _: pytest.fail("it was built"))
    with pytest.raises(ValidationError, match="are more than 100,000"):
        Evaluation(desk, read_cases(write_cases(*questions(2))), repeat=10**15)


# -- the file ------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(desk, write_cases, tmp_path):
    """An evaluation, and the file of a run of it that has two results and half of a third."""
    cases = read_cases(write_cases(*questions(5)))
    evaluation = Evaluation(desk, cases, (Variant(Reader(1)),))
    path = tmp_path / "run.jsonl"
    with Matrix(evaluation) as matrix, RunFile(path, matrix.head()) as kept:
        results = matrix.run()
        kept.add(next(results))
        kept.add(next(results))
        results.close()
    with path.open("a") as file:
        file.write('{"kind": "result", "case": "c')
    return evaluation, path


def test_an_interrupted_run_goes_on(interrupted):
    evaluation, path = interrupted
    before = path.read_text().splitlines()[:3]
    with Matrix(evaluation) as matrix, RunFile(path, matrix.head()) as kept:
        assert kept.resumed == 2
        held = [result.case for result in matrix.run({it.key for it in kept.run.results})]
        assert len(held) == 3
    assert path.read_text().splitlines() == before
    assert len(read_run(path).results) == 2


def test_an_error_is_held_again_and_the_last_result_counts(desk, write_cases, tmp_path):
    class Down(Reader):
        down = True

        def complete(self, request):
            if self.down and "case 1!" in str(request.messages):
                raise DependencyFailed("the model is down")
            return super().complete(request)

    model, path = Down(0), tmp_path / "run.jsonl"
    evaluation = Evaluation(desk, read_cases(write_cases(*questions(3))), (Variant(model),))

    def go_on():
        with Matrix(evaluation) as matrix, RunFile(path, matrix.head()) as kept:
            held = list(matrix.run({result.key for result in kept.run.results}))
            for result in held:
                kept.add(result)
        return [result.case for result in held]

    assert go_on() == ["c0", "c1", "c2"]
    before = path.read_bytes()
    model.down = False
    assert go_on() == ["c1"]
    assert go_on() == []
    assert path.read_bytes().startswith(before)
    assert {it.case: it.status for it in read_run(path).results} == {
        "c0": "failed",
        "c1": "passed",
        "c2": "passed",
    }


def test_a_run_of_something_else_is_not_touched(interrupted, write_cases):
    evaluation, path = interrupted
    content = path.read_bytes()
    other = read_cases(write_cases(*questions(5), {"id": "new", "question": "Hi"}))
    with Matrix(Evaluation(evaluation.agent, other, evaluation.variants)) as matrix:
        with pytest.raises(
            ValidationError, match=r"a run whose 'cases' differ .* give another --out"
        ):
            RunFile(path, matrix.head())
    assert path.read_bytes() == content


def test_a_run_of_other_prompts_is_not_gone_on_with(interrupted, desk):
    evaluation, path = interrupted
    text = (desk / "agent.yaml").read_text()
    (desk / "agent.yaml").write_text(text.replace("You look up", "You always look up"))
    with Matrix(evaluation) as matrix, pytest.raises(ValidationError, match="'variants' differ"):
        RunFile(path, matrix.head())


SPOILT = {
    "": "it is empty",
    "nonsense\n": "line 1: ",
    "[]\n": "line 1: it is no JSON object",
    '{"kind": "run", "v": 2}\n': "line 1: it has the format 2, and this version reads 1",
    '{"kind": "run", "v": 1}\n': "line 1: its head has no 'repeat'",
    "[" * 100_000 + "\n": "line 1: ",
}


@pytest.mark.parametrize("text", SPOILT, ids=range(len(SPOILT)))
def test_what_is_no_run_is_refused(tmp_path, text):
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(ValidationError) as raised:
        read_run(path)
    assert SPOILT[text] in str(raised.value)


@pytest.mark.parametrize(
    "members",
    [{"turns": 1}, {"turns": [1]}, {"case": None}, {"repetition": True}, {"variant": "other"}],
)
def test_a_spoilt_result_is_named_by_its_line(interrupted, members):
    _, path = interrupted
    lines = path.read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | members)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValidationError, match="line 3: "):
        read_run(path)


# -- JUnit ---------------------------------------------------------------------------------------


def test_junit_has_failures_errors_and_tags(run):
    cases = [
        *questions(2, tags=["a & b"]),
        {"id": 'q"<>', "question": "Hi", "expect": {"max_cost": 1, "contains": "yes"}},
    ]
    root = ET.fromstring(build_junit(run(Variant(Reader(1)), cases=cases)))
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "1", "time": root.get("time")}
    (suite,) = root
    assert suite.get("name") == f"desk with {CLAUDE}"
    found = {
        case.get("name"): [child.tag for child in case if child.tag in ("failure", "error")]
        for case in suite.iter("testcase")
    }
    assert found == {"c0": [], "c1": ["failure"], 'q"<>': ["error"]}
    assert [it.get("value") for it in suite.iter("property")] == ["a & b", "a & b"]
    (failure,) = suite.iter("failure")
    assert failure.text == "expected: says 'yes' / actual: no"


def test_junit_is_xml_whatever_was_said(run):
    class Hostile(Reader):
        def complete(self, request):
            text = answer("\x00\x1b[31m ]]> <![CDATA[ \ud800 \uffff &amp; ' \" \u202e")
            return ModelReply([{"text": text}], "end_turn", Usage(calls=1))

    root = ET.fromstring(build_junit(run(Variant(Hostile()), count=1)).encode())
    (failure,) = root.iter("failure")
    assert "]]> <![CDATA[" in failure.text
    assert "\x1b" not in failure.text
