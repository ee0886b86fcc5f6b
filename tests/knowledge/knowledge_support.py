"""A small embedder, a loopback service, and folders of documents."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from loopback import serve_handler

SAME = {"puppy": "dog", "hound": "dog", "ill": "sick", "illness": "sick", "vacation": "leave"}


class WordEmbedder:
    """Counts words, some of which mean the same; remembers what it was asked."""

    def __init__(self, id: str = "words-1", dimensions: int = 256) -> None:
        self.id = id
        self.dimensions = dimensions
        self.texts: list[str] = []
        self._lock = Lock()

    def embed(self, texts: Sequence[str]) -> Any:
        with self._lock:
            self.texts += texts
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                stem = SAME.get(word, word).removesuffix("s")
                row[zlib.crc32(stem.encode()) % self.dimensions] += 1
            row[0] += 0.01
            row /= np.linalg.norm(row)
        return rows


def write(folder: Path, files: dict[str, str | bytes | dict[str, Any]]) -> Path:
    """Writes files; an object is written as a metadata file's `metadataAttributes`."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            content = json.dumps({"metadataAttributes": content})
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def names(references: list[dict[str, Any]]) -> list[str]:
    return [it["location"]["customDocumentLocation"]["id"] for it in references]


def vector_search(**members: Any) -> dict[str, Any]:
    return {"vectorSearchConfiguration": members}


class Service:
    """Answers `POST`s in order, the last answer again and again."""

    def __init__(self, answers: Sequence[tuple[int, dict[str, Any]]]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any]] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.asked.append((self.path, json.loads(body)))
                index = min(len(service.asked), len(service.answers)) - 1
                status, answer = service.answers[index]
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("x-amzn-RequestId", "req-1")
                if "code" in answer:
                    self.send_header("x-amzn-ErrorType", answer["code"])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        with serve_handler(Handler) as url:
            yield url
