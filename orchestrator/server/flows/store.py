"""Where flows, their versions and aliases are stored; each tenant sees its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.errors import ValidationError
from orchestrator.server.document_store import DocumentStore
from orchestrator.server.ids import DRAFT, TEST_ALIAS, Arns
from orchestrator.server.operations import Caller, TagChange, not_found_error

FLOW = "flow"
VERSION = "flow-version"  # what a version runs, of the flow that is its parent; `DRAFT` is one
ALIAS = "flow-alias"
CONVERSATION = "flow-conversation"  # runs that wait for the user, of a flow
EXECUTION = "flow-execution"
EVENT = "flow-execution-event"

_ARN = re.compile(
    r"arn:aws:bedrock:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):flow/(?P<flow>[0-9a-zA-Z]{10})"
    r"(?:/alias/(?P<alias>[0-9a-zA-Z]{10})(?:/execution/(?P<execution>[0-9a-zA-Z-]{1,36}))?)?"
)

_EVENT_TYPES = ("Node", "Flow")

Data = Mapping[str, Any]


def build_event_parent(flow_id: str, execution_id: str, type: str) -> str:
    """The parent of an execution's events of a type, `Node` or `Flow`."""
    return f"{flow_id}/{execution_id}/{type}"


class PreparedFlow(NamedTuple):
    """What an alias of a flow runs."""

    flow_id: str
    alias_id: str
    version: str
    members: dict[str, Any]  # GetFlowVersion's members
    parallel: int | None  # how many of its nodes may run at once, if the alias says


class FlowStore:
    """Flows, their versions and aliases."""

    def __init__(self, documents: DocumentStore, arns: Arns) -> None:
        self.documents = documents
        self.arns = arns

    # -- names -----------------------------------------------------------------------------------

    def read_id(self, identifier: str, part: str = "flow") -> str:
        """The id that an id or ARN means; `part` is `flow`, `alias` or `execution`.

        Raises:
            Fault: It is the ARN of something else, or of another account or region.
        """
        if not identifier.startswith("arn:"):
            return identifier
        found = _ARN.fullmatch(identifier)
        if found is None or not found[part] or found.group("region", "account") != self.arns:
            raise not_found_error(part, identifier)
        return found[part]

    # -- flows -----------------------------------------------------------------------------------

    def flow(self, caller: Caller, id: str) -> dict[str, Any]:
        """What is stored of a flow: `flow`, which has GetFlow's members, `latest` and `tags`.

        Raises:
            Fault: ResourceNotFoundException, when the caller has none with this id.
        """
        found = self.documents.get(caller.tenant, FLOW, id)
        if found is None:
            raise not_found_error("flow", id)
        return found

    def save(self, caller: Caller, record: Data) -> None:
        """Stores a flow.

        Raises:
            Fault: ConflictException, when another has its name.
        """
        flow = record["flow"]
        name = flow["name"]
        taken = f"there is already a flow with the name {name!r}; choose another name"
        self.documents.put(caller.tenant, FLOW, flow["id"], record, name=name, taken=taken)

    def remove(self, caller: Caller, id: str) -> None:
        """Deletes a flow and all that belongs to it."""
        documents, tenant = self.documents, caller.tenant
        for execution in documents.all(tenant, EXECUTION, id):
            self.remove_execution(caller, id, execution["id"])
        for kind in (VERSION, ALIAS, CONVERSATION, EXECUTION):
            documents.clear(tenant, kind, id)
        documents.delete(tenant, FLOW, id)

    def remove_execution(self, caller: Caller, id: str, execution_id: str) -> None:
        """Deletes an execution of a flow, with its events."""
        for type in _EVENT_TYPES:
            parent = build_event_parent(id, execution_id, type)
            self.documents.clear(caller.tenant, EVENT, parent)
        self.documents.delete(caller.tenant, EXECUTION, execution_id, id)

    # -- versions and aliases --------------------------------------------------------------------

    def version(self, caller: Caller, id: str, version: str) -> dict[str, Any]:
        """A numbered version of a flow: GetFlowVersion's members."""
        self.flow(caller, id)
        found = self.documents.get(caller.tenant, VERSION, version, id)
        if found is None or version == DRAFT:
            raise not_found_error(f"version of the flow {id!r}", version)
        return found

    def versions(self, caller: Caller, id: str) -> list[dict[str, Any]]:
        """The numbered versions of a flow, the oldest first."""
        found = self.documents.all(caller.tenant, VERSION, id)
        return [it for it in found if it["version"] != DRAFT]

    def save_version(self, caller: Caller, id: str, members: Data) -> None:
        """Stores what a version runs."""
        self.documents.put(caller.tenant, VERSION, members["version"], members, id)

    def alias(self, caller: Caller, id: str, alias_id: str) -> dict[str, Any]:
        """An alias of a flow: `alias`, which has GetFlowAlias's members, and `tags`."""
        self.flow(caller, id)
        found = self.documents.get(caller.tenant, ALIAS, alias_id, id)
        if found is None:
            raise not_found_error(f"alias of the flow {id!r}", alias_id)
        return found

    def aliases(self, caller: Caller, id: str) -> list[dict[str, Any]]:
        """The aliases of a flow, in the order in which they were made."""
        return [it["alias"] for it in self.documents.all(caller.tenant, ALIAS, id)]

    def save_alias(self, caller: Caller, record: Data) -> None:
        """Stores an alias.

        Raises:
            Fault: ConflictException, when another of the flow has its name.
        """
        alias = record["alias"]
        id, name = alias["flowId"], alias["name"]
        taken = f"the flow {id!r} already has an alias with the name {name!r}; choose another name"
        self.documents.put(caller.tenant, ALIAS, alias["id"], record, id, name=name, taken=taken)

    # -- what runs -------------------------------------------------------------------------------

    def find_prepared(self, caller: Caller, params: Data) -> PreparedFlow:
        """What a flow's alias runs.

        Raises:
            Fault: There is no such flow, or alias.
            ValidationError: The flow was never prepared.
        """
        id = self.read_id(params["flowIdentifier"])
        alias_id = self.read_id(params["flowAliasIdentifier"], "alias")
        flow = self.flow(caller, id)["flow"]
        if alias_id == TEST_ALIAS:
            version, concurrency = DRAFT, None
        else:
            alias = self.alias(caller, id, alias_id)["alias"]
            version = alias["routingConfiguration"][0]["flowVersion"]
            concurrency = alias.get("concurrencyConfiguration")
        members = self.documents.get(caller.tenant, VERSION, version, id)
        if members is None and version == DRAFT:
            how = "could not be prepared" if flow["status"] == "Failed" else "was never prepared"
            raise ValidationError(
                f"the flow {id!r} {how}; call PrepareFlow, and see GetFlow's validations when its "
                "status is Failed"
            )
        if members is None:
            raise not_found_error(f"version of the flow {id!r}", version)
        parallel = (concurrency or {}).get("maxConcurrency")
        return PreparedFlow(id, alias_id, version, members, parallel)

    # -- tags ------------------------------------------------------------------------------------

    def tags(self, caller: Caller, id: str, change: TagChange | None) -> dict[str, str]:
        """The tags of a flow (`<id>`) or alias (`<id>/alias/<alias id>`), after a change of them.

        Raises:
            Fault: There is no such thing.
        """
        flow_id, _, rest = id.partition("/alias/")
        with self.documents.transaction():
            record = self.alias(caller, flow_id, rest) if rest else self.flow(caller, flow_id)
            if change is not None:
                record["tags"] = change(record["tags"])
                (self.save_alias if rest else self.save)(caller, record)
        tags: dict[str, str] = record["tags"]
        return tags
