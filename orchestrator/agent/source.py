"""`AgentSource`: what an agent is built from. `build` in `orchestrator.agent.build` makes it run.

A definition is plain data. It names models, Lambda functions, knowledge bases, guardrails and other
agents; a `Resolver` says what stands for a name where that is not what AWS has under it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.engine.plan import Orchestration, Plan
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.limits import Limits
from orchestrator.memory import MemoryStore
from orchestrator.models import Model, file_of_model, resolve_model
from orchestrator.support.content_root import get_agent_root

if TYPE_CHECKING:
    from orchestrator.actions import ActionGroup
    from orchestrator.definition import AgentCollaborator, AgentDefinition
    from orchestrator.guardrails import Guardrail
    from orchestrator.knowledge import KnowledgeBase
    from orchestrator.sessions import Sessions, SessionStore
    from orchestrator.support.documents import Source

Code = str | Callable[..., Any]
"""What stands for a Lambda function: a function, or `file.py:function`."""


class Resolver:
    """Finds what the names in a definition mean; this one leaves every name its usual meaning.

    A method returns `None` where the usual meaning holds, and raises where a name may not be used.
    """

    # Whether `find_model` decides about every model, so that the definition need not be trusted for
    # those that it names
    decides_models = False

    def find_model(self, spec: str) -> Model | None:
        """The model that is used for a spec."""
        return None

    def find_function(self, arn: str) -> Code | None:
        """The code that stands for the ARN of a Lambda function."""
        return None

    def find_schema(self, bucket: str, key: str) -> str | None:
        """The text of the API schema in a bucket of Amazon S3."""
        return None

    def find_knowledge_base(
        self, id: str, description: str, configuration: Mapping[str, Any] | None
    ) -> KnowledgeBase | None:
        """The knowledge base with an id, with the agent's description and configuration of it."""
        return None

    def find_guardrail(self, id: str, version: str) -> Guardrail | None:
        """The guardrail with an id or ARN; `version` is a number, or `DRAFT`."""
        return None

    def find_agent(self, alias_arn: str) -> Plan | None:
        """The agent that stands for the ARN of an agent's alias."""
        return None


@dataclass(slots=True, eq=False, repr=False)
class Objects:
    """Python objects that stand where a document can only name things."""

    model: Model | None = None  # the model
    # Action groups, by their places in the list
    groups: dict[int, ActionGroup] = field(default_factory=dict)
    # Executors, by the names of their groups
    executors: dict[str, Any] = field(default_factory=dict)
    # Knowledge bases, by their places in the list
    bases: Mapping[int, KnowledgeBase] = field(default_factory=dict)
    guardrail: Guardrail | None = None  # the guardrail
    parser: Callable[..., Any] | None = None  # the function that is the `overrideLambda`
    orchestration: Orchestration | None = None  # what orchestrates instead of the built-in loop


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AgentSource:
    """What an agent is built from, wherever it was read."""

    definition: AgentDefinition  # the members of an `agent.yaml`
    folder: Path | None = None  # where the files are that it names; without one it may name none
    resolver: Resolver = field(default_factory=Resolver)  # finds what it names
    objects: Objects = field(default_factory=Objects)  # objects that it holds
    # Gives the source of an agent that it leads and that is defined beside it, by the agent's place
    # among the collaborators
    open_collaborator: Callable[[int, AgentCollaborator], AgentSource] | None = None
    model: str | Model | None = None  # used instead of every model that it names
    # Whether models of Bedrock that it names answer faster (`performanceConfig.latency`)
    optimized: bool = False
    templates: Path | None = None  # the user's own templates
    # Where sessions live, as for `Agent`
    sessions: Sessions | SessionStore | str | Path | None = None
    memory: MemoryStore | str | Path | None = None  # keeps what is remembered, as for `Agent.load`
    limits: Limits | None = None  # used instead of the definition's
    agent_id: str = ""  # used instead of the definition's
    alias_id: str = "TSTALIASID"  # the alias that traces name
    version: str = "DRAFT"  # the version that traces name
    region: str = "us-east-1"  # the region in the ARN that traces name
    account: str = "000000000000"  # the account in it

    def find_model(self, spec: str, *keys: str | int) -> Model:
        """The model that the definition names; its files are those of the folder.

        Raises:
            DefinitionError: There is no such model, or its file is outside of the folder, with
                file, line and column.
        """
        found = self.resolver.find_model(spec) or self._resolve_model(spec, keys)
        return optimize_model(found) if self.optimized else found

    def _resolve_model(self, spec: str, keys: tuple[str | int, ...]) -> Model:
        from orchestrator.definition.files import locate

        root, source = self.folder or Path(), self.definition.source
        if file := file_of_model(spec, folder=root):
            locate(self.definition, file, keys, root)
        try:
            return resolve_model(spec, folder=root)
        except ValidationError as error:
            # A definition without a file has no line to point to.
            member = "" if source.file or not keys else f"{keys[-1]}: "
            raise _make_model_error(source, f"{member}{error.message}", *keys) from error

    def choose_model(self) -> str | Model:
        """The agent's own model, or its spec.

        Raises:
            DefinitionError: The definition names none, or one that there is not.
        """
        # A spec is a name like those in the definition, a model object is the caller's choice.
        if isinstance(self.model, str) and self.optimized:
            return optimize_model(resolve_model(self.model))
        chosen = self.model or self.objects.model
        if chosen is not None:
            return chosen
        named = self.definition.foundation_model
        if named is None:
            raise _make_model_error(
                self.definition.source,
                f"the agent {self.definition.agent_name!r} has no foundationModel; name one, such "
                "as `foundationModel: local`",
            )
        return self.find_model(named, "foundationModel")


def _make_model_error(source: Source, message: str, *keys: str | int) -> DefinitionError:
    from orchestrator.support.documents import combine_findings

    return combine_findings([source.diagnostic("error", "model", message, *keys)])


def find_model_id(
    definition: AgentDefinition | None, root: Path, stage: str, model: str | None
) -> str:
    """The id of the model that a stage asks; empty when none is named: `model`, or the agent's.

    Raises:
        OrchestratorError: There is no such model.
    """
    if model is not None:
        return resolve_model(model).model_id
    if definition is None:
        return ""
    prompt = definition.prompt(stage)
    source = AgentSource(definition, root)
    if prompt and prompt.foundation_model:
        return source.find_model(prompt.foundation_model).model_id
    own = definition.foundation_model
    return source.find_model(own, "foundationModel").model_id if own else ""


def resolve_script(spec: str | Model | None, folder: Path) -> str | Model | None:
    """A model's spec as it is; a script that names no model speaks as the agent's own one.

    Raises:
        OrchestratorError: The script cannot be read, or the agent's definition is wrong.
    """
    if not isinstance(spec, str) or not spec.startswith("scripted:"):
        return spec
    from orchestrator.definition import load_definition

    script = resolve_model(spec)
    definition = load_definition(folder)
    own = definition.foundation_model
    if script.model_id == "scripted" and own is not None:
        root = get_agent_root(folder)
        script.model_id = AgentSource(definition, root).find_model(own, "foundationModel").model_id
    return script


def optimize_model(model: Model) -> Model:
    """The model, latency-optimised if it is one of Amazon Bedrock's; another one as it is."""
    from orchestrator.models.bedrock import BedrockModel

    if type(model) is not BedrockModel:
        return model
    return BedrockModel(model.model_id, latency="optimized")


@contextmanager
def errors_at(source: AgentSource, *keys: str | int) -> Generator[None, None, None]:
    """Gives errors the place of a member of the definition, unless they name a file already."""
    try:
        yield
    except DefinitionError as error:
        if error.file is not None:
            raise
        raise source.definition.source.error(error.reason, *keys) from error
