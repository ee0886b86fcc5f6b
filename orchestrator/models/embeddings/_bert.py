"""A BERT encoder in numpy, for machines without onnxruntime: MiniLM's six layers, one text a time.

The weights are read from a safetensors file: eight bytes with the length of a JSON header, the
header, which says where each array lies, and the arrays. Nothing in it can be code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.models.embeddings.base import numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["Bert", "read_safetensors"]

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12

# The error function to 1.5e-7 (Abramowitz and Stegun 7.1.26): numpy has none.
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_P = 0.3275911


def read_safetensors(file: Path) -> dict[str, Array]:
    """The float32 arrays of a safetensors file by name; those of other types are left out.

    Raises:
        ValueError: It is no such file.
    """
    np = numpy()
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    if not 8 < start <= len(data):
        raise ValueError(f"{file.name} has no header")
    header: dict[str, Any] = json.loads(data[8:start])
    arrays = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, last = entry["data_offsets"]
            flat = np.frombuffer(data, "<f4", (last - first) // 4, start + first)
            arrays[name] = flat.reshape(entry["shape"])
    return arrays


class Bert:
    """The encoder; its weights are only read, so many threads may use it at once."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        """Takes the arrays of `read_safetensors`, under BERT's own names.

        Raises:
            KeyError: One is missing.
        """
        self._np = numpy()
        self._words = arrays["embeddings.word_embeddings.weight"]
        positions = arrays["embeddings.position_embeddings.weight"]
        self._places = positions + arrays["embeddings.token_type_embeddings.weight"][0]
        self._norm = _norm_of(arrays, "embeddings")
        self._layers = [_Layer(arrays, f"encoder.layer.{n}.") for n in range(_LAYERS)]

    def encode(self, ids: list[int]) -> Array:
        """The last layer's state of every word piece: shape (len(ids), 384)."""
        state = _normalise(self._np, self._words[ids] + self._places[: len(ids)], self._norm)
        for layer in self._layers:
            state = layer.run(self._np, state)
        return state


class _Layer:
    def __init__(self, arrays: dict[str, Array], prefix: str) -> None:
        def dense(name: str) -> tuple[Array, Array]:
            # The file has (out, in); a matrix product from the left wants (in, out).
            return arrays[f"{prefix}{name}.weight"].T, arrays[f"{prefix}{name}.bias"]

        self.query = dense("attention.self.query")
        self.key = dense("attention.self.key")
        self.value = dense("attention.self.value")
        self.mixed = dense("attention.output.dense")
        self.mixed_norm = _norm_of(arrays, f"{prefix}attention.output")
        self.wide = dense("intermediate.dense")
        self.narrow = dense("output.dense")
        self.norm = _norm_of(arrays, f"{prefix}output")

    def run(self, np: Any, state: Array) -> Array:
        seen = self._attention(np, state)
        state = _normalise(np, state + _dense(seen, self.mixed), self.mixed_norm)
        wide = _gelu(np, _dense(state, self.wide))
        return _normalise(np, state + _dense(wide, self.narrow), self.norm)

    def _attention(self, np: Any, state: Array) -> Array:
        count, size = state.shape
        shape = (count, _HEADS, size // _HEADS)
        query, key, value = (
            _dense(state, one).reshape(shape).transpose(1, 0, 2)
            for one in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32((size // _HEADS) ** 0.5)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        seen: Array = (scores @ value).transpose(1, 0, 2).reshape(count, size)
        return seen


def _dense(state: Array, weights: tuple[Array, Array]) -> Array:
    product: Array = state @ weights[0] + weights[1]
    return product


def _norm_of(arrays: dict[str, Array], name: str) -> tuple[Array, Array]:
    return arrays[f"{name}.LayerNorm.weight"], arrays[f"{name}.LayerNorm.bias"]


def _normalise(np: Any, state: Array, norm: tuple[Array, Array]) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    made: Array = centred / spread * norm[0] + norm[1]
    return made


def _gelu(np: Any, x: Array) -> Array:
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(_ERF_P) * z)
    series = np.zeros_like(t)
    for factor in reversed(_ERF):
        series = (series + np.float32(factor)) * t
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    made: Array = np.float32(0.5) * x * (1 + erf)
    return made
