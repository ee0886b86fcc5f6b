"""Who else looks at boto3's requests, such as moto or tracing: nobody is passed by."""

from __future__ import annotations

from functools import cache, partial
from types import FunctionType
from typing import Any

# What a request of boto3's goes through. Handlers of others may change it, or answer themselves.
_EVENTS = tuple(
    """
    provide-client-params before-parameter-build before-endpoint-resolution before-call
    request-created choose-signer before-sign before-send response-received before-parse
    needs-retry after-call after-call-error
    """.split()
)
_OPERATIONS = ("Converse", "ConverseStream")
_OWN = ("botocore.", "boto3.", "orchestrator.")


def is_hooked(client: Any) -> bool:
    """Whether a client has handlers of others for the events of a request."""
    emitter = client.meta.events._emitter
    handlers = (
        handler
        for event in _EVENTS
        for name in _OPERATIONS
        for handler in emitter._handlers.prefix_search(f"{event}.bedrock-runtime.{name}")
    )
    return any(not _module_of(handler).startswith(_OWN) for handler in handlers)


def _module_of(handler: Any) -> str:
    while isinstance(handler, partial):
        handler = handler.func
    return str(getattr(getattr(handler, "__func__", handler), "__module__", ""))


def is_patched() -> bool:
    """Whether somebody replaced a method of botocore's that every request goes through."""
    for owner, name in _list_methods():
        method = owner.__dict__[name]
        if type(method) is not FunctionType or method.__module__ != owner.__module__:
            return True
    return False


@cache
def _list_methods() -> tuple[tuple[type, str], ...]:
    from botocore.client import BaseClient
    from botocore.endpoint import Endpoint
    from botocore.httpsession import URLLib3Session

    return (
        (BaseClient, "_make_api_call"),
        (Endpoint, "make_request"),
        (Endpoint, "_send"),
        (URLLib3Session, "send"),
    )
