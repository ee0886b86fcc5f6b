"""The embedded runtime: llama.cpp inside this process, one loaded model per file.

The runtime opens a port on the loopback interface for itself; it gets a random key and all
that can be switched off is, so nothing but a health check answers there without the key. Requests
go through function calls; only the states of prompts are written and loaded through that port,
because the runtime has no function for it.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import secrets
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from orchestrator.errors import DependencyFailed, ModelNotReady
from orchestrator.models.gguf import ChatFormat, Piece, chat_format
from orchestrator.models.prompt_beginnings import Beginnings, Reading
from orchestrator.models.prompt_states import PromptStates
from orchestrator.models.weights import Progress, identify
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.lazy_imports import describe_missing_extra

_KEPT_PROMPTS_MIB = 512
# Prompt tokens between two looks at whether the caller still wants the reply, and between two
# signs of progress: two cores read some 75 a second. The CPU time of 512 tokens is the same with
# 64 and 256 (measured), and a quarter more with 32.
_BATCH = 64
# For a state of some 40 MB, which takes milliseconds.
_SLOT_SECONDS = 60.0


class Settings(NamedTuple):
    """How a model is loaded."""

    context: int = 8192  # tokens of prompt and reply together
    threads: int = 0  # threads that generate; 0 chooses by the number of cores
    batch_threads: int = 0  # threads that read the prompt; 0 chooses as well


class Runtime:
    """One loaded model. Safe for many threads: requests wait in a queue and run one by one.

    That is what makes the prefix cache work: a request goes on from the prompt that was evaluated
    last, or from an older one that is still in memory. `chat` is how its chats are written, and
    `beginnings` what it has of prompts' beginnings.
    """

    def __init__(self, file: Path, settings: Settings, progress: Progress | None = None) -> None:
        self.chat: ChatFormat = chat_format(file)
        if progress is not None:
            _read_ahead(file, progress)
        states = PromptStates()
        self._key = secrets.token_hex(32)
        self._keeps_states = states.open()
        self._server = _load_server(
            file, settings, self._key, states.folder if self._keeps_states else None
        )
        # Whoever holds it has the runtime to himself: what a state is saved of is what was read.
        self._busy = threading.Lock()
        self._used = False
        self.beginnings = Beginnings(self, states, _identify(file, settings))

    def generate(
        self,
        body: dict[str, Any],
        then: Callable[[], None] | None = None,
        is_enough: Callable[[dict[str, Any]], bool] | None = None,
    ) -> Generator[dict[str, Any], None, None]:
        """Yields the chunks of one completion as they come; closing it stops the work.

        `body` is the completion request, as llama.cpp's server takes it, without `stream`. `then`
        is called after the last chunk of a completion that was not stopped and did not fail, before
        another one can begin. `is_enough` says of each chunk whether it is the last one that is
        wanted; the thread that decodes calls it, so that little is decoded after it.
        """
        chunks: SimpleQueue[Any] = SimpleQueue()
        stopped = threading.Event()
        failed = False

        def take(chunk: dict[str, Any]) -> bool:
            nonlocal failed
            failed |= "error" in chunk
            chunks.put(chunk)
            return stopped.is_set() or (is_enough is not None and is_enough(chunk))

        def work() -> None:
            try:
                with self._busy:
                    self._complete(body, take)
                    if then is not None and not failed and not stopped.is_set():
                        then()
                chunks.put(None)
            except BaseException as error:  # handed to the waiting thread, which raises it
                chunks.put(error)

        # A separate thread, so that the waiting one can be interrupted.
        threading.Thread(target=work, name="orchestrator-llama").start()
        try:
            while (chunk := chunks.get()) is not None:
                if isinstance(chunk, BaseException):
                    raise DependencyFailed(f"the embedded runtime failed: {chunk}") from chunk
                yield chunk
        finally:
            stopped.set()

    def read(
        self, prompt: Sequence[Piece], reading: Reading | None, then: Callable[[], None]
    ) -> int:
        """Reads a prompt that others begin with; how many of its tokens had to be read.

        `then` is called when the slot holds this prompt and nothing else.
        """
        body = {"prompt": [*prompt], "max_tokens": 0, "return_progress": True}
        last: dict[str, Any] = {}
        with closing(self.generate(body, then if self._keeps_states else None)) as chunks:
            for last in chunks:
                report_reading(last, reading)
        return int(last.get("timings", {}).get("prompt_n", 0))

    def save(self, name: str) -> int:
        """Writes what the slot holds into a file of the states' folder; the tokens in it.

        Only the `then` of a completion may call it.

        Raises:
            OSError: The runtime cannot write it.
        """
        return self._ask_slot("save", name, "n_saved")

    def restore(self, name: str) -> int:
        """Has the slot hold what is in a file of the states' folder; the tokens in it.

        Raises:
            OSError: The runtime cannot load it.
        """
        with self._busy:
            if self._used:
                # A prompt that begins otherwise makes the runtime put the last one aside, where
                # its conversation finds it again; a restored one would overwrite it.
                self._complete({"prompt": [self.chat.head], "max_tokens": 0}, lambda _: False)
            return self._ask_slot("restore", name, "n_restored")

    def _complete(self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool]) -> None:
        self._used = True
        self._server.handle_completions({**body, "stream": True}, take)

    def _ask_slot(self, action: str, name: str, count: str) -> int:
        address = urlsplit(self._server.listening_address)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        # Not urllib: it would ask a proxy of the environment.
        connection = HTTPConnection(str(address.hostname), address.port, timeout=_SLOT_SECONDS)
        with closing(connection):
            path, body = f"/slots/0?action={action}", json.dumps({"filename": name})
            try:
                connection.request("POST", path, body, headers)
                reply = connection.getresponse()
                answer = json.loads(reply.read())
                return int(answer[count])
            except (HTTPException, ValueError, KeyError, TypeError) as error:
                raise OSError(f"the runtime did not {action} it") from error


def report_reading(chunk: dict[str, Any], reading: Reading | None) -> None:
    """Hands on what a chunk says of how much of the prompt was read, if it says so."""
    progress = chunk.get("prompt_progress")
    if reading is not None and progress is not None:
        cached = progress["cache"]
        reading(progress["processed"] - cached, progress["total"] - cached)


def _identify(file: Path, settings: Settings) -> list[Any]:
    from importlib.metadata import version

    # States keep what attention needs as 16-bit numbers, the runtime's default.
    runtime = ["xllamacpp", version("xllamacpp"), "f16", platform.machine()]
    return [identify(file), *runtime, settings.context]


_loaded: dict[tuple[Path, Settings], Runtime] = {}
_lock = ForkSafeLock()


def runtime(file: Path, settings: Settings, progress: Progress | None = None) -> Runtime:
    """The loaded model of `file`; loaded at the first call, then shared in the process.

    Raises:
        ValidationError: The file is not a model that can be used here.
        DependencyFailed: It cannot be loaded; `ModelNotReady`: the runtime is not installed.
    """
    key = (file.resolve(), settings)
    with _lock:
        if key not in _loaded:
            _loaded[key] = Runtime(key[0], settings, progress)
        return _loaded[key]


@atexit.register
def unload() -> None:
    """Frees all loaded models that are not in use."""
    with _lock:
        _loaded.clear()


def _load_server(file: Path, settings: Settings, key: str, states: Path | None) -> Any:
    # Spinning threads take the cores from everything else on the machine, generation included;
    # the runtime reads this when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import xllamacpp
    except ImportError as error:
        raise ModelNotReady(
            describe_missing_extra("the embedded model needs", "local", error.name),
            resource=file.name,
        ) from error
    options = xllamacpp.CommonParams()
    options.model.path = str(file)
    options.n_ctx = settings.context
    options.n_parallel = 1
    options.n_batch = options.n_ubatch = _BATCH
    # Reading a prompt is arithmetic and takes all cores that it gets. Generation waits for memory:
    # half of many cores are enough, of two the second one gains a tenth to a half (measured).
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    threads = max(min(cores, 2), min(cores // 2, 8))
    options.cpuparams.n_threads = settings.threads or threads
    options.cpuparams_batch.n_threads = settings.batch_threads or max(1, min(cores, 16))
    options.cache_ram_mib = _KEPT_PROMPTS_MIB
    options.fit_params = options.warmup = False
    options.api_keys = [key]
    options.ui = options.endpoint_slots = False
    if states is not None:
        options.endpoint_slots, options.slot_save_path = True, os.path.join(states, "")
    options.verbosity = -1
    try:
        return xllamacpp.Server(options)
    except RuntimeError as error:
        raise DependencyFailed(
            f"the model {file.name!r} cannot be loaded ({error}); is the file whole, and is there "
            f"memory for it ({file.stat().st_size // 10**6:,} MB and more)?",
            resource=file.name,
        ) from error


def _read_ahead(file: Path, progress: Progress) -> None:
    # Loading maps the file; reading it once before takes the same time and can be shown.
    size, done = file.stat().st_size, 0
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 24):
            done += len(chunk)
            progress(done, size, f"loading {file.name}")
