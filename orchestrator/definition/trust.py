"""What only a trusted definition may ask for: whoever sends one must not get at the host."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.definition.action_group import ActionGroupDefinition
from orchestrator.definition.agent import AgentDefinition
from orchestrator.definition.files import PROMPTS
from orchestrator.models import file_of_model
from orchestrator.support.documents import Keys, combine_findings

_WAY_OUT = "pass trusted=True if you wrote this definition or know who did"
_Findings = Iterator[tuple[str, Keys]]


def refuse_untrusted(definition: AgentDefinition, *, folder: bool, models: bool) -> None:
    """Refuses what reaches out of a definition that nobody vouches for.

    That is: programs that it would start, and a script that would orchestrate it; the process's
    variables and the session's attributes, sent to servers of its choosing; addresses of models of
    its choosing, and hosts in private networks; and files, unless there is a folder that confines
    them.

    Args:
        definition: The definition.
        folder: Whether it has a folder, so that it may name files in it.
        models: Whether the models that it names are used.

    Raises:
        DefinitionError: It asks for any of these. The error names all.
    """
    named = [*_of_groups(definition), *_of_knowledge(definition)]
    if definition.orchestration is not None:
        text = f"the script {definition.orchestration!r} would orchestrate the agent"
        named.append((text, ("orchestration",)))
    if models:
        named += _of_models(definition, folder)
    if named:
        error = definition.source.diagnostic
        raise combine_findings(
            error("error", "untrusted", text, *keys, suggestion=_WAY_OUT) for text, keys in named
        )


def _of_groups(definition: AgentDefinition) -> _Findings:
    for index, group in enumerate(definition.action_groups):
        for text, keys in _of_group(group):
            yield text, ("actionGroups", index, "actionGroupExecutor", *keys)


def _of_group(group: ActionGroupDefinition) -> _Findings:
    name, executor = group.action_group_name, group.action_group_executor
    if executor is None:
        return
    # A command runs with the rights of this process.
    if executor.mcp is not None and executor.mcp.command is not None:
        program = executor.mcp.command[0]
        yield f"the action group {name!r} would start {program!r}", ("mcp", "command")
    for member, server in (("http", executor.http), ("mcp", executor.mcp)):
        for header, value in ((server and server.headers) or {}).items():
            # `${env:NAME}` would send this process's secrets to a server that the sender chose.
            if "${" in value:
                yield (
                    f"the action group {name!r} would send a value of this process or of the "
                    f"session in the header {header!r}",
                    (member, "headers", header),
                )
        # `allowPrivate` opens the private network: only whoever runs the process may do that.
        if hosts := getattr(server, "allow_private", ()):
            text = f"the action group {name!r} would call {hosts[0]!r} in a private network"
            yield text, (member, "allowPrivate")


def _of_knowledge(definition: AgentDefinition) -> _Findings:
    for index, base in enumerate(definition.knowledge_bases):
        # Documents and questions would be sent to the address.
        if _is_remote(base.embedder):
            at = ("knowledgeBases", index, "embedder")
            yield f"the embedder {base.embedder!r} is at an address", at


def _of_models(definition: AgentDefinition, folder: bool) -> _Findings:
    named: list[tuple[str | None, Keys]] = [(definition.foundation_model, ("foundationModel",))]
    for index, stage in enumerate(definition.prompts):
        named.append((stage.foundation_model, (*PROMPTS, index, "foundationModel")))
    for spec, keys in named:
        if _is_remote(spec):
            yield f"the model {spec!r} is at an address", keys
        elif spec and not folder and file_of_model(spec):
            yield f"the model {spec!r} is a file, and there is no folder= that confines it", keys


def _is_remote(spec: str | None) -> bool:
    return spec is not None and spec.strip().startswith("openai:") and "@" in spec
