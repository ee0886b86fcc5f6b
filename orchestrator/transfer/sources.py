"""A file in any format that agents are exported or deployed in → `Document`s."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import DefinitionError, ResourceNotFound, ValidationError
from orchestrator.support.documents import decode
from orchestrator.transfer.agentcore_toolkit import (
    is_get_agent,
    is_toolkit,
    read_get_agent,
    read_toolkit,
)
from orchestrator.transfer.build_document import refuse_untrusted_document
from orchestrator.transfer.cloudformation import is_cloudformation, load_yaml, read_cloudformation
from orchestrator.transfer.document import Document
from orchestrator.transfer.terraform import read_terraform
from orchestrator.transfer.terraform_resources import is_terraform

_MOST_BYTES = 50_000_000
_FORMATS = (
    "GetAgent's answer, a bedrock_config.json, a CloudFormation template with AWS::Bedrock::Agent, "
    "or the JSON of a Terraform plan or state"
)


@dataclass(frozen=True, slots=True)
class ImportedAgents:
    """The agents of a file."""

    format: str  # what the file is, for people
    agents: dict[str, Document]  # all of its agents, by what the file calls them

    def find_top_level(self) -> dict[str, Document]:
        """The agents that none of the others leads."""
        led = {id(it) for one in self.agents.values() for it in one.team.values()}
        own = {name: it for name, it in self.agents.items() if id(it) not in led}
        return own or dict(self.agents)

    def get_agent(self, name: str) -> Document:
        """The agent with a name: what the file calls it, or its own.

        Raises:
            ValidationError: There is none, or there are several.
        """
        if name in self.agents:
            return self.agents[name]
        found = [it for it in self.agents.values() if it.name == name]
        if len(found) == 1:
            return found[0]
        some = "several agents" if found else "no agent"
        raise ValidationError(f"there is {some} {name!r}; there are {', '.join(self.agents)}")


def read_source(
    file: Path, others: Sequence[Path] = (), parameters: Mapping[str, str] | None = None
) -> ImportedAgents:
    """Reads the agents of a file, whose format shows in what it holds.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: It is none of the formats, or its agents name what is on this machine.
        DefinitionError: It cannot be read, or an agent is wrong.
    """
    data = _load_file(file)
    extra = [_load_file(it) for it in others]
    found = _read_agents(data, extra, parameters or {}, str(file))
    if extra and found.format != "GetAgent":
        raise ValidationError(f"only GetAgent's answer has others beside it, not {found.format}")
    for document in found.agents.values():
        refuse_untrusted_document(document)
    return found


def _read_agents(
    data: Mapping[str, Any],
    extra: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, str],
    file: str,
) -> ImportedAgents:
    if is_cloudformation(data):
        return ImportedAgents("CloudFormation", read_cloudformation(data, parameters))
    if is_terraform(data):
        agents = read_terraform(data)
        if not agents:
            raise ValidationError(f"{file!r} has no aws_bedrockagent_agent")
        return ImportedAgents("Terraform", agents)
    if is_toolkit(data):
        document = read_toolkit(data)
        return ImportedAgents("bedrock_config.json", {document.name: document})
    if is_get_agent(data):
        document = read_get_agent(data, extra)
        return ImportedAgents("GetAgent", {document.name: document})
    raise ValidationError(f"{file!r} holds no agent: {_FORMATS} would")


def _load_file(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file {str(file)!r}") from None
    text = decode(content, str(file), limit=_MOST_BYTES)
    data = _parse(text, str(file))
    if not isinstance(data, Mapping):
        raise ValidationError(f"{str(file)!r} holds no agent: {_FORMATS} would")
    return data


def _parse(text: str, file: str) -> Any:
    if text.lstrip()[:1] != "{":
        return load_yaml(text, file)
    try:
        return json.loads(text)
    except RecursionError:
        raise DefinitionError("it is nested too deeply", file=file) from None
    except json.JSONDecodeError as error:
        with suppress(DefinitionError):  # a text that begins like JSON may be YAML's flow style
            return load_yaml(text, file)
        raise DefinitionError(
            f"this is not JSON: {error.msg}", file=file, line=error.lineno, column=error.colno
        ) from None
