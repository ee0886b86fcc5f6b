"""From a text that names a model to the model."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.models.base import Model

__all__ = ["file_of_model", "resolve_model"]

_SPECS = (
    "a Bedrock model id, inference profile or ARN; 'openai:<model>@<base url>'; 'local' or "
    "'local:<name or path of a GGUF file>'; 'scripted:<file.jsonl>' or "
    "'scripted:<file.jsonl>@<model id>'; "
    "'replay:<file.jsonl>'"
)
_SCHEMES = ("local", "openai", "replay", "scripted")
_VENDORS = (
    "ai21",
    "amazon",
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "luma",
    "meta",
    "minimax",
    "mistral",
    "moonshot",
    "nvidia",
    "openai",
    "qwen",
    "stability",
    "twelvelabs",
    "writer",
)
_BEDROCK_ID = re.compile(
    r"(?:(?P<area>us|us-gov|eu|apac|jp|au|ca|sa|me|af|il|mx|global)\.)?"
    # No vendor's models are called like "4.1" or "gguf": those are names of other places.
    r"(?P<vendor>[a-z0-9-]+)\.(?!gguf$|jsonl$)[a-zA-Z][a-zA-Z0-9.:_-]*"
)
_ARN = re.compile(r"arn:aws[a-z-]*:(?:bedrock|sagemaker):[a-z0-9-]*:[0-9]*:\S+")


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
        return spec
    if not isinstance(spec, str) or not spec.strip():
        raise ValidationError(f"{spec!r} is not a model: give {_SPECS}")
    spec = spec.strip()
    scheme, _, rest = spec.partition(":")
    if scheme in _SCHEMES:
        return _build_for_scheme(scheme, rest, Path(folder))
    return _build_bedrock(spec)


def file_of_model(spec: str, *, folder: str | Path = ".") -> str:
    """The file that a model's text names; empty when it names none.

    Args:
        spec: As for `resolve_model`.
        folder: What relative paths of files are relative to.
    """
    scheme, _, rest = spec.strip().partition(":")
    if scheme == "local":
        return rest if _is_weights(rest) else ""
    if scheme == "replay":
        return rest
    return _script(rest, Path(folder))[0] if scheme == "scripted" else ""


def _build_for_scheme(scheme: str, rest: str, folder: Path) -> Model:
    if scheme == "local":
        return _build_local(rest, folder)
    if not rest:
        raise ValidationError(f"the model spec {scheme + ':'!r} lacks its second half: {_SPECS}")
    if scheme == "openai":
        return _build_openai(rest)
    if scheme == "scripted":
        return _build_scripted(rest, folder)
    from orchestrator.models.recorded import ReplayModel

    return ReplayModel(folder / rest)


def _build_scripted(rest: str, folder: Path) -> Model:
    from orchestrator.models.scripted import ScriptedModel

    file, model_id = _script(rest, folder)
    if model_id is None:
        return ScriptedModel.from_file(folder / file)
    if not model_id:
        raise ValidationError(f"'scripted:{rest}' names no model after the @: {_SPECS}")
    return ScriptedModel.from_file(folder / file, model_id)


def _script(rest: str, folder: Path) -> tuple[str, str | None]:
    """The file of a script, and the model after it."""
    file, at, model_id = rest.rpartition("@")
    if not at or (folder / rest).exists():  # a path may have an @, too
        return rest, None
    return file, model_id


def _build_local(name: str, folder: Path) -> Model:
    from orchestrator.models.local import LocalModel

    if _is_weights(name) and (folder / name).exists():
        name = str(folder / name)
    return LocalModel(name) if name else LocalModel()


def _is_weights(name: str) -> bool:
    """Whether a local model is named by its file."""
    return name.lower().endswith(".gguf")


def _build_openai(rest: str) -> Model:
    from orchestrator.models.openai import OPENAI, OpenAIModel

    model, at, base_url = rest.partition("@http")
    if not at and "@" in rest:
        raise ValidationError(
            f"the base url of 'openai:{rest}' has to begin with http:// or https://, as in "
            "'openai:llama3.2@http://127.0.0.1:11434/v1'"
        )
    if not model:
        raise ValidationError(f"'openai:{rest}' names no model: write 'openai:<model>@<base url>'")
    return OpenAIModel(model, f"http{base_url}" if at else OPENAI)


def _build_bedrock(spec: str) -> Model:
    from orchestrator.models.bedrock import BedrockModel

    if _ARN.fullmatch(spec):
        return BedrockModel(spec)
    found = _BEDROCK_ID.fullmatch(spec)
    if found is None:
        raise ResourceNotFound(f"there is no model {spec!r}{_hint(spec)}; give {_SPECS}")
    vendor = found["vendor"]
    close = get_close_matches(vendor, _VENDORS, 1, 0.8)
    if vendor not in _VENDORS and close:
        meant = spec.replace(vendor, close[0], 1)
        raise ResourceNotFound(f"there is no model {spec!r}: did you mean {meant!r}?")
    return BedrockModel(spec)


def _hint(spec: str) -> str:
    if spec.lower().startswith(("gpt-", "o1", "o3", "o4")):
        return f": did you mean 'openai:{spec}'?"
    if spec.endswith((".gguf", ".jsonl")):
        return f": did you mean '{'local' if spec.endswith('.gguf') else 'replay'}:{spec}'?"
    scheme, colon, rest = spec.partition(":")
    close = get_close_matches(scheme.lower(), _SCHEMES, 1, 0.6)
    return f": did you mean {close[0] + colon + rest!r}?" if close else ""
