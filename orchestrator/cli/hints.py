"""The way out of an error on the command line: flags, files and commands, by the error's type."""

from __future__ import annotations

from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DependencyFailed,
    LimitExceeded,
    OrchestratorError,
)

__all__ = ["suggest_fix"]


def suggest_fix(error: BaseException, *, debug: bool = False) -> str:
    """What to do about an error from the command line; empty when its message says it all.

    Args:
        error: The error.
        debug: Whether --debug has shown it already.
    """
    if isinstance(error, LimitExceeded):
        return _suggest_limit(error.limit)
    if isinstance(error, ActionOutcomeUnknown):
        return "`orchestrator sessions show SESSION FOLDER --trace` tells the call and its key"
    if isinstance(error, AccessDenied):
        return "--model local needs no account"
    if isinstance(error, DependencyFailed) and not debug:
        own = error.__cause__
        if own is not None and not isinstance(own, OrchestratorError):
            return "run with --debug to see it"
    return ""


def _suggest_limit(name: str) -> str:
    first, *rest = name.split("_")
    member = first + "".join(word.capitalize() for word in rest)
    more = f"`limits: {{{member}: ...}}` in agent.yaml raises it"
    return more if name == "input_chars" else f"{more}; --trace shows what it went into"
