"""The embedding seam: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from orchestrator.errors import DependencyFailed, ModelNotReady, ValidationError
from orchestrator.message import clean
from orchestrator.support.lazy_imports import describe_missing_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Safe for many threads at once.

    Attributes:
        id: Names the model and its version; an index made with another id is made again.
        dimensions: The length of a vector; 0 until a server's model has sent its first vectors.
    """

    id: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`: an array of shape (len(texts), dimensions), rows of length 1.

        Raises:
            ValidationError: `texts` is not a list of texts, or the model refuses one, as too long.
            DependencyFailed: The model cannot be had, failed, or sent no vectors; its subclasses
                say why (`AccessDenied`, `ThrottlingError`, `ModelNotReady`).
        """
        ...


def import_dependency(module: str) -> Any:
    """Imports a library that only embeddings need; `ModelNotReady` says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise ModelNotReady(
            describe_missing_extra("embeddings need", "knowledge", module)
        ) from None


def check_texts(texts: Sequence[str]) -> list[str]:
    """`texts` as a list of nothing but texts; half a surrogate pair in them becomes U+FFFD."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValidationError("embed takes a list of texts: embed([text]) for a single one")
    return [clean(text) for text in texts]


def unit_rows(rows: Any, count: int, embedder: Embedder) -> NDArray[np.float32]:
    """The vectors of an embedder's model as an array whose rows have length 1.

    Raises:
        DependencyFailed: There are not `count` vectors, or they differ in length or are not finite.
    """
    lib = import_dependency("numpy")
    if not count:
        return cast("NDArray[np.float32]", lib.zeros((0, embedder.dimensions), lib.float32))
    reason = None
    try:
        array = lib.asarray(rows, dtype=lib.float32)
        if array.ndim == 2 and len(array) == count and lib.isfinite(array).all():
            lengths = lib.linalg.norm(array, axis=1, keepdims=True)
            return cast("NDArray[np.float32]", array / lib.maximum(lengths, lib.float32(1e-12)))
    except (TypeError, ValueError) as error:
        reason = error
    raise DependencyFailed(
        f"the embedding model {embedder.id!r} answered with something that is not one vector a "
        "text; check that it is an embedding model",
        resource=embedder.id,
    ) from reason
