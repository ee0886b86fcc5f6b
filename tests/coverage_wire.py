"""Which members of operations and contracts work, by trying each; see `coverage_page.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from pydoc import locate
from tempfile import TemporaryDirectory
from typing import Any

from botocore_shapes import service
from coverage_turns import CODE_FILE, HISTORY
from whole_agents import CLAUDE_35, NATIVE, Calls, answer

from orchestrator import ActionGroup, Agent, OrchestratorError, ReturnControl
from orchestrator.definition.guardrail_file import guardrail_of
from orchestrator.guardrails.bedrock import trace_assessment
from orchestrator.knowledge import BedrockKnowledgeBase, LocalKnowledgeBase
from orchestrator.server.runtime.invoke import OptimizedAgents
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

Row = tuple[str, ...]


def code(name: str) -> str:
    return f"`{name}`"


def state(works: Any) -> str:
    return "works" if works else "not yet"


# Operations

_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "InvokeAgent": ("Agent.invoke", "Agent.stream", "Agent.ainvoke", "Agent.astream"),
    "InvokeInlineAgent": ("Agent.inline",),
    "GetAgentMemory": ("Agent.memories",),
    "DeleteAgentMemory": ("Agent.forget",),
    "Retrieve": ("knowledge.LocalKnowledgeBase", "knowledge.BedrockKnowledgeBase"),
    "Rerank": ("knowledge.BedrockReranker",),
    "ApplyGuardrail": ("guardrails.LocalGuardrail", "guardrails.BedrockGuardrail"),
    "Converse": ("models.BedrockModel",),
    "ConverseStream": ("models.BedrockModel",),
    "InvokeModel": ("models.BedrockModel",),
    "InvokeModelWithResponseStream": ("models.BedrockModel",),
}
_OTHERS = ("ApplyGuardrail", "Converse", "ConverseStream", "InvokeModel",
           "InvokeModelWithResponseStream")  # fmt: skip


def operations(of_server: Collection[str]) -> Iterator[Row]:
    """Operations of the agents' runtime, and those of the models' that an agent needs."""
    for name, here in _OPERATIONS.items():
        which = "bedrock-runtime" if name in _OTHERS else "bedrock-agent-runtime"
        assert name in service(which).operation_names, name
        for one in here:
            assert locate(f"orchestrator.{one}") is not None, one
        yield code(name), which, "works", ", ".join(map(code, here))
    left = [name for name in service().operation_names if name not in _OPERATIONS]
    for which, names in (
        ("server only", [it for it in left if it in of_server]),
        ("not yet", [it for it in left if it not in of_server]),
    ):
        yield ", ".join(map(code, names)), "bedrock-agent-runtime", which, ""


# Members of InvokeAgent and InvokeInlineAgent

_STATE: Mapping[str, Any] = {
    "sessionAttributes": {"a": "b"},
    "promptSessionAttributes": {"a": "b"},
    "conversationHistory": {"messages": HISTORY},
    "files": [{**CODE_FILE, "useCase": "CHAT"}],
    "knowledgeBaseConfigurations": [
        {
            "knowledgeBaseId": "HANDBOOK01",
            "retrievalConfiguration": {"vectorSearchConfiguration": {"numberOfResults": 1}},
        }
    ],
}
_RESULTS = ("invocationId", "returnControlInvocationResults")
_INVOKE: Mapping[str, Any] = {
    "endSession": True,
    "memoryId": "ana",
    "promptCreationConfigurations": {
        "excludePreviousThinkingSteps": True,
        "previousConversationTurnsToInclude": 1,
    },
    "streamingConfigurations": {"applyGuardrailInterval": 9, "streamFinalResponse": True},
}
_TOLD = {
    "inputText": "the question",
    "sessionId": "`session_id=`",
    "agentId": "which `Agent` is invoked; `agent_id=` names it in traces",
    "agentAliasId": "`alias_id=` names it in traces",
    "enableTrace": "`reply.trace` is made when it is read",
    "streamingConfigurations.streamFinalResponse": "`Agent.stream` streams whatever this says",
}


def invoke_agent() -> Iterator[Row]:
    """Every member, given to an agent as a caller of Bedrock would give it."""
    members = service().operation_model("InvokeAgent").input_shape.members
    yield from _given(members, "sessionState", _asked)


def _given(members: Mapping[str, Any], state_name: str, ask: Callable[..., bool]) -> Iterator[Row]:
    for name in sorted(members):
        if name == state_name:
            for inner in sorted(members[name].members):
                yield code(f"{name}.{inner}"), state(_in_state(name, inner)), ""
        elif name in _TOLD:
            yield code(name), "works", _TOLD[name]
        elif name == "bedrockModelConfigurations":
            yield (
                code(name),
                state(_is_quicker()),
                "through the server; in Python `BedrockModel(latency=)`",
            )
        elif name == "sourceArn":
            yield code(name), "kept, not used", "for Bedrock"
        elif getattr(members[name], "members", None) and name in _INVOKE:
            for inner in sorted(members[name].members):
                value, path = {inner: _INVOKE[name].get(inner)}, f"{name}.{inner}"
                yield code(path), state(ask(**{name: value})), _TOLD.get(path, "")
        else:
            yield code(name), state(ask(**{name: _INVOKE.get(name)})), ""


def _in_state(name: str, member: str) -> bool:
    if member not in _RESULTS:
        return _asked(**{name: {member: _STATE.get(member)}})
    model = NATIVE.model([NATIVE.calls(("d::open", {})), answer("Open.")])
    door = [{"name": "open", "description": "O."}]
    group = ActionGroup("d", functions=door, executor=ReturnControl())
    agent = Agent("doors", "You open doors.", model, action_groups=[group])
    control = agent.invoke("Open.", "s-1").return_control
    assert control is not None
    results = control.answer("done")
    return agent.invoke(session_id="s-1", **{name: results}).text == "Open."  # type: ignore[misc]


def _asked(**options: Any) -> bool:
    """Whether an agent takes an option as it is; one that it does not know is refused."""
    base = FakeKnowledgeBase("HANDBOOK01", ["Before April."])
    agent = Agent("hr", "You help.", NATIVE.model([answer("Hello.")]), knowledge_bases=[base])
    try:
        return agent.invoke("Hi", "s-1", **options).text == "Hello."
    except (TypeError, OrchestratorError):
        return False


_HANDLER = {"executor": {"lambda": "arn:aws:lambda:us-east-1:000000000000:function:o"}}
_INLINE: Mapping[str, Any] = {
    "actionGroups": Calls().groups(),
    "agentCollaboration": "SUPERVISOR",
    "collaborators": [{"agentName": "days", "instruction": "You count."}],
    "collaboratorConfigurations": [
        {"collaboratorName": "days", "collaboratorInstruction": "Days."}
    ],
    "agentName": "hr",
    "bedrockModelConfigurations": {"performanceConfig": {"latency": "standard"}},
    "customOrchestration": _HANDLER,
    "customerEncryptionKeyArn": "arn:aws:kms:key",
    "foundationModel": CLAUDE_35,
    "guardrailConfiguration": {"guardrailIdentifier": "g-1", "guardrailVersion": "1"},
    "idleSessionTTLInSeconds": 60,
    "instruction": "You help.",
    "knowledgeBases": [{"knowledgeBaseId": "POLICIES01", "description": "P."}],
    "orchestrationType": "CUSTOM_ORCHESTRATION",
    "promptOverrideConfiguration": {"promptConfigurations": [{"promptType": "ORCHESTRATION"}]},
}
_TOGETHER = (
    ("agentCollaboration", "collaborators", "collaboratorConfigurations"),
    ("orchestrationType", "customOrchestration"),
)
_BEDROCKS = frozenset({"customerEncryptionKeyArn"})


def invoke_inline_agent() -> Iterator[Row]:
    """Every member: of the definition to `Agent.inline`, of the question to `invoke`."""
    members = service().operation_model("InvokeInlineAgent").input_shape.members
    asked = {name: it for name, it in members.items() if name not in _INLINE}
    for name in sorted(members.keys() - asked.keys()):
        together = next((names for names in _TOGETHER if name in names), (name,))
        found = state(_defined({one: _INLINE[one] for one in together}))
        if name == "bedrockModelConfigurations":
            yield (
                code(name),
                state(_asks_to_be_quick()),
                "for Bedrock models that the definition names by id",
            )
        elif name in _BEDROCKS:
            assert found == "works", name
            yield code(name), "kept, not used", "for Bedrock"
        else:
            yield code(name), found, ""
    yield from _given(asked, "inlineSessionState", _asked)


def _asks_to_be_quick() -> bool:
    def model(latency: str) -> dict[str, Any]:
        given = {"performanceConfig": {"latency": latency}}
        made = Agent.inline(
            foundationModel=CLAUDE_35, instruction="You help.", bedrockModelConfigurations=given
        )
        return vars(made.plan.orchestration.model)

    assert model("standard") == model("standard")
    return model("standard") != model("optimized")


def _is_quicker() -> bool:
    agent = Agent("hr", "You help.", CLAUDE_35)
    quicker = OptimizedAgents().of(agent).plan.orchestration.model
    return vars(quicker) != vars(agent.plan.orchestration.model)


def _defined(members: dict[str, Any]) -> bool:
    members = {"instruction": "You help.", **members}
    try:
        return bool(Agent.inline(model=ScriptedModel([], CLAUDE_35), **members).plan)
    except OrchestratorError:
        return False


# Knowledge bases

_RERANKING = {
    "type": "BEDROCK_RERANKING_MODEL",
    "bedrockRerankingConfiguration": {
        "modelConfiguration": {"modelArn": "arn:aws:bedrock:us-west-2::foundation-model/m"}
    },
}
_VECTOR: Mapping[str, Any] = {
    "numberOfResults": 1,
    "overrideSearchType": "HYBRID",
    "rerankingConfiguration": _RERANKING,
    "implicitFilterConfiguration": {"modelArn": "m", "metadataAttributes": []},
}
_FILTERED = ("filter", "vectorSearchConfiguration.filter")


def retrieve() -> Iterator[Row]:
    """Members of Retrieve, asked of a folder and of a knowledge base of Bedrock's."""
    shape = service().operation_model("Retrieve").input_shape
    known = {"retrievalQuery": {}, "knowledgeBaseId": {}, "nextToken": {}}
    for name in sorted(shape.members):
        if name == "retrievalConfiguration":
            yield from _retrieval(shape.members[name])
        elif name == "guardrailConfiguration":
            yield code(name), "by the agent's `guardrailConfiguration.checkResults`", "works"
        else:
            told = "works" if name in known else "not yet"
            yield code(name), told if name != "nextToken" else "all results come at once", told


def _retrieval(shape: Any) -> Iterator[Row]:
    for kind, inner in shape.members.items():
        for name in inner.members:
            if name == "filter" and kind == "vectorSearchConfiguration":
                for operator in service().shape_for("RetrievalFilter").members:
                    one = {operator: _operand(operator)}
                    path = f"{kind}.filter.{operator}"
                    yield code(path), *_found({kind: {name: one}})
            else:
                value = _VECTOR.get(name, {"equals": {"key": "a", "value": "b"}})
                given = "CUSTOM" if name == "rerankingModelType" else value
                yield code(f"{kind}.{name}"), *_found({kind: {name: given}})


def _operand(operator: str) -> Any:
    if operator in ("andAll", "orAll"):
        return [{"equals": {"key": "a", "value": "b"}}] * 2
    if operator in ("in", "notIn"):
        return {"key": "a", "value": ["b"]}
    return {"key": "a", "value": 1 if "Than" in operator else "b"}


def _found(configuration: dict[str, Any]) -> tuple[str, str]:
    class Client:
        def retrieve(self, **request: Any) -> dict[str, Any]:
            asked.append(request.get("retrievalConfiguration"))
            return {"retrievalResults": []}

    asked: list[Any] = []
    with TemporaryDirectory() as folder:
        (Path(folder) / "a.md").write_text("# A\n\nAnswers.\n")
        local = LocalKnowledgeBase(folder, id="a", embedder=None)
        try:
            local.retrieve("nothing like it", configuration)
            here = "works"
        except OrchestratorError:
            here = "refused"
        finally:
            local.close()
    try:
        BedrockKnowledgeBase("POLICIES01", client=Client()).retrieve("a", configuration)
    except OrchestratorError:
        return here, "refused"
    return here, state(asked == [configuration])


# Guardrails

_MESSAGES = {"name": "g", "blockedInputMessaging": "No.", "blockedOutputsMessaging": "No."}
_POLICIES: Mapping[str, tuple[Any, str]] = {
    "topicPolicyConfig.topicsConfig": ([{"name": "bomb", "type": "DENY"}], "by phrase, by meaning"),
    "wordPolicyConfig.wordsConfig": ([{"text": "bomb"}], ""),
    "wordPolicyConfig.managedWordListsConfig": (
        [{"type": "PROFANITY"}],
        "give your own list as `wordsFile`",
    ),
    "sensitiveInformationPolicyConfig.regexesConfig": (
        [{"name": "r", "pattern": "bomb", "action": "BLOCK"}],
        "RE2's syntax",
    ),
    "contentPolicyConfig.filtersConfig": (
        [{"type": "HATE", "inputStrength": "HIGH", "outputStrength": "HIGH"}],
        "",
    ),
    "contextualGroundingPolicyConfig.filtersConfig": ([{"type": "GROUNDING", "threshold": 1}], ""),
    "automatedReasoningPolicyConfig.policies": (["p"], ""),
}


def guardrails() -> Iterator[Row]:
    """What of CreateGuardrail a local guardrail does; those of Bedrock's do what Bedrock does."""
    for path, (value, note) in _POLICIES.items():
        policy, name = path.split(".")
        yield code(path), _checks({policy: {name: value}}, "a bomb"), note
    kinds: dict[str, list[str]] = {}
    for kind in service("bedrock").shape_for("GuardrailPiiEntityType").enum:
        one = {"piiEntitiesConfig": [{"type": kind, "action": "BLOCK"}]}
        kinds.setdefault(_checks({"sensitiveInformationPolicyConfig": one}), []).append(kind)
    for found, names in kinds.items():
        path = f"sensitiveInformationPolicyConfig.piiEntitiesConfig: {', '.join(names)}"
        yield (
            code(path),
            found,
            "recognised by its form" if found == "works" else "has no form to recognise",
        )


def _checks(policy: dict[str, Any], text: str = "") -> str:
    try:
        guardrail = guardrail_of({**_MESSAGES, **policy})
    except OrchestratorError:
        return "refused"
    return state(not text or guardrail.check(text, "INPUT").blocked)


def assessments() -> Iterator[Row]:
    """What of ApplyGuardrail's assessments a trace tells."""
    shape = service("bedrock-runtime").shape_for("GuardrailAssessment")
    traced = service().shape_for("GuardrailAssessment").members
    for name, member in sorted(shape.members.items()):
        given = {name: _assessment(member)}
        yield (
            code(name),
            "works" if name in trace_assessment(given) else "not a member of Bedrock's trace",
        )
        assert (name in trace_assessment(given)) == (name in traced), name


def _assessment(shape: Any) -> dict[str, Any]:
    """An assessment of the policy with an item in each of its lists."""
    lists = [name for name, it in shape.members.items() if it.type_name == "list"]
    return {name: [{"action": "BLOCKED", "type": "t", "match": "m"}] for name in lists}
