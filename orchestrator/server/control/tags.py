"""Tags: of agents, aliases, knowledge bases, sessions and flows, found by their ARNs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.server.agents.store import AgentStore
from orchestrator.server.ids import TEST_ALIAS
from orchestrator.server.operations import (
    Caller,
    Handler,
    Request,
    TagChange,
    check_tags,
    not_found_error,
)
from orchestrator.server.stored_tags import StoredTags

# The most tags of one thing (Bedrock: quotas, and TagsMap of the Sessions API).
_MOST = {"session": 200}
_MOST_OF_OTHERS = 50
_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):(?P<kind>[a-z-]+)/(?P<id>.+)",
    re.DOTALL,
)

TagsOf = Callable[[Caller, str, TagChange | None], dict[str, str]]
"""The tags of the thing with an id, after a change of them if there is one."""


class Tags:
    """The tags of all that has some."""

    def __init__(self, store: AgentStore, others: Mapping[str, TagsOf]) -> None:
        """Takes what has the tags of other things than agents, by the kind that ARNs name."""
        self._store = store
        self._stored = StoredTags(store.documents)
        self._kinds: dict[str, TagsOf] = {
            "agent": self._of_agent,
            "agent-alias": self._of_alias,
            **others,
        }

    def of(self, caller: Caller, arn: str, change: TagChange | None = None) -> dict[str, str]:
        """The tags of a thing, after a change of them if there is one."""
        found = _ARN.fullmatch(arn)
        tags_of = self._kinds.get(found["kind"]) if found else None
        if found is None or tags_of is None or found.group("region", "account") != self._store.arns:
            raise not_found_error("resource", arn)
        if change is None:
            return tags_of(caller, found["id"], None)
        most = _MOST.get(found["kind"], _MOST_OF_OTHERS)

        def change_and_check(tags: dict[str, str]) -> dict[str, str]:
            changed = change(tags)
            check_tags(changed, most)
            return changed

        return tags_of(caller, found["id"], change_and_check)

    def put(self, caller: Caller, arn: str, tags: Mapping[str, str] | None) -> None:
        """Stores the tags of a new agent or alias."""
        self._stored.put(caller, arn, tags)

    def forget(self, caller: Caller, arn: str) -> None:
        """Deletes the tags of a deleted agent or alias."""
        self._stored.forget(caller, arn)

    def _of_agent(self, caller: Caller, id: str, change: TagChange | None) -> dict[str, str]:
        record = self._store.agent(caller, id)
        folder = record.folder
        if folder is None:
            return self._stored.change(caller, self._store.arns.agent(id), change)
        if change is not None:
            raise ValidationError(
                f"the agent {folder.agent_id!r} is defined in {str(folder.file)!r}, and is tagged "
                "by editing that file"
            )
        return dict((folder.definition and folder.definition.tags) or {})

    def _of_alias(self, caller: Caller, id: str, change: TagChange | None) -> dict[str, str]:
        agent_id, _, alias_id = id.partition("/")
        self._store.agent(caller, agent_id)
        if alias_id == TEST_ALIAS or not self._store.alias(caller, agent_id, alias_id):
            raise not_found_error("alias", alias_id)
        return self._stored.change(caller, self._store.arns.alias(agent_id, alias_id), change)


def operations_of_tags(tags: Tags) -> dict[str, Handler]:
    """TagResource, UntagResource and ListTagsForResource, which are the same in both services."""

    def tag(request: Request) -> dict[str, Any]:
        added = request.params["tags"]
        tags.of(request.caller, request.params["resourceArn"], lambda had: {**had, **added})
        return {}

    def untag(request: Request) -> dict[str, Any]:
        gone = set(request.params["tagKeys"])

        def remove_keys(had: dict[str, str]) -> dict[str, str]:
            return {key: value for key, value in had.items() if key not in gone}

        tags.of(request.caller, request.params["resourceArn"], remove_keys)
        return {}

    def list_tags(request: Request) -> dict[str, Any]:
        return {"tags": tags.of(request.caller, request.params["resourceArn"])}

    return {"TagResource": tag, "UntagResource": untag, "ListTagsForResource": list_tags}
