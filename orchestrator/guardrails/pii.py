"""Sensitive information that has a form: patterns, checksums, and words that announce it.

The types are Bedrock's (AWS: `GuardrailPiiEntityConfig`). What has no form, a person's name or an
address, needs a model, and is not here. Every pattern takes time linear in the text's length: runs
are bounded or possessive, and entered from their start only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

# Letters and digits that a match with spaces in it has at most, with the words before it.
PII_REACH = 64

Spans = Iterator[tuple[int, int]]


def _digits(text: str) -> str:
    return "".join(it for it in text if it.isdigit())


def _has_luhn_checksum(text: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(_digits(text))):
        value = int(digit) * (1 + place % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(it.isalnum() for it in text)


def _is_secret_key(text: str) -> bool:
    # Hexadecimal digests and paths are as long, but not as mixed.
    kinds = str.isupper, str.islower, str.isdigit
    return all(any(map(kind, text)) for kind in kinds)


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_nhs_number(text: str) -> bool:
    digits = _digits(text)
    rest = sum(int(it) * (10 - place) for place, it in enumerate(digits[:9])) % 11
    return (11 - rest) % 11 == int(digits[9])


def _is_routing_number(text: str) -> bool:
    return sum(int(it) * (3, 7, 1)[place % 3] for place, it in enumerate(_digits(text))) % 10 == 0


_VIN = {letter: 1 + place % 9 for place, letter in enumerate("ABCDEFGHI")}
_VIN |= {letter: 1 + place for place, letter in enumerate("JKLMN")} | {"P": 7, "R": 9}
_VIN |= {letter: 2 + place for place, letter in enumerate("STUVWXYZ")}
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def _is_vin(text: str) -> bool:
    upper = text.upper()
    values = (_VIN.get(it) or int(it) for it in upper)
    rest = sum(value * weight for value, weight in zip(values, _VIN_WEIGHTS, strict=True)) % 11
    return upper[8] == ("X" if rest == 10 else str(rest))


def _is_phone_number(text: str) -> bool:
    return 7 <= len(_digits(text)) <= 15


# Lengths of the countries' account numbers (ISO 13616).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}


def _ibans(text: str) -> Spans:
    for found in re.finditer(r"(?<![A-Za-z0-9])([A-Za-z]{2})\d{2}(?=[ -]?[A-Za-z0-9])", text):
        length = _IBAN_LENGTHS.get(found[1].upper(), 0)
        if not length:
            continue
        rest = re.compile(rf"(?:[ -]?[A-Za-z0-9]){{{length - 4}}}(?![A-Za-z0-9])")
        whole = rest.match(text, found.end())
        if whole and _mod97(text[found.start() : whole.end()]):
            yield found.start(), whole.end()


def _mod97(text: str) -> bool:
    plain = re.sub("[ -]", "", text)
    return int("".join(str(int(it, 36)) for it in plain[4:] + plain[:4])) % 97 == 1


_MOST_CARD = 19
_CARD_GAP = re.compile(r"[ \t\r\n./*`-]{1,3}")
# Groups as they are printed on cards. Where more than a single space or hyphen is between groups,
# there are no others: dates, amounts and years would be cards by chance.
_CARD_GROUPS = {(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), (4, 4, 4, 1), (4, 4, 5)}


def _cards(text: str) -> Spans:
    """Numbers of 13 to 19 digits, in groups, that pass the check of card numbers."""
    groups = [(it.start(), it.end()) for it in re.finditer(r"\d+", text)]
    gaps = [
        text[end:start] if start - end <= 3 else "" for (_, end), (start, _) in pairwise(groups)
    ]
    after = 0
    for first, (start, _) in enumerate(groups):
        if start < after or text[start] not in "23456" or _word_before(text, start):
            continue
        end = _card_end(text, groups, gaps, first)
        if end:
            after = end
            yield start, end


def _card_end(text: str, groups: Sequence[tuple[int, int]], gaps: Sequence[str], first: int) -> int:
    """Where the card's number ends that begins with a group; 0: none does."""
    digits, lengths, wide = "", [], False
    for last in range(first, len(groups)):
        start, end = groups[last]
        lengths.append(end - start)
        if len(digits) + end - start > _MOST_CARD:
            return 0
        digits += text[start:end]
        usual = not wide or tuple(lengths) in _CARD_GROUPS
        if len(digits) >= 13 and usual and not _word_at(text, end) and _has_luhn_checksum(digits):
            return end
        if last == len(gaps) or not _CARD_GAP.fullmatch(gaps[last]):
            return 0
        wide = wide or gaps[last] not in (" ", "-")
    return 0


def _word_before(text: str, place: int) -> bool:
    return place > 0 and (text[place - 1].isalpha() or text[place - 1] in "_.")


def _word_at(text: str, place: int) -> bool:
    return place < len(text) and (text[place].isalnum() or text[place] == "_")


_LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
_SPACED = "\u0370-\u058f\u05d0-\u060b\u0620-\u0669\u066e-\u06d3\u06d5-\u06ff"
# What the first half of an address consists of, in scripts that have spaces between words. The
# backslash is Markdown's, which may stand before the signs of an address.
_MAIL = _LATIN + _SPACED + "0-9_.%+'\\\\-"

# Letters and their marks, of any script: domains are written in all of them.
_LETTERS = (
    rf"{_LATIN}{_SPACED}\u0700-\u1fff\u2c00-\u2dff\u3040-\ud7ff\uf900-\ufaff\U00010000-\U0003ffff"
)

_NUMBER = r"\(?\d(?:[ .\-/()]{0,2}\d){6,14}"
_BEFORE = r"(?<![\w.+-])"
_AFTER = r"(?!\w|[-.]\d)"


def _build_announced_pattern(words: str, value: str) -> str:
    """A value that words announce: `account number: 123456`."""
    between = r"(?:\s{0,3}(?:\bis\b|\bnumber\b|\bno\.|\bcode\b|[:=#])){0,4}+\s{0,3}"
    return rf"\b(?:{words})\b\.?{between}(?P<value>{value}){_AFTER}"


# For each type its patterns, which know no case.
_CONTACTS: Mapping[str, tuple[str, ...]] = {
    "EMAIL": (
        rf"(?<![{_MAIL}])[{_MAIL}]++@(?:[{_LETTERS}0-9][{_LETTERS}0-9-]{{0,62}}+\\?\.){{1,8}}"
        rf"(?:xn--[a-z0-9-]{{1,59}}|[{_LATIN}]{{2,24}}(?![{_SPACED}])|[{_LETTERS}]{{2,24}})",
    ),
    "PHONE": (
        rf"(?<![\w+])(?:\+|00(?=[1-9])){_NUMBER}{_AFTER}",
        rf"{_BEFORE}(?:1[ .-]?)?(?:\(\d{{3}}\) ?|\d{{3}}[ .-])\d{{3}}[ .-]\d{{4}}{_AFTER}",
        rf"{_BEFORE}\(?0[1-9]\d{{1,3}}\)?(?:[ /.-]{{1,3}}\d{{2,8}}){{1,4}}{_AFTER}",
        _build_announced_pattern("(?:tele)?phone|tel|mobile|cell|fax|call|whatsapp", _NUMBER),
    ),
    "IP_ADDRESS": (
        r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)",
        r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}"
        r"(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{0,4})(?![\w:])",
    ),
    "MAC_ADDRESS": (r"(?<![\w:-])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}(?![\w:-])",),
    "URL": (
        r"(?:(?<!\w)(?:https?|ftp)://|(?<![\w.@/])www\.)"
        r"[^\s<>\"'`{}|\\^]*[^\s<>\"'`{}|\\^.,;:!?)\]]",
    ),
    "USERNAME": (r"\b(?:user ?name|user ?id|login)\s{0,3}[:=]\s{0,3}(?P<value>\S{1,64}+)",),
    "AGE": (
        r"(?<![\w.])(?P<value>\d{1,3})[ -](?:years?[ -]old|yrs? old)\b",
        _build_announced_pattern("aged?", r"\d{1,3}"),
    ),
}

_SECRETS: Mapping[str, tuple[str, ...]] = {
    "AWS_ACCESS_KEY": (
        r"(?<![A-Za-z0-9])(?-i:A(?:KIA|SIA|GPA|IDA|ROA|IPA|NPA|NVA|BIA|CCA)[A-Z0-9]{16})"
        r"(?![A-Za-z0-9])",
    ),
    "AWS_SECRET_KEY": (r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",),
    "PASSWORD": (
        r"\b(?:password|passwd|passphrase|pwd)\s{0,3}[:=]\s{0,3}(?P<value>\S{1,128}+)",
        # In a sentence, what has no digit is an ordinary word.
        r"\bpass(?:word|phrase) is:?\s{1,3}[\"']?"
        r"(?P<value>(?=[^\s\"'\d]{0,127}+\d)[^\s\"']{4,128}+)",
    ),
    "PIN": (_build_announced_pattern("pin", r"\d{4,8}"),),
}

_FINANCE: Mapping[str, tuple[str, ...]] = {
    "CREDIT_DEBIT_CARD_CVV": (_build_announced_pattern("cvv2?|cvc2?|security code", r"\d{3,4}"),),
    "CREDIT_DEBIT_CARD_EXPIRY": (
        _build_announced_pattern(
            "exp(?:ir(?:y|es|ation))?(?: date)?|valid (?:thru|until)",
            r"(?:0?[1-9]|1[0-2]) ?[/-] ?(?:20)?\d\d",
        ),
    ),
    "SWIFT_CODE": (
        _build_announced_pattern("swift(?:/bic)?|bic", "[a-z]{6}[a-z0-9]{2}(?:[a-z0-9]{3})?"),
    ),
    "US_BANK_ROUTING_NUMBER": (_build_announced_pattern("routing|aba|rtn", r"\d{9}"),),
    "US_BANK_ACCOUNT_NUMBER": (_build_announced_pattern("account|acct", r"\d(?:[ -]?\d){5,16}"),),
}

_OFFICIAL: Mapping[str, tuple[str, ...]] = {
    "US_SOCIAL_SECURITY_NUMBER": (
        rf"{_BEFORE}(?!000|666|9)\d{{3}}([ -])(?!00)\d\d\1(?!0000)\d{{4}}{_AFTER}",
        _build_announced_pattern("ssn|social security", r"(?!000|666|9)\d{9}"),
    ),
    "US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER": (
        rf"{_BEFORE}9\d\d([ -]?)(?:5\d|6[0-5]|7\d|8[0-8]|9[0-24-9])\1\d{{4}}{_AFTER}",
    ),
    "US_PASSPORT_NUMBER": (_build_announced_pattern("passport", r"[a-z]?\d{8,9}"),),
    "DRIVER_ID": (
        _build_announced_pattern("driv(?:er'?s?'?|ing) licen[cs]e", "[a-z0-9][a-z0-9-]{4,19}"),
    ),
    "LICENSE_PLATE": (
        _build_announced_pattern(
            "(?:licen[cs]e|number|registration) plate", "[a-z0-9]{1,4}(?:[ -]?[a-z0-9]{1,4}){1,3}"
        ),
    ),
    "VEHICLE_IDENTIFICATION_NUMBER": (r"(?<!\w)[A-HJ-NPR-Z0-9]{17}(?!\w)",),
    "UK_NATIONAL_INSURANCE_NUMBER": (
        r"(?<!\w)(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
        r"(?: ?\d\d){3} ?[A-D](?!\w)",
    ),
    "UK_NATIONAL_HEALTH_SERVICE_NUMBER": (
        rf"{_BEFORE}\d{{3}}([ -])\d{{3}}\1\d{{4}}{_AFTER}",
        _build_announced_pattern("nhs", r"\d{10}"),
    ),
    "UK_UNIQUE_TAXPAYER_REFERENCE_NUMBER": (
        _build_announced_pattern("utr|unique taxpayer reference", r"\d{5} ?\d{5}"),
    ),
    "CA_SOCIAL_INSURANCE_NUMBER": (
        rf"{_BEFORE}[1-79]\d\d([ -])\d{{3}}\1\d{{3}}{_AFTER}",
        _build_announced_pattern("sin|social insurance", r"[1-79]\d{8}"),
    ),
    "CA_HEALTH_NUMBER": (
        _build_announced_pattern("health (?:card|insurance)", r"\d{4}[ -]?\d{3}[ -]?\d{3}"),
    ),
}
_PATTERNS = {**_CONTACTS, **_SECRETS, **_FINANCE, **_OFFICIAL}

# What a value must be besides, where the patterns of its type do not say it.
_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "PHONE": _is_phone_number,
    "IP_ADDRESS": _is_ip_address,
    "AWS_SECRET_KEY": _is_secret_key,
    "US_BANK_ROUTING_NUMBER": _is_routing_number,
    "DRIVER_ID": _has_digit,
    "LICENSE_PLATE": _has_digit,
    "VEHICLE_IDENTIFICATION_NUMBER": _is_vin,
    "UK_NATIONAL_HEALTH_SERVICE_NUMBER": _is_nhs_number,
    "CA_SOCIAL_INSURANCE_NUMBER": _has_luhn_checksum,
}

_FINDERS: Mapping[str, Callable[[str], Spans]] = {
    "CREDIT_DEBIT_CARD_NUMBER": _cards,
    "INTERNATIONAL_BANK_ACCOUNT_NUMBER": _ibans,
}

# The types that are found here; Bedrock has `NAME` and `ADDRESS` besides.
PII_TYPES = frozenset((*_PATTERNS, *_FINDERS))


@cache
def _compile_patterns(kind: str) -> list[re.Pattern[str]]:
    return [re.compile(it, re.IGNORECASE) for it in _PATTERNS[kind]]


def find_pii(kind: str, text: str) -> Spans:
    """Where sensitive information of a type is in a text, which `visible` and `plain` have read."""
    if kind in _FINDERS:
        yield from _FINDERS[kind](text)
        return
    check = _CHECKS.get(kind)
    for pattern in _compile_patterns(kind):
        # The value, without the words that announce it.
        group = pattern.groupindex.get("value", 0)
        for found in pattern.finditer(text):
            if check is None or check(found[group]):
                yield found.span(group)
