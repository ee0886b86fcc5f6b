"""What a client of boto3 would send, found out without sending anything."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from orchestrator.models.bedrock.direct import Operation, Service, Signing
from orchestrator.models.bedrock.hooks import is_hooked, is_patched
from orchestrator.support.http import Address

_NAMES = {"converse": "Converse", "converse_stream": "ConverseStream"}
_SIGNED = ("content-type", "accept")
_UNSIGNED = ("user-agent",)  # (SigV4: proxies may change it)
# The last two tell Bedrock which tries belong together, and each call has its own.
_FIELDS = frozenset({*_SIGNED, *_UNSIGNED, "amz-sdk-invocation-id", "amz-sdk-request"})


class _Stopped(Exception):
    """A request was made, and not signed."""


def learn(client: Any) -> Service | None:
    """What a new client sends and how; `None` where it does anything that is not known here.

    Nothing is sent. The client must not be shared yet: other requests would be stopped, too.
    """
    try:
        if is_hooked(client) or is_patched():  # nobody is to see a request that is none
            return None
        made = {method: _stop_before_signing(client, method) for method in _NAMES}
        return _build_service(client, made)
    except Exception:
        # Another botocore than this was written for, a profile that is wrong, no certificates:
        # whatever it is, boto3 deals with it, or says it at the first request.
        return None


def _stop_before_signing(client: Any, method: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def stop(**event: Any) -> None:
        found.update(event)
        raise _Stopped

    event = f"before-sign.bedrock-runtime.{_NAMES[method]}"
    client.meta.events.register_first(event, stop)
    try:
        getattr(client, method)(modelId="m")
    except _Stopped:
        pass
    finally:
        client.meta.events.unregister(event, stop)
    return found


def _build_service(client: Any, made: Mapping[str, Mapping[str, Any]]) -> Service | None:
    operations, scopes = {}, []
    for method, event in made.items():
        request, context = event["request"], event["request"].context
        model = client.meta.service_model.operation_model(_NAMES[method])
        before, _, after = request.url.rpartition("/m/")
        fields = {name.lower(): _to_text(value) for name, value in request.headers.items()}
        if not fields.keys() <= _FIELDS or request.params:
            return None
        signed = {name: fields[name] for name in _SIGNED if name in fields}
        unsigned = tuple((name, fields[name]) for name in _UNSIGNED if name in fields)
        names = _NAMES[method], model, f"{before}/", f"/{after}"
        operations[method] = Operation(*names, signed, unsigned)
        scope = context.get("signing") or {}
        if not scope.keys() <= {"signing_name", "region"}:
            return None
        name = scope.get("signing_name", event["signing_name"])
        region = scope.get("region", event["region_name"])
        scopes.append(Signing(event["request_signer"], name, region, event["signature_version"]))
    address = _find_address(client, operations["converse"].before_id)
    if address is None or scopes[0] != scopes[1] or scopes[0].version not in ("v4", "bearer"):
        return None
    return Service(client, operations, scopes[0], address)


def _find_address(client: Any, url: str) -> Address | None:
    from botocore.utils import get_environ_proxies

    parts = urlsplit(url)
    config, session = client.meta.config, client._endpoint.http_session
    if config.proxies or get_environ_proxies(url) or config.client_cert:
        return None
    if not parts.hostname or parts.username is not None or parts.query:
        return None
    if parts.scheme == "http":
        return Address(parts.hostname, parts.port or 80, None)
    # The session has the certificates of `AWS_CA_BUNDLE`, the profile or botocore itself.
    return Address(parts.hostname, parts.port or 443, _tls(session._verify))


@cache
def _tls(verify: Any) -> ssl.SSLContext:
    # Reading the certificates takes longer than a request; all services share them.
    from botocore.httpsession import create_urllib3_context, get_cert_path

    context: ssl.SSLContext = create_urllib3_context()
    # urllib3 looks at the certificate's names itself, and so has the context not look.
    context.check_hostname = bool(verify)
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if verify:
        path = str(get_cert_path(verify))
        context.load_verify_locations(**{"capath" if os.path.isdir(path) else "cafile": path})
    return context


def _to_text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
