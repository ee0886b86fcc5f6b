"""From a request to who is calling: API keys, and AWS's Signature Version 4.

Headers carry the signature (AWS: "Create a signed AWS API request"); signed query strings,
signatures that leave the body out and bodies signed chunk by chunk are refused, since no client of
these services needs them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote_to_bytes

from orchestrator.server.access.guards import RawRequest, Refusal
from orchestrator.server.access.keys import Key, Keys
from orchestrator.server.ids import now
from orchestrator.server.operations import Caller

Clock = Callable[[], datetime]
"""Gives the time, with its zone; tests inject their own."""

Verdict = Callable[[Sequence[bytes]], Caller]
"""Who is calling, once the body is there; it raises a `Refusal`."""

_ANYBODY = Caller()


class Authenticator:
    """Finds who is calling; the tenant is that of the key, whatever else the request says."""

    def __init__(self, keys: Keys | None = None, clock: Clock = now) -> None:
        # Without keys nobody has to sign, and there is one tenant.
        self._keys = keys
        self._clock = clock

    def authenticate(self, request: RawRequest) -> Caller | Verdict:
        """Who is calling or, if that takes the body, how to find out once it is there.

        Raises:
            Refusal: It carries no credentials, or none that can be right.
        """
        if self._keys is None:
            return _ANYBODY
        keys = self._keys
        headers = request.all("authorization")
        if not headers:
            raise _missing_credentials_error(request)
        if len(headers) > 1:
            raise _incomplete_signature_error("There is more than one Authorization header.")
        header = request.one("authorization")
        scheme, _, rest = header.partition(" ")
        if scheme.lower() == "bearer":
            return _authenticate_bearer(keys, rest.strip())
        if scheme != ALGORITHM:
            raise _incomplete_signature_error(f"Authorization is neither {ALGORITHM} nor Bearer.")
        signed = parse_signature(request, self._clock())
        key = find_key(signed, keys.find_key_pair)

        def verify_body(body: Sequence[bytes]) -> Caller:
            verify_signature(request, body, signed, key)
            return key.caller

        return verify_body


def _authenticate_bearer(keys: Keys, token: str) -> Caller:
    key = keys.find_api_key(token)
    if key is None:
        raise Refusal(
            "AccessDeniedException",
            403,
            "Authentication failed: Please make sure your API Key is valid.",
        )
    return key.caller


def _missing_credentials_error(request: RawRequest) -> Refusal:
    if b"x-amz-signature" in request.query.lower():
        return _incomplete_signature_error(
            "Signatures in the query string are not taken; sign with the Authorization header."
        )
    return Refusal("MissingAuthenticationTokenException", 403, "Missing Authentication Token")


ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = timedelta(minutes=5)
"""How far the clocks of client and server may differ; an older request is a replay."""

# What all four services sign for (botocore: `signingName`).
_SERVICE = "bedrock"
_PARTS = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_REGION = re.compile(r"[a-z0-9-]{1,64}")
_STAMP = "%Y%m%dT%H%M%SZ"
_READ = ("x-amz-", "x-amzn-bedrock-", "x-session-id")
_ID_LENGTH = 200
_NOBODY = Key(Caller())


@dataclass(frozen=True, slots=True)
class Signature:
    """What the `Authorization` header and the headers that go with it say."""

    access_key_id: str  # whose signature it claims to be
    region: str  # the region that it is for
    stamp: str  # the signed text of `made`
    made: datetime  # when it was signed
    headers: tuple[str, ...]  # the names of the headers that it covers, sorted
    digest: str  # the signature
    token: str  # the session token; empty when there is none


def parse_signature(request: RawRequest, now: datetime) -> Signature:
    """The signature that a request carries, if it is of a form that can be verified now.

    Raises:
        Refusal: It is incomplete, for another service, or of another time.
    """
    parts = _parse_parts(request.one("authorization"))
    access_key_id, date, region = _parse_scope(parts["Credential"])
    names = tuple(parts["SignedHeaders"].split(";"))
    _check_headers(request, names)
    stamp, signed_at = _read_time(request, names)
    if signed_at.strftime("%Y%m%d") != date:
        raise _invalid_signature_error(
            f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from "
            f"HTTP: {date!r} != {signed_at:%Y%m%d}"
        )
    _check_time(stamp, signed_at, now)
    token = request.one("x-amz-security-token")
    return Signature(access_key_id, region, stamp, signed_at, names, parts["Signature"], token)


def find_key(signed: Signature, find: Callable[[str], Key | None]) -> Key:
    """The key that a request claims to be signed with; nothing of its body is needed.

    A key that is not there takes as long as one whose token is wrong.

    Raises:
        Refusal: There is no such key, or its session token is another one.
    """
    found = find(signed.access_key_id)
    key = found or _NOBODY
    with_token = hmac.compare_digest(key.token.encode(), signed.token.encode())
    if found is None or not with_token:
        raise Refusal(
            "UnrecognizedClientException",
            403,
            "The security token included in the request is invalid.",
        )
    return found


def verify_signature(
    request: RawRequest, body: Sequence[bytes], signed: Signature, key: Key
) -> None:
    """Verifies that a key signed a request.

    Raises:
        Refusal: It did not.
    """
    right = _compute_signature(request, signed, _hash_payload(request, body), key.secret)
    if not hmac.compare_digest(right.encode(), signed.digest.encode("latin-1", "replace")):
        raise _invalid_signature_error(
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            "details."
        )


def _invalid_signature_error(message: str) -> Refusal:
    return Refusal("InvalidSignatureException", 403, message)


def _incomplete_signature_error(message: str) -> Refusal:
    return Refusal("IncompleteSignatureException", 400, message)


def _parse_parts(header: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in header.removeprefix(ALGORITHM).split(","):
        match = _PARTS.fullmatch(part)
        if match is None or match[1] in found:
            raise _incomplete_signature_error(
                "Authorization header has to be 'AWS4-HMAC-SHA256 Credential=..., "
                "SignedHeaders=..., Signature=...'."
            )
        found[match[1]] = match[2]
    for name in ("Credential", "SignedHeaders", "Signature"):
        if name not in found:
            raise _incomplete_signature_error(f"Authorization header requires '{name}' parameter.")
    return found


def _parse_scope(credential: str) -> tuple[str, str, str]:
    """An access key's id, the date and the region of a credential."""
    parts = credential.split("/")
    if len(parts) != 5 or not 0 < len(parts[0]) <= _ID_LENGTH:
        raise _incomplete_signature_error(
            "Credential must have exactly 5 slash-delimited elements, e.g. "
            "keyid/date/region/service/term."
        )
    access_key_id, date, region, service, term = parts
    if service != _SERVICE or term != "aws4_request" or not _REGION.fullmatch(region):
        raise _invalid_signature_error(
            f"Credential should be scoped to a region, to the correct service {_SERVICE!r}, and "
            "with 'aws4_request' at its end."
        )
    return access_key_id, date, region


def _check_headers(request: RawRequest, names: tuple[str, ...]) -> None:
    if list(names) != sorted(set(names)) or any(name != name.lower() for name in names):
        raise _incomplete_signature_error(
            "SignedHeaders are names in lower case, sorted, each of them once."
        )
    missing = [name for name in names if not request.all(name)]
    if missing:
        raise _incomplete_signature_error(
            f"{missing[0]!r} is a 'SignedHeader', and is not in the request."
        )
    if "host" not in names or not {"x-amz-date", "date"} & set(names):
        raise _incomplete_signature_error(
            "'Host' and 'X-Amz-Date' or 'Date' must be a 'SignedHeader'."
        )
    for header, _ in request.headers:
        name = header.decode("latin-1")
        # What a service reads of a header must have been signed; a proxy's own start otherwise.
        if name.startswith(_READ) and name not in names:
            raise _incomplete_signature_error(
                f"{name!r} must be a 'SignedHeader' in the AWS Authorization."
            )


def _read_time(request: RawRequest, names: tuple[str, ...]) -> tuple[str, datetime]:
    amz = request.one("x-amz-date")
    try:
        if amz:
            return amz, datetime.strptime(amz, _STAMP).replace(tzinfo=UTC)
        signed_at = parsedate_to_datetime(request.one("date")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _incomplete_signature_error(
            "Date must be in ISO-8601 'basic format', such as '20260102T030405Z'."
        ) from None
    return signed_at.strftime(_STAMP), signed_at


def _check_time(stamp: str, signed_at: datetime, now: datetime) -> None:
    minutes = int(SKEW.total_seconds() // 60)
    if signed_at < now - SKEW:
        raise _invalid_signature_error(
            f"Signature expired: {stamp} is now earlier than {now - SKEW:{_STAMP}} "
            f"({now:{_STAMP}} - {minutes} min.)"
        )
    if signed_at > now + SKEW:
        raise _invalid_signature_error(
            f"Signature not yet current: {stamp} is still later than {now + SKEW:{_STAMP}} "
            f"({now:{_STAMP}} + {minutes} min.)"
        )


def _hash_payload(request: RawRequest, body: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    payload = digest.hexdigest()
    declared = request.one("x-amz-content-sha256")
    if declared and not hmac.compare_digest(declared.encode("latin-1"), payload.encode()):
        raise _invalid_signature_error(
            "The provided 'x-amz-content-sha256' header does not match what was computed; it has "
            "to be the SHA-256 of the body."
        )
    return payload


def _compute_signature(request: RawRequest, signed: Signature, payload: str, secret: str) -> str:
    date = signed.stamp[:8]
    scope = f"{date}/{signed.region}/{_SERVICE}/aws4_request"
    canonical = hashlib.sha256(
        _build_canonical_request(request, signed.headers, payload)
    ).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (date, signed.region, _SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join((ALGORITHM, signed.stamp, scope, canonical))
    return hmac.digest(key, text.encode(), "sha256").hex()


def _build_canonical_request(request: RawRequest, names: Sequence[str], payload: str) -> bytes:
    return b"\n".join(
        (
            request.method.encode(),
            _canonicalize_path(request.path),
            _canonicalize_query(request.query),
            *(
                name.encode("latin-1")
                + b":"
                + b",".join(b" ".join(value.split()) for value in request.all(name))
                for name in names
            ),
            b"",
            ";".join(names).encode("latin-1"),
            payload.encode(),
        )
    )


def _canonicalize_path(path: bytes) -> bytes:
    """The path as it is signed: without dot segments and empty ones, and encoded once more."""
    pieces: list[bytes] = []
    for piece in path.split(b"/"):
        if piece == b"..":
            pieces = pieces[:-1]
        elif piece not in (b"", b"."):
            pieces.append(piece)
    last = b"/" if pieces and path.endswith(b"/") else b""
    return quote(b"/" + b"/".join(pieces) + last, safe="/~").encode()


def _canonicalize_query(query: bytes) -> bytes:
    """The query string as it is signed: each part encoded anew, sorted by name and value."""
    parts = []
    for part in query.split(b"&") if query else ():
        name, _, value = part.partition(b"=")
        parts.append((_percent_encode(name), _percent_encode(value)))
    return "&".join(f"{name}={value}" for name, value in sorted(parts)).encode()


def _percent_encode(text: bytes) -> str:
    return quote(unquote_to_bytes(text), safe="-_.~")
