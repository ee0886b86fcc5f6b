"""The state of a run that waits: JSON data that its caller keeps, signed, since it comes back.

It holds the run's journal, and the digest of its script. Whoever could change it could have a
script go on with values that no model and no function gave: a state whose signature is not ours is
refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.errors import DependencyFailed, FlowError
from orchestrator.sessions.journal import Record
from orchestrator.sessions.records import RecordError, fits, upgrade_record
from orchestrator.support.private_files import make_private_folder, open_private, tighten_file
from orchestrator.support.safe_json import read_json

SECRET_VARIABLE = "ORCHESTRATOR_SECRET"
"""The variable with the key of signatures, for processes that share no home folder."""

_VERSION = 2


T = TypeVar("T")


def read_recorded(read: Callable[[str], T], text: str) -> T:
    """What a script has written into its journal: a number, or JSON.

    Raises:
        DependencyFailed: It is none; the journal was changed.
    """
    try:
        return read(text)
    except (ValueError, RecursionError):
        raise build_record_error() from None


def build_record_error() -> DependencyFailed:
    """The error that a record of a script was changed."""
    return DependencyFailed(
        "the session's journal has a record of a script that cannot be understood; delete the "
        "session, or use another session id"
    )


def read_recorded_json(text: str, shape: type) -> Any:
    """JSON that a script has written into its journal, with the members of a `TypedDict`.

    Raises:
        DependencyFailed: It is none; the journal was changed.
    """

    def read(text: str) -> Any:
        value = read_json(text)
        if not fits(value, shape):
            raise ValueError("it has other members")
        return value

    return read_recorded(read, text)


def state_of(digest: str, records: Sequence[Record], more: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a run."""
    state = {
        "version": _VERSION,
        "program_sha256": digest,
        "journal": json.loads(json.dumps(list(records))),
        **more,
    }
    return {**state, "signature": _signature(state)}


def read_state(state: Any, digest: str) -> dict[str, Any]:
    """Checks a state that came back.

    Raises:
        FlowError: It was changed, is another script's, or another version's.
    """
    if not isinstance(state, Mapping) or not isinstance(state.get("signature"), str):
        raise FlowError(
            "the state is none that a paused run gave; pass `result.paused` as it was",
            message_zh="状态不是暂停的运行给出的；请原样传入 `result.paused`",
        )
    unsigned = {key: value for key, value in state.items() if key != "signature"}
    if not hmac.compare_digest(_signature(unsigned).encode(), state["signature"].encode()):
        raise FlowError(
            "the state's signature is wrong: it was changed, or made where another key is; set "
            f"{SECRET_VARIABLE} to one value in both processes",
            message_zh=f"状态签名不符：被改动，或密钥不同；请设置相同的 {SECRET_VARIABLE}",
        )
    if unsigned.get("version") != _VERSION:
        raise FlowError(
            f"the state has version {unsigned.get('version')!r}; this is {_VERSION}",
            message_zh=f"状态版本为 {unsigned.get('version')!r}，此处为 {_VERSION}",
        )
    if unsigned.get("program_sha256") != digest:
        raise FlowError(
            "the state is of another script, or of another version of this one",
            message_zh="状态属于另一个脚本，或此脚本的另一版本",
        )
    try:
        unsigned["journal"] = [upgrade_record(record) for record in unsigned["journal"]]
    except RecordError as error:
        raise FlowError(
            f"the state's journal has a record that {error}",
            message_zh=f"状态的日志中有无效记录: {error}",
        ) from error
    return unsigned


def _signature(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, sort_keys=True, ensure_ascii=True)
    return hmac.new(_key(), text.encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    if configured := os.environ.get(SECRET_VARIABLE):
        return configured.encode()
    home = os.environ.get("XDG_STATE_HOME")
    folder = Path(home) if home else Path.home() / ".local" / "state"
    return _load_or_create_key(folder / "orchestrator" / "key")


@cache
def _load_or_create_key(file: Path) -> bytes:
    """The key of this user's states, made once."""
    try:
        make_private_folder(file.parent)
        try:
            with open_private(file, "xb") as made:
                made.write(secrets.token_hex(32).encode())
        except FileExistsError:
            tighten_file(file)
            return _read_key(file)
        return file.read_bytes()
    except OSError as error:
        raise DependencyFailed(
            f"the key that signs states cannot be kept in {str(file)!r} ({error.strerror}); set "
            f"{SECRET_VARIABLE}"
        ) from error


def _read_key(file: Path) -> bytes:
    found = file.read_bytes()
    if len(found) < 32:
        raise DependencyFailed(
            f"the key in {str(file)!r} is broken; remove it, or set {SECRET_VARIABLE}"
        )
    return found
