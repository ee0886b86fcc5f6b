"""What the API stores besides sessions and memories: documents in lists."""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.message import clean
from orchestrator.server.document_rows import open_rows
from orchestrator.server.document_rows.base import Answer, List
from orchestrator.server.operations import Fault, Request, conflict_error
from orchestrator.support.encryption import Cipher, is_sealed, refuse_sealed
from orchestrator.support.safe_json import read_json
from orchestrator.support.sqlite import checksum
from orchestrator.support.store_urls import StoreUrl

DAY = 86_400
"""For how many seconds a client token is known."""

_TOKENS = ("clientToken", "clientRequestToken")
_LAST = 2**63 - 1
_CHECKED = re.compile(r"[0-9a-f]{8}(?=\{|orchestrator:)")
# Sorts after every text.
_END = chr(0x10FFFF)


class _OfThread(threading.local):
    is_changing = False  # whether the thread is in a transaction


class DocumentStore:
    """A store of documents: JSON values, and `datetime`s and `bytes`, which come back exactly.

    A document has a tenant, a kind, a parent (empty for none) and an id, which together identify it
    from all others; it may have a name, which no two of one list share. Safe for many threads, and
    for many processes on one file or database. What is read is the reader's own, to change as it
    likes.
    """

    def __init__(
        self,
        where: str | Path | StoreUrl | None = None,
        clock: Callable[[], float] = time.time,
        cipher: Cipher | None = None,
    ) -> None:
        """Opens a file or a database, and makes what is missing; `None` keeps all in memory.

        `clock` gives the seconds by which client tokens are forgotten after a day. With a `cipher`
        bodies and answers are encrypted; ids and names are not, since lists are made by them.

        Raises:
            DependencyFailed: The file or the database cannot be used.
        """
        self._rows = open_rows(where)
        self._clock = clock
        self._cipher = cipher
        self._mine = _OfThread()

    def close(self) -> None:
        """Closes the file or the database."""
        self._rows.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What this thread does meanwhile is one change, which any error undoes.

        Nobody else changes anything meanwhile: it is to be short. One inside of another is part of
        it.

        Raises:
            DependencyFailed: The database failed; nothing was written.
        """
        if self._mine.is_changing:
            yield
            return
        with self._rows.transaction():
            self._mine.is_changing = True
            try:
                yield
            finally:
                self._mine.is_changing = False

    def get(self, tenant: str, kind: str, id: str, parent: str = "") -> dict[str, Any] | None:
        """A document, if there is one."""
        of = List(tenant, kind, parent)
        found = self._rows.get(of, id)
        return None if found is None else self._read(found, *_place(of, id))

    def put(
        self,
        tenant: str,
        kind: str,
        id: str,
        body: Mapping[str, Any],
        parent: str = "",
        *,
        name: str | None = None,
        taken: str = "",
    ) -> None:
        """Stores a document, in place of the one with its id.

        Raises:
            Fault: ConflictException, when another of the list has the name; `taken` says so.
        """
        of = List(tenant, kind, parent)
        with self.transaction():
            if name is not None and self._rows.find_id(of, name) not in (None, id):
                raise conflict_error(taken or f"there is already one with the name {name!r}")
            self._rows.put(of, id, name, self._write(body, *_place(of, id)))

    def delete(self, tenant: str, kind: str, id: str, parent: str = "") -> bool:
        """Deletes a document; whether there was one."""
        with self.transaction():
            return self._rows.delete(List(tenant, kind, parent), id)

    def clear(self, tenant: str, kind: str, parent: str) -> None:
        """Deletes all documents of a list."""
        with self.transaction():
            self._rows.clear(List(tenant, kind, parent))

    def find_id(self, tenant: str, kind: str, name: str, parent: str = "") -> str | None:
        """The id of the document with a name."""
        return self._rows.find_id(List(tenant, kind, parent), name)

    def count(self, tenant: str, kind: str, parent: str = "") -> int:
        """How many documents a list has."""
        return self._rows.count(List(tenant, kind, parent))

    def all(self, tenant: str, kind: str, parent: str = "") -> list[dict[str, Any]]:
        """All documents of a list, in the order in which they were made."""
        of = List(tenant, kind, parent)
        found = self._rows.page(of, 0, None, newest=False)
        return [self._read(text, *_place(of, id)) for _, id, text in found]

    def page(
        self,
        tenant: str,
        kind: str,
        parent: str = "",
        max_results: int | None = None,
        next_token: str | None = None,
        *,
        newest: bool = False,
    ) -> Page[dict[str, Any]]:
        """Some documents of a list, in the order in which they were made.

        What is added or deleted between two pages neither repeats nor hides another. `newest`
        reverses the order.
        """
        of = List(tenant, kind, parent)
        scope = "\0".join(of) + ("\0newest" if newest else "")
        start = decode_offset(next_token, scope, _LAST if newest else 0)
        most = clamp_page_size(max_results)
        found = self._rows.page(of, start, most + 1, newest=newest)
        return self._read_page(found, most, scope, of)

    def page_by_name(
        self,
        tenant: str,
        kind: str,
        parent: str = "",
        max_results: int | None = None,
        next_token: str | None = None,
        *,
        within: str = "",
    ) -> Page[dict[str, Any]]:
        """Some documents of a list that have names, the last name first."""
        of = List(tenant, kind, parent)
        scope = "\0".join(of) + f"\0{within}\0names"
        after, most = decode_token(next_token, scope) or [_END], clamp_page_size(max_results)
        if len(after) != 1 or not isinstance(after[0], str) or clean(after[0]) != after[0]:
            raise invalid_token_error()
        found = self._rows.page_by_name(of, after[0], within, most + 1)
        return self._read_page(found, most, scope, of)

    def _read_page(
        self, found: Sequence[tuple[Any, str, str]], most: int, scope: str, of: List
    ) -> Page[dict[str, Any]]:
        """A page of rows that have a key, an id and a body; of which one more was looked for."""
        more = encode_token([found[most - 1][0]], scope) if len(found) > most else None
        return [self._read(text, *_place(of, id)) for _, id, text in found[:most]], more

    def run_once(self, request: Request, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Carries a request out once, however often it is sent (Bedrock: clientToken).

        Without a token it is carried out each time; otherwise a repeated request returns what
        `make` returned the first time. `make` runs inside the transaction, so it must be short.

        Raises:
            Fault: ConflictException, when the token came with another request within a day.
        """
        token = next((request.params[it] for it in _TOKENS if it in request.params), None)
        with self.transaction():
            if token is None:
                return dict(make())
            key = Answer(request.caller.tenant, request.operation, token)
            place = ("answers", *key[:2]), (token,)
            asked = digest({name: it for name, it in request.params.items() if name not in _TOKENS})
            now = self._clock()
            found = self._rows.find_answer(key, now - DAY)
            if found is None:
                answer = dict(make())
                self._rows.add_answer(key, asked, self._write(answer, *place), now)
                return answer
            if found[0] != asked:
                raise conflict_error(
                    f"the clientToken {token!r} was sent with another request; use a new one"
                )
            return self._read(found[1], *place)

    def rotate(self) -> int:
        """Encrypts documents with the cipher's first key; how many were not.

        Answers to client tokens stay as they are: they are forgotten after a day.

        Raises:
            EncryptionError: One cannot be decrypted; those before it were written again.
        """
        return sum(self._rotate_list(of) for of in self._rows.lists())

    def _rotate_list(self, of: List) -> int:
        assert self._cipher is not None
        count, start = 0, 0
        while found := self._rows.page(of, start, _MOST_RESULTS, newest=False):
            for _, id, text in found:
                if not self._cipher.is_current(self._check(text)):
                    count += self._rotate(of, id)
            start = found[-1][0]
        return count

    def _rotate(self, of: List, id: str) -> int:
        with self.transaction():  # it may have been changed since, or deleted
            text = self._rows.get(of, id)
            if text is None:
                return 0
            body = self._read(text, *_place(of, id), plain=True)
            self._rows.rewrite(of, id, self._write(body, *_place(of, id)))
        return 1

    def _write(
        self, body: Mapping[str, Any], scope: tuple[str, ...], place: tuple[str, ...]
    ) -> str:
        return _add_checksum(self._seal(encode_document(body), scope, place))

    def _seal(self, text: str, scope: tuple[str, ...], place: tuple[str, ...]) -> str:
        return text if self._cipher is None else self._cipher.seal(text, scope, place)

    def _open(self, text: str, scope: tuple[str, ...], place: tuple[str, ...], plain: bool) -> str:
        what = f"a document of the kind {scope[-1]!r}"
        if self._cipher is not None:
            if plain and not is_sealed(text):
                return text
            return self._cipher.open(text, scope, place, what)
        refuse_sealed(text, what)
        return text

    def _read(
        self, text: str, scope: tuple[str, ...], place: tuple[str, ...], *, plain: bool = False
    ) -> dict[str, Any]:
        try:
            found = decode_document(self._open(self._check(text), scope, place, plain))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._rows.failure("holds a document that cannot be read") from error
        if not isinstance(found, dict):
            raise self._rows.failure("holds a document that is no mapping")
        return found

    def _check(self, text: str) -> str:
        found = _CHECKED.match(text)
        if found is None:
            return text
        if checksum(text[found.end() :]) != int(found[0], 16):
            raise self._rows.damage("a document was changed")
        return text[found.end() :]


# What a document is sealed for; an answer to a token is no document.
def _place(of: List, id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ("documents", of.tenant, of.kind), (of.parent, id)


def _add_checksum(text: str) -> str:
    return f"{checksum(text):08x}{text}"


def digest(value: Any) -> str:
    """A text that is the same for the same content, whatever the order of its members."""
    text = json.dumps(_to_plain(value), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def encode_document(value: Any) -> str:
    """A document as the text that is stored."""
    return json.dumps(_to_plain(value), separators=(",", ":"))


def decode_document(text: str) -> Any:
    """The document that `encoded` wrote."""
    return json.loads(text, object_hook=_from_plain)


# What JSON has no value for is a mapping with one member of these, and so is every mapping of the
# callers that would look like that.
_TIME, _BYTES, _MAP = "$time", "$bytes", "$map"
_MARKS = frozenset((_TIME, _BYTES, _MAP))


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        members = {str(key): _to_plain(it) for key, it in value.items()}
        return members if _MARKS.isdisjoint(members) else {_MAP: [*map(list, members.items())]}
    if isinstance(value, list | tuple):
        return [_to_plain(it) for it in value]
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if isinstance(value, bytes | bytearray):
        return {_BYTES: base64.b64encode(value).decode()}
    return value


def _from_plain(members: dict[str, Any]) -> Any:
    if _MARKS.isdisjoint(members):
        return members
    if len(members) != 1:
        raise ValueError("a mark stands alone")
    ((mark, value),) = members.items()
    if mark == _TIME:
        return datetime.fromisoformat(value)
    return base64.b64decode(value, validate=True) if mark == _BYTES else dict(value)


T = TypeVar("T")

Page = tuple[list[T], str | None]
"""Some of a list, in its order, and the token that the next page is asked for with, if any."""

# Bedrock: MaxResults.
_MOST_RESULTS = 1000


def paginate(
    items: Iterable[tuple[Sequence[Any], T]],
    max_results: int | None = None,
    next_token: str | None = None,
    scope: str = "",
) -> Page[T]:
    """Some of a list that is made as it is asked for; see `Documents.page`.

    Args:
        items: All of them, each with a key of texts and numbers; pages are in the order of the
            keys, and no two keys are the same.
        max_results: How many; as many as a page may have when left out.
        next_token: Goes on after an earlier page of the same list.
        scope: Names the list: its tokens are valid for no other.
    """
    after = decode_token(next_token, scope)
    most = clamp_page_size(max_results)
    ordered = sorted(((list(key), it) for key, it in items), key=lambda pair: pair[0])
    try:
        found = [pair for pair in ordered if after is None or pair[0] > after]
    except TypeError as error:
        raise invalid_token_error() from error
    more = encode_token(found[most - 1][0], scope) if len(found) > most else None
    return [it for _, it in found[:most]], more


def render_page(member: str, page: Page[Any]) -> dict[str, Any]:
    """A page as an answer that has its items in `member`."""
    items, token = page
    return {member: items, **({"nextToken": token} if token else {})}


def clamp_page_size(asked: int | None) -> int:
    """How many results a page has: what was asked for, as far as it may be."""
    return _MOST_RESULTS if asked is None else max(1, min(asked, _MOST_RESULTS))


def encode_token(key: Sequence[Any], scope: str) -> str:
    """The token of the page after a key, in the list of that scope."""
    text = json.dumps([_hash_scope(scope), list(key)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str | None, scope: str) -> list[Any] | None:
    """The key of a token, of which nothing more is known; `None` without one."""
    if token is None:
        return None
    parts = _read_token(token)
    if parts is None or parts[0] != _hash_scope(scope):
        raise invalid_token_error()
    return parts[1]


def is_token(text: str) -> bool:
    """Whether a text has the form of a token, of whichever list."""
    return _read_token(text) is not None


def _read_token(token: str) -> tuple[str, list[Any]] | None:
    try:
        parts = read_json(base64.urlsafe_b64decode(token.encode() + b"=="))
    except (binascii.Error, ValueError, RecursionError):
        return None
    match parts:
        case [str(scope), list(key)]:
            return scope, key
    return None


def decode_offset(token: str | None, scope: str, first: int = 0) -> int:
    """The place in a list that is the one number of a token's key; `first` without one."""
    match decode_token(token, scope):
        case None:
            return first
        case [int(place)] if type(place) is int and 0 <= place <= _LAST:
            return place
    raise invalid_token_error()


def _hash_scope(scope: str) -> str:
    return sha256(scope.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def invalid_token_error() -> Fault:
    """The error that says that a token is not one of a list's."""
    return Fault(
        "ValidationException",
        "the nextToken is not one that this list gave; ask for the first page without one",
    )
