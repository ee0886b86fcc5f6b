"""Which model answers for the id that a caller names."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from orchestrator.errors import AccessDenied, ValidationError
from orchestrator.models import Model, file_of_model, resolve_model
from orchestrator.server.operations import Caller
from orchestrator.server.settings import Settings
from orchestrator.support.lru_cache import LruCache

# Of models that callers name; one that was dropped is opened again when it is named again.
_MOST = 256


class Models:
    """The models of one process, by the ids that callers name; safe for many threads.

    One model answers for all ids that lead to it, so that clients, connections and weights are
    shared. What the server's operator has set is used for every caller. Other ids have to be of
    Bedrock, of an embedded model that is shipped, or a name at OpenAI; whether a caller may use
    them in the server's name is for his key to say.
    """

    def __init__(self, settings: Settings, models: Mapping[str, Model] | None = None) -> None:
        """Reads the specs of the settings; connects to nothing, loads nothing.

        Args:
            settings: `model` answers for every id, `models` for those that fit its patterns.
            models: Models of this process, by ids or patterns; they win over `settings.models`.
        """
        specs = {spec: resolve_model(spec) for spec in settings.models.values()}
        self._patterns = [
            *(models or {}).items(),
            *((pattern, specs[spec]) for pattern, spec in settings.models.items()),
        ]
        self._every = resolve_model(settings.model) if settings.model else None
        self._named: LruCache[Model] = LruCache(_MOST)

    def model(self, caller: Caller, model_id: str) -> Model:
        """The model that answers for `model_id`.

        Raises:
            AccessDenied: The caller may not use it in the server's name.
            ValidationError: It is a file or an address.
            ResourceNotFound: There is no such model.
        """
        found = self._find_mapped(model_id)
        if found is not None:
            return found
        spec = model_id.strip()
        _check(caller, spec)
        return self._named.get(spec, lambda: resolve_model(spec))

    def _find_mapped(self, model_id: str) -> Model | None:
        return self._every or next(
            (model for pattern, model in self._patterns if fnmatchcase(model_id, pattern)), None
        )

    def is_mapped(self, model_id: str) -> bool:
        """Whether the operator has set a model for the id."""
        return self._find_mapped(model_id) is not None

    def list_exact_ids(self) -> list[str]:
        """The ids that the operator has set a model for one by one, without patterns."""
        return [pattern for pattern, _ in self._patterns if not set("*?[") & set(pattern)]


def _check(caller: Caller, spec: str) -> None:
    scheme = spec.partition(":")[0]
    elsewhere = scheme == "openai" and "@" in spec
    if elsewhere or scheme in ("scripted", "replay") or file_of_model(spec):
        what = "an address" if elsewhere else "a file"
        raise ValidationError(
            f"the model {spec!r} is {what}, which callers cannot choose; the server's operator "
            "can map a model id to it"
        )
    if scheme != "local" and not caller.may_use(spec):
        raise AccessDenied(
            f"the model {spec!r} may not be used with this access key: allow it for the key, or "
            "have the server's operator map it to another model",
            resource=spec,
        )
