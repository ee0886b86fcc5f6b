"""The log of a server's processes: every line of stderr has the form that was asked for."""

from __future__ import annotations

import json
import logging
import socket
import sqlite3
import sys
import threading
import warnings
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from left_out import sampled
from postgres_server import PostgresServer
from serving_support import Start
from waiting import until

from orchestrator import Sessions, SQLiteStore
from orchestrator.server.process_log import log_requests

UPGRADE = (
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
)


def answer(url: str, sent: bytes) -> bytes:
    """The first line of the answer to some bytes."""
    parts = urlsplit(url)
    with closing(socket.create_connection((parts.hostname, parts.port), timeout=60)) as connection:
        connection.sendall(sent)
        return connection.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize("workers", sampled([2, 1]))
def test_what_is_no_request_has_a_line_of_the_same_form(
    start: Start, tmp_path: Path, workers: int
) -> None:
    kept = ("--state", tmp_path / "sessions.sqlite", "--workers", workers)
    server = start("--log-format", "json", *kept)
    assert answer(server.url, b"no request\r\n\r\n") == b"HTTP/1.1 400 Bad Request"
    assert answer(server.url, UPGRADE) == b"HTTP/1.1 200 OK"
    server.signal()
    code, log = server.end()
    records = [json.loads(line) for line in log.splitlines()]
    warnings = [it["message"] for it in records if it["level"] != "INFO"]
    assert (code, warnings) == (0, ["Invalid HTTP request received."])


@pytest.mark.parametrize("workers", sampled([1, 2]))
def test_what_other_rooms_log_has_a_line_of_the_same_form(
    start: Start, tmp_path: Path, workers: int
) -> None:
    state = tmp_path / "sessions.sqlite"
    label, turn = "agent/alias/s-1", {"kind": "turn", "id": "t-1", "question": "Hello"}
    with closing(SQLiteStore(state)) as store:
        key = Sessions(store).key(label)
        store.append(key, 0, [turn], label=label, at=1, unfinished=True)
    with closing(sqlite3.connect(state)) as db, db:
        db.execute("UPDATE journal SET sum = sum + 1")
    server = start("--log-format", "json", "--state", state, "--workers", workers)
    until(lambda: "is not gone on with" in server.log)
    server.signal()
    code, log = server.end()
    records = [json.loads(line) for line in log.splitlines()]
    warnings = {it["logger"]: it["message"] for it in records if it["level"] != "INFO"}
    assert (code, list(warnings)) == (0, ["orchestrator.sessions"])
    assert "is damaged" in warnings["orchestrator.sessions"]


@pytest.mark.exhaustive
def test_what_a_database_driver_logs_has_a_line_of_the_same_form(
    start: Start, postgres_server: PostgresServer, postgres_url: str
) -> None:
    server = start("--log-format", "json", "--state", postgres_url)
    with postgres_server.stopped():
        with pytest.raises(HTTPError, match="503"):
            urlopen(f"{server.url}/readyz", timeout=60)
        until(lambda: "error connecting" in server.log)
    server.signal()
    code, log = server.end()
    records = [json.loads(line) for line in log.splitlines()]
    assert (code, "psycopg.pool" in {it["logger"] for it in records}) == (0, True)


CARD = "card-4711"


class Dropped:
    def __del__(self) -> None:
        raise KeyError(CARD)


def test_whatever_a_handler_logs_is_a_line_of_the_same_form(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # pytest's take all records
    log = logging.getLogger("a_handler_of_users")
    end = log_requests("json")
    try:
        # Names that this program's own records once had
        log.warning("slow", stack_info=True, extra={"frames": [1], "request": {"id": 7}})
        try:
            raise ValueError("wrong")
        except ValueError:
            log.exception("failed", extra={"frames": 3})
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old\nstyle", DeprecationWarning, stacklevel=1)
        thread = threading.Thread(target=int, args=[CARD], name="of-a-handler")
        thread.start()
        thread.join()
        Dropped()
    finally:
        end()
    slow, failed, old, ended, ignored = (
        json.loads(it) for it in capfd.readouterr().err.splitlines()
    )
    assert (slow["message"], failed["message"]) == ("slow", "failed")
    assert "test_process_log" in slow["traceback"] and "ValueError: wrong" in failed["traceback"]
    assert old["logger"] == "py.warnings" and "DeprecationWarning: old" in old["message"]
    assert "'of-a-handler' was ended by ValueError" in ended["message"]
    assert "threading.py" in ended["traceback"] and CARD not in str((ended, ignored))
    assert ignored["message"].endswith(": KeyError") and "__del__" in ignored["traceback"]


def test_the_log_ends_as_it_began() -> None:
    def look() -> list[object]:
        names = ("orchestrator", "orchestrator.server", "uvicorn.error", "py.warnings")
        handlers = [list(logging.getLogger(name).handlers) for name in names]
        hooks = [threading.excepthook, sys.unraisablehook, warnings.showwarning]
        return [*handlers, logging.lastResort, *hooks]

    before = look()
    end = log_requests()
    assert look() != before
    end()
    assert look() == before
