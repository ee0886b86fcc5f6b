"""The budgets of one turn. They are checked before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass, fields

from orchestrator.errors import ValidationError

# The longest replies of today's models are half a megabyte of text.
REPLY_BYTES = 16_000_000

# Some ten seconds of loops.
SCRIPT_WORK = 10_000_000

_FROM_ZERO = frozenset({"actions", "reprompts"})
_SECONDS = frozenset({"seconds", "action_seconds", "session_wait"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Budgets of one turn; a turn that reaches one stops with `LimitExceeded`.

    Each is a whole number from 1 (`actions` and `reprompts` from 0); those in seconds are
    numbers greater than 0, or `None`.

    Bedrock has the same kinds of limits but does not document all of their values
    (facts: loop cap about 7 to 10, `inputText` 25,000,000 characters).
    """

    iterations: int = 10  # steps of the ReAct loop, that is orchestration model calls
    model_calls: int = 25  # model calls of all stages together
    tokens: int = 500_000  # input plus output tokens of all model calls, as the models report them
    actions: int = 50  # action and knowledge base calls
    parallel: int = 8  # calls of one reply, or items of a script's loop, that run at the same time
    reprompts: int = 4  # replies in a row that could not be understood
    # What a script (a flow) does by itself, between its calls of models and functions: a statement
    # is 100, a round of a loop 50, the item of a list that it sets or passes on 10
    script_work: int = SCRIPT_WORK
    # Wall-clock time of the turn; `None` for no limit. It is checked before anything is begun, and
    # a model is given what is left of it. In an event loop (`ainvoke`, `astream`) a search, a
    # guardrail or a remote agent that has not answered by then is no longer waited for; a thread
    # waits for as long as its client does
    seconds: float | None = 600.0
    # Wall-clock time of one action; `None` for no limit, and then a synchronous Python function
    # runs in the caller's own thread
    action_seconds: float | None = 60.0
    # How long an invocation waits for a session that another one has, in seconds; with `None` it
    # gets a `SessionConflict` at once
    session_wait: float | None = None
    # Size of one action's result, in UTF-8 bytes; a larger one is not shown to the model, which is
    # told so
    result_bytes: int = 200_000
    input_chars: int = 25_000_000  # length of the user's input
    # Size of one model's reply as it comes from a server, in bytes. A stream, in which each token
    # is an event with members of its own, may have eight times as much
    reply_bytes: int = REPLY_BYTES

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValidationError: One is out of its range.
        """
        for it in fields(self):
            _check(it.name, getattr(self, it.name))


def _check(name: str, value: object) -> None:
    least = 0 if name in _FROM_ZERO else 1
    if name in _SECONDS:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = value is None or (number and value > 0)  # type: ignore[operator]
        allowed = "a number greater than 0, or None for no limit"
    else:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        allowed = f"a whole number from {least}"
    if not fits:
        raise ValidationError(f"Limits({name}={value!r:.40}) is not possible: it must be {allowed}")
