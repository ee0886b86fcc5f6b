"""Credentials that are taken out of text which somebody else wrote."""

from __future__ import annotations

import pytest
from credential_spellings import spell
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.support.redaction import MASK, is_credential, redact

KEY = "Zq7+canary/T0ken"
SPELLINGS = [*spell(KEY)]


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=12, max_size=60),
    st.text(max_size=40),
    st.text(max_size=40),
    st.sampled_from(SPELLINGS),
)
def test_a_redacted_text_holds_no_long_part_of_a_secret(
    key: str, before: str, after: str, spelling: str
) -> None:
    found = redact(before + spell(key)[spelling] + after, [f"Bearer {key}"])
    for at in range(len(key) - 8):
        part = key[at : at + 9]
        assert part not in found or part in before or part in after


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key sk-proj-abcdefghijklmnop1234 is wrong", f"key {MASK} is wrong"),
        ("AKIAIOSFODNN7EXAMPLE", MASK),
        ("Authorization: Bearer abc.def-ghi", f"Authorization: Bearer {MASK}"),
        ('{"x-api-key": "0123456789"}', f'{{"x-api-key": "{MASK}"}}'),
        ("at https://user:word@host/v1", f"at https://{MASK}@host/v1"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", MASK),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUt/K7MDENG", f"AWS_SECRET_ACCESS_KEY={MASK}"),
        ("'OPENAI_API_KEY': 'abcdefgh1'", f"'OPENAI_API_KEY': '{MASK}'"),
        ("DB_PASSWORD=correct-horse", f"DB_PASSWORD={MASK}"),
        ("https://b/k?X-Amz-Signature=0123456789ab&a=1", f"https://b/k?X-Amz-Signature={MASK}&a=1"),
        # What helps stays.
        ("max_tokens: 4096 is more than 1024", "max_tokens: 4096 is more than 1024"),
        ("Bearer authentication is needed", "Bearer authentication is needed"),
        (
            "User: arn:aws:sts::123456789012:assumed-role/Role-2024/me is not authorized",
            "User: arn:aws:sts::123456789012:assumed-role/Role-2024/me is not authorized",
        ),
    ],
)
def test_credentials_are_known_by_their_form(text: str, left: str) -> None:
    assert redact(text) == left


def test_words_of_a_short_key_stay() -> None:
    assert redact("no such model: x", ["x", "no"]) == "no such model: x"


def test_a_redacted_text_is_short() -> None:
    assert len(redact("x" * 10**7)) == 401


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Cookie", "API_TOKEN", "X-Secret"])
def test_names_of_credentials(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize("name", ["Accept", "X-Tenant", "User-Agent", "X-Request-Id", "LANG"])
def test_names_of_other_things(name: str) -> None:
    assert not is_credential(name, "some value")
