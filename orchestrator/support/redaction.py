"""Keeps credentials out of text that somebody else wrote, before it enters an error.

A server may repeat what it was sent: a key in "Incorrect API key provided: …", a token in a trace
of its own. Such a text goes into errors, traces and journals only through `redact`, which is given
the credentials that were sent.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, urlsplit

MASK = "[redacted]"
"""What stands where a credential stood."""

# Of a credential, this many characters in a row are enough to be taken out: servers repeat a part
# of a key, and texts are cut.
_RUN = 8
_SHORTEST = 4  # what is shorter is no credential, and would take words apart
_LONGEST = 4_096  # of a text, what is read; the rest is left out

# Credentials by their form, whoever's they are. The first group, if there is one, stays.
_FORMS = re.compile(
    # A word such as "authentication" after the scheme's name is none.
    r"(?i:(\b(?:bearer|basic|negotiate)\s+)(?!auth|cred|token)[\w.~+/=%-]{8,})"
    # A variable may end in such a name, as in AWS_SECRET_ACCESS_KEY.
    r"|(?i:((?<![^\W_])(?:(?:x-)?api[-_ ]?key|authorization"
    r"|(?:access|auth|id|refresh|security|session)[-_]?token|secret[-_]?(?:access[-_]?)?key"
    r"|(?:app|client)[-_]?secret|amz-signature|password|passwd)"
    r"[\"']?\s{0,9}[:=]\s{0,9}[\"']?)(?!\[redacted)[^\s\"',;&]{8,})"
    r"|((?<![/\w])[a-z][a-z0-9+.-]{0,30}://)[^/@\s]{1,300}@"
    r"|\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|hf|xox[abprs]|gsk|AIza)[-_]?[A-Za-z0-9_-]{16,}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}"
    r"|\b(?:IQoJ|FwoG|FQoG)[\w+/=%-]{16,}"  # session tokens of AWS STS
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
)


def redact(text: object, secrets: Iterable[str] = (), most: int = 400) -> str:
    """`text` without credentials, of `most` characters at most.

    `secrets` are what was sent: keys, tokens, values of headers (`Bearer …`). They are found in any
    case of letters, in part, and in their percent-encoded, Base64, hexadecimal, HTML and JSON
    spellings.
    """
    shown = str(text)[:_LONGEST]
    marked = bytearray(len(shown))
    for run, runs in _collect_runs(secrets).items():
        _mark(_lower(shown), run, runs, marked)
    shown = _FORMS.sub(_mask_form, _replace_marked(shown, marked))
    return shown if len(shown) <= most else shown[:most] + "…"


def hide_credentials(text: str, credentials: Iterable[str]) -> str:
    """The whole of a result without these `credentials`, where a server repeats them as they are.

    A result is what the user asked for: neither is it cut, nor is what merely looks like a
    credential taken out of it.
    """
    for one in credentials:
        if len(one) >= _RUN:  # a shorter one would take words out of results
            text = text.replace(one, "[a credential]")
    return text


def is_credential(name: str, value: str = "") -> bool:
    """Whether a header or a variable holds a credential, by its name, or by its value's form."""
    return bool(_CREDENTIAL.search(name) or _FORMS.search(value))


_CREDENTIAL = re.compile("(?i)auth|key|token|secret|passw|credential|cookie|session|signature")


def secrets_of_url(url: str) -> list[str]:
    """The name and the password in an address, if it has them."""
    parts = urlsplit(url)
    return [unquote(one) for one in (parts.username, parts.password) if one]


def _mask_form(found: re.Match[str]) -> str:
    kept = next(filter(None, found.groups()), "")
    return f"{kept}{MASK}{'@' if found[0].endswith('@') else ''}"


def _collect_runs(secrets: Iterable[str]) -> dict[int, set[str]]:
    runs: dict[int, set[str]] = {}
    for secret in secrets:
        for part in _parts(secret):
            for spelling in _spellings(part):
                size = min(_RUN, len(spelling))
                low = _lower(spelling)
                runs.setdefault(size, set()).update(
                    low[at : at + size] for at in range(len(low) - size + 1)
                )
    return runs


def _parts(secret: str) -> Iterator[str]:
    # Of `Bearer x` the scheme is no secret; of `AWS4-HMAC-SHA256 Credential=x, Signature=y`, the
    # values are. What `Basic x` hides is a name and a password.
    scheme, _, value = secret.strip().partition(" ")
    value = value.strip() or scheme
    found = re.findall(r"(?:Credential|Signature)=([^\s,/]+)", value) or [value]
    if scheme.lower() == "basic":
        try:
            found += base64.b64decode(value).decode().split(":", 1)
        except (ValueError, binascii.Error):
            pass
    return (part for part in found if len(part) >= _SHORTEST)


def _spellings(secret: str) -> set[str]:
    from html import escape  # its table of entities is large

    data = secret.encode("utf-8", "replace")
    found = {
        secret,
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
        escape(secret),
        json.dumps(secret)[1:-1],
        data.hex(),
    }
    for before in range(3):  # wherever it stands in a longer text that is encoded
        encoded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = encoded[4 if before else 0 :][: -2 if len(encoded) > 12 else None]
        found |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {one for one in found if len(one) >= _SHORTEST}


# Lower case without a change of length, which `str.lower` does not promise.
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _lower(text: str) -> str:
    return text.translate(_LOWER)


def _mark(text: str, size: int, runs: set[str], marked: bytearray) -> None:
    for at in range(len(text) - size + 1):
        if text[at : at + size] in runs:
            marked[at : at + size] = b"\1" * size


def _replace_marked(text: str, marked: bytearray) -> str:
    if 1 not in marked:
        return text
    parts = re.finditer(rb"\x01+|\x00+", bytes(marked))
    return "".join(MASK if one[0][0] else text[one.start() : one.end()] for one in parts)
