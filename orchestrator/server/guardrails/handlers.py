"""The operations of `bedrock` on guardrails, and on their tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.definition.guardrail_file import POLICIES
from orchestrator.server.document_store import paginate, render_page
from orchestrator.server.guardrails.store import (
    CHECKED,
    GUARDRAIL,
    VERSION,
    GuardrailRecord,
    GuardrailStore,
)
from orchestrator.server.ids import DRAFT, new_guardrail_id, now
from orchestrator.server.operations import Caller, Fault, Request, TagChange, check_quota, pick

# Bedrock: "Guardrails per account", "Versions per guardrail" and "Tags per resource".
_MOST_GUARDRAILS = 100
_MOST_VERSIONS = 20
_MOST_TAGS = 50
_GIVEN = (*CHECKED, "description", "crossRegionConfig", "kmsKeyId")
_NOT_ENFORCED = "notEnforced"

Data = Mapping[str, Any]


def create(guardrails: GuardrailStore, request: Request) -> Data:
    """CreateGuardrail; the tag `notEnforced` names what may be left out, apart by spaces."""
    caller, params = request.caller, request.params
    tags = {it["key"]: it["value"] for it in params.get("tags", ())}
    time = now()
    id, given = new_guardrail_id(), pick(params, _GIVEN)
    record = GuardrailRecord(given, id, DRAFT, time, time, tags.get(_NOT_ENFORCED, "").split())
    guardrails.compile(record)

    def make() -> Data:
        count = guardrails.documents.count(caller.tenant, GUARDRAIL)
        check_quota(count, _MOST_GUARDRAILS, "guardrails")
        guardrails.save(caller, record)
        if tags:
            _change_tags(guardrails, caller, guardrails.arns.guardrail(id), lambda _: tags)
        return {**_render_ids(guardrails, record), "createdAt": time}

    return guardrails.documents.run_once(request, make)


def _render_ids(guardrails: GuardrailStore, record: GuardrailRecord) -> dict[str, Any]:
    arn = guardrails.arns.guardrail(record.id)
    return {"guardrailId": record.id, "guardrailArn": arn, "version": record.version}


def get(guardrails: GuardrailStore, request: Request) -> Data:
    """GetGuardrail: the draft, or the version that is named."""
    params = request.params
    record = guardrails.find(
        request.caller, params["guardrailIdentifier"], params.get("guardrailVersion")
    )
    return {
        **_render_ids(guardrails, record),
        **pick(record.given, ("name", "description")),
        **pick(record.given, ("blockedInputMessaging", "blockedOutputsMessaging")),
        **_render_policies(record.given),
        **_render_places(record.given),
        "status": "READY",
        "statusReasons": [_describe_gap(name) for name in record.not_enforced],
        "createdAt": record.created,
        "updatedAt": record.updated,
    }


def _render_policies(given: Data) -> dict[str, Any]:
    """The policies by the names that GetGuardrail has for their members."""
    found = {}
    for policy, names in POLICIES.items():
        config = given.get(f"{policy}Config")
        if config:
            own = {theirs: ours for ours, theirs in names.items()}
            found[policy] = {own.get(name, name): it for name, it in config.items()}
    return found


def _render_places(given: Data) -> dict[str, Any]:
    found: dict[str, Any] = {}
    profile = (given.get("crossRegionConfig") or {}).get("guardrailProfileIdentifier")
    if profile is not None:
        name = "guardrailProfileArn" if profile.startswith("arn:") else "guardrailProfileId"
        found["crossRegionDetails"] = {name: profile}
    key = given.get("kmsKeyId", "")
    return {**found, "kmsKeyArn": key} if ":key/" in key else found


def _describe_gap(name: str) -> str:
    return f"{name} is not enforced by this server"


def update(guardrails: GuardrailStore, request: Request) -> Data:
    """UpdateGuardrail: what is sent replaces all of the draft."""
    caller, params = request.caller, request.params
    with guardrails.documents.transaction():
        record = guardrails.get_editable(caller, params["guardrailIdentifier"])
        tags = guardrails.tags(caller, guardrails.arns.guardrail(record.id), None)
        record.given = pick(params, _GIVEN)
        record.not_enforced = tags.get(_NOT_ENFORCED, "").split()
        record.updated = now()
        guardrails.compile(record)
        guardrails.save(caller, record)
    return {**_render_ids(guardrails, record), "updatedAt": record.updated}


def create_version(guardrails: GuardrailStore, request: Request) -> Data:
    """CreateGuardrailVersion: the draft as it is now, under the next number."""
    caller, params = request.caller, request.params

    def make() -> Data:
        draft = guardrails.get_editable(caller, params["guardrailIdentifier"])
        count = guardrails.documents.count(caller.tenant, VERSION, draft.id)
        check_quota(count, _MOST_VERSIONS, f"versions of the guardrail {draft.id!r}")
        draft.latest += 1
        given = {**draft.given, **pick(params, ("description",))}
        time, number = now(), str(draft.latest)
        version = GuardrailRecord(given, draft.id, number, time, time, draft.not_enforced)
        guardrails.save(caller, version)
        guardrails.save(caller, draft)
        return {"guardrailId": draft.id, "version": number}

    return guardrails.documents.run_once(request, make)


def delete(guardrails: GuardrailStore, request: Request) -> Data:
    """DeleteGuardrail: the guardrail with all of its versions, or the version that is named."""
    caller, params, documents = request.caller, request.params, guardrails.documents
    version = params.get("guardrailVersion")
    with documents.transaction():
        id = guardrails.get_editable(caller, params["guardrailIdentifier"]).id
        if version is not None:
            guardrails.find(caller, id, version)
            documents.delete(caller.tenant, VERSION, version, id)
            return {}
        documents.clear(caller.tenant, VERSION, id)
        documents.delete(caller.tenant, GUARDRAIL, id)
        guardrails.stored_tags.forget(caller, guardrails.arns.guardrail(id))
    return {}


def list_all(guardrails: GuardrailStore, request: Request) -> Data:
    """ListGuardrails: the drafts of all guardrails, or one guardrail's draft and versions."""
    caller, params = request.caller, request.params
    identifier = params.get("guardrailIdentifier")
    scope = f"{caller.tenant}\0{GUARDRAIL}\0{identifier or ''}"
    found: list[tuple[tuple[Any, ...], GuardrailRecord]]
    if identifier:
        versions = guardrails.versions(caller, identifier)
        found = [((0 if it.version == DRAFT else int(it.version),), it) for it in versions]
    else:
        stored = [
            GuardrailRecord(**it) for it in guardrails.documents.all(caller.tenant, GUARDRAIL)
        ]
        drafts = [*guardrails.in_files(), *stored]
        found = [((it.file is None, it.created.timestamp(), it.id), it) for it in drafts]
    listed = [(key, _summarize(guardrails, record)) for key, record in found]
    page = paginate(listed, params.get("maxResults"), params.get("nextToken"), scope)
    return render_page("guardrails", page)


def _summarize(guardrails: GuardrailStore, record: GuardrailRecord) -> Data:
    return {
        "id": record.id,
        "arn": guardrails.arns.guardrail(record.id),
        "version": record.version,
        "status": "READY",
        **pick(record.given, ("name", "description")),
        "createdAt": record.created,
        "updatedAt": record.updated,
    }


def _change_tags(
    guardrails: GuardrailStore, caller: Caller, arn: str, change: TagChange
) -> Mapping[str, str]:
    def change_and_check(tags: dict[str, str]) -> dict[str, str]:
        changed = change(tags)
        if len(changed) > _MOST_TAGS:
            raise Fault(
                "TooManyTagsException",
                f"there would be {len(changed)} tags, and the most are {_MOST_TAGS}; remove some",
                resourceName=arn,
            )
        return changed

    return guardrails.tags(caller, arn, change_and_check)


def tag(guardrails: GuardrailStore, request: Request) -> Data:
    """TagResource."""
    added = {it["key"]: it["value"] for it in request.params["tags"]}
    arn = request.params["resourceARN"]
    _change_tags(guardrails, request.caller, arn, lambda tags: {**tags, **added})
    return {}


def untag(guardrails: GuardrailStore, request: Request) -> Data:
    """UntagResource."""
    gone = set(request.params["tagKeys"])

    def remove_keys(tags: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in tags.items() if key not in gone}

    _change_tags(guardrails, request.caller, request.params["resourceARN"], remove_keys)
    return {}


def list_tags(guardrails: GuardrailStore, request: Request) -> Data:
    """ListTagsForResource."""
    tags = guardrails.tags(request.caller, request.params["resourceARN"], None)
    return {"tags": [{"key": key, "value": value} for key, value in tags.items()]}


Handling = Callable[[GuardrailStore, Request], Data]

HANDLERS: Mapping[str, Handling] = {
    "CreateGuardrail": create,
    "CreateGuardrailVersion": create_version,
    "DeleteGuardrail": delete,
    "GetGuardrail": get,
    "ListGuardrails": list_all,
    "UpdateGuardrail": update,
    "TagResource": tag,
    "UntagResource": untag,
    "ListTagsForResource": list_tags,
}
