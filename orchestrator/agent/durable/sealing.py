"""What the rows of a database say of turns, sealed where the environment has keys.

A row has `{"sealed": text}` in the place of a workflow's input, of its result or of a schedule's
turn, and a sealed text in the place of an error's message. The associated data is what the text is
of: a row's content that was moved to another workflow cannot be opened.
"""

from __future__ import annotations

import json
from typing import Any

from orchestrator.errors import EncryptionError, OrchestratorError, rebuild_error
from orchestrator.support.encryption import get_cipher, is_sealed, refuse_sealed

_SCOPE = ("durable",)
_SEALED, _SCHEDULE = "sealed", "schedule"


def seal_input(turn: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """A workflow's input as its row has it.

    Raises:
        ValidationError: The environment's keys are wrong, or there are none and there have to be.
        DependencyFailed: AWS KMS gave no key.
    """
    return _seal(turn, (workflow_id, "input"))


def seal_schedule(turn: dict[str, Any], schedule: str) -> dict[str, Any]:
    """A schedule's turn as its row has it; raises as `seal_input` does."""
    sealed = _seal(turn, (schedule, _SCHEDULE))
    return {**sealed, _SCHEDULE: schedule} if _SEALED in sealed else sealed


def open_input(stored: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """What `seal_input` or `seal_schedule` was given.

    Raises:
        EncryptionError: It is of a key that is not given, was changed or moved, or is not sealed
            and has to be.
        DependencyFailed: AWS KMS did not decrypt its key.
    """
    return _open(stored, _place_input(stored, workflow_id), _describe_input(workflow_id))


def _place_input(stored: dict[str, Any], workflow_id: str) -> tuple[str, str]:
    schedule = stored.get(_SCHEDULE)
    return (workflow_id, "input") if schedule is None else (str(schedule), _SCHEDULE)


def _describe_input(workflow_id: str) -> str:
    return f"the input of the turn {workflow_id[:60]!r}"


def seal_result(result: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """A workflow's result as its row has it; raises as `seal_input` does."""
    return _seal(result, (workflow_id, "result"))


def open_result(stored: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """What `seal_result` was given; raises as `open_input` does."""
    return _open(stored, (workflow_id, "result"), f"the result of the turn {workflow_id!r}")


def seal_error(error: OrchestratorError, workflow_id: str) -> OrchestratorError:
    """The error as a row has it: an answer of a model may stand in its message."""
    cipher = get_cipher()
    if cipher is None:
        return error
    text = cipher.seal(error.message, _SCOPE, (workflow_id, "error"))
    code = str(getattr(error, "code", "") or getattr(error, "limit", ""))
    return rebuild_error(type(error).__name__, text, code)


def open_message(message: str, workflow_id: str) -> str:
    """An error's message; what a program without keys, or DBOS, has written is as it is.

    Raises:
        EncryptionError: It is of a key that is not given, or was changed or moved.
        DependencyFailed: AWS KMS did not decrypt its key.
    """
    what = f"the error of the turn {workflow_id!r}"
    if not is_sealed(message):
        return message
    cipher = get_cipher()
    if cipher is None:
        refuse_sealed(message, what)
        return message
    return cipher.open(message, _SCOPE, (workflow_id, "error"), what)


def reseal_input(stored: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """A workflow's input, or a schedule's turn, as the first key seals it.

    Raises:
        EncryptionError: It is of a key that is not given, or was changed or moved.
        DependencyFailed: AWS KMS gave no key, or did not decrypt one.
    """
    place = _place_input(stored, workflow_id)
    sealed = _reseal(stored, place, _describe_input(workflow_id))
    return {**sealed, _SCHEDULE: place[0]} if place[1] == _SCHEDULE else sealed


def reseal_schedule(stored: dict[str, Any], schedule: str) -> dict[str, Any]:
    """A schedule's turn as the first key seals it; raises as `reseal_input` does."""
    if _SEALED in stored:
        return reseal_input({**stored, _SCHEDULE: schedule}, schedule)
    return seal_schedule(stored, schedule)


def reseal_result(stored: dict[str, Any], workflow_id: str) -> dict[str, Any]:
    """A workflow's result as the first key seals it; raises as `reseal_input` does."""
    return _reseal(stored, (workflow_id, "result"), f"the result of the turn {workflow_id!r}")


def reseal_message(message: str, workflow_id: str) -> str:
    """An error's message as the first key seals it; raises as `reseal_input` does."""
    cipher = get_cipher()
    if cipher is None or cipher.is_current(message):
        return message
    opened = open_message(message, workflow_id)
    return cipher.seal(opened, _SCOPE, (workflow_id, "error"))


def _reseal(stored: dict[str, Any], place: tuple[str, str], what: str) -> dict[str, Any]:
    cipher = get_cipher()
    if cipher is None or cipher.is_current(stored.get(_SEALED)):
        return stored
    plain = stored.get(_SEALED) is None
    return _seal(stored if plain else _open(stored, place, what), place)


def _seal(content: dict[str, Any], place: tuple[str, str]) -> dict[str, Any]:
    cipher = get_cipher()
    return content if cipher is None else {_SEALED: cipher.seal(json.dumps(content), _SCOPE, place)}


def _open(stored: dict[str, Any], place: tuple[str, str], what: str) -> dict[str, Any]:
    cipher, text = get_cipher(), stored.get(_SEALED)
    if text is None:
        if cipher is not None:
            cipher.check_plain(what)
        return stored
    if not is_sealed(text):
        raise EncryptionError(f"{what} was changed: it says that it is encrypted, and is not")
    if cipher is None:
        refuse_sealed(text, what)
        return stored
    content: dict[str, Any] = json.loads(cipher.open(text, _SCOPE, place, what))
    return content
