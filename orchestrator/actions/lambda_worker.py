"""The program of a handler's own process, which `lambda_process` starts.

It has Python's library only and imports nothing of this package, so that the handler finds what is
beside its code and what is installed, and nothing else. The socket carries lines of JSON: first the
handler, then for each call its event and context, answered by what the handler returned or raised.
When the socket ends, however the other side ended, this process and its group end at once.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_LONGEST_MESSAGE = 4_000  # characters


def main(connection: socket.socket) -> None:
    """Answers calls until the socket ends."""
    connection.set_inheritable(False)
    lines = connection.makefile("rb")
    job = json.loads(lines.readline())
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines, requests), daemon=True).start()
    folder = os.getcwd()
    sys.path.insert(0, folder)
    # Lambda's own handler, so that `getLogger().setLevel(INFO)` is enough, as in most samples.
    logging.basicConfig(format="[%(levelname)s]\t%(message)s", stream=sys.stderr)
    while True:
        request = json.loads(requests.get())
        try:
            function = getattr(importlib.import_module(job["module"]), job["function"])
        except BaseException as error:  # as in Lambda, the next call starts another process
            described = _describe(error, folder, request["debug"])
            if request["reports_load_errors"]:
                described["message"] = str(error)[:_LONGEST_MESSAGE]
            answer = _encode({**described, "ended": True})
        else:
            answer = _answer(function, request, folder, job["most_bytes"])
        connection.sendall(answer + b"\n")


def _read(lines: Any, requests: queue.SimpleQueue[bytes]) -> None:
    while line := lines.readline():
        requests.put(line)
    os.killpg(0, signal.SIGKILL)


def _answer(
    function: Callable[..., Any], request: dict[str, Any], folder: str, most_bytes: int
) -> bytes:
    try:
        returned = function(request["event"], _make_context(request))
        if inspect.isawaitable(returned):
            returned = asyncio.run(_wait_for(returned))
        answer = _encode({"returned": returned})
        return answer if len(answer) <= most_bytes else _encode({"large": len(answer)})
    except _NoJson as error:
        return _encode({"no_json": str(error)})
    except BaseException as error:
        ended = not isinstance(error, Exception)  # such as `sys.exit`
        return _encode({**_describe(error, folder, request["debug"]), "ended": ended})


def _describe(error: BaseException, folder: str, debug: bool) -> dict[str, Any]:
    return {
        "raised": type(error).__name__,
        "place": _find_place(error, folder),
        "text": "".join(traceback.format_exception(error)) if debug else "",
    }


async def _wait_for(returned: Any) -> Any:
    return await returned


def _make_context(request: dict[str, Any]) -> SimpleNamespace:
    until = time.monotonic() + request["seconds"]
    left = {"get_remaining_time_in_millis": lambda: max(int((until - time.monotonic()) * 1000), 0)}
    return SimpleNamespace(**request["context"], **left)


class _NoJson(Exception):
    """A value has no JSON form; the text has its type."""


def _encode(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "replace")
    except ValueError:
        raise _NoJson("a value that contains itself") from None


# What Lambda's runtime for Python makes JSON of, besides JSON's own types.
def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise _NoJson(f"a {type(value).__name__}")


def _find_place(error: BaseException, folder: str) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(folder):
            return f"{file.relative_to(folder)}:{frame.lineno}"
    return ""


if __name__ == "__main__":
    try:
        main(socket.socket(fileno=int(sys.argv[1])))
    except OSError:  # nobody takes the answer: the other side has ended
        pass
    finally:
        # Python's own end would wait for the thread that reads, and for the handler's.
        os.killpg(0, signal.SIGKILL)
