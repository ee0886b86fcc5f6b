"""Texts sealed with AES-256-GCM (NIST SP 800-38D), each for one place of one store.

A sealed text is `orchestrator:sealed:1:KEY:WRAPPED:DATA`, all of ASCII: KEY names the source of the
key, WRAPPED is the key as AWS KMS has encrypted it (empty for a key of the environment's), and DATA
is a nonce of 12 bytes with the ciphertext and its tag, in base64. The associated data is the place:
what was moved to another session, or to another record of it, cannot be opened.

The key that a text is sealed with is made of the source's and of the place's scope (a session, a
memory), so that random nonces of one key stay far from repeating (SP 800-38D, 8.3: 2^32 texts).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed, EncryptionError, ValidationError
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.lru_cache import LruCache

if TYPE_CHECKING:
    from orchestrator.support.encryption.key_sources import KeySource

KEYS = "ORCHESTRATOR_ENCRYPTION_KEYS"
"""The environment variable that names the keys: the first one writes, all of them read."""

REQUIRED = "ORCHESTRATOR_ENCRYPTION_REQUIRED"
"""The environment variable that says whether what is not encrypted is refused."""

_MARK = "orchestrator:sealed:"
_VERSION = "1"
_NONCE, _TAG = 12, 16
_CACHED = 1_000  # keys of scopes, of some hundred bytes each
_SWITCH = {"": False, "0": False, "false": False, "1": True, "true": True}


def is_sealed(text: object) -> bool:
    """Whether a value is a text that a cipher has sealed."""
    return isinstance(text, str) and text.startswith(_MARK)


def refuse_sealed(text: object, what: str) -> None:
    """Raises an `EncryptionError` for a sealed text, where nobody has a key."""
    if is_sealed(text):
        raise EncryptionError(
            f"{what} is encrypted: set {KEYS} to the keys it was written with", is_intact=True
        )


class Cipher:
    """Seals texts and opens them. Safe for many threads; it shows no key, whoever prints it.

    Attributes:
        required: Whether a text that is not sealed is refused.
    """

    __slots__ = ("_keys", "_sources", "required")

    def __init__(self, sources: Sequence[KeySource], *, required: bool = False) -> None:
        """Makes a cipher.

        Args:
            sources: Where keys come from. The first one writes, all of them read.
            required: Whether a text that is not sealed is refused when it is opened.

        Raises:
            ValidationError: The extra `encryption` is not installed.
        """
        try:
            import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
        except ImportError as error:
            raise ValidationError(
                describe_missing_extra("encryption needs", "encryption", error.name)
            ) from None
        self._sources = tuple(sources)
        self._keys: LruCache[Any] = LruCache(_CACHED)
        self.required = required

    def seal(self, text: str, scope: Sequence[str], place: Sequence[str | int | None] = ()) -> str:
        """Encrypts a text.

        Args:
            text: What is encrypted; half a surrogate pair is, too.
            scope: What shares one key, such as a session: the store's kind and names.
            place: Where in its scope the text stands.

        Raises:
            DependencyFailed: AWS KMS gave no key.
        """
        id, key, wrapped = self._sources[0].get_key()
        nonce = os.urandom(_NONCE)
        box = self._get_box(key, scope)
        data = nonce + box.encrypt(
            nonce, text.encode("utf-8", "surrogatepass"), _name(scope, place)
        )
        parts = (_VERSION, id, _to_text(wrapped), _to_text(data))
        return _MARK + ":".join(parts)

    def open(
        self, text: str, scope: Sequence[str], place: Sequence[str | int | None], what: str
    ) -> str:
        """Decrypts what `seal` gave for the same scope and place.

        Args:
            text: The text; one that is not sealed is given back as it is, unless that is refused.
            scope: As it was sealed.
            place: As it was sealed.
            what: What messages call it, such as `record 3 of the session`.

        Raises:
            EncryptionError: It was sealed with a key that is not given, by a newer program or for
                another place; it was changed or cut; or it is not sealed and has to be.
            DependencyFailed: AWS KMS did not decrypt its key.
        """
        if not is_sealed(text):
            self.check_plain(what)
            return text
        id, wrapped, data = _split(text, what)
        sources = [it for it in self._sources if it.may_open(id)]
        if not sources:
            raise EncryptionError(
                f"{what} was encrypted with the key {id[:40]!r}, which is not given: add it to "
                f"{KEYS}",
                is_intact=True,
            )
        failure: DependencyFailed | None = None
        for source in sources:
            try:
                key = source.unwrap(wrapped)
            except DependencyFailed as error:  # which says nothing of the next key
                failure = failure or error
                continue
            plain = None if key is None else self._decrypt(key, data, scope, place)
            if plain is not None:
                return plain
        raise failure or _damage(what)

    def check_plain(self, what: str) -> None:
        """Raises an `EncryptionError` for what is not sealed, where it has to be."""
        if self.required:
            raise EncryptionError(
                f"{what} is not encrypted, and {REQUIRED} forbids that: unset it, run "
                "`orchestrator sessions rotate-key`, and set it again"
            )

    @property
    def is_local(self) -> bool:
        """Whether no key has to be asked for, which would keep an event loop waiting."""
        return all(source.is_local for source in self._sources)

    def is_current(self, text: object) -> bool:
        """Whether a text is sealed as `seal` would do it now, so that rotation leaves it alone.

        Raises:
            DependencyFailed: AWS KMS gave no key.
        """
        if not is_sealed(text):
            return False
        return str(text).startswith(f"{_MARK}{_VERSION}:{self._sources[0].get_key().id}:")

    def _decrypt(
        self, key: bytes, data: bytes, scope: Sequence[str], place: Sequence[str | int | None]
    ) -> str | None:
        from cryptography.exceptions import InvalidTag

        try:
            box = self._get_box(key, scope)
            plain: bytes = box.decrypt(data[:_NONCE], data[_NONCE:], _name(scope, place))
            return plain.decode("utf-8", "surrogatepass")
        except (InvalidTag, UnicodeDecodeError):
            return None

    def _get_box(self, key: bytes, scope: Sequence[str]) -> Any:
        # A key for each scope, by HMAC as a pseudo-random function (NIST SP 800-108).
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        own = hmac.digest(key, b"orchestrator scope " + _name(scope, ()), "sha256")
        return self._keys.get(own, lambda: AESGCM(own))


def _name(scope: Sequence[str], place: Sequence[str | int | None]) -> bytes:
    # JSON: no two places have the same bytes.
    return json.dumps([_VERSION, list(scope), list(place)]).encode()


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _split(text: str, what: str) -> tuple[str, bytes, bytes]:
    version, _, rest = text[len(_MARK) :].partition(":")
    if version != _VERSION and version.isdecimal():
        raise EncryptionError(
            f"{what} was encrypted by a newer program: update this one", is_intact=True
        )
    parts = rest.split(":")
    if version != _VERSION or len(parts) != 3:
        raise _damage(what)
    try:
        wrapped, data = (base64.b64decode(it, validate=True) for it in parts[1:])
    except (binascii.Error, ValueError):
        raise _damage(what) from None
    if len(data) < _NONCE + _TAG:
        raise _damage(what)
    return parts[0], wrapped, data


def _damage(what: str) -> EncryptionError:
    return EncryptionError(
        f"{what} cannot be decrypted: it was changed, cut or moved, or the key is another one of "
        "the same name; delete it, or restore it from a backup"
    )


def get_cipher() -> Cipher | None:
    """The cipher that the environment describes; `None` when it has no keys.

    Raises:
        ValidationError: A variable is wrong, or the extra `encryption` is not installed.
    """
    keys, required = os.environ.get(KEYS, ""), os.environ.get(REQUIRED, "")
    if required.lower() not in _SWITCH:
        raise ValidationError(f"{REQUIRED} has to be 1 or 0")
    must = _SWITCH[required.lower()]
    if not keys.split():
        if must:
            raise ValidationError(f"{REQUIRED} is set, and {KEYS} has no key")
        return None
    return _make_cipher(keys, must)


def require_cipher() -> Cipher:
    """The cipher that the environment describes.

    Raises:
        ValidationError: It has no keys, or wrong ones, or the extra `encryption` is not installed.
    """
    cipher = get_cipher()
    if cipher is None:
        raise ValidationError(f"there is no key to encrypt with: set {KEYS}")
    return cipher


@lru_cache(maxsize=8)
def _make_cipher(keys: str, required: bool) -> Cipher:
    # One for all stores: they share what AWS KMS gave.
    from orchestrator.support.encryption.key_sources import read_key_sources

    return Cipher(read_key_sources(keys, KEYS), required=required)
