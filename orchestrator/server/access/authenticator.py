"""From a request to who is calling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from orchestrator.server.access.keys import Keys
from orchestrator.server.access.raw_request import RawRequest
from orchestrator.server.access.refusal import Refusal
from orchestrator.server.access.signature import (
    ALGORITHM,
    find_key,
    parse_signature,
    verify_signature,
)
from orchestrator.server.operations import Caller

Clock = Callable[[], datetime]
"""Tells the time, with its zone; tests inject their own."""

Verdict = Callable[[Sequence[bytes]], Caller]
"""Who is calling, once the body is there; it raises a `Refusal`."""

_ANYBODY = Caller()


def now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


class Authenticator:
    """Tells who is calling; the tenant is that of the key, whatever else the request says."""

    def __init__(self, keys: Keys | None = None, clock: Clock = now) -> None:
        """Makes it.

        Args:
            keys: The keys; without them nobody has to sign, and there is one tenant.
            clock: Tells the time.
        """
        self._keys = keys
        self._clock = clock

    def authenticate(self, request: RawRequest) -> Caller | Verdict:
        """Refuses what is wrong before the body is read.

        Args:
            request: The request, without its body.

        Returns:
            Who is calling, or, if that takes the body, how to tell then.

        Raises:
            Refusal: It carries no credentials, or none that can be right.
        """
        if self._keys is None:
            return _ANYBODY
        keys = self._keys
        given = request.all("authorization")
        if not given:
            raise _missing_credentials_error(request)
        if len(given) > 1:
            raise Refusal(
                "IncompleteSignatureException", 400, "There is more than one Authorization header."
            )
        header = request.one("authorization")
        scheme, _, rest = header.partition(" ")
        if scheme.lower() == "bearer":
            return _authenticate_bearer(keys, rest.strip())
        if scheme != ALGORITHM:
            raise Refusal(
                "IncompleteSignatureException",
                400,
                f"Authorization is neither {ALGORITHM} nor Bearer.",
            )
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
        return Refusal(
            "IncompleteSignatureException",
            400,
            "Signatures in the query string are not taken; sign with the Authorization header.",
        )
    return Refusal("MissingAuthenticationTokenException", 403, "Missing Authentication Token")
