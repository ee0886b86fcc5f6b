"""What the tests of APIs over HTTP share: a document, and a certificate for `localhost`."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

from orchestrator.actions import ActionGroup, HttpExecutor

RESPONSES = {"200": {"description": "ok"}}


def parameter(name: str, place: str, kind: str = "string", **members: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": kind}
    if kind == "array":
        schema["items"] = {"type": "string"}
    found = {"name": name, "in": place, "schema": schema, **members}
    return {**found, "required": True} if place == "path" else found


def document(path: str = "/claims", verb: str = "get", **members: Any) -> dict[str, Any]:
    operation = {"operationId": "it", "description": "d", "responses": RESPONSES, **members}
    return {
        "openapi": "3.0.0",
        "info": {"title": "t", "version": "1"},
        "paths": {path: {verb: operation}},
    }


def json_body(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"content": {"application/json": {"schema": schema}}}


def group(
    url: str, schema: dict[str, Any] | None = None, private: str = "localhost", **options: Any
) -> ActionGroup:
    executor = HttpExecutor(url, allow_private=[private], **options)
    return ActionGroup("api", api_schema=schema or document(), executor=executor)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS for the host `name`, and the file of the authority that vouches for it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    both, authority = folder / "server.pem", folder / "authority.pem"
    pem = made.public_bytes(serialization.Encoding.PEM)
    authority.write_bytes(pem)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    both.write_bytes(pem + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context, authority
