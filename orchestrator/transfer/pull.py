"""An agent at AWS, or behind any endpoint, → a `Document`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from orchestrator.diagnostics import Diagnostic
from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.errors import (
    AccessDenied,
    DefinitionError,
    DependencyFailed,
    OrchestratorError,
    ResourceNotFound,
)
from orchestrator.prompts.placeholders import lookup, scan
from orchestrator.transfer.build_document import refuse_untrusted_document
from orchestrator.transfer.document import (
    PARTS,
    Document,
    PartKind,
    list_lambdas,
    note,
    stages_of,
)
from orchestrator.transfer.normalize import normalize_agent
from orchestrator.transfer.remote import DRAFT, Remote, check_id, parse_alias_arn

TEST_ALIAS = "TSTALIASID"
"""The alias of the working draft, which every agent has (Bedrock)."""

# Agents that are read for one; a team has at most ten members, on three levels.
_MOST_AGENTS = 100

_AGENT = (
    *("agentName", "agentId", "description", "instruction", "foundationModel"),
    *("idleSessionTTLInSeconds", "agentResourceRoleArn", "customerEncryptionKeyArn", "tags"),
    *("promptOverrideConfiguration", "guardrailConfiguration", "memoryConfiguration"),
    *("agentCollaboration", "orchestrationType", "customOrchestration"),
)


def read_agent(
    remote: Remote, agent_id: str, *, alias: str | None = None, version: str | None = None
) -> Document:
    """Reads an agent with all of its parts, and the agents that it leads.

    API schemas in Amazon S3 become texts. No code of Lambda functions is read.

    Args:
        remote: Where the agent is.
        agent_id: Its id.
        alias: The id or the name of an alias: the version that it leads to is read.
        version: A version's number; without both, the working draft.

    Raises:
        ValidationError: An id is none, or the agent names what is on this machine;
            `ResourceNotFound` when there is no such agent.
        DefinitionError: The endpoint's answer is no agent.
        DependencyFailed: The endpoint failed, or its answer makes no sense.
    """
    check_id(agent_id, "an agent")
    if alias is not None:
        alias_id = alias if alias == TEST_ALIAS else find_alias_id(remote, agent_id, alias)
        if not alias_id:
            text = f"the agent {agent_id!r} has no alias with the id or name {alias!r}"
            raise ResourceNotFound(text)
        version = read_alias_version(remote, agent_id, alias_id)
    reader = _Reader(remote)
    document = reader.read_agent(agent_id, version or DRAFT, ())
    _add_aliases(document, remote, agent_id, version)
    refuse_untrusted_document(document)
    for one in document.iter_agents():
        one.notes += _note_what_stays(one, remote)
    return document


def _add_aliases(document: Document, remote: Remote, agent_id: str, version: str | None) -> None:
    # The working draft stands for all aliases that lead to it: whoever pulls it runs it in place
    # of each.
    try:
        found = list(_list_aliases(remote, agent_id))
    except OrchestratorError as error:
        text = f"the aliases of the agent were not transferred: {error.message}"
        document.notes.append(note("aliases", text))
        return
    aliases = [
        {"agentAliasName": it.get("agentAliasName"), "agentAliasId": it.get("agentAliasId")}
        for it in found
        if it.get("agentAliasId") != TEST_ALIAS
        and (version or DRAFT) in (DRAFT, _get_target_version(it))
    ]
    if aliases:
        document.data["aliases"] = aliases


def _list_aliases(remote: Remote, agent_id: str) -> Iterable[dict[str, Any]]:
    what = f"the aliases of the agent {agent_id!r}"
    return remote.pages(what, "list_agent_aliases", "agentAliasSummaries", agentId=agent_id)


def _get_target_version(alias: dict[str, Any]) -> str:
    routes = alias.get("routingConfiguration") or [{}]
    return str(routes[0].get("agentVersion") or DRAFT)


def find_alias_id(remote: Remote, agent_id: str, name: str) -> str:
    """The id of the alias with a name, or with that id; empty when there is none.

    Raises:
        OrchestratorError: The endpoint failed.
    """
    for it in _list_aliases(remote, agent_id):
        if name in (it.get("agentAliasName"), it.get("agentAliasId")):
            return check_id(it.get("agentAliasId"), "an alias")
    return ""


def read_alias_version(remote: Remote, agent_id: str, alias: str) -> str:
    """The version that an alias leads to.

    Raises:
        OrchestratorError: There is no such alias, or the endpoint failed.
    """
    if alias == TEST_ALIAS:
        return DRAFT
    check_id(alias, "an alias")
    return _get_target_version(fetch_alias(remote, agent_id, alias))


def fetch_agent(remote: Remote, agent_id: str) -> dict[str, Any]:
    """GetAgent's answer about an agent."""
    answer = remote.call(f"the agent {agent_id!r}", "get_agent", agentId=agent_id)
    found: dict[str, Any] = answer.get("agent") or {}
    return found


def fetch_alias(remote: Remote, agent_id: str, alias: str) -> dict[str, Any]:
    """GetAgentAlias's answer about an alias."""
    what = f"the alias {alias!r} of the agent {agent_id!r}"
    answer = remote.call(what, "get_agent_alias", agentId=agent_id, agentAliasId=alias)
    found: dict[str, Any] = answer.get("agentAlias") or {}
    return found


def read_single_agent(remote: Remote, agent_id: str, version: str = DRAFT) -> Document:
    """Reads an agent with its parts, without the agents that it leads or schemas in Amazon S3.

    Raises:
        OrchestratorError: There is no such agent, or the endpoint failed.
    """
    return _Reader(remote).read_single_agent(agent_id, version)


class _Reader:
    """Reads agents, each version of one only once."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.known: dict[tuple[str, str], Document] = {}

    def read_agent(self, agent_id: str, version: str, above: tuple[str, ...]) -> Document:
        key = (agent_id, version)
        if key not in self.known:
            if len(self.known) >= _MOST_AGENTS:
                raise DependencyFailed(f"the team has more than {_MOST_AGENTS} agents")
            document = self.known[key] = self.read_single_agent(agent_id, version)
            self.fetch_schemas(document)
            self.read_team(document, (*above, agent_id))
        return self.known[key]

    def read_single_agent(self, agent_id: str, version: str) -> Document:
        agent, arn = self.fetch_agent(agent_id, version)
        at = {"agentId": agent_id, "agentVersion": version}
        parts = {part: self.fetch_parts(kind, at) for part, kind in PARTS.items()}
        tags, notes = self.fetch_tags(agent_id, arn)
        data = {**_pick_members(agent, _AGENT), "tags": tags, **parts}
        return Document(normalize_agent(data, listed=True), notes=notes)

    def fetch_agent(self, agent_id: str, version: str) -> tuple[dict[str, Any], str]:
        agent = fetch_agent(self.remote, agent_id)
        if version != DRAFT:
            what = f"version {version} of the agent {agent_id!r}"
            answer = self.remote.call(
                what, "get_agent_version", agentId=agent_id, agentVersion=version
            )
            # GetAgentVersion leaves custom orchestrations out; that of the draft is used.
            members = ("orchestrationType", "customOrchestration", "agentArn")
            agent = {**_pick_members(agent, members), **answer.get("agentVersion", {})}
        if agent.get("agentId") != agent_id:
            raise DependencyFailed(f"the endpoint answered with another agent than {agent_id!r}")
        return agent, str(agent.get("agentArn", ""))

    def fetch_parts(self, kind: PartKind, at: dict[str, str]) -> list[dict[str, Any]]:
        what = f"the {kind.noun}s of the agent {at['agentId']!r}"
        found = list(self.remote.pages(what, kind.operation("list") + "s", kind.listed, **at))
        if kind.get:  # else the list has all of each item
            ids = [{kind.id: check_id(it.get(kind.id), f"the {kind.noun}")} for it in found]
            answers = (self.remote.call(what, kind.operation("get"), **id, **at) for id in ids)
            found = [answer.get(kind.get, {}) for answer in answers]
        # A model sees the tools in their order, so it has to be the same in every pull.
        if all("createdAt" in part for part in found):
            found.sort(key=lambda part: part["createdAt"])
        return [_pick_members(part, kind.members) for part in found]

    def fetch_tags(self, agent_id: str, arn: str) -> tuple[dict[str, str], list[Any]]:
        if not arn:
            return {}, []
        try:
            answer = self.remote.call(
                f"the tags of the agent {agent_id!r}", "list_tags_for_resource", resourceArn=arn
            )
        except OrchestratorError as error:
            return {}, [note("tags", f"the tags were not transferred: {error.message}")]
        tags = answer.get("tags") or {}
        # AWS: the prefix `aws:` is reserved; nobody else may set such a tag.
        own = {name: value for name, value in tags.items() if not name.startswith("aws:")}
        return own, []

    def fetch_schemas(self, document: Document) -> None:
        for group in document.parts("actionGroups"):
            place = (group.get("apiSchema") or {}).get("s3")
            if place is None:
                continue
            try:
                group["apiSchema"] = {"payload": self.remote.read_schema(place)}
            except (DefinitionError, DependencyFailed) as error:
                name = group.get("actionGroupName")
                text = f"the schema of {name!r} stays in Amazon S3: {error.message}"
                document.notes.append(note("schema", text))

    def read_team(self, document: Document, above: tuple[str, ...]) -> None:
        for member in document.parts("agentCollaborators"):
            name = str(member.get("collaboratorName"))
            arn = (member.get("agentDescriptor") or {}).get("aliasArn")
            ids = parse_alias_arn(arn)
            if ids is None:
                raise DependencyFailed(f"{arn!r} of the collaborator {name!r} is no alias's ARN")
            if ids[0] in above or len(above) >= MOST_LEVELS:
                why = "leads back to itself" if ids[0] in above else "is on too deep a level"
                text = f"the collaborator {name!r} {why}, and stays where {arn!r} says"
                document.notes.append(note("collaborator", text))
                continue
            try:
                version = read_alias_version(self.remote, *ids)
                document.team[name] = self.read_agent(ids[0], version, above)
            except (AccessDenied, ResourceNotFound) as error:
                text = f"the collaborator {name!r} stays where {arn!r} says: {error.message}"
                document.notes.append(note("collaborator", text))


def _pick_members(data: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def _note_what_stays(document: Document, remote: Remote) -> Iterator[Diagnostic]:
    for where, arn in list_lambdas(document.data):
        text = f"the code of the Lambda function {arn!r} ({where}) was not transferred"
        way = "put a handler file in the folder and name it instead, or leave it in AWS"
        yield note("lambda", text, way)
    for group in document.parts("actionGroups"):
        if not (group.get("actionGroupExecutor") or group.get("parentActionGroupSignature")):
            text = f"the endpoint does not say what runs {group.get('actionGroupName')!r}"
            way = "name it before the agent runs: actionGroupExecutor: {lambda: handler.py}"
            yield note("executor", text, way)
    for stage in stages_of(document.data):
        if _is_in_other_language(stage.get("basePromptTemplate") or "", stage["promptType"]):
            text = f"the template of {stage['promptType']} has none of Bedrock's placeholders, and "
            text += "seems to be in another language, which the endpoint cannot name"
            yield note("template-language", text, "say which: templateFormat, beside the template")
    for base in document.parts("knowledgeBases"):
        id = base.get("knowledgeBaseId")
        places = ", ".join(_list_document_locations(remote, str(id)))
        where = f" ({places})" if places else ""
        text = f"the documents of the knowledge base {id!r}{where} stay where they are, and it is "
        way = "to search documents of the folder instead, give it `folder: documents`"
        yield note("knowledge-base", f"{text}asked there", way)
    if guardrail := document.data.get("guardrailConfiguration"):
        text = f"the guardrail {guardrail.get('guardrailIdentifier')!r} is asked in AWS"
        way = "to check texts in this process instead, name a `file:` in guardrailConfiguration"
        yield note("guardrail", text, way)


def _is_in_other_language(text: str, stage: str) -> bool:
    known = any(lookup(name, stage) is not None for _, _, name in scan(text, stage))
    return "{{" in text and not known


def _list_document_locations(remote: Remote, base: str) -> list[str]:
    what = f"the data sources of the knowledge base {base!r}"
    found = []
    try:
        key = "dataSourceSummaries"
        for it in remote.pages(what, "list_data_sources", key, knowledgeBaseId=base):
            id = check_id(it.get("dataSourceId"), "a data source")
            answer = remote.call(what, "get_data_source", knowledgeBaseId=base, dataSourceId=id)
            source = (answer.get("dataSource") or {}).get("dataSourceConfiguration") or {}
            place = source.get("s3Configuration") or {}
            if bucket := str(place.get("bucketArn") or "").rpartition(":")[2]:
                prefixes = place.get("inclusionPrefixes") or [""]
                found += [f"s3://{bucket}/{prefix}" for prefix in prefixes]
    # The locations are only for a note: the agent is complete without them.
    except OrchestratorError:
        return found
    return found
