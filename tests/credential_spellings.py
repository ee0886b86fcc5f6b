"""A credential as a server may repeat it: in other letters, cut, or encoded."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote


def spell(key: str) -> dict[str, str]:
    """The spellings of a credential, by what was done to it."""
    data = key.encode()
    return {
        "plain": key,
        "bearer": f"Bearer {key}",
        "upper case": key.upper(),
        "cut": key[:14] + "****",
        "end": "…" + key[-14:],
        "percent": quote(key, safe=""),
        "base64": base64.b64encode(data).decode(),
        "basic": base64.b64encode(b"user:" + data).decode(),
        "hexadecimal": data.hex(),
        "json": json.dumps(key)[1:-1],
        "late": "x" * 390 + key,
    }
