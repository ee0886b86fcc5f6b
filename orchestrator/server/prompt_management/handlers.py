"""The operations of Prompt management."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.prompts.prompt_variants import find_variables
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.ids import DRAFT, new_id, now
from orchestrator.server.operations import Caller, Request, check_quota, pick
from orchestrator.server.prompt_management.store import PROMPT, VERSION, PromptRecord, PromptStore

# Bedrock: "Prompts per account" and "Versions per prompt".
_MOST_PROMPTS = 500
_MOST_VERSIONS = 10
# Bedrock: PromptInputVariablesList.
_MOST_VARIABLES = 20
# Bedrock: PromptSummaries.
_MOST_LISTED = 10
_GIVEN = ("name", "description", "customerEncryptionKeyArn", "defaultVariant", "variants")
_SUMMARY = ("name", "description", "id", "arn", "version", "createdAt", "updatedAt")
_UNCHANGED = ("id", "arn", "version", "createdAt")

Data = Mapping[str, Any]


def create(prompts: PromptStore, request: Request) -> Data:
    """CreatePrompt."""
    caller, params = request.caller, request.params
    _check_variants(params)

    def make() -> Data:
        count = prompts.documents.count(caller.tenant, PROMPT)
        check_quota(count, _MOST_PROMPTS, "prompts")
        id, at = new_id(), now()
        prompt = {
            **pick(params, _GIVEN),
            "id": id,
            "arn": prompts.arns.prompt(id),
            "version": DRAFT,
            "createdAt": at,
            "updatedAt": at,
        }
        prompts.save(caller, PromptRecord(prompt))
        prompts.stored_tags.put(caller, prompt["arn"], params.get("tags"))
        return prompt

    return prompts.documents.run_once(request, make)


def _check_variants(params: Data) -> None:
    variants = params.get("variants") or []
    default = params.get("defaultVariant")
    if default is not None and all(it["name"] != default for it in variants):
        raise ValidationError(
            f"the defaultVariant {default!r} is the name of no variant; give a variant of this name"
        )
    for variant in variants:
        _check_variant(variant)


def _check_variant(variant: Data) -> None:
    name, kind = variant["name"], variant["templateType"]
    member = kind.lower()
    template = variant["templateConfiguration"].get(member)
    if template is None:
        raise ValidationError(
            f"the variant {name!r} has the templateType {kind} and no "
            f"templateConfiguration.{member}; give it"
        )
    count = len(find_variables(variant))
    if count > _MOST_VARIABLES:
        raise ValidationError(
            f"the variant {name!r} has {count} variables, and the most are {_MOST_VARIABLES}"
        )


def get(prompts: PromptStore, request: Request) -> Data:
    """GetPrompt: its draft, or the version that is named."""
    params = request.params
    found = prompts.find(request.caller, params["promptIdentifier"], params.get("promptVersion"))
    if params.get("includedData") == "METADATA_ONLY":
        return {name: it for name, it in found.items() if name != "variants"}
    return found


def update(prompts: PromptStore, request: Request) -> Data:
    """UpdatePrompt: what is sent replaces all of the draft."""
    caller, params = request.caller, request.params
    _check_variants(params)
    with prompts.documents.transaction():
        record = _get_draft(prompts, caller, params["promptIdentifier"])
        unchanged = pick(record.prompt, _UNCHANGED)
        record.prompt = {**pick(params, _GIVEN), **unchanged, "updatedAt": now()}
        prompts.save(caller, record)
    return record.prompt


def _get_draft(prompts: PromptStore, caller: Caller, identifier: str) -> PromptRecord:
    id, version = prompts.split(identifier)
    if version is not None:
        raise ValidationError(
            f"{identifier!r} is a version, which never changes; give the prompt's id or its ARN "
            "without a version"
        )
    return prompts.record(caller, id)


def create_version(prompts: PromptStore, request: Request) -> Data:
    """CreatePromptVersion: the draft as it is now, under the next number."""
    caller, params = request.caller, request.params

    def make() -> Data:
        record = _get_draft(prompts, caller, params["promptIdentifier"])
        id = record.prompt["id"]
        count = prompts.documents.count(caller.tenant, VERSION, id)
        check_quota(count, _MOST_VERSIONS, f"versions of the prompt {id!r}")
        record.latest += 1
        number, at = str(record.latest), now()
        version = {
            **record.prompt,
            **pick(params, ("description",)),
            "arn": prompts.arns.prompt(f"{id}:{number}"),
            "version": number,
            "createdAt": at,
            "updatedAt": at,
        }
        prompts.documents.put(caller.tenant, VERSION, number, version, id)
        prompts.save(caller, record)
        prompts.stored_tags.put(caller, version["arn"], params.get("tags"))
        return version

    return prompts.documents.run_once(request, make)


def delete(prompts: PromptStore, request: Request) -> Data:
    """DeletePrompt: the prompt with all of its versions, or the version that is named."""
    caller, params, documents = request.caller, request.params, prompts.documents
    with documents.transaction():
        id, named = prompts.split(params["promptIdentifier"])
        version = params.get("promptVersion") or named
        if version is not None:
            found = prompts.find(caller, id, version)
            documents.delete(caller.tenant, VERSION, found["version"], id)
            prompts.stored_tags.forget(caller, found["arn"])
            return {"id": id, "version": found["version"]}
        for one in prompts.versions(caller, id):
            prompts.stored_tags.forget(caller, one["arn"])
        documents.clear(caller.tenant, VERSION, id)
        documents.delete(caller.tenant, PROMPT, id)
    return {"id": id}


def list_all(prompts: PromptStore, request: Request) -> Data:
    """ListPrompts: the drafts of all prompts, or one prompt's draft and versions."""
    caller, params = request.caller, request.params
    identifier, token = params.get("promptIdentifier"), params.get("nextToken")
    most = min(params.get("maxResults", _MOST_LISTED), _MOST_LISTED)
    if identifier is None:
        found, more = prompts.documents.page(caller.tenant, PROMPT, "", most, token)
        page = [it["prompt"] for it in found], more
    else:
        id, _ = prompts.split(identifier)
        scope = f"{caller.tenant}\0{VERSION}\0{id}"
        versions = prompts.versions(caller, id)
        numbered = [((0 if it["version"] == DRAFT else int(it["version"]),), it) for it in versions]
        page = paginate(numbered, most, token, scope)
    summaries = [pick(it, _SUMMARY) for it in page[0]]
    return render_page("promptSummaries", (summaries, page[1]))


Handling = Callable[[PromptStore, Request], Data]

HANDLERS: Mapping[str, Handling] = {
    "CreatePrompt": create,
    "GetPrompt": get,
    "UpdatePrompt": update,
    "DeletePrompt": delete,
    "ListPrompts": list_all,
    "CreatePromptVersion": create_version,
}
