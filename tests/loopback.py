"""A loopback HTTP server for any method, which answers from a script, over TLS if asked to.

And a certificate for it, and ports for the servers of others.
"""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self


@dataclass
class Got:
    """A request that arrived."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Sent:
    """An answer.

    `length` is told instead of the body's own; `cut` hangs up without answering; `echo` has
    `Authorization` be the status's name.
    """

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    length: int | None = None
    cut: bool = False
    echo: bool = False
    wait: Callable[[], Any] | None = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


@contextmanager
def serve_handler(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Has a handler answer in threads of its own while a `with` block runs: at which address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with _serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"


@contextmanager
def _serving(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Served:
    """What serves in a thread of its own while a `with` block runs."""

    _server: ThreadingHTTPServer

    @contextmanager
    def running(self) -> Iterator[Self]:
        with _serving(self._server):
            yield self


class Site(Served):
    """A server; `answers` are sent in order, the last one again and again."""

    def __init__(self, *answers: Sent, tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers) or [Sent()]
        self.got: list[Got] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def url(self, host: str = "localhost", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                site.got.append(Got(self.command, self.path, headers, body))
                sent = site.answers[min(len(site.got), len(site.answers)) - 1]
                if sent.wait is not None:
                    sent.wait()
                if sent.cut:
                    self.close_connection = True
                    return
                self.send_response(sent.status, headers.get("authorization") if sent.echo else None)
                for name, value in sent.headers.items():
                    self.send_header(name, value)
                length = len(sent.body) if sent.length is None else sent.length
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(sent.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do_OPTIONS = answer

        return Handler


@contextmanager
def reserve_port() -> Iterator[int]:
    """A port for a server that the test starts, which nobody else on this machine gets meanwhile.

    It is held by a socket that is bound and does not listen. On Linux a server with SO_REUSEADDR,
    which servers set, can listen on it all the same.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


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
