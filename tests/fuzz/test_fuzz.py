"""The fuzzer itself: a few inputs of each property, and what is printed of one that fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from . import definitions, requests
from .__main__ import main
from .batch import Property, run_batch
from .targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_a_few_inputs_of_each_property_hold(target: str, pytestconfig: pytest.Config) -> None:
    most = 50 if pytestconfig.getoption("exhaustive") else 10
    with TARGETS[target]() as properties:
        for one in properties:
            count, failure = run_batch(target, one, 1, most)
            assert failure is None, str(failure)
            assert count >= most


@pytest.mark.parametrize("form", definitions.FORMS)
def test_what_is_spoilt_was_good_before(form: str) -> None:
    texts, read = definitions.FORMS[form]
    assert texts
    for text in texts:
        read(text)


def test_every_good_request_is_carried_out() -> None:
    with requests.opened_door() as door:
        for operation, params in requests.GOOD:
            answer = door.ask(requests.written(operation, params))
            assert answer is not None and answer.status < 300, (operation, answer)


def _fail_on_five(value: Any) -> None:
    assert value < 5


def test_a_failure_is_minimised_and_says_how_to_repeat_it() -> None:
    small = Property("small", st.integers(0, 1000), _fail_on_five)
    count, failure = run_batch("numbers", small, 7, 50)
    assert failure is not None and count > 1
    assert failure.smallest == "5"
    again = "-m tests.fuzz --target numbers --property small --seed 7 --inputs 50"
    assert again in str(failure) and "assert 5 < 5" in str(failure)
    assert run_batch("numbers", small, 7, 50)[1] == failure


def test_an_input_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.batch.SECONDS", 0.05)

    def spin(value: int) -> None:
        try:
            while value > 3:
                pass
        except Exception:
            pass  # as code does that takes any error for a dependency's

    _, failure = run_batch("numbers", Property("slow", st.integers(0, 9), spin), 1, 20)
    assert failure is not None and failure.smallest == "4"
    assert "TooSlow" in failure.error


def test_a_batch_is_repeated_by_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--target", "parsers", "--property", "content", "--seed", "3", "--inputs", "20"]
    monkeypatch.setattr("sys.argv", ["fuzz", *options])
    assert main() == 0
    assert "20 inputs, and none fails" in capsys.readouterr().out
