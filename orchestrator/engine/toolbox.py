"""All that an agent's model may call: operations, searches and messages to other agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.actions import Catalog, Operation
from orchestrator.engine.changes import only_reads
from orchestrator.knowledge import KnowledgeBase
from orchestrator.models.base import CallFormat, OperationFormat
from orchestrator.prompts import Dialect
from orchestrator.support.words import drop_http_verb

_SEARCH = {
    "searchQuery": {"type": "string", "description": "What to search for, as a full sentence."}
}
_SEARCH_SCHEMA = {"type": "object", "properties": _SEARCH, "required": ["searchQuery"]}
_MESSAGE_TEXT = "Sends a message to another agent, or the final answer or a question to the User."

# What a prompt says of it besides (recorded: that it does).
_MESSAGE_RETURNS = {
    "type": "string",
    "description": "What the other agent answers.",
    "error": "Why the message could not be delivered or answered.",
}


class Toolbox:
    """What may be called, in each protocol's grammar.

    Attributes:
        recipients: Names of the agents that may be sent messages; the user is always one of them
            when there are any.
    """

    def __init__(
        self,
        catalog: Catalog,
        knowledge_bases: Sequence[KnowledgeBase] = (),
        collaborators: Sequence[str] = (),
    ) -> None:
        self.catalog = catalog
        self.knowledge_bases = knowledge_bases
        self.recipients = (*collaborators, "User") if collaborators else ()

    def descriptions(self, protocol: str) -> list[dict[str, Any]]:
        """What may be called, for a prompt: `name`, `description` and `parameters` of each.

        `short_name` is the name without its HTTP verb, as small models write it.
        """
        searches = [
            {
                "name": search_name(base.id, protocol),
                "description": base.description,
                "parameters": [{"name": "searchQuery", "required": True, **_SEARCH["searchQuery"]}],
            }
            for base in self.knowledge_bases
        ]
        # A supervisor asks the user as it answers: by a message (recorded).
        ask_user = False if self.recipients else None
        actions = self.catalog.descriptions(protocol, ask_user)
        tools = (*actions, *searches, *self._messages(protocol))
        return [{**tool, "short_name": drop_http_verb(tool["name"])} for tool in tools]

    def _messages(self, protocol: str) -> list[dict[str, Any]]:
        if not self.recipients:
            return []
        properties = self._message_schema()["properties"]
        parameters = [{"name": name, "required": True, **it} for name, it in properties.items()]
        name = message_name(protocol)
        tool = {"name": name, "description": _MESSAGE_TEXT, "parameters": parameters}
        return [tool if protocol == "tool_use" else {**tool, "returns": _MESSAGE_RETURNS}]

    def _message_schema(self) -> dict[str, Any]:
        recipient = {
            "type": "string",
            "description": "Whom the message is for.",
            "enum": list(self.recipients),
        }
        content = {"type": "string", "description": "The whole message."}
        properties = {"recipient": recipient, "content": content}
        return {"type": "object", "properties": properties, "required": list(properties)}

    def tool_specs(self) -> Sequence[Mapping[str, Any]]:
        """Converse's tool specifications; the catalog's own object where there is nothing else."""
        added = [
            _spec(search_name(base.id, "tool_use"), base.description or "Searches.", _SEARCH_SCHEMA)
            for base in self.knowledge_bases
        ]
        if self.recipients:
            added.append(_spec(message_name("tool_use"), _MESSAGE_TEXT, self._message_schema()))
            return (*self.catalog.tool_specs(ask_user=False), *added)
        specs = self.catalog.tool_specs()
        return (*specs, *added) if added else specs

    def call_format(self, dialect: Dialect) -> CallFormat:
        """What a well-formed call looks like."""
        protocol = dialect.protocol
        formats = [
            OperationFormat(
                tool_name(operation, protocol),
                operation.schema,
                only_reads(operation),
                operation.description,
            )
            for operation in self.catalog.operations
        ]
        formats += [
            OperationFormat(search_name(base.id, protocol), _SEARCH_SCHEMA, True)
            for base in self.knowledge_bases
        ]
        if self.recipients:
            formats.append(OperationFormat(message_name(protocol), self._message_schema()))
        ask_user = self.catalog.ask_user and not self.recipients
        return CallFormat(
            protocol,
            tuple(formats),
            ask_user,
            dialect.unknown_value,
            grounded=dialect.grounded,
        )


def _mark(protocol: str) -> str:
    return "__" if protocol == "tool_use" else "::"


def message_name(protocol: str) -> str:
    """The name of messages to other agents, in the protocol's grammar."""
    return f"AgentCommunication{_mark(protocol)}sendMessage"


def search_name(id: str, protocol: str) -> str:
    """The name of a knowledge base's search, in the protocol's grammar."""
    mark = _mark(protocol)
    return f"GET{mark}x_amz_knowledgebase_{id}{mark}Search"


def _spec(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"name": name, "description": description, "inputSchema": {"json": schema}}
    return {"toolSpec": spec}


def tool_name(operation: Operation, protocol: str) -> str:
    """An operation's name in the protocol's grammar."""
    return operation.tool_use_name if protocol == "tool_use" else operation.xml_name
