"""What all of our servers ask of uvicorn."""

from __future__ import annotations

from typing import Any

import uvicorn


def build_config(app: Any, **options: Any) -> uvicorn.Config:
    """A configuration with which uvicorn writes no logs and adds nothing to requests or answers."""
    return uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **options,
    )
