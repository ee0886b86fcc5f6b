"""The file of access keys: whose they are, and what their owners may use.

```yaml
- accessKeyId: AKIDTEAMA
  secretAccessKey: ...
  tenant: team-a
  allow: ["arn:aws:lambda:*:*:function:claims", "s3://claims/*", "anthropic.*"]
- apiKey: ...
  tenant: team-b
```
"""

from __future__ import annotations

import hashlib
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.server.operations import Caller
from orchestrator.support.documents import decode, parse
from orchestrator.support.logs import get_logger

_log = get_logger("orchestrator.server")
_TEXTS = ("accessKeyId", "secretAccessKey", "sessionToken", "apiKey", "tenant")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Shorter ones can be guessed; AWS's own secrets have 40 characters.
_SHORTEST_SECRET = 16
_LARGEST_FILE = 1_000_000


@dataclass(frozen=True, slots=True)
class Key:
    """A key pair, an API key, or both."""

    caller: Caller  # whose it is
    access_key_id: str = ""  # the public half of the pair; empty when there is none
    secret: str = field(default="", repr=False)  # the other half
    # The session token that has to come with it; empty when there is none
    token: str = field(default="", repr=False)
    # The digest of the API key; empty when there is none
    bearer: bytes = field(default=b"", repr=False)


class Keys:
    """The keys in a file, read again when the file changes; safe for many threads.

    While a changed file is wrong, the keys that were read before it go on being good.
    """

    def __init__(self, file: str | Path) -> None:
        """Reads the file.

        Args:
            file: YAML or JSON: a list of keys. Each has `tenant`, and `accessKeyId` with
                `secretAccessKey` (and `sessionToken`, if callers have to send one) or `apiKey`
                or both; `allow` lists what its agents may use in the server's name, nothing by
                default (see `Caller`).

        Raises:
            DefinitionError: The file is wrong; no message quotes it.
            ResourceNotFound: There is no such file.
        """
        self._file = Path(file)
        self._lock = Lock()
        self._stamp = self._read_stamp()
        if self._stamp is None:
            raise ResourceNotFound(f"there is no file of access keys {str(file)!r}")
        self._set_keys(_read_keys(self._file))

    def _read_stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _set_keys(self, keys: list[Key]) -> None:
        self._pairs = {key.access_key_id: key for key in keys if key.access_key_id}
        self._bearers = {key.bearer: key for key in keys if key.bearer}

    def _refresh(self) -> None:
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        with self._lock:
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._set_keys(_read_keys(self._file))
            except (DefinitionError, ResourceNotFound) as error:
                _log.error("the access keys stay as they were: %s", error)

    def find_key_pair(self, access_key_id: str) -> Key | None:
        """The key pair of this id."""
        self._refresh()
        return self._pairs.get(access_key_id)

    def find_api_key(self, token: str) -> Key | None:
        """The API key that `token` is; looked up by its digest, so that timing reveals nothing."""
        self._refresh()
        return self._bearers.get(_hash_token(token))

    def list_callers(self) -> list[Caller]:
        """Whose keys there are."""
        self._refresh()
        keys = (*self._pairs.values(), *self._bearers.values())
        return list(dict.fromkeys(key.caller for key in keys))

    def __repr__(self) -> str:
        return f"Keys({str(self._file)!r})"


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def warn_if_readable(file: Path) -> None:
    """Logs a warning when others may read a file of access keys."""
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        text = "the file of access keys %r can be read by others; run `chmod 600 %s`"
        _log.warning(text, str(file), shlex.quote(str(file)))


def _read_keys(file: Path) -> list[Key]:
    entries = _load_entries(file)
    if not isinstance(entries, list) or not entries:
        raise DefinitionError("access keys are a list of at least one key", file=file)
    keys = [
        _parse_key(entry, f"key {place} of the list", file)
        for place, entry in enumerate(entries, 1)
    ]
    for what in ("access_key_id", "bearer"):
        values = [getattr(key, what) for key in keys if getattr(key, what)]
        if len(set(values)) < len(values):
            name = "accessKeyId" if what == "access_key_id" else "apiKey"
            raise DefinitionError(f"two keys have the same {name}", file=file)
    return keys


def _load_entries(file: Path) -> Any:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file of access keys {str(file)!r}") from None
    except OSError as error:
        raise DefinitionError(
            f"the access keys cannot be read: {error.strerror}", file=file
        ) from None
    if len(data) > _LARGEST_FILE:
        raise DefinitionError(f"access keys have at most {_LARGEST_FILE:,} bytes", file=file)
    try:
        return parse(decode(data, str(file))).data
    except DefinitionError as error:
        # Not what the reader says: it may quote a secret.
        raise DefinitionError(
            "the access keys are neither YAML nor JSON",
            file=file,
            line=error.line,
            column=error.column,
        ) from None


def _parse_key(entry: Any, what: str, file: Path) -> Key:
    def wrong(text: str) -> DefinitionError:
        return DefinitionError(f"{what} {text}", file=file)

    if not isinstance(entry, Mapping):
        raise wrong("is no mapping; it has tenant, accessKeyId and secretAccessKey, or apiKey")
    unknown = [name for name in entry if name not in (*_TEXTS, "allow")]
    if unknown:
        raise wrong(f"has a member that is none of {', '.join(_TEXTS)} and allow")
    texts = {name: entry.get(name) or "" for name in _TEXTS}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise wrong(f"has a {name} that is no text; put it in quotes")
    if not _TENANT.fullmatch(texts["tenant"]):
        raise wrong("needs a tenant of 1 to 64 letters, digits, '.', '_' and '-'")
    if problem := _find_problem(texts):
        raise wrong(problem)
    return Key(
        Caller(texts["tenant"], _parse_allow(entry.get("allow"), wrong)),
        texts["accessKeyId"],
        texts["secretAccessKey"],
        texts["sessionToken"],
        _hash_token(texts["apiKey"]) if texts["apiKey"] else b"",
    )


def _find_problem(texts: Mapping[str, str]) -> str:
    if bool(texts["accessKeyId"]) != bool(texts["secretAccessKey"]):
        return "needs accessKeyId and secretAccessKey together"
    if not texts["accessKeyId"] and not texts["apiKey"]:
        return "needs accessKeyId and secretAccessKey, or apiKey"
    if not re.fullmatch(r"\w{0,128}", texts["accessKeyId"], re.ASCII):
        return "has an accessKeyId that is not of at most 128 letters, digits and '_'"
    for name in ("secretAccessKey", "apiKey"):
        if 0 < len(texts[name]) < _SHORTEST_SECRET:
            return f"has a short {name}, which can be guessed: give {_SHORTEST_SECRET} characters"
    return ""


def _parse_allow(values: Any, wrong: Any) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise wrong("has an allow that is no list of texts, such as ['s3://claims/*']")
    return tuple(values)
