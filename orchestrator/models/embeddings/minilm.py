"""The embedded default: all-MiniLM-L6-v2 with 8-bit weights, in onnxruntime on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.errors import DependencyFailed
from orchestrator.models import weights
from orchestrator.models.embeddings.base import check_texts, import_dependency, unit_rows
from orchestrator.models.weights import EMBEDDING, Progress
from orchestrator.support.forks import ForkSafeLock
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = get_logger(__name__)

# Word pieces of a text that count, with the two marks around it: as many as the model is made for.
MAX_PIECES = 256

_FEW = 4  # texts that are not worth threads


class _Engine(NamedTuple):
    tokenizer: Any
    run: Callable[[list[int]], Any]


_engines: dict[Path, _Engine] = {}
_lock = ForkSafeLock()


class MiniLM:
    """Sentence vectors of all-MiniLM-L6-v2: the mean of the last layer, of length 1.

    It reads English, and at most `MAX_PIECES` word pieces of a text (some 180 words): **the rest
    does not count**, which is logged as a warning. Cut long texts into passages; `count` measures
    them. Each text is run by itself, so its vector does not depend on the texts beside it.

    Nothing is downloaded: without its weights a call raises `ModelNotReady`, which says how to get
    them (`orchestrator models pull minilm`). Instances share one loaded model.

    Attributes:
        id: `"all-minilm-l6-v2"`.
        dimensions: 384.
    """

    id = EMBEDDING
    dimensions = 384

    def __init__(self, *, threads: int = 0, progress: Progress | None = None) -> None:
        """Names the model; it is loaded at the first call, or by `load`.

        Args:
            threads: Texts that are run at once; 0 means one a core, at most four.
            progress: Called while the weights are verified for the first time.
        """
        self._threads = threads or min(os.cpu_count() or 1, 4)
        self._progress = progress
        self._engine: _Engine | None = None

    def load(self) -> None:
        """Loads the model now.

        Raises:
            ModelNotReady: The weights are not downloaded, or a library is not installed.
        """
        self._get_engine()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`; see `Embedder.embed`."""
        engine, encoded = self._encode(texts)
        cut = sum(bool(one.overflowing) for one in encoded)
        if cut:
            _log.warning(
                "%d of %d texts are longer than %d word pieces: what comes after them does not "
                "count in their vectors; cut such texts into passages",
                cut,
                len(encoded),
                MAX_PIECES,
            )
        ids = [one.ids for one in encoded]
        if len(ids) < _FEW or self._threads == 1:
            return unit_rows([engine.run(one) for one in ids], len(ids), self)
        with ThreadPoolExecutor(self._threads, "orchestrator-embedding") as pool:
            return unit_rows(list(pool.map(engine.run, ids)), len(ids), self)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many word pieces each text has, with the two marks; `MAX_PIECES` of them count."""
        _, encoded = self._encode(texts)
        # An overflowing part has the two marks again.
        return [
            len(one.ids) + sum(len(more.ids) - 2 for more in one.overflowing) for one in encoded
        ]

    def _encode(self, texts: Sequence[str]) -> tuple[_Engine, list[Any]]:
        engine = self._get_engine()
        return engine, [engine.tokenizer.encode(text) for text in check_texts(texts)]

    def _get_engine(self) -> _Engine:
        if self._engine is None:
            file = weights.path(EMBEDDING, self._progress)
            with _lock:
                if file not in _engines:
                    _engines[file] = _load(file)
                self._engine = _engines[file]
        return self._engine


def _load(file: Path) -> _Engine:
    tokenizers, run = import_dependency("tokenizers"), _load_session(file)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file.with_name("tokenizer.json")))
    except Exception as error:  # the library has no exception class
        raise _build_failure("cannot be loaded", error) from error
    # The publisher's file cuts at 128 and fills up to it; the model was made for 256.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_PIECES)
    return _Engine(tokenizer, run)


def _load_session(file: Path) -> Callable[[list[int]], Any]:
    # From 1.29 on the library reports sessions to its maker, and keeps an id of the machine; it
    # decides that when it is imported (Privacy.md in its wheel).
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    np, onnxruntime = import_dependency("numpy"), import_dependency("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # texts run side by side instead
    options.enable_cpu_mem_arena = False  # it would keep room for the longest text for good
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its classes have no common base
        raise _build_failure("cannot be loaded", error) from error

    def run(ids: list[int]) -> Any:
        row = np.array([ids], np.int64)
        inputs = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        try:
            (states,) = session.run(None, inputs)
        except Exception as error:
            raise _build_failure("failed", error) from error
        return states[0].mean(axis=0)

    return run


def _build_failure(what: str, error: Exception) -> DependencyFailed:
    return DependencyFailed(
        f"the embedding model {EMBEDDING!r} {what}: {str(error)[:200]}; run "
        f"`orchestrator models remove {EMBEDDING}` and `orchestrator models pull {EMBEDDING}`",
        resource=EMBEDDING,
    )


def build_embedder(rest: str, folder: Path) -> MiniLM | None:
    """The embedder of a spec `local:<rest>`; `None` when `rest` is another model's name."""
    return MiniLM() if not rest or rest in ("minilm", EMBEDDING) else None
