"""Where keys come from: the environment itself, or AWS KMS."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

from orchestrator.errors import ValidationError
from orchestrator.support.aws import (
    Settings,
    Target,
    code_of,
    get_shared_client,
    region_of,
    translate_errors,
)
from orchestrator.support.lru_cache import LruCache

_BYTES = 32  # AES-256
_KMS = "aws-kms:"
_ANY_KMS = "kms"  # the id that texts of all keys of KMS had at first
_MOST_KEYS = 20
_SECONDS = 3600.0  # after which KMS is asked again, so that a key that was disabled is one
_UNWRAPPED = 1_000  # data keys of old records that stay decrypted
_LONGEST = 6_144  # AWS KMS: CiphertextBlob
# Whoever may use the key for something else cannot be led to decrypt a record with it.
_CONTEXT = {"application": "bedrock-orchestrator"}
_OTHER_KEYS = frozenset({"IncorrectKeyException", "InvalidCiphertextException"})
_MULTI_REGION = re.compile(r"(?<=:kms:)[^:]*(?=:[^:]*:key/mrk-)")  # the region of its ARN


class WritingKey(NamedTuple):
    """A key to write with."""

    id: str  # names it in what it seals; no secret
    key: bytes
    wrapped: bytes  # what `unwrap` makes it of again


class KeySource(Protocol):
    """Gives keys of 32 bytes. Safe for many threads; its `repr` shows none."""

    is_local: bool  # whether nobody else is asked

    def get_key(self) -> WritingKey:
        """The key to write with."""

    def may_open(self, id: str) -> bool:
        """Whether it may have made the key with that id."""

    def unwrap(self, wrapped: bytes) -> bytes | None:
        """The key again; `None` when it is not one of this source."""


class GivenKey:
    """A key that somebody gives."""

    is_local = True
    __slots__ = ("_key", "id")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.id = sha256(b"orchestrator key id " + key).hexdigest()[:16]

    def get_key(self) -> WritingKey:
        """The key, wrapped in nothing: whoever reads has it, too."""
        return WritingKey(self.id, self._key, b"")

    def may_open(self, id: str) -> bool:
        """Whether that is its id."""
        return id == self.id

    def unwrap(self, wrapped: bytes) -> bytes | None:
        """The key."""
        return self._key if not wrapped else None


class KmsKey:
    """Data keys that a key of AWS KMS has made and encrypted (GenerateDataKey, Decrypt).

    A data key writes for an hour; so long are those that were decrypted known, at most 1,000. Its
    id is made of the ARN that KMS answers with: an alias may stand for another key next time.
    """

    is_local = False
    __slots__ = (
        "_clock",
        "_current",
        "_lock",
        "_settings",
        "_since",
        "_target",
        "_unwrapped",
        "key_id",
    )

    def __init__(
        self,
        key_id: str,
        region: str | None = None,
        endpoint_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key_id = key_id
        self._settings = Settings(
            "kms", region or region_of(key_id), endpoint_url=endpoint_url, read_timeout=10.0
        )
        self._target = Target(
            f"the encryption key {key_id!r}",
            key_id,
            "allow kms:GenerateDataKey and kms:Decrypt",
            quoted=frozenset(),
            callers=False,
            region=self._settings.region,
        )
        self._clock = clock
        self._lock = Lock()
        self._current: tuple[WritingKey, float] | None = None
        self._since = clock()
        self._unwrapped: LruCache[bytes | None] = LruCache(_UNWRAPPED)

    def get_key(self) -> WritingKey:
        """A data key, and how KMS has encrypted it; raises one of AWS's failures."""
        with self._lock:
            now = self._clock()
            if self._current is None or now - self._current[1] > _SECONDS:
                self._current = (self._generate(), now)
            return self._current[0]

    def may_open(self, id: str) -> bool:
        """Whether KMS may decrypt it: only an ARN says of which key a data key is, and no alias."""
        if id == _ANY_KMS or ":key/" not in self.key_id:
            return id.partition("-")[0] == _ANY_KMS
        return id == _hash_arn(self.key_id)

    def unwrap(self, wrapped: bytes) -> bytes | None:
        """What KMS decrypts; `None` when it has not encrypted it with this key."""
        if not 0 < len(wrapped) <= _LONGEST:
            return None
        with self._lock:
            if self._clock() - self._since > _SECONDS:
                self._unwrapped = LruCache(_UNWRAPPED)
                self._since = self._clock()
            unwrapped = self._unwrapped
        return unwrapped.get(wrapped, lambda: self._decrypt(wrapped))

    def _decrypt(self, wrapped: bytes) -> bytes | None:
        from botocore.exceptions import ClientError

        client = get_shared_client(self._settings, self._target)
        with translate_errors(self._target):
            try:
                # The key is named: a blob of somebody else's key is refused, and not decrypted.
                answer = client.decrypt(
                    KeyId=self.key_id, CiphertextBlob=wrapped, EncryptionContext=_CONTEXT
                )
            except ClientError as error:
                if code_of(error) not in _OTHER_KEYS:
                    raise
                return None
        key = bytes(answer["Plaintext"])
        return key if len(key) == _BYTES else None

    def _generate(self) -> WritingKey:
        client = get_shared_client(self._settings, self._target)
        with translate_errors(self._target):
            answer = client.generate_data_key(
                KeyId=self.key_id, NumberOfBytes=_BYTES, EncryptionContext=_CONTEXT
            )
        id = _hash_arn(answer.get("KeyId") or self.key_id)
        return WritingKey(id, bytes(answer["Plaintext"]), bytes(answer["CiphertextBlob"]))


def _hash_arn(arn: str) -> str:
    # A multi-Region key is the same one everywhere (AWS KMS: "Multi-Region keys").
    same = _MULTI_REGION.sub("", arn)
    return f"{_ANY_KMS}-{sha256(same.encode()).hexdigest()[:16]}"


def read_key_sources(text: str, variable: str) -> list[KeySource]:
    """The sources that an environment variable names, apart by commas or spaces.

    Each is 32 bytes in base64, or `aws-kms:KEY` with the key's id, ARN or alias, and perhaps
    `?region=…&endpoint_url=…`.

    Raises:
        ValidationError: One is neither; the message does not have it.
    """
    words = text.replace(",", " ").split()
    if len(words) > _MOST_KEYS:
        raise ValidationError(f"{variable} has more than {_MOST_KEYS} keys")
    return [_read_source(word, place, variable) for place, word in enumerate(words, 1)]


def _read_source(word: str, place: int, variable: str) -> KeySource:
    if word.startswith(_KMS):
        return _read_kms(word.removeprefix(_KMS), place, variable)
    try:
        key = base64.b64decode(word.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _BYTES:
        raise ValidationError(
            f"key {place} of {variable} is not 32 bytes in base64; "
            "`openssl rand -base64 32` makes one"
        )
    return GivenKey(key)


def _read_kms(text: str, place: int, variable: str) -> KmsKey:
    key_id, _, query = text.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if not key_id or not options.keys() <= {"region", "endpoint_url"}:
        raise ValidationError(
            f"key {place} of {variable} is not aws-kms:KEY, aws-kms:KEY?region=REGION or "
            "with &endpoint_url=URL"
        )
    return KmsKey(key_id, options.get("region"), options.get("endpoint_url"))
