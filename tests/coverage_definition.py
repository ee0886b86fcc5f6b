"""What of an agent's definition works, found out by agents that have it; see `coverage_page.py`."""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

from botocore_shapes import service
from whole_agents import CLAUDE_35

from orchestrator import Agent, OrchestratorError
from orchestrator.definition.action_group import ActionGroupDefinition
from orchestrator.definition.agent import (
    AgentCollaborator,
    AgentDefinition,
    KnowledgeBaseAssociation,
)
from orchestrator.guardrails import Verdict

Row = tuple[str, ...]
Plan = Any
Used = Callable[[Plan], Any]

_ARN = "arn:aws:lambda:us-east-1:000000000000:function:claims"
_ALIAS = "arn:aws:bedrock:us-east-1:000000000000:agent-alias/ABCDEFGHIJ/TSTALIASID"
_HELLO = f"scripted:hello.jsonl@{CLAUDE_35}"
_FUNCTION = {"name": "find", "description": "Finds."}
_DOCUMENT = json.dumps({"openapi": "3.0.0", "info": {"title": "t", "version": "1"},
    "servers": [{"url": "https://api.example"}], "paths": {
    "/a": {"get": {"operationId": "a", "description": "A.", "responses": {}}}}})  # fmt: skip
_PROMPTS = "promptOverrideConfiguration"
_PROMPT = f"{_PROMPTS}.promptConfigurations[]"
_GROUPS = "actionGroups[]"
_BASES = "knowledgeBases[]"
_TEAM = "agentCollaborators[]"
_TEMPLATE = json.dumps({"system": "CANARY", "messages": [
    {"role": "user", "content": [{"text": "$question$"}]}]})  # fmt: skip
_PARSER = """\
def lambda_handler(event):
    final = {"invocationType": "FINISH", "agentFinalResponse": {"responseText": "Hello."}}
    parsed = {"rationale": "", "responseDetails": final}
    return {"promptType": event["promptType"], "orchestrationParsedResponse": parsed}
"""
_ORCHESTRATION = """\
def lambda_handler(event):
    return {"version": "1.0", "actionEvent": "FINISH", "output": {"text": "Hello."}}
"""
_FILES = {
    "hello.jsonl": '"<answer>Hello.</answer>"\n' * 9,
    "api.json": _DOCUMENT,
    "handler.py": "def lambda_handler(event, context):\n    return {}\n",
    "actions.py": 'from orchestrator import action\n\n\n@action\ndef find() -> str:\n    "F."\n',
    "parser.py": _PARSER,
    "orchestration.py": _ORCHESTRATION,
    "prompt.json": _TEMPLATE,
    "tools.json": '{"find": {"description": "F.", "inputSchema": {"type": "object"}}}',
    "guardrail.yaml": (
        "name: g\nwordPolicyConfig: {wordsConfig: [{text: bomb}]}\n"
        "blockedInputMessaging: No.\nblockedOutputsMessaging: No.\n"
    ),
    "documents/a.md": "# A\n\nVacation ends in March.\n",
    "days/agent.yaml": f"agentName: days\ninstruction: You count.\nfoundationModel: {_HELLO}\n",
    "days/hello.jsonl": '"<answer>Hello.</answer>"\n' * 9,
}


@cache
def _folder() -> Path:
    """An agent's folder with everything that a probe names."""
    folder = Path(mkdtemp())
    atexit.register(rmtree, folder, ignore_errors=True)
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _prompt(**members: Any) -> dict[str, Any]:
    one = {"promptType": "ORCHESTRATION", **members}
    return {_PROMPTS: {"promptConfigurations": [one]}}


def _parsed(where: str) -> dict[str, Any]:
    one = {"promptType": "ORCHESTRATION", "parserMode": "OVERRIDDEN"}
    return {_PROMPTS: {"promptConfigurations": [one], "overrideLambda": where}}


def _group(**members: Any) -> dict[str, Any]:
    claims = {"apiSchema": {"file": "api.json"}, "actionGroupExecutor": {"lambda": "handler.py"}}
    return {"actionGroups": [{"actionGroupName": "claims", **claims, **members}]}


def _functions(**members: Any) -> dict[str, Any]:
    schema = {"functions": [{**_FUNCTION, **members}]}
    return _only(functionSchema=schema, actionGroupExecutor={"customControl": "RETURN_CONTROL"})


def _only(**members: Any) -> dict[str, Any]:
    return {"actionGroups": [{"actionGroupName": "g", **members}]}


def _parameter(**members: Any) -> dict[str, Any]:
    return _functions(parameters={"a": {"type": "string", **members}})


def _base(**members: Any) -> dict[str, Any]:
    return {"knowledgeBases": [{"knowledgeBaseId": "POLICIES01", **members}]}


def _local(**members: Any) -> dict[str, Any]:
    return _base(folder="documents", **members)


def _team(how: str = "SUPERVISOR", **members: Any) -> dict[str, Any]:
    one = {"collaboratorName": "days", "agentDescriptor": {"folder": "days"}, **members}
    one.setdefault("collaborationInstruction", "CANARY")
    return {"agentCollaboration": how, "agentCollaborators": [one]}


def _custom(where: str) -> dict[str, Any]:
    executor = {"executor": {"lambda": where}}
    return {"orchestrationType": "CUSTOM_ORCHESTRATION", "customOrchestration": executor}


def _remembers(**members: Any) -> dict[str, Any]:
    return {"memoryConfiguration": {"enabledMemoryTypes": ["SESSION_SUMMARY"], **members}}


# What tells in a compiled agent that a member counts.


def _loads(plan: Plan) -> bool:
    return True


def _told(plan: Plan) -> bool:
    """Whether some prompt or tool tells the text CANARY."""
    bound = [stage.template.bind({"question": "Hi"}, ()) for stage in plan.stages.values()]
    texts = [f"{one.system}{one.messages()}" for one in bound]
    tools = [stage.tools for stage in plan.stages.values()]
    return "CANARY" in f"{texts}{tools}{plan.catalog.operations}"


def _operations(count: int) -> Used:
    return lambda plan: len(plan.catalog.operations) == count


def _held(kind: str) -> Used:
    return lambda plan: kind in [type(one).__name__ for one in plan.held]


def _main(plan: Plan) -> Any:
    return plan.orchestration


def _member(plan: Plan) -> Any:
    (one,) = plan.collaborators.values()
    return one


def _any_parameter(plan: Plan) -> Any:
    return plan.catalog.operations[0].parameters[0]


Probe = tuple[dict[str, Any], Used]


def _agent_probes() -> Iterator[tuple[str, dict[str, Any], Used]]:
    yield "agentName", {"agentName": "other"}, lambda p: p.name == "other"
    yield "agentId", {"agentId": "ABCDEFGHIJ"}, lambda p: p.agent_id == "ABCDEFGHIJ"
    yield "instruction", {"instruction": "CANARY"}, _told
    yield "foundationModel", {}, lambda p: _main(p).model.model_id == CLAUDE_35
    yield "description", {"description": "CANARY"}, _told
    yield "idleSessionTTLInSeconds", {"idleSessionTTLInSeconds": 60}, lambda p: p.idle_ttl == 6e10
    for name, value in (
        ("agentResourceRoleArn", "arn:aws:iam::000000000000:role/r"),
        ("customerEncryptionKeyArn", "arn:aws:kms:key"),
        ("tags", {"a": "b"}),
    ):
        yield name, {name: value}, lambda p: False  # only Bedrock needs them
    yield "orchestrationType: DEFAULT", {"orchestrationType": "DEFAULT"}, _loads
    orchestrated: Used = lambda p: p.features.orchestration is not None  # noqa: E731
    yield "orchestrationType: CUSTOM_ORCHESTRATION", _custom("orchestration.py"), orchestrated
    for kind, where in (("a handler file", "orchestration.py"), ("an ARN", _ARN)):
        yield f"customOrchestration.executor.lambda: {kind}", _custom(where), orchestrated
    bedrocks = {"guardrailIdentifier": "g-1", "guardrailVersion": "2"}
    guard, at = "guardrailConfiguration", lambda p: p.guardrail
    yield f"{guard}.guardrailIdentifier", {guard: bedrocks}, lambda p: at(p).id == "g-1"
    yield f"{guard}.guardrailVersion", {guard: bedrocks}, lambda p: at(p).version == "2"
    yield f"{guard}.file", {guard: {"file": "guardrail.yaml"}}, at
    checks = {guard: {"file": "guardrail.yaml", "checkResults": True}}
    yield f"{guard}.checkResults", checks, lambda p: p.features.guard_results
    memory, kept = "memoryConfiguration", lambda p: p.features.memory
    yield f"{memory}.enabledMemoryTypes", _remembers(), kept
    yield f"{memory}.storageDays", _remembers(storageDays=3), lambda p: kept(p).storage_days == 3
    most = _remembers(sessionSummaryConfiguration={"maxRecentSessions": 2})
    recent: Used = lambda p: kept(p).max_recent_sessions == 2  # noqa: E731
    yield f"{memory}.sessionSummaryConfiguration.maxRecentSessions", most, recent
    yield "awsCompat[]: single_knowledge_base", _compat(), lambda p: p.shortcut
    traced: Used = lambda p: "trace" in p.features.aws_compat  # noqa: E731
    yield "awsCompat[]: trace", {"awsCompat": ["trace"]}, traced
    yield "limits", {"limits": {"iterations": 3}}, lambda p: p.limits.iterations == 3


def _compat() -> dict[str, Any]:
    return {**_local(embedder=None), "awsCompat": ["single_knowledge_base"]}


def _team_probes() -> Iterator[tuple[str, dict[str, Any], Used]]:
    leads: Used = lambda p: p.collaborators  # noqa: E731
    yield "agentCollaboration: DISABLED", _team("DISABLED"), lambda p: not p.collaborators
    yield "agentCollaboration: SUPERVISOR", _team(), lambda p: leads(p) and not p.routing
    yield "agentCollaboration: SUPERVISOR_ROUTER", _team("SUPERVISOR_ROUTER"), lambda p: p.routing
    yield f"{_TEAM}.collaboratorName", _team(), lambda p: _member(p).name == "days"
    yield f"{_TEAM}.agentDescriptor.folder", _team(), lambda p: _member(p).agent
    elsewhere = _team(agentDescriptor={"aliasArn": _ALIAS})
    yield f"{_TEAM}.agentDescriptor.aliasArn", elsewhere, lambda p: _member(p).remote
    yield f"{_TEAM}.collaborationInstruction", _team(), _told
    relayed = _team(relayConversationHistory="TO_COLLABORATOR")
    yield f"{_TEAM}.relayConversationHistory", relayed, lambda p: _member(p).relay


def _knowledge_probes() -> Iterator[tuple[str, dict[str, Any], Used]]:
    base: Used = lambda p: p.knowledge_bases["POLICIES01"]  # noqa: E731
    yield f"{_BASES}.knowledgeBaseId", _base(), base
    yield f"{_BASES}.description", _base(description="CANARY"), _told
    disabled = _base(knowledgeBaseState="DISABLED")
    yield f"{_BASES}.knowledgeBaseState", disabled, lambda p: not p.knowledge_bases
    found: Used = lambda p: base(p).retrieve("vacation")  # noqa: E731
    yield f"{_BASES}.folder", _local(embedder=None), found
    yield f"{_BASES}.embedder", _local(embedder=None), found
    small = {"maxTokens": 20, "overlapPercentage": 0}
    yield (
        f"{_BASES}.chunkingConfiguration",
        _local(embedder=None, chunkingConfiguration=small),
        found,
    )
    none = {"vectorSearchConfiguration": {"filter": {"equals": {"key": "a", "value": "b"}}}}
    filtered = _local(embedder=None, retrievalConfiguration=none)
    yield f"{_BASES}.retrievalConfiguration", filtered, lambda p: not found(p)


def _prompt_probes() -> Iterator[tuple[str, dict[str, Any], Used]]:
    parsed: Used = lambda p: _main(p).parser_name  # noqa: E731
    for kind, where in (("a handler file", "parser.py"), ("an ARN", _ARN)):
        yield f"{_PROMPTS}.overrideLambda: {kind}", _parsed(where), parsed
    yield f"{_PROMPT}.basePromptTemplate", _prompt(basePromptTemplate=_TEMPLATE), _told
    yield f"{_PROMPT}.basePromptTemplateFile", _prompt(basePromptTemplateFile="prompt.json"), _told
    unused = _prompt(basePromptTemplate=_TEMPLATE, promptCreationMode="DEFAULT")
    yield f"{_PROMPT}.promptCreationMode: DEFAULT", unused, lambda p: not _told(p)
    used = _prompt(basePromptTemplate=_TEMPLATE, promptCreationMode="OVERRIDDEN")
    yield f"{_PROMPT}.promptCreationMode: OVERRIDDEN", used, _told
    on: Used = lambda p: _main(p).enabled  # noqa: E731
    yield f"{_PROMPT}.promptState: ENABLED", _prompt(promptState="ENABLED"), on
    off = _prompt(promptState="DISABLED")
    yield f"{_PROMPT}.promptState: DISABLED", off, lambda p: not on(p)
    yield f"{_PROMPT}.parserMode: DEFAULT", _prompt(parserMode="DEFAULT"), lambda p: not parsed(p)
    yield f"{_PROMPT}.parserMode: OVERRIDDEN", _parsed("parser.py"), parsed
    other = _prompt(foundationModel="scripted:hello.jsonl@amazon.nova-pro-v1:0")
    yield f"{_PROMPT}.foundationModel", other, lambda p: "nova" in _main(p).model.model_id
    more = _prompt(additionalModelRequestFields={"a": 1})
    yield f"{_PROMPT}.additionalModelRequestFields", more, lambda p: _main(p).additional == {"a": 1}
    services = service("bedrock-agent"), service()  # the second one knows one more
    for name in dict.fromkeys(it for one in services for it in one.shape_for("PromptType").enum):
        enabled = _prompt(promptType=name, promptState="ENABLED")
        yield f"{_PROMPT}.promptType: {name}", enabled, _loads
    for name in service("bedrock-agent").shape_for("InferenceConfiguration").members:
        value = ["CANARY"] if name == "stopSequences" else 0.5 if name[-1] in "eP" else 7
        given = _prompt(inferenceConfiguration={name: value})
        path = f"{_PROMPT}.inferenceConfiguration.{name}"
        yield path, given, lambda p, name=name, value=value: _main(p).inference[name] == value


def _group_probes() -> Iterator[tuple[str, dict[str, Any], Used]]:
    one = _operations(1)
    yield f"{_GROUPS}.actionGroupName", _group(), one
    yield f"{_GROUPS}.description", _group(description="CANARY"), _told
    yield f"{_GROUPS}.actionGroupState", _group(actionGroupState="DISABLED"), _operations(0)
    yield f"{_GROUPS}.environment", _group(environment={"A": "b"}), _held("LambdaHandler")
    executor = f"{_GROUPS}.actionGroupExecutor"
    yield f"{executor}.lambda: a handler file", _group(), _held("LambdaHandler")
    arn = _group(actionGroupExecutor={"lambda": _ARN})
    yield f"{executor}.lambda: an ARN", arn, _held("LambdaArn")
    yield f"{executor}.customControl", _functions(), one
    yield f"{executor}.python", _only(actionGroupExecutor={"python": "actions.py"}), one
    yield f"{executor}.http", _group(actionGroupExecutor={"http": {}}), _held("HttpExecutor")
    server = {"mcp": {"command": ["server"], "lockFile": "tools.json"}}
    yield f"{executor}.mcp", _only(actionGroupExecutor=server), _held("MCPServer")
    yield f"{_GROUPS}.apiSchema.payload", _group(apiSchema={"payload": _DOCUMENT}), one
    yield f"{_GROUPS}.apiSchema.file", _group(), one
    in_s3 = {"s3": {"s3BucketName": "schemas", "s3ObjectKey": "a.yaml"}}
    yield f"{_GROUPS}.apiSchema.s3", _group(apiSchema=in_s3), one
    yield from _function_probes(f"{_GROUPS}.functionSchema.functions[]", one)
    signature = f"{_GROUPS}.parentActionGroupSignature"
    for name in service("bedrock-agent").shape_for("ActionGroupSignature").enum:
        there: Used = lambda p: p.catalog.ask_user or p.catalog.code_interpreter  # noqa: E731
        yield f"{signature}: {name}", _only(parentActionGroupSignature=name), there
    code = {"parentActionGroupSignature": "AMAZON.CodeInterpreter"}
    slow = _only(**code, parentActionGroupSignatureParams={"seconds": "7"})
    set_: Used = lambda p: "seconds=7" in repr(p.held)  # noqa: E731
    yield f"{signature}Params", slow, set_


def _function_probes(path: str, one: Used) -> Iterator[tuple[str, dict[str, Any], Used]]:
    yield f"{path}.name", _functions(), lambda p: p.catalog.operations[0].name == "find"
    yield f"{path}.description", _functions(description="CANARY"), _told
    at = f"{path}.parameters{{}}"
    yield f"{at}.type", _parameter(type="integer"), lambda p: _any_parameter(p).type == "integer"
    yield f"{at}.description", _parameter(description="CANARY"), _told
    yield f"{at}.required", _parameter(required=True), lambda p: _any_parameter(p).required
    confirmed: Used = lambda p: p.catalog.operations[0].require_confirmation  # noqa: E731
    yield f"{path}.requireConfirmation", _functions(requireConfirmation="ENABLED"), confirmed


@cache
def _probes() -> dict[str, Probe]:
    """A definition that asks for each member, and what tells that it counts."""
    parts = (_agent_probes, _team_probes, _knowledge_probes, _prompt_probes, _group_probes)
    return {path: (members, used) for part in parts for path, members, used in part()}


_UNUSED = {
    "description": "for people",
    "agentResourceRoleArn": "for Bedrock",
    "customerEncryptionKeyArn": "for Bedrock",
    "tags": "for Bedrock",
    f"{_GROUPS}.description": "no prompt contains it",
}
_NOTES = {
    "agentId": "as GetAgent returns it",
    f"{_GROUPS}.parentActionGroupSignature: AMAZON.CodeInterpreter": "on Linux",
    f"{_GROUPS}.parentActionGroupSignatureParams": "settings of the code interpreter",
    f"{_PROMPT}.promptState: DISABLED": "for ORCHESTRATION: the input goes to the model unchanged",
}
_PARTS = (
    ("CreateAgent", "", AgentDefinition),
    ("AssociateAgentKnowledgeBase", f"{_BASES}.", KnowledgeBaseAssociation),
    ("AssociateAgentCollaborator", f"{_TEAM}.", AgentCollaborator),
    ("CreateAgentActionGroup", f"{_GROUPS}.", ActionGroupDefinition),
)
OURS = frozenset(
    (
        *("agentId", "awsCompat[]: single_knowledge_base", "awsCompat[]: trace", "limits"),
        *("guardrailConfiguration.file", "guardrailConfiguration.checkResults"),
        *("customOrchestration.executor.lambda: a handler file", f"{_TEAM}.agentDescriptor.folder"),
        *(f"{_BASES}.{name}" for name in ("folder", "embedder", "chunkingConfiguration")),
        f"{_BASES}.retrievalConfiguration",
        *(f"{_PROMPTS}.overrideLambda: a handler file", f"{_PROMPT}.basePromptTemplateFile"),
        *(f"{_GROUPS}.{name}" for name in ("environment", "apiSchema.file")),
        f"{_GROUPS}.actionGroupExecutor.lambda: a handler file",
        *(f"{_GROUPS}.actionGroupExecutor.{name}" for name in ("python", "http", "mcp")),
    )
)
"""Members, and ways to write them, that Bedrock does not have."""


def definition(runs: Callable[[str], bool]) -> Iterator[Row]:
    """The rows; `runs` says whether turns run a stage."""
    probes = _probes()
    left = dict.fromkeys(probes)
    for operation, prefix, part in _PARTS:
        shape = service("bedrock-agent").operation_model(operation).input_shape
        aliases = {field.alias for field in part.model_fields.values()}
        aliases |= {"parentActionGroupSignature"} & shape.members.keys()
        for name in shape.members:
            path = f"{prefix}{name}"
            mine = [one for one in left if re.match(rf"{re.escape(path)}(?![A-Za-z])", one)]
            for one in mine:
                del left[one]
                yield f"`{one}`", *probed(one, runs)
            if not mine and name in part.READ_ONLY:
                yield f"`{path}`", "ignored", ""
            elif not mine:
                assert name not in aliases, f"no definition tries {path}"
                yield f"`{path}`", "not yet", ""
    assert left.keys() <= OURS, left
    for one in left:
        yield f"`{one}`", *probed(one, runs)


def probed(path: str, runs: Callable[[str], bool]) -> tuple[str, str]:
    """The state of a member, from an agent that has it and answers, and a note."""
    note = _NOTES.get(path) or ("ours" if path in OURS else "")
    members, used = _probes()[path]
    try:
        with ExitStack() as stack:
            for target, instead in _elsewhere():
                stack.enter_context(patch(target, instead))
            counts = _tried(members, used)
    except OrchestratorError as error:
        assert "not supported yet" in error.message, (path, error)
        return "refused", note
    if path in _UNUSED:
        assert not counts, f"{path} counts"
        return "kept, not used", _UNUSED[path]
    assert counts, f"{path} changes nothing"
    _, is_type, stage = path.partition("promptType: ")
    if is_type and not runs(stage):
        return "kept, not used", "no turn runs the stage yet"
    return "works", note


def _tried(members: dict[str, Any], used: Used) -> bool:
    given = {"agentName": "a", "instruction": "You help.", "foundationModel": _HELLO, **members}
    file = _folder() / "agent.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    with Agent.load(file) as agent:
        counts = bool(used(agent.plan))
        reply = agent.invoke("Hi", "s-1")
        assert reply.stop_reason in ("end_turn", "refused"), (members, reply)
    return counts


def _elsewhere() -> Iterator[tuple[str, Any]]:
    """What is not on every machine: AWS, and the code interpreter's sandbox."""
    yield "orchestrator.actions.openapi.read_s3_schema", lambda *_: _DOCUMENT
    yield (
        "orchestrator.guardrails.BedrockGuardrail.check",
        lambda _, text, source: Verdict(text=text),
    )
    yield "orchestrator.actions.lambda_arn.LambdaArn.invoke", _invoked
    yield "orchestrator.actions.code_interpreter.executor.check_platform", lambda: ""


def _invoked(_: Any, event: dict[str, Any]) -> Any:
    space: dict[str, Any] = {}
    exec(_ORCHESTRATION if "state" in event else _PARSER, space)
    return space["lambda_handler"](event)
