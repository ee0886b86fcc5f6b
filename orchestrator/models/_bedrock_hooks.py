"""Who else looks at boto3's requests, such as moto or tracing: nobody is passed by."""

from __future__ import annotations

from functools import partial
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
    return not all(
        type(method) is FunctionType and method.__module__ == module
        for method, module in _list_methods()
    )


def _list_methods() -> list[tuple[Any, str]]:
    from botocore.client import BaseClient
    from botocore.endpoint import Endpoint
    from botocore.httpsession import URLLib3Session

    return [
        (BaseClient.__dict__["_make_api_call"], "botocore.client"),
        (Endpoint.__dict__["make_request"], "botocore.endpoint"),
        (Endpoint.__dict__["_send"], "botocore.endpoint"),
        (URLLib3Session.__dict__["send"], "botocore.httpsession"),
    ]
