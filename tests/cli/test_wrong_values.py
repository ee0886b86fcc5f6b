"""Values of options that are empty, or no numbers: a wrong usage that names the option."""

import pytest
import typer

from orchestrator.cli import app


def list_parameters(command, words=()):
    """The words of each command, and its parameters that have values."""
    if commands := getattr(command, "commands", None):
        for name, one in commands.items():
            yield from list_parameters(one, (*words, name))
        return
    for parameter in command.get_params(typer.Context(command)):
        if not getattr(parameter, "is_flag", False) and parameter.default != "":
            yield words, parameter


PARAMETERS = list(list_parameters(typer.main.get_command(app)))
OPTIONS = [(words, one) for words, one in PARAMETERS if one.opts[0].startswith("-")]


def said(done):
    """What a wrong usage says, without the frame around it."""
    assert (done.exit_code, done.stdout) == (2, "")
    return " ".join(done.stderr.replace("│", " ").split())


def test_no_option_has_an_empty_value(run):
    assert len(OPTIONS) > 100
    for words, option in OPTIONS:
        done = run(*words, option.opts[0], "")
        assert f"{option.opts[0]} has an empty value" in said(done), words


def test_no_argument_has_one(run):
    arguments = [(words, one) for words, one in PARAMETERS if (words, one) not in OPTIONS]
    assert len(arguments) > 20
    for words, argument in arguments:
        before = [one.name for path, one in arguments if path == words].index(argument.name)
        done = run(*words, *["x"] * before, "")
        assert f"{argument.metavar} has an empty value: give one" in said(done), words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("serve", "--port", "nonsense"), "'--port': 'nonsense' is not a whole number"),
        (("serve", "--port", "80.5"), "'--port': '80.5' is not a whole number"),
        (("run", "x.pl", "--parallel", f"-{9**999}"), "'--parallel': -"),
        (("serve", "--turn-seconds", "soon"), "'--turn-seconds': 'soon' is not a number"),
        (("serve", "--turn-seconds", "nan"), "'--turn-seconds': 'nan' is not a finite number"),
        (("serve", "--turn-seconds", "inf"), "'--turn-seconds': 'inf' is not a finite number"),
        (("run", "x.pl", "--parallel", "0"), "'--parallel': 0 is less than 1"),
    ],
)
def test_what_is_no_number_is_shown(run, words, text):
    assert f"Invalid value for {text}" in said(run(*words))


def test_an_empty_value_that_is_the_default_is_none(run, shop, script):
    done = run("invoke", shop, "", script("<answer>Hi."))
    assert "there is no question" in done.stderr
