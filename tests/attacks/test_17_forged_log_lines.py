"""Attack 17: no caller writes lines of its own into a log, or rules the terminal that shows it."""

from __future__ import annotations

import ast
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError, EventStreamError
from runtime_servers import ALIAS_ID, running, told
from server_requests import send

import orchestrator
from orchestrator.actions.handler_modules import _print
from orchestrator.server.json_logs import JsonFormatter
from orchestrator.server.path_redaction import PathRedactor
from orchestrator.server.process_log import _ForwardingHandler
from orchestrator.server.wire.faults import log_failure
from orchestrator.support.logs import escape, get_logger

FORGED = "2026-11-24 09:00:00 POST /agents 200 admin"
# Ends of lines, escape sequences, what reverses or hides a text, and a half of a pair.
MARKS = ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2K\x1b[1A",
         "\x9b2K", "\x00", "\u202e", "\u2066", "\u200b", "\U000e0041", "\ud800")  # fmt: skip


@pytest.fixture
def log() -> Iterator[io.TextIOWrapper]:
    """What a handler of a library's user writes, as bytes that UTF-8 can hold."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("AT %(message)s"))
    logger = logging.getLogger("orchestrator")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before)


def lines_of(log: io.TextIOWrapper) -> list[str]:
    log.seek(0)
    return log.read().splitlines()


def check(log: io.TextIOWrapper, records: int = 1) -> None:
    """Each record is one line, and what belongs to it is indented."""
    lines = lines_of(log)
    assert sum(line.startswith("AT ") for line in lines) == records, lines
    assert all(line.startswith(("AT ", "  ")) for line in lines), lines
    assert all(line.isprintable() for line in lines), lines
    assert FORGED in "".join(lines)


@pytest.mark.parametrize("mark", MARKS)
def test_a_record_is_one_line_whatever_is_in_it(mark: str, log: io.TextIOWrapper) -> None:
    hostile = f"claims{mark}{FORGED}"
    logger = get_logger("orchestrator.server")
    logger.warning("the Lambda %s failed: %s", hostile, ValueError(hostile))
    logger.warning(hostile)
    try:
        raise ValueError(hostile)
    except ValueError as error:
        logger.exception("it failed: %r", error)
    log_failure(ValueError(hostile), hostile)
    foreign = logging.LogRecord("uvicorn.error", 40, "", 0, "of %s", (hostile,), None)
    _ForwardingHandler().emit(foreign)
    PathRedactor().as_fault(orchestrator.ValidationError(f"/srv/{hostile}"), "r-1")
    check(log, 6)


def test_a_record_without_marks_keeps_its_arguments(log: io.TextIOWrapper) -> None:
    records: list[logging.LogRecord] = []
    logger = get_logger("orchestrator.server")
    logger.addFilter(records.append)  # type: ignore[arg-type]
    try:
        logger.warning("the agent in %s is wrong: %d", "café 😀", 5)
    finally:
        logger.removeFilter(records.append)
    assert (records[0].msg, records[0].args) == (
        "the agent in %s is wrong: %d",
        ("café 😀", 5),
    )


def test_what_cannot_be_formatted_raises_nothing(log: io.TextIOWrapper) -> None:
    get_logger("orchestrator.server").warning("%d\n" + FORGED, "no number")
    check(log)


def test_what_handlers_print_is_a_record_a_line(log: io.TextIOWrapper) -> None:
    _print("a\x1b[2K", f"b\n{FORGED}")
    assert lines_of(log) == ["AT a\\x1b[2K b", f"AT {FORGED}"]


def test_requests_to_a_server(log: io.TextIOWrapper) -> None:
    with running() as server, closing(log):
        model = f"replay:/srv/x\n{FORGED}\u2028\x1b[2K"
        with pytest.raises((ClientError, EventStreamError)):
            answer = server.client.invoke_inline_agent(
                foundationModel=model,
                instruction="You answer questions of all kinds, as well as you can.",
                sessionId="s-1",
                inputText="Hello",
            )
            told(answer)
        agent = f"/srv/x\r\n{FORGED}"
        body = {"model": agent, "messages": [{"role": "user", "content": "Hello"}]}
        send(server.url, path="/v1/chat/completions", body=json.dumps(body).encode())
        send(server.url, path=f"/agents/%0A{ALIAS_ID}%1b[2K", body=b"")
        log.flush()
        lines = lines_of(log)
        assert lines and all(line.startswith(("AT ", "  ")) for line in lines), lines
        assert all(line.isprintable() for line in lines), lines


def test_json_lines_hold_what_callers_send_as_values(log: io.TextIOWrapper) -> None:
    handler = logging.getLogger("orchestrator").handlers[-1]
    handler.setFormatter(JsonFormatter())
    hostile = '"}\n{"message": "' + FORGED + '", "level": "INFO"}\u2028\x1b[2K\ud800'
    # What a server logs of a request, it may log after the answer.
    with running() as server:
        get_logger("orchestrator.server").warning("it failed: %s", hostile)
        path = f"/agents/{quote(hostile, errors='replace')}/"
        answer = send(server.url, "GET", path, headers={"x-amzn-requestid": FORGED})
        url = f"/agents/A/agentAliases/B/sessions/{quote('s-1')}/text"
        turn = send(server.url, "POST", url, b'{"inputText": "Hello"}')
    with closing(log):
        log.flush()
        records = [json.loads(line) for line in lines_of(log)]
    assert all(set(record) <= MEMBERS for record in records), records
    assert FORGED in records[0]["message"] and "\n" not in records[0]["message"]
    requests = [record for record in records if "path" in record]
    assert [record["request_id"] for record in requests] == [
        answer.headers["x-amzn-requestid"],
        turn.headers["x-amzn-requestid"],
    ]
    (asked,) = [record for record in requests if record.get("session_id")]
    assert (asked["operation"], asked["session_id"], asked["method"]) == (
        "InvokeAgent",
        "s-1",
        "POST",
    )
    assert asked["status"] == turn.status and asked["ms"] >= 0


MEMBERS = set(
    "time level logger message method path service operation status error ms request_id session_id "
    "tenant traceback".split()
)


def test_a_defect_is_logged_with_the_request_that_met_it(
    log: io.TextIOWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise ValueError(FORGED)

    logging.getLogger("orchestrator").handlers[-1].setFormatter(JsonFormatter())
    # What a server logs of a request, it may log after the answer.
    with running() as server:
        monkeypatch.setattr(server.world.documents, "all", fail)
        answer = send(server.url, "POST", "/agents/")
    with closing(log):
        log.flush()
        records = [json.loads(line) for line in lines_of(log)]
    assert answer.status == 500
    ids = {record["request_id"] for record in records}
    assert ids == {answer.headers["x-amzn-requestid"]} and len(records) == 2
    assert "Traceback" not in records[0]["message"] and "traceback" in records[0]


def test_escaping_twice_changes_nothing() -> None:
    for mark in MARKS:
        once = escape(f"a{mark}b")
        assert once.isprintable() and escape(once) == once


def test_a_record_is_escaped_when_no_file_can_be_opened() -> None:
    # In a process of its own: what was looked up once is found again.
    told = (
        "import resource, sys; from orchestrator.support.logs import escape; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); sys.stdout.write(escape('a\\nb'))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"a\\nb", b"")


def test_every_logger_of_the_package_is_made_in_one_place() -> None:
    package = Path(orchestrator.__file__).parent
    made = [
        f"{file.relative_to(package)}: {ast.unparse(node)}"
        for file in sorted(package.rglob("*.py"))
        if "getLogger" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and "getLogger(" in ast.unparse(node.func) + "("
    ]
    # Other libraries', the root of ours for a handler, and the one place.
    assert made == [
        "actions/_mcp_link.py: logging.getLogger('mcp.client').addHandler(logging.NullHandler())",
        "actions/_mcp_link.py: logging.getLogger('mcp.client')",
        "agent/durable/worker.py: logging.getLogger('dbos')",
        "cli/commands.py: logging.getLogger('orchestrator')",
        "cli/terminal.py: logging.getLogger('orchestrator.handler')",
        "server/process_log.py: logging.getLogger('uvicorn.error')",
        "server/process_log.py: logging.getLogger('py.warnings')",
        "server/supervisor.py: logging.getLogger('uvicorn.error')",
        "support/logs.py: logging.getLogger(name)",
    ]
