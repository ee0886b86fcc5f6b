"""The embedded runtime: llama.cpp inside this process, one loaded model per file.

The runtime opens a port on the loopback interface for itself; it gets a random key and all
that can be switched off is, so nothing but a health check answers there. Requests go through
function calls, not through that port.
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from collections.abc import Generator
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from orchestrator.errors import DependencyFailed, ModelNotReady
from orchestrator.models.gguf import ChatFormat, chat_format
from orchestrator.models.weights import Progress
from orchestrator.support.lazy_imports import describe_missing_extra

_KEPT_PROMPTS_MIB = 512
# Prompt tokens between two looks at whether the caller still wants the reply.
_BATCH = 256


class Settings(NamedTuple):
    """How a model is loaded."""

    context: int = 8192  # tokens of prompt and reply together
    threads: int = 0  # threads that generate; 0 chooses by the number of cores
    batch_threads: int = 0  # threads that read the prompt; 0 chooses as well


class Runtime:
    """One loaded model. Safe for many threads: requests wait in a queue and run one by one.

    That is what makes the prefix cache work: a request goes on from the prompt that was evaluated
    last, or from an older one that is still in memory. `chat` is how its chats are written.
    """

    def __init__(self, file: Path, settings: Settings, progress: Progress | None = None) -> None:
        self.chat: ChatFormat = chat_format(file)
        if progress is not None:
            _read_ahead(file, progress)
        self._server = _load_server(file, settings)

    def generate(self, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        """Yields the chunks of one completion as they come; closing it stops the work.

        `body` is the completion request, as llama.cpp's server takes it, without `stream`.
        """
        chunks: SimpleQueue[Any] = SimpleQueue()
        stopped = threading.Event()

        def take(chunk: dict[str, Any]) -> bool:
            chunks.put(chunk)
            return stopped.is_set()

        def work() -> None:
            try:
                self._server.handle_completions({**body, "stream": True}, take)
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


_loaded: dict[tuple[Path, Settings], Runtime] = {}
_lock = threading.Lock()


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


def _load_server(file: Path, settings: Settings) -> Any:
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
    # Generation waits for memory: on two cores a second thread gains nothing. Reading a prompt is
    # arithmetic and takes all cores that it gets.
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    options.cpuparams.n_threads = settings.threads or max(1, min(cores // 2, 8))
    options.cpuparams_batch.n_threads = settings.batch_threads or max(1, min(cores, 16))
    options.cache_ram_mib = _KEPT_PROMPTS_MIB
    options.fit_params = options.warmup = False
    options.api_keys = [secrets.token_hex(32)]
    options.ui = options.endpoint_slots = False
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
