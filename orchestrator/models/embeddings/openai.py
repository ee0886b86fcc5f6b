"""Embedding models behind OpenAI's protocol: OpenAI, Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed
from orchestrator.models._encoding import decode, encode
from orchestrator.models.base import ModelRequest
from orchestrator.models.embeddings.base import check_texts, unit_rows
from orchestrator.models.openai import OPENAI, OpenAIModel, split_address

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DIMENSIONS = {
    "text-embedding-3-large": 3072,
    "text-embedding-3-small": 1536,
    "text-embedding-ada-002": 1536,
}

# One request's answer: the longest vectors of today, of 8,192 numbers, are 200,000 bytes as JSON.
_VECTOR_BYTES = 400_000
_REPLY_BYTES = 1_000_000
_SECONDS = 600.0


class OpenAIEmbedder:
    """An embedding model of an OpenAI-compatible server, at `<base url>/embeddings`.

    Key, connections, time-outs and retries are those of `OpenAIModel`. A text that is longer than
    the model can read is refused by OpenAI's own service; other servers may cut it without a word.

    Attributes:
        id: `openai:<model>`, with the number of dimensions when one was asked for.
        dimensions: As named or known; otherwise 0 until the first vectors have come.
    """

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI,
        *,
        dimensions: int = 0,
        api_key: str | None = None,
        batch: int = 64,
        connect_timeout: float = 10.0,
        read_timeout: float = 120.0,
        max_attempts: int = 5,
    ) -> None:
        """Makes the embedder; nothing is imported or sent yet.

        Args:
            model: The model's name at the server.
            base_url: Where `/embeddings` is found, as `http://127.0.0.1:11434/v1`.
            dimensions: A shorter vector to ask for, where the model has such; 0 takes its own.
            api_key: The key to send; by default the environment's `OPENAI_API_KEY`, which is sent
                over https and to this machine only.
            batch: Texts of one request.
            connect_timeout: Seconds to wait for a connection.
            read_timeout: Seconds to wait for the next bytes.
            max_attempts: Tries of one request.

        Raises:
            ValidationError: `base_url` is not an http or https address.
        """
        self.id = f"openai:{model}:{dimensions}" if dimensions else f"openai:{model}"
        self.dimensions = dimensions or _DIMENSIONS.get(model, 0)
        self._asked = {"dimensions": dimensions} if dimensions else {}
        self._batch = batch
        self._server = _Server(
            model,
            base_url,
            api_key=api_key,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            max_attempts=max_attempts,
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of `texts`; see `Embedder.embed`."""
        inputs = check_texts(texts)
        rows: list[Any] = []
        for start in range(0, len(inputs), self._batch):
            # Several servers refuse an empty text; a blank means as little.
            some = [text or " " for text in inputs[start : start + self._batch]]
            rows += self._server.vectors(some, self._asked)
        vectors = unit_rows(rows, len(inputs), self)
        self.dimensions = vectors.shape[1]
        return vectors


class _Server(OpenAIModel):
    """The same server, asked at another address: what HTTP needs is all in `OpenAIModel`."""

    def __init__(self, model: str, base_url: str, **options: Any) -> None:
        super().__init__(model, base_url, **options)
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._reply_seconds = _SECONDS

    def vectors(self, texts: list[str], options: dict[str, Any]) -> list[Any]:
        """The vectors of one batch, in the order of the texts."""
        # Each vector has the index of its text: the protocol does not promise their order.
        request = ModelRequest(
            *("", "", ()),
            additional={"input": texts, **options},
            reply_bytes=_REPLY_BYTES + _VECTOR_BYTES * len(texts),
        )
        try:
            data = decode(self._ask(request))["data"]
            found = [one["embedding"] for one in sorted(data, key=lambda one: one["index"])]
            if len(found) == len(texts):
                return found
        except (KeyError, TypeError, ValueError):
            pass
        raise DependencyFailed(
            f"the server of the embedding model {self.model_id!r} answered with something that is "
            "no list of embeddings; check the base url (it usually ends in /v1)",
            resource=self.model_id,
        )

    def _body(self, request: ModelRequest, stream: bool, refused: frozenset[str]) -> bytes:
        members = {"model": self._model, **request.additional}
        return encode(members).encode("utf-8")


def build_embedder(rest: str, folder: Path) -> OpenAIEmbedder:
    """The embedder of a spec `openai:<rest>`."""
    return OpenAIEmbedder(*split_address(rest))
