"""Sensitive information: what is found, what is not, and how it is masked."""

from __future__ import annotations

import unicodedata

import pytest
from botocore_shapes import service
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DefinitionError
from orchestrator.guardrails import LocalGuardrail, Pii
from orchestrator.guardrails.fold import plain
from orchestrator.guardrails.pii import PII_TYPES

FOUND = [
    ("EMAIL", "Write to john.doe+x@mail.example.co.uk.", "john.doe+x@mail.example.co.uk"),
    ("EMAIL", "联系john@example.com谢谢", "john@example.com"),
    ("EMAIL", "jösé@exämple.com", "jösé@exämple.com"),
    ("PHONE", "Call +49 170 1234567 now", "+49 170 1234567"),
    ("PHONE", "(555) 123-4567", "(555) 123-4567"),
    ("PHONE", "at 555.123.4567", "555.123.4567"),
    ("PHONE", "030 1234567", "030 1234567"),
    ("PHONE", "my phone number is 5551234567", "5551234567"),
    ("CREDIT_DEBIT_CARD_NUMBER", "card 4111 1111 1111 1111,", "4111 1111 1111 1111"),
    ("CREDIT_DEBIT_CARD_NUMBER", "378282246310005", "378282246310005"),
    ("CREDIT_DEBIT_CARD_NUMBER", "no. 1 4111-1111-1111-1111", "4111-1111-1111-1111"),
    ("CREDIT_DEBIT_CARD_CVV", "CVV: 123", "123"),
    ("CREDIT_DEBIT_CARD_EXPIRY", "expires 04/27", "04/27"),
    ("US_SOCIAL_SECURITY_NUMBER", "123-45-6789", "123-45-6789"),
    ("US_SOCIAL_SECURITY_NUMBER", "SSN is 123456789", "123456789"),
    ("US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER", "912-70-1234", "912-70-1234"),
    ("IP_ADDRESS", "ping 10.0.0.1.", "10.0.0.1"),
    ("IP_ADDRESS", "2001:db8::8a2e:370:7334", "2001:db8::8a2e:370:7334"),
    ("MAC_ADDRESS", "00:1B:44:11:3a:b7", "00:1B:44:11:3a:b7"),
    ("URL", "see https://a.example/x?y=(1).", "https://a.example/x?y=(1"),
    ("URL", "www.example.com,", "www.example.com"),
    ("AWS_ACCESS_KEY", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    (
        "AWS_SECRET_KEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCY1XAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCY1XAMPLEKEY",
    ),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "DE89 3704 0044 0532 0130 00 AND",
     "DE89 3704 0044 0532 0130 00"),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "gb82west12345698765432", "gb82west12345698765432"),
    ("SWIFT_CODE", "SWIFT code: DEUTDEFF500", "DEUTDEFF500"),
    ("US_BANK_ROUTING_NUMBER", "routing number 021000021", "021000021"),
    ("US_BANK_ACCOUNT_NUMBER", "account no. 12345678", "12345678"),
    ("US_PASSPORT_NUMBER", "passport: C12345678", "C12345678"),
    ("DRIVER_ID", "Driver's license number D123-4567", "D123-4567"),
    ("LICENSE_PLATE", "license plate: 7ABC123", "7ABC123"),
    ("VEHICLE_IDENTIFICATION_NUMBER", "1M8GDM9AXKP042788", "1M8GDM9AXKP042788"),
    ("UK_NATIONAL_INSURANCE_NUMBER", "AB 12 34 56 C", "AB 12 34 56 C"),
    ("UK_NATIONAL_HEALTH_SERVICE_NUMBER", "943 476 5919", "943 476 5919"),
    ("UK_UNIQUE_TAXPAYER_REFERENCE_NUMBER", "UTR 12345 67890", "12345 67890"),
    ("CA_SOCIAL_INSURANCE_NUMBER", "130 692 544", "130 692 544"),
    ("CA_HEALTH_NUMBER", "health card 1234 567 890", "1234 567 890"),
    ("PASSWORD", "Password: hunter2!", "hunter2!"),
    ("PASSWORD", "the password is tr0ub4dor", "tr0ub4dor"),
    ("PIN", "PIN is 1234", "1234"),
    ("USERNAME", "username = jdoe", "jdoe"),
    ("AGE", "she is 34 years old", "34"),
]  # fmt: skip

NOT_FOUND = [
    ("EMAIL", "a@b, @john, john@localhost, 3 @ 4.50"),
    ("PHONE", "On 2024-01-05 at 10:30 order 12345678 cost 1,234,567.00"),
    ("CREDIT_DEBIT_CARD_NUMBER", "4111 1111 1111 1112 and 1234567890123456"),
    ("CREDIT_DEBIT_CARD_NUMBER", "x4111111111111111 41111111111111111111"),
    ("US_SOCIAL_SECURITY_NUMBER", "000-12-3456 666-12-3456 123-00-4567 1123-45-6789 123456789"),
    ("IP_ADDRESS", "version 1.2.3 at 12:30:45, 999.1.1.1, 1.2.3.4.5, std::vector"),
    ("URL", "http:// and file.txt"),
    ("AWS_ACCESS_KEY", "AKIAIOSFODNN7EXAMPLEX akiaiosfodnn7example"),
    ("AWS_SECRET_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY1XAMPLEKEYs"),
    ("AWS_SECRET_KEY", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "DE89 3704 0044 0532 0130 01"),
    ("SWIFT_CODE", "DATABASE and INSTANCE"),
    ("US_BANK_ROUTING_NUMBER", "routing number 021000022"),
    ("VEHICLE_IDENTIFICATION_NUMBER", "1M8GDM9A1KP042788"),
    ("UK_NATIONAL_HEALTH_SERVICE_NUMBER", "943 476 5918"),
    ("PASSWORD", "Your password is required. Forgot password?"),
    ("AGE", "page 34 of 2024 years"),
]


def masking(kind):
    return LocalGuardrail(pii=[Pii(kind, "ANONYMIZE", "ANONYMIZE")])


@pytest.mark.parametrize(("kind", "text", "match"), FOUND)
def test_what_is_found_is_masked(kind, text, match):
    verdict = masking(kind).check(text, "OUTPUT")
    assert not verdict.blocked
    assert verdict.text == text.replace(match, f"{{{kind}}}")
    entity = {"type": kind, "match": match, "action": "ANONYMIZED"}
    assert verdict.assessments == [{"sensitiveInformationPolicy": {"piiEntities": [entity]}}]


@pytest.mark.parametrize(("kind", "text"), NOT_FOUND)
def test_what_only_looks_alike_is_left(kind, text):
    assert masking(kind).check(text, "OUTPUT").text == text


def test_every_type_is_bedrocks_and_has_an_example():
    shape = service("bedrock").shape_for("GuardrailPiiEntityType")
    assert set(shape.enum) - PII_TYPES == {"NAME", "ADDRESS"}
    assert {kind for kind, _, _ in FOUND} == PII_TYPES


@pytest.mark.parametrize(
    "text",
    [
        "john.doe\u200b@exam\u00adple.com",
        "ｊｏｈｎ．ｄｏｅ＠ｅｘａｍｐｌｅ．ｃｏｍ",
        "𝐣𝐨𝐡𝐧@example.com",
    ],
)
def test_tricks_of_unicode_hide_no_address(text):
    assert masking("EMAIL").check(f"mail {text} now", "INPUT").text == "mail {EMAIL} now"


DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe63\uff0d"
HYPHENATED = [
    ("US_SOCIAL_SECURITY_NUMBER", "123-45-6789"),
    ("PHONE", "555-123-4567"),
    ("CREDIT_DEBIT_CARD_NUMBER", "4111-1111-1111-1111"),
    ("INTERNATIONAL_BANK_ACCOUNT_NUMBER", "DE89-3704-0044-0532-0130-00"),
]


@pytest.mark.parametrize(("kind", "written"), HYPHENATED)
def test_every_dash_is_a_hyphen(kind, written):
    for dash in DASHES:
        text = f"no\u2013one: {written.replace('-', dash)}."
        assert masking(kind).check(text, "OUTPUT").text == f"no\u2013one: {{{kind}}}."


def test_every_dash_of_unicode_is_folded():
    dashes = [it for it in map(chr, range(0x20000)) if unicodedata.category(it) == "Pd"]
    assert plain("".join(dashes)) == "-" * len(dashes)


@pytest.mark.parametrize("gap", ["  ", "\n", "\r\n", " \n", ".", "/", " / ", "\u00a0", "** "])
def test_a_card_is_found_however_its_groups_are_set_apart(gap):
    number = gap.join(("4111", "1111", "1111", "1111"))
    assert masking("CREDIT_DEBIT_CARD_NUMBER").check(f"card {number}!", "OUTPUT").text == (
        "card {CREDIT_DEBIT_CARD_NUMBER}!"
    )


@pytest.mark.parametrize(
    "text",
    [
        "31.12.2023 30.11.2039",  # together they pass a card's check
        "4111111111.111111",
        "411.111.111.111.111.1",
        "4111\n\n\n\n1111\n1111\n1111",
        "4111|1111|1111|1111",
    ],
)
def test_dates_and_amounts_are_no_card(text):
    assert masking("CREDIT_DEBIT_CARD_NUMBER").check(text, "OUTPUT").text == text


@pytest.mark.parametrize(
    "address",
    [
        "ana@ex\u0430mple.com",
        "\u0430na@example.c\u043em",
        "ana\\@example.com",
        "ana\\_b@example\\.com",
        "ana@例え.jp",
        "ana@пример.рф",
        "анна@пример.срб",
        "ana@उदाहरण.भारत",
        "ana@xn--e1afmkfd.xn--p1ai",
        "a" * 80 + "@example.com",
    ],
)
def test_addresses_of_any_script_are_masked_whole(address):
    assert masking("EMAIL").check(f"mail {address}, now", "OUTPUT").text == "mail {EMAIL}, now"


def test_letters_that_look_alike_hide_no_announcement():
    assert masking("PASSWORD").check("р\u0430ssword: hunter2", "INPUT").text.endswith("{PASSWORD}")
    iban = "D\u0415\u200b89 3704 0044 0532 0130 00"  # and one that nobody sees
    assert masking("INTERNATIONAL_BANK_ACCOUNT_NUMBER").check(iban, "INPUT").text == (
        "{INTERNATIONAL_BANK_ACCOUNT_NUMBER}"
    )


@given(st.text() | st.text(st.sampled_from("аЕοΡ—‐−-x1")))
def test_reading_it_plainly_moves_nothing(text):
    assert len(plain(text)) == len(text)


@pytest.mark.parametrize("digits", ["４１１１ １１１１ １１１１ １１１１", "٤١١١ ١١١١ ١١١١ ١١١١"])
def test_digits_of_every_script_are_digits(digits):
    assert masking("CREDIT_DEBIT_CARD_NUMBER").check(digits, "INPUT").text == (
        "{CREDIT_DEBIT_CARD_NUMBER}"
    )


def test_what_is_blocked_counts_more_than_what_is_masked():
    guardrail = LocalGuardrail(pii=[Pii("EMAIL", "ANONYMIZE"), Pii("PIN")])
    verdict = guardrail.check("a@b.com, pin 1234", "INPUT")
    assert verdict.blocked and "a@b.com" not in verdict.text
    (found,) = verdict.assessments
    actions = [it["action"] for it in found["sensitiveInformationPolicy"]["piiEntities"]]
    assert actions == ["ANONYMIZED", "BLOCKED"]


def test_directions_have_actions_of_their_own():
    guardrail = LocalGuardrail(pii=[Pii("EMAIL", "NONE", "ANONYMIZE")])
    assert guardrail.check("a@b.com", "INPUT").action == "NONE"
    assert guardrail.check("a@b.com", "OUTPUT").text == "{EMAIL}"


def test_where_two_types_overlap_nothing_is_left_over():
    kinds = ("PHONE", "INTERNATIONAL_BANK_ACCOUNT_NUMBER", "URL", "EMAIL")
    guardrail = LocalGuardrail(pii=[Pii(kind, "ANONYMIZE") for kind in kinds])
    text = "DE89 3704 0044 0532 0130 00 and https://a.example/?mail=a@b.com"
    verdict = guardrail.check(text, "INPUT")
    assert verdict.text == "{INTERNATIONAL_BANK_ACCOUNT_NUMBER} and {URL}"


@pytest.mark.parametrize("kind", ["NAME", "ADDRESS", "EMAILS"])
def test_a_type_without_a_form_is_refused(kind):
    with pytest.raises(DefinitionError, match=f"'{kind}' has no form"):
        LocalGuardrail(pii=[Pii(kind)])


ALL = LocalGuardrail(pii=[Pii(kind, "ANONYMIZE", "ANONYMIZE") for kind in sorted(PII_TYPES)])


@given(st.text() | st.text(st.sampled_from("0123456789 -.:/@aA+()\u200b\u2011\nа\\")))
def test_any_text_can_be_masked_and_masking_is_about_its_matches(text):
    verdict = ALL.check(text, "OUTPUT")
    matches = [
        item["match"]
        for assessment in verdict.assessments
        for item in assessment["sensitiveInformationPolicy"]["piiEntities"]
    ]
    assert all(match in text for match in matches)
    assert (verdict.text == text) == (not matches)
