"""Where prompts and their versions are, and which one an id or ARN means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.ids import DRAFT, Arns
from orchestrator.server.operations import Caller, TagChange
from orchestrator.server.stored_tags import StoredTags

PROMPT = "prompt"
VERSION = "prompt-version"

_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):prompt/"
    r"(?P<id>[0-9a-zA-Z]{10})(?::(?P<version>[0-9]{1,5}))?"
)

Data = Mapping[str, Any]


@dataclass(slots=True)
class PromptRecord:
    """A prompt as it is edited."""

    prompt: dict[str, Any]  # the members of GetPrompt
    latest: int = 0  # the number of its latest version; 0 without one


class PromptStore:
    """Prompts of all tenants, each of which sees its own. Safe for many threads and processes."""

    def __init__(self, documents: DocumentStore, arns: Arns) -> None:
        self.documents = documents
        self.arns = arns
        self.stored_tags = StoredTags(documents)

    def is_own_arn(self, identifier: str) -> bool:
        """Whether it is the ARN of a prompt in this server's region and account."""
        found = _ARN.fullmatch(identifier)
        return found is not None and found.group("region", "account") == self.arns

    def find(self, caller: Caller, identifier: str, version: str | None = None) -> dict[str, Any]:
        """A prompt's version, with the members of GetPrompt.

        Args:
            caller: Who asks.
            identifier: The prompt's id, its ARN, or the ARN of a version.
            version: A number, or `DRAFT`; by default the ARN's, or `DRAFT`.

        Raises:
            ResourceNotFound: The caller has no such prompt or version.
        """
        id, named = self.split(identifier)
        record = self.record(caller, id)
        version = version or named or DRAFT
        if version == DRAFT:
            return record.prompt
        found = self.documents.get(caller.tenant, VERSION, str(int(version)), id)
        if found is None:
            raise ResourceNotFound(f"the prompt {id!r} has no version {version!r}")
        return found

    def find_variant(self, caller: Caller, identifier: str) -> dict[str, Any]:
        """The default variant of the prompt that an id or ARN means.

        Raises:
            ResourceNotFound: The caller has no such prompt or version.
            ValidationError: The prompt has no variant.
        """
        prompt = self.find(caller, identifier)
        variants: list[dict[str, Any]] = prompt.get("variants") or []
        name = prompt.get("defaultVariant")
        found = next((it for it in variants if name in (None, it["name"])), None)
        if found is None:
            raise ValidationError(
                f"the prompt {identifier!r} has no default variant; give it one with UpdatePrompt, "
                "and make a version of it"
            )
        return found

    def split(self, identifier: str) -> tuple[str, str | None]:
        """The id of the prompt that an id or ARN means, and the version that an ARN names.

        Raises:
            ResourceNotFound: It is an ARN of another region or account.
        """
        found = _ARN.fullmatch(identifier)
        if found is None:
            return identifier, None
        if found.group("region", "account") != self.arns:
            raise ResourceNotFound(f"there is no prompt {identifier!r}")
        return found["id"], found["version"]

    def record(self, caller: Caller, id: str) -> PromptRecord:
        """A prompt as it is edited.

        Raises:
            ResourceNotFound: The caller has none with this id.
        """
        found = self.documents.get(caller.tenant, PROMPT, id)
        if found is None:
            raise ResourceNotFound(f"there is no prompt {id!r}")
        return PromptRecord(found["prompt"], found["latest"])

    def save(self, caller: Caller, record: PromptRecord) -> None:
        """Stores a prompt's draft.

        Raises:
            Fault: ConflictException, when another prompt has its name.
        """
        prompt, name = record.prompt, record.prompt["name"]
        taken = f"there is already a prompt with the name {name!r}; choose another name"
        body = {"prompt": prompt, "latest": record.latest}
        self.documents.put(caller.tenant, PROMPT, prompt["id"], body, name=name, taken=taken)

    def versions(self, caller: Caller, id: str) -> list[dict[str, Any]]:
        """The versions of a prompt, `DRAFT` first."""
        return [
            self.record(caller, id).prompt,
            *self.documents.all(caller.tenant, VERSION, id),
        ]

    def tags(self, caller: Caller, id: str, change: TagChange | None) -> dict[str, str]:
        """The tags of a prompt, or of the version in `ID:VERSION`, after a change if there is one.

        Raises:
            ResourceNotFound: The caller has no such prompt or version.
        """
        prompt = self.find(caller, self.arns.prompt(id))
        return self.stored_tags.change(caller, prompt["arn"], change)
