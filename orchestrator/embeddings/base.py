"""The embedding seam: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Embedder"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Safe for many threads at once.

    Attributes:
        id: Names the model and its version; an index that was made with another id is made anew.
        dimensions: The length of a vector.
    """

    id: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`: an array of shape (len(texts), dimensions), rows of length 1.

        Raises:
            DependencyFailed: The model cannot be had, or failed.
        """
        ...
