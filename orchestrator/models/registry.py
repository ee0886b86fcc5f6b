"""The providers of models: one row a scheme, in one table for chat models and one for embedders.

The text `openai:llama3.2@http://127.0.0.1:11434/v1` has the scheme `openai`; what follows the colon
is the *rest*. A text without a scheme of the table belongs to the row `""`.

To add a provider, write its module and add a row. The module has `build_model(rest, folder)` in
the one table and `build_embedder(rest, folder)` in the other; both return `None` for a rest that
names no model of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models.base import Model
from orchestrator.models.embeddings.base import Embedder
from orchestrator.support.spelling import find_close


class Provider(NamedTuple):
    """One row."""

    module: str  # the provider's module, imported when the first spec names it
    form: str  # how a spec is written, for messages
    needs_rest: bool = True  # whether the scheme alone names nothing
    # Whether a spec may name a file; the module then has `file_of_spec(rest, folder)`
    has_files: bool = False


MODELS: dict[str, Provider] = {
    "": Provider(
        "orchestrator.models.bedrock", "a Bedrock model id, inference profile or ARN", False
    ),
    "openai": Provider("orchestrator.models.openai", "'openai:<model>@<base url>'"),
    "local": Provider(
        "orchestrator.models.local",
        "'local' or 'local:<name or path of a GGUF file>'",
        needs_rest=False,
        has_files=True,
    ),
    "scripted": Provider(
        "orchestrator.models.scripted_model",
        "'scripted:<file.jsonl>' or 'scripted:<file.jsonl>@<model id>'",
        has_files=True,
    ),
    "replay": Provider("orchestrator.models.recording", "'replay:<file.jsonl>'", has_files=True),
}
"""The providers of models that answer, by scheme."""

_MINILM = Provider(
    "orchestrator.models.embeddings.minilm", "'local' (the embedded all-MiniLM-L6-v2)", False
)
EMBEDDERS: dict[str, Provider] = {
    "local": _MINILM,
    "minilm": _MINILM,
    "all-minilm-l6-v2": _MINILM,
    "openai": Provider("orchestrator.models.embeddings.openai", "'openai:<model>@<base url>'"),
    "": Provider(
        "orchestrator.models.embeddings.bedrock",
        "the id or ARN of a Titan or Cohere embedding model of Bedrock, as "
        "'amazon.titan-embed-text-v2:0'",
        False,
    ),
}
"""The providers of models that embed texts, by scheme."""


def resolve_model(spec: str | Model, *, folder: str | Path = ".") -> Model:
    """The model that `spec` names. Nothing is connected, loaded or imported from boto3 yet.

    Args:
        spec: A model, which is returned as it is; a Bedrock model id, inference-profile id or ARN;
            `"openai:<model>@<base url>"` (without a base url: OpenAI's own); `"local"` or
            `"local:<name or path of a GGUF file>"`; `"scripted:<file.jsonl>"`, one JSON reply a
            line, with `"@<model id>"` at its end in the dialect of that model;
            `"replay:<file.jsonl>"`, what `RecordingModel` wrote.
        folder: What relative paths of files are relative to.

    Raises:
        ValidationError: `spec` is not of one of these forms.
        ResourceNotFound: It names a model or file that does not exist.
    """
    if isinstance(spec, Model):
        if not isinstance(getattr(spec, "model_id", None), str):
            raise ValidationError(
                f"the model of the class {type(spec).__name__!r} has no text as its model_id; "
                "set one, which chooses the dialect of its prompts"
            )
        return spec
    if not isinstance(spec, str) or not spec.strip():
        raise ValidationError(f"{spec!r} is not a model: give {_list_forms(MODELS)}")
    spec = spec.strip()
    model: Model | None = _build(MODELS, "build_model", spec, Path(folder))
    if model is not None:
        return model
    raise ResourceNotFound(
        f"there is no model {spec!r}; {_suggest_model(spec)} {_list_forms(MODELS)}"
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
        raise ValidationError(f"{spec!r} is not an embedder: give {_list_forms(EMBEDDERS)}")
    embedder: Embedder | None = _build(EMBEDDERS, "build_embedder", spec.strip(), Path())
    if embedder is None:
        raise ResourceNotFound(
            f"there is no embedding model {spec!r}; give {_list_forms(EMBEDDERS)}"
        )
    return embedder


def file_of_model(spec: str, *, folder: str | Path = ".") -> str:
    """The file that a model's spec names, as for `resolve_model`; empty when it names none."""
    provider, _, rest = _find_provider(MODELS, spec.strip())
    if not provider.has_files:
        return ""
    file: str = import_module(provider.module).file_of_spec(rest, Path(folder))
    return file


def _build(table: Mapping[str, Provider], function: str, spec: str, folder: Path) -> Any:
    provider, scheme, rest = _find_provider(table, spec)
    if provider.needs_rest and not rest:
        raise ValidationError(
            f"the model spec {scheme + ':'!r} lacks its second half: {_list_forms(table)}"
        )
    return getattr(import_module(provider.module), function)(rest, folder)


def _find_provider(table: Mapping[str, Provider], spec: str) -> tuple[Provider, str, str]:
    scheme, _, rest = spec.partition(":")
    if scheme and scheme in table:
        return table[scheme], scheme, rest
    return table[""], "", spec


def _list_forms(table: Mapping[str, Provider]) -> str:
    return "; ".join(dict.fromkeys(provider.form for provider in table.values()))


def _suggest_model(spec: str) -> str:
    # Names of OpenAI's models and of files are what people write without a scheme.
    scheme, colon, rest = spec.partition(":")
    close = find_close(scheme.lower(), filter(None, MODELS))
    meant = close + colon + rest if close else ""
    if spec.lower().startswith(("gpt-", "o1", "o3", "o4")):
        meant = f"openai:{spec}"
    elif spec.endswith((".gguf", ".jsonl")):
        meant = f"{'local' if spec.endswith('.gguf') else 'replay'}:{spec}"
    return f"did you mean {meant!r}? A model is" if meant else "give"
