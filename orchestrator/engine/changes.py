"""Whether a call may change something; where that is not certain, it counts as a change.

The words that are known here are English. A name in another language says nothing, so its calls
count as changes, unless the author says that they need no confirmation.
"""

from __future__ import annotations

from itertools import pairwise

from orchestrator.actions.base import Operation
from orchestrator.support.words import part_camel_case

# How the names of functions begin that change nothing.
_READING = frozenset(
    "calculate check compare compute convert count describe estimate fetch find get is list look"
    " lookup preview query read retrieve search show summarise summarize validate view".split()
)

# What makes another verb of the first one: `check_out`, `get_rid_of`.
_PARTICLES = frozenset("in off on out over rid".split())

# Verbs of changes: after a conjunction, as in `find_or_create`, they count as the first one does.
_CHANGING = frozenset(
    "accept activate add apply approve archive assign attach block book buy call cancel change"
    " charge close complete confirm copy create deactivate delete deliver disable download"
    " email enable enter enrol enroll extend file finish forward give hire install invite issue"
    " lock mail make mark merge move notify open order pay plan post print publish purchase put"
    " raise record refund register reject release remind remove rename renew rent reopen replace"
    " reply report request reschedule reserve reset restart restore resume return revoke save"
    " schedule sell send set share ship sign start stop store submit subscribe suspend switch"
    " tag transfer translate trigger turn unblock unlock unsubscribe update upgrade upload"
    " withdraw write".split()
)


def split_words(name: str) -> list[str]:
    """The words of a function's or parameter's name: `sendReminder`, `send_reminder`."""
    return part_camel_case(name).replace("_", " ").replace("-", " ").lower().split()


def only_reads(operation: Operation) -> bool:
    """Whether calls of an operation are known to change nothing.

    Those of an API with `GET` or `HEAD` do not, and functions whose names begin with a word such as
    `get`; of everything else it is not known.
    """
    if operation.verb:
        return operation.verb in ("GET", "HEAD", "OPTIONS")
    words = split_words(operation.name)
    if not words or words[0] not in _READING or not _PARTICLES.isdisjoint(words[1:2]):
        return False
    return not any(
        before in ("and", "or") and word in _CHANGING for before, word in pairwise(words)
    )
