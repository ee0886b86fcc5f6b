"""Who else looks at boto3's requests, such as moto or tracing: nobody is passed by."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
_STUBBER = "botocore.stub"  # whose handlers are the user's answers


def is_hooked(client: Any) -> bool:
    """Whether a client is not quite boto3's, or has handlers of others for a request's events."""
    if not _is_plain(client):
        return True
    emitter = client.meta.events._emitter
    handlers = (
        handler
        for event in _EVENTS
        for name in _OPERATIONS
        for handler in emitter._handlers.prefix_search(f"{event}.bedrock-runtime.{name}")
    )
    modules = map(_module_of, handlers)
    return any(not it.startswith(_OWN) or it == _STUBBER for it in modules)


_METHODS = frozenset({"converse", "converse_stream", "_make_api_call", "_make_request"})


def _is_plain(client: Any) -> bool:
    from botocore.client import BaseClient

    base: Any = BaseClient
    if not isinstance(client, base) or _METHODS & vars(client).keys():
        return False
    return bool(type(client)._make_api_call is base._make_api_call)


def _module_of(handler: Any) -> str:
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    # `functools.wraps` gives a function another's name, module and attributes, but not its globals.
    members = getattr(function, "__globals__", {"__name__": getattr(function, "__module__", "")})
    return str(members.get("__name__", ""))


def is_patched() -> bool:
    """Whether somebody replaced a part of botocore's, or urllib3's, that every request uses."""
    global _genuine
    parts = [members.get(name) for members, name in _list_places()]
    if parts != _genuine and all(map(_is_genuine, parts)):
        _genuine = parts
    return parts != _genuine


# What was found in its place, and looked at. Each request looks whether it is still there.
_genuine: list[Any] = []


def _is_genuine(part: Any) -> bool:
    if isinstance(part, type):
        module = part.__module__
        return _is_own(module) and vars(sys.modules[module]).get(part.__qualname__) is part
    while type(part) is FunctionType:
        module = _module_of(part)
        if not _is_own(module) or part.__globals__ is not vars(sys.modules[module]):
            return False
        if not hasattr(part, "__wrapped__"):
            return True
        part = part.__wrapped__  # by a decorator of botocore's
    return False


def _is_own(module: str) -> bool:
    return module.startswith(("botocore.", "urllib3.")) and module in sys.modules


@cache
def _list_places() -> tuple[tuple[Mapping[str, Any], str], ...]:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSHTTPConnectionPool, AWSHTTPSConnectionPool
    from botocore.client import BaseClient
    from botocore.endpoint import Endpoint
    from botocore.httpsession import URLLib3Session
    from botocore.signers import RequestSigner
    from urllib3.connectionpool import HTTPConnectionPool

    names_of: dict[type, str] = {
        BaseClient: "_make_api_call",
        Endpoint: "make_request _do_get_response _send",
        RequestSigner: "sign",
        SigV4Auth: "add_auth",
        URLLib3Session: "send",
        AWSHTTPConnectionPool: "ConnectionCls",
        AWSHTTPSConnectionPool: "ConnectionCls",
        HTTPConnectionPool: "urlopen",
    }
    return tuple((vars(owner), name) for owner, names in names_of.items() for name in names.split())
