"""Texts are sealed for one place; keys come from the environment or AWS KMS, and rotate."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from orchestrator.errors import DependencyFailed, EncryptionError, ValidationError
from orchestrator.sessions import EncryptedStore, SQLiteStore
from orchestrator.support.encryption import KEYS, Cipher, get_cipher, is_sealed
from orchestrator.support.encryption.cipher import REQUIRED
from orchestrator.support.encryption.key_sources import GivenKey, KmsKey, read_key_sources

SCOPE = ("journal", "k")


def make_key(byte: int) -> str:
    return base64.b64encode(bytes([byte]) * 32).decode()


def cipher(*keys: int, required: bool = False) -> Cipher:
    return Cipher([GivenKey(bytes([key]) * 32) for key in keys], required=required)


@given(st.text(), st.lists(st.text(max_size=8), max_size=3), st.integers() | st.text(max_size=8))
def test_any_text_comes_back_from_its_place_and_from_no_other(
    text: str, scope: list[str], place: int | str
) -> None:
    box = cipher(1)
    sealed = box.seal(text, scope, (place,))
    assert sealed.isascii() and is_sealed(sealed)
    assert cipher(2, 1).open(sealed, scope, (place,), "it") == text
    for others in ((scope, (place, 0)), ([*scope, ""], (place,)), ([], (*scope, place, ""))):
        with pytest.raises(EncryptionError, match="it cannot be decrypted"):
            box.open(sealed, *others, "it")


def test_half_a_surrogate_pair_is_a_text() -> None:
    sealed = cipher(1).seal("a\ud800", SCOPE)
    assert cipher(1).open(sealed, SCOPE, (), "it") == "a\ud800"


def test_equal_texts_are_sealed_differently() -> None:
    box = cipher(1)
    assert len({box.seal("same", SCOPE) for _ in range(20)}) == 20


def test_what_was_changed_or_cut_is_refused() -> None:
    sealed = cipher(1).seal("text", SCOPE)
    head, data = sealed.rsplit(":", 1)
    raw = bytearray(base64.b64decode(data))
    spoilt = [
        f"{head}:",
        f"{head}:A",
        f"{head}:{data[:-4]}",
        sealed[:30],
        f"{sealed}:",
        f"{head}:é",
    ]
    for place in (0, 12, len(raw) - 1):
        other = bytearray(raw)
        other[place] ^= 1
        spoilt.append(f"{head}:{base64.b64encode(other).decode()}")
    spoilt.append(sealed.replace("::", ":QUJD:", 1))
    for text in spoilt:
        with pytest.raises(EncryptionError, match="changed, cut or moved"):
            cipher(1).open(text, SCOPE, (), "it")
    with pytest.raises(EncryptionError, match="newer program"):
        cipher(1).open(sealed.replace(":1:", ":2:", 1), SCOPE, (), "it")


def test_a_missing_key_is_named_and_the_way_out_too() -> None:
    sealed = cipher(1).seal("text", SCOPE)
    with pytest.raises(EncryptionError, match=f"key '{GivenKey(bytes([1]) * 32).id}'.*{KEYS}"):
        cipher(2).open(sealed, SCOPE, (), "it")


def test_the_first_key_writes_and_all_of_them_read() -> None:
    old = cipher(1).seal("text", SCOPE)
    both = cipher(2, 1)
    assert both.open(old, SCOPE, (), "it") == "text" and not both.is_current(old)
    assert both.is_current(both.seal("text", SCOPE)) and not both.is_current("text")


def test_a_plain_text_is_read_unless_it_is_forbidden() -> None:
    assert cipher(1).open("plain", SCOPE, (), "it") == "plain"
    with pytest.raises(EncryptionError, match=f"it is not encrypted, and {REQUIRED}"):
        cipher(1, required=True).open("plain", SCOPE, (), "it")


def test_the_environment_names_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS, raising=False)
    assert get_cipher() is None
    monkeypatch.setenv(KEYS, f"{make_key(1)}, {make_key(2)}\n")
    found = get_cipher()
    assert found is get_cipher() and found is not None and not found.required
    assert found.open(cipher(2).seal("text", SCOPE), SCOPE, (), "it") == "text"
    monkeypatch.setenv(REQUIRED, "1")
    again = get_cipher()
    assert again is not None and again.required
    monkeypatch.setenv(REQUIRED, "maybe")
    with pytest.raises(ValidationError, match="1 or 0"):
        get_cipher()
    monkeypatch.setenv(REQUIRED, "true")
    monkeypatch.setenv(KEYS, " ")
    with pytest.raises(ValidationError, match="has no key"):
        get_cipher()


@pytest.mark.parametrize(
    "text",
    ["canary", make_key(1)[:-2], make_key(1) * 2, "aws-kms:", "aws-kms:k?profile=canary", "é" * 44],
)
def test_a_wrong_key_is_not_repeated(text: str) -> None:
    with pytest.raises(ValidationError, match=f"key 2 of {KEYS}") as caught:
        read_key_sources(f"{make_key(1)} {text}", KEYS)
    assert "canary" not in str(caught.value) and make_key(1) not in str(caught.value)


@pytest.fixture
def kms(aws: object) -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("kms", region_name="eu-central-1")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operations of KMS from now on."""
    from botocore.client import BaseClient

    asked: list[str] = []
    ask = BaseClient._make_api_call

    def note(self: Any, name: str, members: Any) -> Any:
        asked.append(name)
        assert members.get("EncryptionContext") == {"application": "bedrock-orchestrator"}
        return ask(self, name, members)

    monkeypatch.setattr(BaseClient, "_make_api_call", note)
    return asked


def test_data_keys_of_kms_are_asked_for_once_an_hour(
    kms: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = kms.create_key()["KeyMetadata"]["Arn"]
    asked, clock = count_calls(monkeypatch), Clock()
    writer = Cipher([KmsKey(arn, clock=clock)])
    texts = [writer.seal(f"text {n}", SCOPE, (n,)) for n in range(50)]
    assert asked == ["GenerateDataKey"]
    reader = Cipher([KmsKey(arn, clock=clock)])
    for _ in range(2):
        for n, text in enumerate(texts):
            assert reader.open(text, SCOPE, (n,), "it") == f"text {n}"
    assert asked == ["GenerateDataKey", "Decrypt"]
    clock.now = 3601
    writer.seal("later", SCOPE)
    reader.open(texts[0], SCOPE, (0,), "it")
    assert asked == ["GenerateDataKey", "Decrypt", "GenerateDataKey", "Decrypt"]
    assert not writer.is_local


def test_a_key_of_kms_by_its_alias_beside_an_older_key(kms: Any) -> None:
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/agents", TargetKeyId=key)
    (source,) = read_key_sources("aws-kms:alias/agents?region=eu-central-1", KEYS)
    both = Cipher([source, GivenKey(bytes([1]) * 32)])
    assert both.open(cipher(1).seal("old", SCOPE), SCOPE, (), "it") == "old"
    assert both.open(both.seal("new", SCOPE), SCOPE, (), "it") == "new"


def test_a_data_key_that_somebody_elses_key_has_wrapped_is_not_used(kms: Any) -> None:
    ours, theirs = (kms.create_key()["KeyMetadata"]["Arn"] for _ in range(2))
    forged = Cipher([KmsKey(theirs)]).seal("forged", SCOPE)
    with pytest.raises(EncryptionError, match=r"the key 'kms-[0-9a-f]{16}', which is not given"):
        Cipher([KmsKey(ours)]).open(forged, SCOPE, (), "it")
    # AWS says IncorrectKeyException, moto that access is denied.
    with pytest.raises(DependencyFailed, match=r"cannot be decrypted|was denied"):
        Cipher([KmsKey(ours)]).open(claim_any_kms(forged), SCOPE, (), "it")


def claim_any_kms(sealed: str) -> str:
    """A sealed text with the id that those of all keys of KMS had at first."""
    return re.sub(r":kms-[0-9a-f]+:", ":kms:", sealed)


@pytest.mark.parametrize("by", ["arn", "alias", "id"])
def test_a_key_of_kms_is_replaced_by_another_one(kms: Any, tmp_path: Path, by: str) -> None:
    names = []
    for name in ("old", "new"):
        made = kms.create_key()["KeyMetadata"]
        kms.create_alias(AliasName=f"alias/{name}", TargetKeyId=made["KeyId"])
        names.append({"arn": made["Arn"], "id": made["KeyId"], "alias": f"alias/{name}"}[by])
    old, new = (read_key_sources(f"aws-kms:{it}?region=eu-central-1", KEYS)[0] for it in names)
    store = SQLiteStore(tmp_path / "s.sqlite")
    first = Cipher([old]).seal('{"kind":"turn"}', ("journal", "k"), (0,))
    store.append("k", 0, [{"kind": "sealed", "text": claim_any_kms(first)}], at=1)
    EncryptedStore(store, Cipher([old])).append("k", 1, [{"kind": "end"}], at=2)
    both = EncryptedStore(store, Cipher([new, old]))
    assert (both.rotate("k"), both.rotate("k")) == (2, 0)
    assert EncryptedStore(store, Cipher([new])).load("k") == [{"kind": "turn"}, {"kind": "end"}]
    store.close()


def test_a_multi_region_key_has_one_id(kms: Any) -> None:
    # moto makes the key of the one Region only.
    here = kms.create_key(MultiRegion=True)["KeyMetadata"]["Arn"]
    id = KmsKey(here).get_key().id
    assert KmsKey(here.replace("eu-central-1", "eu-west-1")).may_open(id)
    assert not KmsKey(here.replace("key/mrk-", "key/")).may_open(id)


def test_a_key_that_is_not_there_is_a_failure_that_names_it(kms: Any) -> None:
    arn = kms.create_key()["KeyMetadata"]["Arn"][:-4] + "0000"
    with pytest.raises(DependencyFailed, match="encryption key 'arn:aws:kms:eu-central-1:"):
        Cipher([KmsKey(arn)]).seal("text", SCOPE)


def test_no_key_is_shown() -> None:
    os.environ.pop(KEYS, None)
    source = GivenKey(b"canary-canary-canary-canary-cana")
    box = Cipher([source])
    sealed = box.seal("text", SCOPE)
    assert "canary" not in f"{source!r} {box!r} {source.id} {sealed}"
    assert not hasattr(box, "__dict__") and not hasattr(source, "__dict__")
