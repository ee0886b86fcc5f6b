"""What single nodes do: models, agents, knowledge bases, functions, buckets and code are asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

from orchestrator.errors import DependencyFailed, ModelOutputError, ValidationError
from orchestrator.flows.node_graph.budget import RunBudget
from orchestrator.flows.node_graph.definition import FlowNode
from orchestrator.flows.node_graph.events import StreamEvent, action_event, dependency_event
from orchestrator.flows.node_graph.inline_code import run_inline_code
from orchestrator.flows.node_graph.prompts import build_prompt_request
from orchestrator.flows.node_graph.services import AgentTurn, FlowIdentity, FlowServices
from orchestrator.guardrails import Guardrail
from orchestrator.message import text_of
from orchestrator.models import Model, ModelReply, ModelRequest
from orchestrator.support.safe_json import load_json

Data = Mapping[str, Any]

_LONGEST_SESSION = 100  # (Bedrock: SessionId)
_MOST_RESULTS = 5  # (Bedrock: Retrieve's default of `numberOfResults`)


class AgentAsks(Exception):
    """An agent asks the user; its text is the question."""


@dataclass(frozen=True, slots=True)
class NodeTask:
    """One run of a node."""

    node: FlowNode
    key: str  # names the node, and the rounds that it runs in
    values: Data  # of its inputs
    send: Callable[[StreamEvent], None]
    answer: str | None = None  # what the user said to the agent's question

    @property
    def configuration(self) -> Data:
        """The members of the node's configuration."""
        return self.node.configuration or {}

    def send_action(self, service: str, operation: str, sent: Data, returned: Data) -> None:
        """Sends the trace of what another service did for the node."""
        id = str(uuid4())
        self.send(action_event(self.node, service, operation, id, sent, returned))


class NodeRunner:
    """Carries nodes out. Safe for many threads."""

    def __init__(self, services: FlowServices, identity: FlowIdentity, budget: RunBudget) -> None:
        self._services = services
        self._identity = identity
        self._budget = budget
        self._handlers: Mapping[str, Callable[[NodeTask], Any]] = {
            "Prompt": self._prompt,
            "Agent": self._ask_agent,
            "KnowledgeBase": self._search,
            "LambdaFunction": self._invoke_function,
            "InlineCode": self._run_code,
            "Retrieval": self._read_object,
            "Storage": self._write_object,
        }

    def run(self, task: NodeTask) -> dict[str, Any]:
        """What a node gives, by its outputs.

        Raises:
            OrchestratorError: It failed.
            AgentAsks: An agent asks the user.
        """
        value = self._handlers[task.node.type](task)
        return {task.node.outputs[0].name: value}

    # -- models ----------------------------------------------------------------------------------

    def _prompt(self, task: NodeTask) -> str:
        source = task.configuration["sourceConfiguration"]
        variant = source.get("inline")
        if variant is None:
            variant = self._services.find_prompt(source["resource"]["promptArn"])
        model = self._services.find_model(variant["modelId"])
        request = build_prompt_request(variant, task.values, model)
        request.seconds = self._budget.seconds_left()
        guardrail = self._find_guardrail(task.configuration)
        blocked = _check_prompt(guardrail, request)
        if blocked is not None:
            return blocked
        text = self._ask_model(task, model, request, variant)
        return _check_answer(guardrail, text)

    def _ask_model(self, task: NodeTask, model: Model, request: ModelRequest, variant: Data) -> str:
        self._budget.spend("model_calls")
        reply = model.complete(request)
        self._budget.spend("tokens", reply.usage.total_tokens)
        sent = _describe_request(request, variant)
        task.send_action("bedrock", "Converse", sent, _describe_reply(reply))
        reason = reply.stop_reason
        if not reply.text and reason != "end_turn":
            raise ModelOutputError(
                f"its model gave no text, and stopped with {reason!r}", code=reason
            )
        return reply.text

    def _find_guardrail(self, configuration: Data) -> Guardrail | None:
        members = configuration.get("guardrailConfiguration") or {}
        id = members.get("guardrailIdentifier")
        if not id:
            return None
        return self._services.find_guardrail(id, members.get("guardrailVersion") or "DRAFT")

    # -- agents and knowledge bases --------------------------------------------------------------

    def _ask_agent(self, task: NodeTask) -> str:
        self._budget.spend("actions")
        agent = self._services.find_agent(task.configuration["agentAliasArn"])
        text = task.values["agentInputText"] if task.answer is None else task.answer
        state, session_id = _read_attributes(task.values), self._name_session(task)
        sent = {"sessionId": session_id, "inputText": text, "sessionState": state}
        for item in agent.ask(text, session_id, state):
            if isinstance(item, Mapping):
                task.send(dependency_event(task.node, item))
            else:
                returned = {"sessionId": session_id, "completion": item.text}
                task.send_action("bedrock-agent-runtime", "InvokeAgent", sent, returned)
                return _read_turn(item)
        raise DependencyFailed("its agent ended without an answer")

    def _name_session(self, task: NodeTask) -> str:
        # Each run of a node is a conversation of its own.
        name = f"{self._identity.execution_id}:{task.key}"
        name = name.translate({ord("["): ".", ord("]"): None, ord("/"): ":"})
        if len(name) <= _LONGEST_SESSION:
            return name
        return sha256(name.encode()).hexdigest()

    def _search(self, task: NodeTask) -> Any:
        self._budget.spend("actions")
        members, query = task.configuration, task.values["retrievalQuery"]
        configuration = _read_retrieval(members)
        if not members.get("modelId"):
            return self._services.retrieve(members["knowledgeBaseId"], query, configuration)
        self._budget.spend("model_calls")
        return self._services.generate(query, _read_generation(members, configuration))

    # -- functions, buckets, code ----------------------------------------------------------------

    def _invoke_function(self, task: NodeTask) -> Any:
        self._budget.spend("actions")
        inputs = [
            {
                "name": it.name,
                "type": it.type,
                "expression": it.expression,
                "value": task.values[it.name],
            }
            for it in task.node.inputs
        ]
        # (AWS: "Lambda input event for a flow")
        event = {
            "messageVersion": "1.0",
            "flow": {"flowArn": self._identity.arn, "flowAliasArn": self._identity.alias_arn},
            "node": {"name": task.node.name, "inputs": inputs},
        }
        # As on the wire: what a function does to its event, and what it keeps, changes nothing.
        arn = task.configuration["lambdaArn"]
        returned = self._services.invoke_function(arn, json.loads(json.dumps(event)))
        try:
            value = json.loads(json.dumps(returned, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise DependencyFailed(f"its function returned no JSON data: {error}") from None
        sent = {"FunctionName": arn, "Payload": event}
        task.send_action("lambda", "Invoke", sent, {"StatusCode": 200, "Payload": value})
        return value

    def _run_code(self, task: NodeTask) -> Any:
        self._budget.spend("actions")
        return run_inline_code(
            self._services.code_interpreter(),
            task.configuration["code"],
            task.values,
            session_id=f"{uuid4()}",
            tenant=self._identity.tenant,
            seconds=self._budget.action_seconds(),
            result_bytes=self._budget.limits.result_bytes,
        )

    def _read_object(self, task: NodeTask) -> Any:
        self._budget.spend("actions")
        bucket, key = _find_bucket(task), task.values["objectKey"]
        most = self._budget.limits.result_bytes
        content = self._services.read_object(bucket, key, most)
        if len(content) > most:
            raise ValidationError(f"the object {key!r} has more than {most:,} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise ValidationError(
                f"the object {key!r} in the bucket {bucket!r} is not UTF-8 text"
            ) from None
        return text if task.node.outputs[0].type == "String" else _read_json(text, key)

    def _write_object(self, task: NodeTask) -> str:
        self._budget.spend("actions")
        bucket, key = _find_bucket(task), task.values["objectKey"]
        content = task.values["content"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        self._services.write_object(bucket, key, text.encode("utf-8", "replace"))
        return f"s3://{bucket}/{key}"


def _check_answer(guardrail: Guardrail | None, text: str) -> str:
    """What is said of an answer, after a guardrail has seen it."""
    if guardrail is None:
        return text
    verdict = guardrail.check(text, "OUTPUT")
    return verdict.text if verdict.action == "INTERVENED" else text


def _check_prompt(guardrail: Guardrail | None, request: ModelRequest) -> str | None:
    """What is said instead of an answer to a prompt that a guardrail blocks."""
    if guardrail is None:
        return None
    texts = [request.system, *(text_of(it["content"]) for it in request.messages)]
    verdict = guardrail.check("\n\n".join(filter(None, texts)), "INPUT")
    return verdict.text if verdict.blocked else None


def _describe_request(request: ModelRequest, variant: Data) -> dict[str, Any]:
    return {
        "modelId": variant["modelId"],
        "system": [{"text": request.system}] if request.system else [],
        "messages": [dict(it) for it in request.messages],
        "inferenceConfig": dict((variant.get("inferenceConfiguration") or {}).get("text") or {}),
        "additionalModelRequestFields": dict(request.additional),
    }


def _describe_reply(reply: ModelReply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": reply.text}]}},
        "stopReason": reply.stop_reason,
        "usage": {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "totalTokens": usage.total_tokens,
        },
    }


def _read_attributes(values: Data) -> dict[str, dict[str, str]]:
    """The attributes that go with a message, as Bedrock's `sessionState`."""
    members = {
        "sessionAttributes": values.get("sessionAttributes"),
        "promptSessionAttributes": values.get("promptAttributes"),
    }
    return {
        member: {name: it if isinstance(it, str) else json.dumps(it) for name, it in value.items()}
        for member, value in members.items()
        if value
    }


def _read_turn(turn: AgentTurn) -> str:
    if turn.stop_reason == "ask_user":
        raise AgentAsks(turn.text)
    if turn.stop_reason == "return_control":
        raise DependencyFailed(
            "its agent returned control, which no flow can answer: give the action group an "
            "executor"
        )
    return turn.text


def _read_retrieval(members: Data) -> dict[str, Any]:
    search: dict[str, Any] = {"numberOfResults": members.get("numberOfResults", _MOST_RESULTS)}
    if members.get("rerankingConfiguration"):
        search["rerankingConfiguration"] = members["rerankingConfiguration"]
    return {"vectorSearchConfiguration": search}


def _read_generation(members: Data, retrieval: Data) -> dict[str, Any]:
    """A node's configuration as RetrieveAndGenerate's `knowledgeBaseConfiguration`."""
    generation: dict[str, Any] = {}
    guardrail = members.get("guardrailConfiguration") or {}
    if guardrail.get("guardrailIdentifier"):
        generation["guardrailConfiguration"] = {
            "guardrailId": guardrail["guardrailIdentifier"],
            "guardrailVersion": guardrail.get("guardrailVersion") or "DRAFT",
        }
    if members.get("promptTemplate"):
        generation["promptTemplate"] = members["promptTemplate"]
    if inference := (members.get("inferenceConfiguration") or {}).get("text"):
        generation["inferenceConfig"] = {"textInferenceConfig": inference}
    found: dict[str, Any] = {
        "knowledgeBaseId": members["knowledgeBaseId"],
        "modelArn": members["modelId"],
        "retrievalConfiguration": retrieval,
        "generationConfiguration": generation,
    }
    if members.get("orchestrationConfiguration"):
        found["orchestrationConfiguration"] = members["orchestrationConfiguration"]
    return found


def _find_bucket(task: NodeTask) -> str:
    return str(task.configuration["serviceConfiguration"]["s3"]["bucketName"])


def _read_json(text: str, key: str) -> Any:
    try:
        return load_json(text.encode())
    except (ValueError, RecursionError):
        raise ValidationError(
            f"the object {key!r} is no JSON data; have the output be a String to read it as text"
        ) from None
