"""Where guardrails and their versions are, and which one an id or ARN means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.definition.guardrail_file import guardrail_of, load_guardrail, read_members
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.guardrails import BedrockGuardrail, Guardrail, Source, Verdict
from orchestrator.guardrails.local import LocalGuardrail
from orchestrator.models.embeddings import Embedder
from orchestrator.server.access.permissions import check_access
from orchestrator.server.document_store import DocumentStore, digest
from orchestrator.server.ids import DRAFT, Arns
from orchestrator.server.operations import Caller, TagChange, conflict_error, pick
from orchestrator.server.stored_tags import StoredTags
from orchestrator.support.lru_cache import LruCache

GUARDRAIL = "guardrail"
VERSION = "guardrail-version"

_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):guardrail/(?P<id>[a-z0-9]+)"
)
_NAME = re.compile(rf"[a-z0-9]{{1,64}}|{_ARN.pattern}")
CHECKED = (
    *("name", "topicPolicyConfig", "contentPolicyConfig", "wordPolicyConfig"),
    *("sensitiveInformationPolicyConfig", "contextualGroundingPolicyConfig"),
    *("automatedReasoningPolicyConfig", "blockedInputMessaging", "blockedOutputsMessaging"),
)
"""The members of CreateGuardrail that say what is checked."""

# Of compiled ones; one that was dropped is compiled again when it is used again.
_MOST_COMPILED = 128

Data = Mapping[str, Any]


@dataclass(slots=True)
class GuardrailRecord:
    """A guardrail, or a version of one."""

    # The members of CreateGuardrail that were given, but for tags and token
    given: dict[str, Any]
    id: str
    version: str  # a number, or `DRAFT`
    created: datetime
    updated: datetime
    not_enforced: list[str] = field(default_factory=list)  # what it has and nothing here checks
    latest: int = 0  # the number of its latest version; 0 without one
    file: Path | None = None  # where it is defined, and cannot be changed


@dataclass(frozen=True, slots=True)
class ServedGuardrail:
    """A guardrail that a caller may use."""

    guardrail: Guardrail  # what checks
    id: str  # its id; of one of AWS, the id or ARN that was given
    version: str  # a number, or `DRAFT`
    arn: str = ""  # its ARN; empty for one of AWS


class GuardrailStore:
    """Guardrails of all tenants, each of which sees its own, and those in the operator's files.

    Safe for many threads and processes.
    """

    def __init__(
        self,
        documents: DocumentStore,
        arns: Arns,
        files: Mapping[str, Path],
        embedder: Embedder | str = "local",
    ) -> None:
        """Reads the guardrails in `files`, by the ids or ARNs that they stand for.

        Raises:
            DefinitionError: A file is wrong.
            ResourceNotFound: A file is not there.
            ValidationError: A name is no id or ARN of a guardrail.
        """
        self.documents = documents
        self.arns = arns
        self.stored_tags = StoredTags(documents)
        self._embedder = embedder
        self._compiled: LruCache[LocalGuardrail] = LruCache(_MOST_COMPILED)
        self._files = {
            name: (_read_record(name, file), load_guardrail(file, embedder=self._get_embedder))
            for name, file in files.items()
        }

    def _get_embedder(self) -> Embedder:
        from orchestrator.models import resolve_embedder

        return resolve_embedder(self._embedder)

    # -- guardrails that are used ----------------------------------------------------------------

    def use(self, caller: Caller, identifier: str, version: str) -> ServedGuardrail:
        """The guardrail that a caller means by an id or ARN and a version.

        Those of this server come first, then those of AWS that the caller may use.

        Raises:
            AccessDenied: The caller may not use one of AWS.
            ResourceNotFound: There is no such guardrail, or version of it.
            ValidationError: The identifier or the version is empty.
        """
        if not identifier or not version:
            missing = "guardrailVersion" if identifier else "guardrailIdentifier"
            raise ValidationError(f"a guardrail is named without a {missing}; give both")
        in_file = self._find_in_files(identifier)
        if in_file is not None:
            record, guardrail = in_file
            return ServedGuardrail(guardrail, record.id, version, self.arns.guardrail(record.id))
        id = self._find_own_id(caller, identifier)
        if id is None:
            return _use_aws(caller, identifier, version)
        record = self.find(caller, id, version)
        return ServedGuardrail(self.compile(record), id, version, self.arns.guardrail(id))

    def guardrail(self, caller: Caller, identifier: str, version: str) -> Guardrail:
        """What checks texts for a caller, found anew for each check.

        Raises:
            OrchestratorError: As `use` does.
        """
        found = self.use(caller, identifier, version)
        return CallerGuardrail(self, caller, identifier, version) if found.arn else found.guardrail

    def compile(self, record: GuardrailRecord) -> LocalGuardrail:
        """What a guardrail checks with.

        Raises:
            DefinitionError: It is wrong, or has something that nothing here checks.
        """
        members = {**pick(record.given, CHECKED), "notEnforced": record.not_enforced}
        make = partial(guardrail_of, members, way_out=_WAY_OUT)
        return self._compiled.get(digest(members), make)

    def _find_in_files(self, identifier: str) -> tuple[GuardrailRecord, LocalGuardrail] | None:
        found = _ARN.fullmatch(identifier)
        names = (identifier, found["id"]) if found else (identifier,)
        return next((self._files[name] for name in names if name in self._files), None)

    def _find_own_id(self, caller: Caller, identifier: str) -> str | None:
        """The id of a guardrail of this server; `None` for one that may be in AWS."""
        found = _ARN.fullmatch(identifier)
        if found is not None and found.group("region", "account") == self.arns:
            return found["id"]
        if self.documents.get(caller.tenant, GUARDRAIL, identifier) is not None:
            return identifier
        return None

    # -- records ---------------------------------------------------------------------------------

    def split(self, identifier: str) -> str:
        """The id that an id or ARN has.

        Raises:
            ResourceNotFound: It is an ARN of another region or account.
        """
        found = _ARN.fullmatch(identifier)
        if found is None:
            return identifier
        if found.group("region", "account") != self.arns and identifier not in self._files:
            raise ResourceNotFound(f"there is no guardrail {identifier!r}")
        return found["id"]

    def find(self, caller: Caller, identifier: str, version: str | None = None) -> GuardrailRecord:
        """A guardrail's version; the draft by default.

        Raises:
            ResourceNotFound: The caller has no such guardrail or version.
        """
        in_file = self._find_in_files(identifier)
        if in_file is not None:
            return in_file[0]
        id = self.split(identifier)
        draft = self.documents.get(caller.tenant, GUARDRAIL, id)
        if draft is None:
            raise ResourceNotFound(f"there is no guardrail {identifier!r}")
        if version in (None, DRAFT):
            return GuardrailRecord(**draft)
        found = self.documents.get(caller.tenant, VERSION, str(version), id)
        if found is None:
            raise ResourceNotFound(f"the guardrail {id!r} has no version {version!r}")
        return GuardrailRecord(**found)

    def get_editable(self, caller: Caller, identifier: str) -> GuardrailRecord:
        """The draft of a guardrail that may be changed.

        Raises:
            Fault: There is none, or it is defined in a file.
        """
        record = self.find(caller, identifier)
        if record.file is not None:
            raise conflict_error(
                f"the guardrail {record.id!r} is defined in {str(record.file)!r} of the server, "
                "and is changed by editing that file"
            )
        return record

    def in_files(self) -> list[GuardrailRecord]:
        """The guardrails in files, which everybody has."""
        return [record for record, _ in self._files.values()]

    def versions(self, caller: Caller, id: str) -> list[GuardrailRecord]:
        """The versions of a guardrail, `DRAFT` first."""
        draft = self.find(caller, id)
        if draft.file is not None:
            return [draft]
        numbered = self.documents.all(caller.tenant, VERSION, draft.id)
        return [draft, *(GuardrailRecord(**it) for it in numbered)]

    def save(self, caller: Caller, record: GuardrailRecord) -> None:
        """Stores a draft, or a version of one.

        Raises:
            Fault: ConflictException, when another guardrail has its name.
        """
        body = {name: getattr(record, name) for name in _STORED}
        if record.version != DRAFT:
            self.documents.put(caller.tenant, VERSION, record.version, body, record.id)
            return
        name = record.given["name"]
        taken = f"there is already a guardrail with the name {name!r}; choose another name"
        self.documents.put(caller.tenant, GUARDRAIL, record.id, body, name=name, taken=taken)

    def tags(self, caller: Caller, arn: str, change: TagChange | None) -> dict[str, str]:
        """The tags of the guardrail with an ARN, after a change of them if there is one.

        Raises:
            Fault: There is no such guardrail, or it is defined in a file.
        """
        record = self.get_editable(caller, arn) if change else self.find(caller, arn)
        return self.stored_tags.change(caller, self.arns.guardrail(record.id), change)


_STORED = ("given", "id", "version", "created", "updated", "not_enforced", "latest")
_WAY_OUT = "the tag notEnforced, whose value names it: {}"


def _read_record(name: str, file: Path) -> GuardrailRecord:
    if not _NAME.fullmatch(name):
        raise ValidationError(
            f"a guardrail has the name {name!r}; give an id of small letters and digits, or an ARN"
        )
    members = _fill_members(read_members(file))
    changed = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    skipped = members.pop("notEnforced", [])
    id = name.rpartition("/")[2]
    return GuardrailRecord(members, id, DRAFT, changed, changed, skipped, file=file)


# What a file may leave out, and GetGuardrail always has.
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "topicsConfig": {"definition": "-", "type": "DENY"},
    "piiEntitiesConfig": {"action": "BLOCK"},
    "regexesConfig": {"action": "BLOCK"},
}
# Our own members of entries.
_OURS = frozenset({"wordsFile"})


def _fill_members(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a file as a request would have them, as far as it could."""
    return {
        name: {key: _fill_entries(key, it) for key, it in config.items() if it}
        if isinstance(config, dict)
        else config
        for name, config in members.items()
    }


def _fill_entries(name: str, entries: Any) -> Any:
    if not isinstance(entries, list) or not all(isinstance(it, dict) for it in entries):
        return entries
    known = ({key: it for key, it in entry.items() if key not in _OURS} for entry in entries)
    return [{**_DEFAULTS.get(name, {}), **entry} for entry in known]


def _use_aws(caller: Caller, identifier: str, version: str) -> ServedGuardrail:
    check_access(caller, identifier)
    return ServedGuardrail(BedrockGuardrail(identifier, version), identifier, version)


class CallerGuardrail:
    """A `Guardrail` that is found anew for each check: it may be changed or deleted meanwhile."""

    def __init__(
        self, guardrails: GuardrailStore, caller: Caller, identifier: str, version: str
    ) -> None:
        self.id = identifier
        self._guardrails = guardrails
        self._named = (caller, identifier, version)

    def __getattr__(self, name: str) -> Any:
        # What streaming asks of a guardrail that is on this machine.
        if name not in ("reach", "bounded"):
            raise AttributeError(name)
        return getattr(self._get(), name)

    def check(self, text: str, source: Source) -> Verdict:
        """See `Guardrail.check`."""
        return self._get().check(text, source)

    def _get(self) -> Guardrail:
        return self._guardrails.use(*self._named).guardrail
