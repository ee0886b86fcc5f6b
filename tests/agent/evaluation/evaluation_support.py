"""Replies of scripted models, and what came of their checks."""

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def call(name, **values):
    """A reply that calls a function."""
    return [{"toolUse": {"toolUseId": "t-1", "name": name, "input": values}}]


def answer(text):
    """A reply that is the answer."""
    return f"<answer>{text}</answer>"


def failing(result):
    """The checks that failed, each as its name and what was there."""
    return [(check.check, check.actual) for _, check in result.failures()]
