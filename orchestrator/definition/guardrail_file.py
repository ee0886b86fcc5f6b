"""Reading a local guardrail, and the guardrail that an agent's definition asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError as PydanticError

from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.files import copy_data, locate, parse_text, read_file
from orchestrator.definition.guardrail import GuardrailDefinition
from orchestrator.definition.validation_errors import to_diagnostic
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.guardrails import BedrockGuardrail, Guardrail
from orchestrator.guardrails.local import LocalGuardrail, Pii, Regex, Topic, Word
from orchestrator.guardrails.phrases import words_of
from orchestrator.guardrails.pii import PII_TYPES
from orchestrator.models.embeddings.base import Embedder
from orchestrator.support.documents import Keys, Source, combine_findings
from orchestrator.support.regexes import compile_regex


def build_guardrail(
    definition: AgentDefinition,
    folder: Path | None = None,
    *,
    region: str | None = None,
    embedder: Callable[[], Embedder] | None = None,
) -> Guardrail | None:
    """The guardrail that a definition's `guardrailConfiguration` asks for, if it has one.

    Args:
        definition: The agent's definition.
        folder: The agent's folder; by default the one that the definition was read from.
        region: The AWS region of a guardrail of Bedrock's.
        embedder: Gives an embedding model, for a local guardrail that finds topics by meaning.

    Raises:
        DefinitionError: It names both a guardrail of Bedrock's and a file, or neither; or the file
            is missing, outside of the folder or wrong.
    """
    part = definition.guardrail_configuration
    if part is None:
        return None
    at: Keys = ("guardrailConfiguration",)
    file, id = part.file, part.guardrail_identifier
    # Bedrock knows an identifier and a version; a file is ours, and the two would contradict.
    if (file is None) == (not id):
        raise definition.source.error(
            "give guardrailConfiguration either a guardrailIdentifier or a file", *at
        )
    if file is None:
        return BedrockGuardrail(str(id), part.guardrail_version or "DRAFT", region=region)
    if part.guardrail_version is not None:
        raise definition.source.error(
            "a guardrail in a file has no guardrailVersion; leave it out", *at, "guardrailVersion"
        )
    return load_guardrail(locate(definition, file, (*at, "file"), folder), embedder=embedder)


def load_guardrail(
    path: str | Path, *, embedder: Callable[[], Embedder] | None = None
) -> LocalGuardrail:
    """Reads a local guardrail: YAML or JSON with the members of CreateGuardrail.

    Args:
        path: The file; lists of words that it names are in its folder.
        embedder: Gives an embedding model, when the guardrail finds topics by meaning.

    Raises:
        ResourceNotFound: There is no such file.
        DefinitionError: The file is wrong; the error has all mistakes, with their places.
    """
    return _build(_validate(*_read(path)), embedder)


def read_members(path: str | Path) -> dict[str, Any]:
    """The members of CreateGuardrail in a file, and our own; they are checked by `load_guardrail`.

    Raises:
        ResourceNotFound: There is no such file.
        DefinitionError: It holds no mapping.
    """
    data, _ = _read(path)
    return _to_create_request(data)


def _read(path: str | Path) -> tuple[dict[str, Any], Source]:
    file = Path(path)
    if not file.is_file():
        raise ResourceNotFound(f"there is no guardrail at {str(path)!r}; give its file")
    data, source = parse_text(read_file(file), str(file), file.absolute().parent)
    if not isinstance(data, dict):
        raise source.error("the file must hold a mapping, such as 'name: my-guardrail'")
    return data, source


_IN_FILES = "notEnforced: [{}]"


def guardrail_of(
    members: Mapping[str, Any],
    *,
    embedder: Callable[[], Embedder] | None = None,
    way_out: str = _IN_FILES,
) -> LocalGuardrail:
    """A local guardrail made of the members of a CreateGuardrail request.

    Args:
        members: The members, and our own.
        embedder: Gives an embedding model, when the guardrail finds topics by meaning.
        way_out: How whoever made it says that something may be left out, with `{}` for its name.

    Raises:
        DefinitionError: They are wrong; the error has all mistakes.
    """
    return _build(_validate(copy_data(members), Source(), way_out), embedder)


def list_unsupported(members: Mapping[str, Any]) -> list[str]:
    """What of a CreateGuardrail request only Amazon's models enforce, as `notEnforced` names it.

    Raises:
        DefinitionError: The members are wrong.
    """
    try:
        definition = GuardrailDefinition.model_validate(copy_data(members))
    except PydanticError:
        _validate(copy_data(members), Source())
        raise
    return list(dict.fromkeys(name for name, *_ in _find_unsupported(definition)))


def _validate(
    data: dict[str, Any], source: Source, way_out: str = _IN_FILES
) -> GuardrailDefinition:
    data = _to_create_request(data)
    try:
        definition = GuardrailDefinition.model_validate(data)
    except PydanticError as error:
        found = (
            to_diagnostic(GuardrailDefinition, it, source) for it in error.errors(include_url=False)
        )
        raise combine_findings(
            replace(it, message=it.message.replace(" of an agent", " of a guardrail"))
            for it in found
        ) from None
    definition._source = source
    if refused := list(_check_supported(definition, way_out)):
        raise combine_findings(refused)
    return definition


_SET_BY_BEDROCK = frozenset(
    (
        *("guardrailId", "guardrailArn", "version", "status", "statusReasons", "kmsKeyArn"),
        *("createdAt", "updatedAt", "failureRecommendations", "crossRegionDetails"),
        "ResponseMetadata",
    )
)
POLICIES: Mapping[str, Mapping[str, str]] = {
    "topicPolicy": {"topics": "topicsConfig", "tier": "tierConfig"},
    "contentPolicy": {"filters": "filtersConfig", "tier": "tierConfig"},
    "wordPolicy": {"words": "wordsConfig", "managedWordLists": "managedWordListsConfig"},
    "sensitiveInformationPolicy": {"piiEntities": "piiEntitiesConfig", "regexes": "regexesConfig"},
    "contextualGroundingPolicy": {"filters": "filtersConfig", "tier": "tierConfig"},
    "automatedReasoningPolicy": {},
}
"""The policies of GetGuardrail, and the names that CreateGuardrail has for their members."""


# GetGuardrail answers with other names than CreateGuardrail takes (AWS: both API pages).
def _to_create_request(data: dict[str, Any]) -> dict[str, Any]:
    if "guardrailId" not in data:
        return data
    made: dict[str, Any] = {}
    for name, value in data.items():
        if name in POLICIES:
            names = POLICIES[name]
            inner = value.items() if isinstance(value, dict) else ()
            made[f"{name}Config"] = {names.get(key, key): item for key, item in inner}
        elif name not in _SET_BY_BEDROCK:
            made[name] = value
    return made


def _check_supported(definition: GuardrailDefinition, way_out: str) -> Iterator[Diagnostic]:
    for name, what, instead, keys in _find_unsupported(definition):
        if name not in definition.not_enforced:
            yield definition.source.diagnostic(
                "error",
                "unsupported",
                f"{what} cannot be had without Amazon's models",
                *keys,
                suggestion=f"{instead}, or say that it may be left out with {way_out.format(name)}",
            )


def _find_unsupported(definition: GuardrailDefinition) -> Iterator[tuple[str, str, str, Keys]]:
    # The name in `notEnforced`, what it is, what can be done instead, and its place.
    there = "use the guardrail of Bedrock itself with guardrailIdentifier"
    if any(it.active for it in definition.content_policy_config.filters_config):
        yield "contentPolicyConfig", "a content filter", there, ("contentPolicyConfig",)
    if definition.contextual_grounding_policy_config:
        name = "contextualGroundingPolicyConfig"
        yield name, "contextual grounding", there, (name,)
    if definition.automated_reasoning_policy_config:
        name = "automatedReasoningPolicyConfig"
        yield name, "automated reasoning", there, (name,)
    for index, words in enumerate(definition.word_policy_config.managed_word_lists_config):
        if words.words_file is None and any(words.directions().values()):
            at = ("wordPolicyConfig", "managedWordListsConfig", index)
            yield "PROFANITY", "the list PROFANITY", "give a wordsFile of your own", at
    entities = definition.sensitive_information_policy_config.pii_entities_config
    for index, entity in enumerate(entities):
        if entity.type not in PII_TYPES and set(entity.directions().values()) != {"NONE"}:
            keys = ("sensitiveInformationPolicyConfig", "piiEntitiesConfig", index, "type")
            yield entity.type, f"finding {entity.type}", there, keys


def _build(
    definition: GuardrailDefinition, embedder: Callable[[], Embedder] | None
) -> LocalGuardrail:
    threshold = definition.topic_similarity_threshold
    if threshold is not None and embedder is None:
        raise definition.source.error(
            "finding topics by meaning needs an embedding model, and there is none; leave "
            "topicSimilarityThreshold out",
            "topicSimilarityThreshold",
        )
    sensitive = definition.sensitive_information_policy_config
    return LocalGuardrail(
        definition.name,
        topics=list(_topics(definition)),
        words=list(_words(definition)),
        profanity=list(_profanity(definition)),
        pii=[
            Pii(it.type, **it.directions())
            for it in sensitive.pii_entities_config
            if it.type in PII_TYPES
        ],
        regexes=list(_regexes(definition)),
        blocked_input_messaging=definition.blocked_input_messaging,
        blocked_outputs_messaging=definition.blocked_outputs_messaging,
        embedder=embedder() if embedder and threshold is not None else None,
        threshold=threshold or 1.0,
    )


def _topics(definition: GuardrailDefinition) -> Iterator[Topic]:
    for index, it in enumerate(definition.topic_policy_config.topics_config):
        at: Keys = ("topicPolicyConfig", "topicsConfig", index)
        _check_phrase(definition, it.name, *at, "name")
        for number, example in enumerate(it.examples):
            _check_phrase(definition, example, *at, "examples", number)
        yield Topic(it.name, it.definition, it.examples, **it.directions())


def _words(definition: GuardrailDefinition) -> Iterator[Word]:
    for index, it in enumerate(definition.word_policy_config.words_config):
        _check_phrase(definition, it.text, "wordPolicyConfig", "wordsConfig", index, "text")
        yield Word(it.text, **it.directions())


def _check_phrase(definition: GuardrailDefinition, phrase: str, *keys: str | int) -> None:
    if not words_of(phrase):
        raise definition.source.error(f"{phrase!r} has no word in it; write one", *keys)


def _profanity(definition: GuardrailDefinition) -> Iterator[Word]:
    for index, it in enumerate(definition.word_policy_config.managed_word_lists_config):
        if it.words_file is None:
            continue
        at = ("wordPolicyConfig", "managedWordListsConfig", index, "wordsFile")
        path = locate(definition, it.words_file, at)
        for line, written in enumerate(read_file(path).splitlines(), 1):
            word = written.strip()
            if word and not words_of(word):
                raise DefinitionError(f"{word!r} has no word in it", file=path, line=line)
            if word:
                yield Word(word, **it.directions())


def _regexes(definition: GuardrailDefinition) -> Iterator[Regex]:
    at = ("sensitiveInformationPolicyConfig", "regexesConfig")
    entries = definition.sensitive_information_policy_config.regexes_config
    for index, it in enumerate(entries):
        try:
            compile_regex(it.pattern)
        except DefinitionError as error:
            raise definition.source.error(error.message, *at, index, "pattern") from None
        yield Regex(it.name, it.pattern, **it.directions())
