"""Agents among the resources of a Terraform plan, state or source → `Document`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.engine.plan import MOST_LEVELS
from orchestrator.transfer.build_document import (
    as_mapping,
    build_document,
    list_mappings,
)
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.remote import parse_alias_arn
from orchestrator.transfer.terraform.references import References
from orchestrator.transfer.terraform.resources import (
    Gap,
    Resource,
    find_after_unknown,
    is_unknown_at,
    iter_missing,
    read_resources,
)
from orchestrator.transfer.unknown_values import make_placeholder_id

_AGENT = ("aws_bedrockagent_agent", "awscc_bedrock_agent")
_GROUP = "aws_bedrockagent_agent_action_group"
_BASE = "aws_bedrockagent_agent_knowledge_base_association"
_MEMBER = "aws_bedrockagent_agent_collaborator"
_ALIAS = ("aws_bedrockagent_agent_alias", "awscc_bedrock_agent_alias")
_GUARDRAIL = ("aws_bedrock_guardrail", "awscc_bedrock_guardrail")

# What a part must have to be one.
_NAMES = {_GROUP: "action_group_name", _MEMBER: "collaborator_name"}
_NOT_OF_A_PART = ("agent_version", "prepare_agent")
# What says which agent a part belongs to, and what is found by references.
_LINKS = ("agent_id", "knowledge_base_id", "agent_descriptor", "action_group_executor")


def read_terraform(plan: Mapping[str, Any]) -> dict[str, Document]:
    """The agents of a plan or state, by their addresses, with those of it that they lead.

    What a plan does not know yet is found by the configuration's references, or noted.

    Raises:
        DefinitionError: An agent is wrong, or modules are nested without end.
    """
    return read_agents(read_resources(plan), plan)


def read_agents(
    resources: Sequence[Resource], plan: Mapping[str, Any] | None = None
) -> dict[str, Document]:
    """The agents among resources; those of a plan know its configuration's references.

    Raises:
        DefinitionError: An agent is wrong.
    """
    reader = _Reader([it for it in resources if it.mode == "managed"], plan or {})
    return {it.address: reader.read_agent(it, ()) for it in reader.find_by_type(*_AGENT)}


class _Reader:
    def __init__(self, resources: Sequence[Resource], plan: Mapping[str, Any]) -> None:
        self.resources = resources
        self.references = References(plan)
        self.after_unknown = find_after_unknown(plan)
        self.known: dict[str, Document] = {}

    def find_by_type(self, *kinds: str) -> list[Resource]:
        return [it for it in self.resources if it.kind in kinds]

    def read_agent(self, agent: Resource, above: tuple[str, ...]) -> Document:
        if agent.address not in self.known:
            notes: list[Any] = []
            values = self.read_own_values(agent, notes)
            own = ("action_groups", "knowledge_bases", "agent_collaborators")
            parts = [list_mappings(values.pop(name, None)) for name in own]
            for kind, listed in zip((_GROUP, _BASE, _MEMBER), parts, strict=True):
                found = [it for it in self.find_by_type(kind) if self.find_owner(it) is agent]
                listed += [self.read_part(it, notes) for it in found if self.has_name(it, notes)]
            # The id of an agent that is not deployed is a stand-in, by which its parts find it.
            id = None if agent.folder else agent.values.get("agent_id")
            document = build_document(values, parts, agent_id=id)
            if document.name == "agent" and not agent.values.get("agent_name"):
                document.data["agentName"] = agent.name
            document.line = agent.line
            self.known[agent.address] = document
            self.read_team(document, agent, (*above, agent.address))
            document.stand_ins = {it: stand_in for it, stand_in in notes if stand_in}
            document.notes += [it for it, _ in notes]
            document.drop_idle_notes()
        return self.known[agent.address]

    def read_own_values(self, agent: Resource, notes: list[Any]) -> dict[str, Any]:
        values = {k: v for k, v in agent.values.items() if k != "agent_version"}
        gaps = self.find_gaps(agent)
        guardrail = self.find_guardrail(agent, gaps)
        if guardrail is not None:
            id = make_placeholder_id(guardrail.name).lower()
            block = {"guardrail_identifier": id, "guardrail_version": "DRAFT"}
            known = _first_block(values.get("guardrail_configuration")) or {}
            values["guardrail_configuration"] = {**block, **{k: v for k, v in known.items() if v}}
            text = f"{agent.address}.guardrail_configuration.guardrail_identifier"
            notes.append((_make_unknown_note(text, id), id))
            gaps = [it for it in gaps if not it.path.startswith("guardrail_configuration")]
        notes += [(_make_gap_note(agent, it), it.stand_in) for it in gaps]
        return values

    def find_guardrail(self, agent: Resource, gaps: Sequence[Gap]) -> Resource | None:
        if all(it.path != "guardrail_configuration.guardrail_identifier" for it in gaps):
            return None
        places = self.references.resolve_member(agent.place, "guardrail_configuration")
        found = [it for it in self.find_by_type(*_GUARDRAIL) if it.place in places]
        return found[0] if found else None

    def find_gaps(self, resource: Resource) -> list[Gap]:
        # A source has noted its own. A plan's are where an expression refers to something, and
        # there is no value; `after_unknown` tells them from values that are null.
        gaps = [*resource.gaps]
        expressions = self.references.find_expressions(resource.place)
        after = self.after_unknown.get(resource.address)
        for member, expression in expressions.items():
            for path in iter_missing(expression, resource.values.get(member), member):
                if after is None or is_unknown_at(after, path.split(".")):
                    gaps.append(Gap(path))
        return gaps

    def find_owner(self, part: Resource) -> Resource | None:
        return self.find_referenced(part, "agent_id", _AGENT, ("agent_id", "id"))

    def find_referenced(
        self, part: Resource, member: str, kinds: Sequence[str], ids: tuple[str, ...]
    ) -> Resource | None:
        # A state has values. A plan has only references for what is not made yet; of several
        # resources with one address, that with the same `count` or `for_each` index is meant.
        value = part.values.get(member)
        candidates = self.find_by_type(*kinds)
        if value is not None:
            known = [it for it in candidates if value in [it.values.get(id) for id in ids]]
            if known:
                return known[0]
        places = self.references.resolve_member(part.place, member)
        found = [it for it in candidates if it.place in places]
        same = [it for it in found if it.indexes == part.indexes]
        if same or len(found) == 1:
            return (same or found)[0]
        return None

    def has_name(self, part: Resource, notes: list[Any]) -> bool:
        """Whether a part can be told from others; one that cannot is left out, and noted."""
        member = _NAMES.get(part.kind)
        gap = next((it for it in part.gaps if it.path == member), None)
        if gap is None or part.values.get(str(member)):
            return True
        text = f"{part.address} is left out: {gap.path} {gap.text}"
        notes.append((note("unknown", text, gap.way, file=gap.file, line=gap.line), ""))
        return False

    def read_part(self, part: Resource, notes: list[Any]) -> dict[str, Any]:
        values = {k: v for k, v in part.values.items() if k not in _NOT_OF_A_PART}
        gaps = [it for it in self.find_gaps(part) if it.path.split(".")[0] not in _LINKS]
        if part.kind == _GROUP:
            self.put_lambda(part, values, notes)
        if part.kind == _MEMBER:
            self.put_alias(part, values, notes)
        if part.kind == _BASE and not values.get("knowledge_base_id"):
            places = sorted(self.references.resolve_member(part.place, "knowledge_base_id"))
            id = make_placeholder_id((places or [part.name])[0].split(".")[-1])
            values["knowledge_base_id"] = id
            notes.append((_make_unknown_note(f"{part.address}.knowledge_base_id", id, part), id))
        notes += [(_make_gap_note(part, it), it.stand_in) for it in gaps]
        return values

    def put_lambda(self, part: Resource, values: dict[str, Any], notes: list[Any]) -> None:
        # A plan does not know the ARN of a function that is not made yet; its name is enough for
        # a placeholder.
        own = _first_block(values.get("action_group_executor") or [{}])
        if own is None or own.get("lambda") or own.get("custom_control"):
            return
        if values.get("parent_action_group_signature"):
            return
        places = self.references.resolve_member(part.place, "action_group_executor")
        functions = [it for it in self.resources if it.place in places and "lambda" in it.kind]
        names = [str(it.values.get("function_name") or it.name) for it in functions]
        name = (names or [it.split(".")[-1] for it in sorted(places)] or [part.name])[0]
        arn = f"arn:aws:lambda:us-east-1:000000000000:function:{name}"
        values["action_group_executor"] = [{"lambda": arn}]
        text = f"{part.address}.action_group_executor.lambda"
        notes.append((_make_unknown_note(text, arn, part), arn))

    def put_alias(self, part: Resource, values: dict[str, Any], notes: list[Any]) -> None:
        # Whom an ARN names that comes from elsewhere, such as a variable, a plan does not know.
        own = _first_block(values.get("agent_descriptor") or [{}])
        if (own or {}).get("alias_arn") or self.find_collaborator(part) is not None:
            return
        id = make_placeholder_id(str(part.values.get("collaborator_name") or part.name))
        arn = f"arn:aws:bedrock:us-east-1:000000000000:agent-alias/{id}/{id}"
        values["agent_descriptor"] = [{"alias_arn": arn}]
        text = f"{part.address}.agent_descriptor.alias_arn"
        notes.append((_make_unknown_note(text, arn, part), arn))

    def read_team(self, document: Document, agent: Resource, above: tuple[str, ...]) -> None:
        for part in self.find_by_type(_MEMBER):
            if self.find_owner(part) is agent:
                led = self.find_collaborator(part)
                self.add_collaborator(document, part.values.get("collaborator_name"), led, above)
        for member in list_mappings(agent.values.get("agent_collaborators")):
            led = self.find_by_alias(_first_block(member.get("agent_descriptor")))
            self.add_collaborator(document, member.get("collaborator_name"), led, above)

    def add_collaborator(
        self, document: Document, name: Any, led: Resource | None, above: tuple[str, ...]
    ) -> None:
        if led is not None and led.address not in above and len(above) < MOST_LEVELS:
            document.team[str(name)] = self.read_agent(led, above)

    def find_collaborator(self, part: Resource) -> Resource | None:
        block = _first_block(part.values.get("agent_descriptor"))
        if parse_alias_arn((block or {}).get("alias_arn")):
            return self.find_by_alias(block)
        alias = self.find_referenced(part, "agent_descriptor", _ALIAS, ())
        return self.find_owner(alias) if alias is not None else None

    def find_by_alias(self, block: Mapping[str, Any] | None) -> Resource | None:
        ids = parse_alias_arn((block or {}).get("alias_arn"))
        found = [
            it for it in self.find_by_type(*_AGENT) if ids and it.values.get("agent_id") == ids[0]
        ]
        return found[0] if found else None


def _first_block(value: Any) -> Any:
    """A block that can stand once, which providers list or do not; `None` for anything else."""
    block = value[0] if isinstance(value, list) and value else value
    return as_mapping(block) if isinstance(block, Mapping) or not block else None


def _make_unknown_note(what: str, value: str, part: Resource | None = None) -> Any:
    text = f"{what} is known only when applied; {value!r} stands for it"
    way = "change it in agent.yaml, or put a file of yours in its place"
    place = (part.file, part.line) if part else (None, None)
    return note("unknown", text, way, file=place[0], line=place[1])


def _make_gap_note(resource: Resource, gap: Gap) -> Any:
    what = gap.path if gap.file else f"{resource.address}.{gap.path}"
    text = f"{what} {gap.text}" if gap.path else gap.text
    if gap.stand_in:
        text += f"; {gap.stand_in!r} stands for it"
    if gap.path == "agent_resource_role_arn":
        return note("role", text, "only `orchestrator push` needs it", file=gap.file, line=gap.line)
    return note("unknown", text, gap.way, file=gap.file, line=gap.line)
