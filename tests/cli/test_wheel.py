"""The wheel: what `pip install` brings is enough for the command line and its examples."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orchestrator.cli.examples import FIRST_COMMANDS

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("hatchling", reason="the wheel is built by hatchling, of the group `dev`")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what the wheel holds, built without a network."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"}
    subprocess.run([*build, "-w", place, ROOT], check=True, env=environment)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "installed")
    return place / "installed"


def use_only(installed):
    """An environment in which the folder is imported, and stays as the wheel filled it."""
    alone = {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **alone}


@pytest.fixture
def program(installed, place):
    """Runs the command line of the wheel, and nothing of this repository."""

    def program(*words):
        return subprocess.run(
            [sys.executable, "-m", "orchestrator", *words],
            capture_output=True,
            text=True,
            check=False,
            env=use_only(installed),
            timeout=120,
        )

    return program


def check_example(program, run, example):
    made = program("init", f"wheel/{example}", "--example", example)
    assert made.returncode == 0, made.stderr
    assert run("init", f"here/{example}", "--example", example).exit_code == 0
    assert list_files(f"wheel/{example}") == list_files(f"here/{example}")


def test_an_example_comes_with_the_wheel(program, run, place):
    check_example(program, run, "insurance")
    linted = program("lint", "wheel/insurance")
    assert (linted.returncode, linted.stdout) == (0, "nothing to complain about\n")


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", sorted(set(FIRST_COMMANDS) - {"insurance"}))
def test_all_examples_come_with_the_wheel(program, run, place, example):
    check_example(program, run, example)


def list_files(folder):
    return sorted(str(it.relative_to(folder)) for it in Path(folder).rglob("*") if it.is_file())


def test_it_is_the_wheel_that_runs(program, installed, place):
    where = "import orchestrator; print(orchestrator.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", where],
        capture_output=True,
        text=True,
        check=True,
        env=use_only(installed),
    )
    assert Path(done.stdout.strip()).is_relative_to(installed)
    assert program("render", "nothing", "Hello").returncode == 2


def test_no_leftovers_are_in_the_wheel(installed):
    names = {it.name for it in installed.rglob("*")}
    assert not names & {"__pycache__", ".orchestrator", ".pytest_cache"}
    assert not [it for it in names if it.endswith(".sqlite")]
