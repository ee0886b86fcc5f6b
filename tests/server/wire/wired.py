"""An `Api` on loopback, for boto3's own clients, without the application around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import boto3
from botocore.config import Config
from loopback import Served, _Server

from orchestrator.server.operations import Operations
from orchestrator.server.wire.api import Api, HttpResponse


class _Wired(Served):
    def __init__(self, api: Api) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, *args: Any) -> None:
                pass

            def answer(self) -> None:
                asyncio.run(self._answer())

            async def _answer(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = await api.answer(self.command, path, query, headers, body)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                await self._body(answer)

            async def _body(self, answer: HttpResponse) -> None:
                if isinstance(answer.body, bytes):
                    self.wfile.write(answer.body)
                    return
                async with aclosing(answer.body) as pieces:
                    async for piece in pieces:
                        self.wfile.write(piece)

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

        self._server = _Server(("127.0.0.1", 0), Handler)


@contextmanager
def served(operations: Operations) -> Iterator[str]:
    """The address of a server of these operations."""
    server = _Wired(Api(operations))
    with server.running():
        yield f"http://127.0.0.1:{server._server.server_address[1]}"


def client(service: str, url: str) -> Any:
    """An unmodified client of boto3's, which tries once."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, parameter_validation=False),
    )
