"""AWS's Signature Version 4 of a POST without a query (AWS: "Create a signed AWS API request").

botocore's own signer builds three objects of headers for each request, and normalises and quotes a
path that is always the same: it takes a quarter of what a request costs over a kept connection.
A test compares the two.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


class SigV4:
    """Signs requests to one service in one region."""

    def __init__(self, service: str, region: str) -> None:
        self._scope = f"{region}/{service}/aws4_request"
        self._parts = (region.encode(), service.encode(), b"aws4_request")
        # The last day's key, by the secret and the day.
        self._key: tuple[tuple[str, str], bytes] = (("", ""), b"")

    def sign(
        self, credentials: Any, path: str, fields: Mapping[str, str], body: bytes
    ) -> dict[str, str]:
        """`fields` with those of the signature.

        Args:
            credentials: botocore's frozen credentials.
            path: The path as `quote_path` makes it.
            fields: The header fields that are sent, names in small letters, `host` among them.
            body: The body.
        """
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        day = moment[:8]
        signed = {**fields, "x-amz-date": moment}
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        names = sorted(signed)
        lines = "".join([f"{name}:{' '.join(signed[name].split())}\n" for name in names])
        listed = ";".join(names)
        canonical = f"POST\n{path}\n\n{lines}\n{listed}\n{sha256(body).hexdigest()}"
        scope = f"{day}/{self._scope}"
        digest = sha256(canonical.encode()).hexdigest()
        text = f"{_ALGORITHM}\n{moment}\n{scope}\n{digest}"
        signature = hmac.digest(self._derive(credentials.secret_key, day), text.encode(), sha256)
        signed["Authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={listed}, Signature={signature.hex()}"
        )
        return signed

    def _derive(self, secret: str, day: str) -> bytes:
        known, key = self._key
        if known != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day.encode(), *self._parts):
                key = hmac.digest(key, part, sha256)
            self._key = ((secret, day), key)
        return key


def quote_path(path: str) -> str:
    """A path as it is signed: the one that is sent, quoted once more."""
    from botocore.utils import normalize_url_path

    return quote(normalize_url_path(path), safe="/~")
