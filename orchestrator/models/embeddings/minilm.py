"""The embedded default: all-MiniLM-L6-v2, in this process, on the CPU, without a network.

It runs 8-bit weights in onnxruntime or, without onnxruntime, the publisher's own in numpy, which
takes about three times as long; both give the same vectors, up to a cosine of 0.999 (0.996 for
texts of one word).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.errors import DependencyFailed, ModelNotReady, ValidationError
from orchestrator.models import weights
from orchestrator.models.embeddings.base import check_texts, import_dependency, numpy, unit_rows
from orchestrator.models.weights import EMBEDDING, Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MAX_PIECES", "MiniLM"]

_log = logging.getLogger(__name__)

MAX_PIECES = 256
"""Word pieces of a text that count, with the two marks around it: as many as the model is made for.
"""

_FULL_PRECISION = f"{EMBEDDING}-fp32"
_RUNTIMES = ("auto", "onnx", "numpy")
_FEW = 4  # texts that are not worth threads


class _Engine(NamedTuple):
    tokenizer: Any
    run: Callable[[list[int]], Any]
    threads: int


_engines: dict[Path, _Engine] = {}
_lock = Lock()


class MiniLM:
    """Sentence vectors of all-MiniLM-L6-v2: the mean of the last layer, of length 1.

    It reads English, and at most `MAX_PIECES` word pieces of a text (some 180 words): **what comes
    after them does not count**, which is logged as a warning. Cutting long texts into passages is
    the caller's part; `count` says how long they are. Each text is run by itself, so its vector
    does not depend on the texts beside it; several are run in several threads.

    Nothing is downloaded: without its weights a call raises `ModelNotReady`, which says how to get
    them (`orchestrator models pull minilm`). Instances share one loaded model.

    Attributes:
        id: The same for both runtimes, whose vectors can be compared.
        dimensions: 384.
    """

    id = EMBEDDING
    dimensions = 384

    def __init__(
        self, *, runtime: str = "auto", threads: int = 0, progress: Progress | None = None
    ) -> None:
        """Names the model; it is loaded at the first call, or by `load`.

        Args:
            runtime: `"onnx"`, `"numpy"`, or `"auto"`: onnxruntime when it and its weights are
                here, else numpy when its weights are.
            threads: Texts that are run at once; 0 means one a core, at most four.
            progress: Told how far a first verification of the weights is.

        Raises:
            ValidationError: There is no such runtime.
        """
        if runtime not in _RUNTIMES:
            raise ValidationError(f"{runtime!r} is no runtime: 'auto', 'onnx' or 'numpy'")
        self._runtime = runtime
        self._threads = threads or min(os.cpu_count() or 1, 4)
        self._progress = progress
        self._engine: _Engine | None = None

    def load(self) -> None:
        """Loads the model now.

        Raises:
            ModelNotReady: The weights are not downloaded, or a library is not installed.
            DependencyFailed: The model cannot be loaded.
        """
        self._get_engine()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`: shape (len(texts), 384), rows of length 1.

        Raises:
            ValidationError: `texts` is not a list of texts.
            ModelNotReady: The weights are not downloaded, or a library is not installed.
            DependencyFailed: The runtime failed.
        """
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
        if not encoded:
            empty: NDArray[np.float32] = numpy().zeros((0, self.dimensions), "float32")
            return empty
        return unit_rows(self._run(engine, [one.ids for one in encoded]), len(encoded), self.id)

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many word pieces each text has, with the two marks; `MAX_PIECES` of them count.

        Raises:
            ValidationError: `texts` is not a list of texts.
            ModelNotReady: The weights are not downloaded, or a library is not installed.
        """
        _, encoded = self._encode(texts)
        # An overflowing part has the two marks again.
        return [
            len(one.ids) + sum(len(more.ids) - 2 for more in one.overflowing) for one in encoded
        ]

    def _encode(self, texts: Sequence[str]) -> tuple[_Engine, list[Any]]:
        engine = self._get_engine()
        return engine, [engine.tokenizer.encode(text) for text in check_texts(texts)]

    def _run(self, engine: _Engine, ids: list[list[int]]) -> list[Any]:
        workers = min(self._threads, engine.threads)
        if len(ids) < _FEW or workers == 1:
            return [engine.run(one) for one in ids]
        with ThreadPoolExecutor(workers, "orchestrator-embedding") as pool:
            return list(pool.map(engine.run, ids))

    def _get_engine(self) -> _Engine:
        if self._engine is None:
            onnx = self._is_onnx()
            file = weights.path(EMBEDDING if onnx else _FULL_PRECISION, self._progress)
            with _lock:
                if file not in _engines:
                    _engines[file] = _load(file, _onnx_run if onnx else _numpy_run)
                self._engine = _engines[file]
        return self._engine

    def _is_onnx(self) -> bool:
        if self._runtime != "auto":
            return self._runtime == "onnx"
        here = {one.weights.name for one in weights.available() if one.path is not None}
        if _is_installed("onnxruntime"):
            return EMBEDDING in here or _FULL_PRECISION not in here
        if _FULL_PRECISION not in here:
            raise ModelNotReady(
                "the embedding model needs onnxruntime: pip install "
                "'bedrock-orchestrator[knowledge]'; where it cannot be installed, run "
                f"`orchestrator models pull {_FULL_PRECISION}` for weights that run without it"
            )
        return False


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # somebody put a stand-in there, or `None` to forbid it
        return False


def _load(file: Path, runner: Callable[[Path], Callable[[list[int]], Any]]) -> _Engine:
    made, run = import_dependency("tokenizers").Tokenizer, runner(file)
    try:
        tokenizer = made.from_file(str(file.with_name("tokenizer.json")))
    except Exception as error:  # the library has no class of its own
        raise _build_failure("cannot be loaded", error) from error
    # The publisher's file cuts at 128 and fills up to it; the model was made for 256.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_PIECES)
    return _Engine(tokenizer, run, 1 if runner is _numpy_run else 64)


def _onnx_run(file: Path) -> Callable[[list[int]], Any]:
    np, onnxruntime = numpy(), import_dependency("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # texts run side by side instead
    options.enable_cpu_mem_arena = False  # it would keep room for the longest text for good
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its classes have no base of their own
        raise _build_failure("cannot be loaded", error) from error

    def run(ids: list[int]) -> Any:
        row = np.array([ids], np.int64)
        given = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        try:
            (states,) = session.run(None, given)
        except Exception as error:
            raise _build_failure("failed", error) from error
        return states[0].mean(axis=0)

    return run


def _numpy_run(file: Path) -> Callable[[list[int]], Any]:
    from orchestrator.models.embeddings._bert import Bert, read_safetensors

    try:
        bert = Bert(read_safetensors(file))
    except (KeyError, ValueError) as error:
        raise _build_failure("cannot be loaded", error) from error
    return lambda ids: bert.encode(ids).mean(axis=0)


def _build_failure(what: str, error: Exception) -> DependencyFailed:
    return DependencyFailed(
        f"the embedding model {EMBEDDING!r} {what}: {str(error)[:200]}; run "
        f"`orchestrator models remove {EMBEDDING}` and `orchestrator models pull {EMBEDDING}`",
        resource=EMBEDDING,
    )
