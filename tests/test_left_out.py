"""Tests that are not run are told in one line, with the way to run them."""

from __future__ import annotations

import pytest
from left_out import BROWSER, EXHAUSTIVE, LOCAL, summary


def test_nothing_is_told_when_everything_was_run() -> None:
    assert summary([]) == ""


def test_what_was_not_run_is_told_with_the_way_to_run_it() -> None:
    reasons = [
        *[f"{EXHAUSTIVE}make test-all"] * 3,
        f"{BROWSER}make test-web",
        f"{LOCAL}minilm",
        f"{LOCAL}minilm 0.5b",
        *["no sandbox here"] * 2,
    ]
    assert summary(reasons) == (
        "3 exhaustive (make test-all); 1 in a browser (make test-web); "
        "2 that need 0.5b minilm (make test-local); 2 because no sandbox here"
    )


def test_a_test_sees_no_weights_that_it_does_not_ask_for() -> None:
    from orchestrator.models import weights

    assert not weights.folder().exists()


@pytest.mark.exhaustive
def test_what_is_exhaustive_is_run_when_it_is_asked_for(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getoption("exhaustive")
