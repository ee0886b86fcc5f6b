"""The budgets of one turn. They are checked before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Budgets of one turn; a turn that reaches one stops with `LimitExceeded`.

    Bedrock has the same kinds of limits but does not document all of their values
    (facts: loop cap about 7 to 10, `inputText` 25,000,000 characters).

    Attributes:
        iterations: Steps of the ReAct loop, that is orchestration model calls.
        model_calls: Model calls of all stages together.
        tokens: Input plus output tokens of all model calls, as the models report them.
        actions: Action and knowledge base calls.
        parallel: Calls of one reply that run at the same time.
        reprompts: Replies in a row that could not be understood.
        seconds: Wall-clock time of the turn; `None` for no limit.
        action_seconds: Wall-clock time of one action; `None` for no limit, and then a synchronous
            Python function runs in the caller's own thread.
        result_bytes: Size of one action's result, in UTF-8 bytes; a larger one is not shown to
            the model, which is told so.
        input_chars: Length of the user's input.
    """

    iterations: int = 10
    model_calls: int = 25
    tokens: int = 500_000
    actions: int = 50
    parallel: int = 8
    reprompts: int = 4
    seconds: float | None = 600.0
    action_seconds: float | None = 60.0
    result_bytes: int = 200_000
    input_chars: int = 25_000_000
