"""From a text that names an embedding model to the embedder."""

from __future__ import annotations

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models import weights
from orchestrator.models.embeddings.base import Embedder

__all__ = ["resolve_embedder"]

_SPECS = (
    "'local' (the embedded all-MiniLM-L6-v2); 'openai:<model>@<base url>'; or the id or ARN of a "
    "Titan or Cohere embedding model of Bedrock, as 'amazon.titan-embed-text-v2:0'"
)


def resolve_embedder(spec: str | Embedder) -> Embedder:
    """The embedder that `spec` names. Nothing is connected, loaded or downloaded yet.

    Args:
        spec: An embedder, which is returned as it is; `"local"` or `"minilm"`, the embedded model;
            `"openai:<model>@<base url>"` (without a base url: OpenAI's own); a Bedrock model id,
            inference-profile id or ARN of a Titan or Cohere text embedding model.

    Raises:
        ValidationError: `spec` is neither a text nor an embedder, or half of it is missing.
        ResourceNotFound: It names no embedding model that is known here.
    """
    if not isinstance(spec, str):
        if callable(getattr(spec, "embed", None)):
            return spec
        raise ValidationError(f"{spec!r} is not an embedder: give {_SPECS}")
    name = spec.strip()
    scheme, _, rest = name.partition(":")
    if scheme == "openai":
        return _build_openai(rest)
    if _is_embedded(scheme, rest):
        from orchestrator.models.embeddings.minilm import MiniLM

        return MiniLM(runtime="numpy" if name.endswith("-fp32") else "auto")
    from orchestrator.models.embeddings.bedrock import BedrockEmbedder, is_embedding_model

    if is_embedding_model(name):
        return BedrockEmbedder(name)
    raise ResourceNotFound(f"there is no embedding model {spec!r}; give {_SPECS}")


def _is_embedded(scheme: str, rest: str) -> bool:
    if scheme == "local" and not rest:
        return True
    try:
        return weights.find(rest if scheme == "local" else scheme).kind == "embedding"
    except ResourceNotFound:
        return False


def _build_openai(rest: str) -> Embedder:
    from orchestrator.models.embeddings.openai import OpenAIEmbedder

    model, at, base_url = rest.partition("@http")
    if not model or (not at and "@" in rest):
        raise ValidationError(
            f"'openai:{rest}' has to name a model and then, after an @, an address, as in "
            "'openai:nomic-embed-text@http://127.0.0.1:11434/v1'"
        )
    return OpenAIEmbedder(model, f"http{base_url}") if at else OpenAIEmbedder(model)
