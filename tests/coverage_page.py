"""Writes COVERAGE.md: what of Bedrock works here, found out by asking the code.

    python tests/coverage_page.py

Names are read from AWS's service models, states from this project's own registries and from agents
that are run. What a table says of a name that cannot be asked for is told beside it, in this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore
import coverage_contracts as contracts
import coverage_flows as flows
import coverage_pl as pl
import coverage_ppe as ppe
import coverage_server as server
import coverage_wire as wire
from botocore_shapes import service
from coverage_definition import definition
from coverage_turns import plain_turns, seen
from whole_agents import CLAUDE_35, agent

from orchestrator import OrchestratorError, errors
from orchestrator.actions.base import ActionResult, Call, CallContext, Operation, Parameter
from orchestrator.actions.lambda_contract import lambda_event, read_response
from orchestrator.models.base import ModelReply
from orchestrator.prompts import PLACEHOLDERS, load_dialect
from orchestrator.prompts.placeholders import STAGES, status
from orchestrator.server.wire.shapes import SERVICES
from orchestrator.support.content_root import content_root
from orchestrator.testing import ScriptedModel

PAGE = Path(__file__).resolve().parents[1] / "COVERAGE.md"
Row = tuple[str, ...]

HEAD = """\
# Coverage

This page lists which operations, members and features of Amazon Bedrock Agents work here.
`python tests/coverage_page.py` writes it: names come from AWS's service models (botocore
{version}), and each state is found out by running the code. A test fails when the page is out of
date.
[Coming from Bedrock](docs/from-bedrock.md) says where to find each feature.

| state | meaning |
|---|---|
| works | it does what Bedrock documents; tests run it |
| renders | `orchestrator render` shows its template; no turn uses it yet |
| kept, not used | it is read, checked and written back, but has no effect here |
| refused | a definition or request that uses it is refused, with an error that names it |
| ignored | only Bedrock sets it; in a file it is ignored |
| never made | no trace here has this member |
| server only | the server answers it; Python has no method for it |
| not yet | it is not supported |

"Ours" in a note marks what Bedrock does not have.
"""


def build() -> str:
    """The whole page."""
    here = ("member", "state", "here")
    sections = [
        ("Ways in", ("way", "state"), ways()),
        ("Operations in Python", ("operation", "service", "state", "in Python"), in_python()),
        ("Operations of the server", ("service", "state", "operations"), server.operations()),
        ("InvokeAgent", here, wire.invoke_agent()),
        ("InvokeAgent's events", ("event", "state", "here"), events()),
        ("InvokeInlineAgent", here, wire.invoke_inline_agent()),
        ("The agent's definition", ("member", "state", "note"), definition(runs)),
        ("Stages", ("stage", "state", *dialects()), stages()),
        ("Placeholders", ("placeholder", "stage", "state", *dialects()), placeholders()),
        ("Retrieve", ("member", "a folder", "a knowledge base in Bedrock"), wire.retrieve()),
        ("Local guardrails", ("member of CreateGuardrail", "state", "how"), wire.guardrails()),
        ("Guardrails in traces", ("assessment of ApplyGuardrail", "state"), wire.assessments()),
        ("Lambda event of an action", ("member", "state"), lambda_events()),
        ("Lambda response of an action", here, lambda_responses()),
        ("Lambda event of a parser", ("member", "state"), contracts.parser_events()),
        ("Lambda response of a parser", ("version", *here), contracts.parser_responses()),
        ("Lambda event of an orchestration", ("member", "state"), contracts.orchestration_events()),
        (
            "Lambda reply of an orchestration",
            ("member", "state"),
            contracts.orchestration_replies(),
        ),
        ("Trace", ("member", "state"), trace_members()),
        ("Stop reasons of models", ("Converse's stop reason", "the turn"), stop_reasons()),
        ("Nodes of flows", ("type", "state"), flows.node_types()),
        ("The workflow language", ("construct", "state"), pl.language()),
        ("PPE scripts", ("construct", "state"), ppe.language()),
    ]
    head = HEAD.format(version=botocore.__version__)
    return "\n".join([head, *(section(*one) for one in sections)])


def section(title: str, heads: Row, rows: Iterable[Row]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = f"{NOTES[title]}\n\n" if title in NOTES else ""
    return f"## {title}\n\n{note}{table}\n"


NOTES = {
    "Operations in Python": "What the operations of `bedrock-agent-runtime`, and those of "
    "`bedrock-runtime` that an agent needs, are called in Python.",
    "Operations of the server": "The operations of `orchestrator serve`. "
    "An operation that is not supported answers a `ValidationException` that names it. "
    + server.summary(),
    "InvokeAgent": "These are options of `Agent.invoke`, `stream`, `ainvoke` and `astream`, in "
    "Bedrock's spelling or in Python's (`memory_id=`). Give `sessionState` whole, or its members "
    "(`session_attributes=`).",
    "InvokeInlineAgent": "Members that define the agent are arguments of `Agent.inline`, the "
    "others of `invoke`.",
    "Stages": "For each dialect: whether the stage is on if the definition does not mention it.",
    "Placeholders": "A placeholder that works has a value in every dialect. One that is empty "
    "stands for something that does not exist here. The last columns say for which models AWS "
    "documents the name.",
    "The workflow language": "Each construct is tried in a program that runs. "
    "[Scripts](docs/flows.md) describes the language.",
    "Nodes of flows": "Each type that works is invoked with boto3 in tests/server/flows. "
    "[Bedrock Flows](docs/bedrock-flows.md) describes the nodes and their limits.",
    "PPE scripts": "Each construct is tried in a script that runs. "
    "[PPE scripts](docs/ppe.md) describes the language.",
    "Local guardrails": "A guardrail in Bedrock does what Bedrock does. A local one refuses the "
    "members that are not enforced, unless `notEnforced` names them.",
    "Trace": "A member works if it turned up when turns of every kind were run. The members of one "
    "that did not turn up are not listed. [Traces](docs/traces.md) describes the parts.",
    "The agent's definition": "Members of CreateAgent, CreateAgentActionGroup, "
    "AssociateAgentKnowledgeBase and AssociateAgentCollaborator, and our own. Each is tried in an "
    "agent that is loaded and answers. [Agents](docs/agents.md) describes them.",
}


def code(name: str) -> str:
    return f"`{name}`"


# Ways in, and InvokeAgent


def ways() -> Iterator[Row]:
    yield "Python (`orchestrator.Agent`)", "works"
    yield "command line (`orchestrator`)", "works"
    services = ", ".join(code(name) for name in SERVICES)
    yield f"HTTP, for unmodified boto3 clients of {services}", "works"
    yield "Bedrock Flows, through the server; see [Bedrock Flows](docs/bedrock-flows.md)", "works"


def in_python() -> Iterator[Row]:
    """Operations with a counterpart in Python, those of the server alone, and the others."""
    return wire.operations(server.supported("bedrock-agent-runtime"))


_EVENTS = {
    "chunk": "`TextDelta`, `reply.text`, `reply.citations`",
    "trace": "`TracePart`, `reply.trace`",
    "returnControl": "`ControlReturn`, `reply.return_control`",
    "files": "`Files`, `reply.files`",
}


def events() -> Iterator[Row]:
    by_name: dict[str, list[str]] = {}
    for name in errors.__all__:
        told = getattr(getattr(errors, name), "bedrock_name", "")
        by_name.setdefault(told.lower(), []).append(code(name))
    for name in sorted(service().operation_model("InvokeAgent").get_event_stream_output().members):
        told = _EVENTS.get(name, "") if name in seen().events else ""
        here = told or ", ".join(by_name.get(name.lower(), ()))
        yield code(name), "works" if here else "not yet", here


# Stages and placeholders


@cache
def dialects() -> Row:
    return tuple(
        sorted(path.parent.name for path in (content_root() / "templates").glob("*/dialect.yaml"))
    )


def stages() -> Iterator[Row]:
    for stage in STAGES:
        cells = []
        for name in dialects():
            found = load_dialect(name).stages.get(stage)
            cells.append("" if found is None else "on" if found.enabled else "off")
        yield code(stage), stage_state(stage), *cells


def stage_state(stage: str) -> str:
    """Whether a turn of the tests ran it; else whether there is a template to render."""
    if runs(stage):
        return "works"
    has_template = all(stage in load_dialect(name).stages for name in dialects())
    return "renders" if has_template else "not yet"


def runs(stage: str) -> bool:
    return stage in seen().stages


def placeholders() -> Iterator[Row]:
    families = [load_dialect(name).family for name in dialects()]
    for row in PLACEHOLDERS:
        if row.stage:
            known = [status(row.name, row.stage, family) for family in families]
            state = stage_state(row.stage) if row.filled else "empty"
            yield f"`${row.name}$`", row.stage, state, *known


# The contract of an action's Lambda function

_API = Operation(
    "claims",
    "getClaim",
    parameters=(
        Parameter("id", "string", location="path"),
        Parameter("a", "string", location="body"),
    ),
    verb="POST",
    path="/claims/{id}",
    content_type="application/json",
)
_PLAIN = Operation("claims", "count", parameters=(Parameter("id", "string"),))
_EVENT = (
    *("messageVersion", "agent", "inputText", "sessionId", "actionGroup", "function", "apiPath"),
    *("httpMethod", "parameters", "requestBody", "sessionAttributes", "promptSessionAttributes"),
)


def lambda_events() -> Iterator[Row]:
    context = CallContext({"name": "a"}, "s-1", "Hi", {"x": "1"}, {"y": "2"}, 1000)
    made: dict[str, Any] = {}
    for operation in (_API, _PLAIN):
        made |= lambda_event(Call("c-1", operation, {"id": "1", "a": "2"}), context)
    for name in _EVENT:
        yield code(name), "works" if made.get(name) else "not yet"


def lambda_responses() -> Iterator[Row]:
    def read(operation: Operation, body: str, **members: Any) -> ActionResult:
        kind = "application/json" if operation.verb else "TEXT"
        content = {"responseBody": {kind: {"body": body}}}
        inner = content if operation.verb else {"functionResponse": content}
        told = {"messageVersion": "1.0", "response": {**inner, **members.pop("response", {})}}
        return read_response({**told, **members}, operation)

    def state(result: bool) -> str:
        return "works" if result else "not yet"

    def noted(**members: str) -> bool:
        (name,) = members
        operation = _PLAIN if name == "function" else _API
        return any(name in note for note in read(operation, "b", response=members).notes)

    compared = "compared with the call; a difference is noted"
    other = read(_API, "b", messageVersion="2")
    yield "`messageVersion`", state(bool(other.notes)), "a version other than 1.0 is noted"
    for name in ("actionGroup", "function", "apiPath", "httpMethod"):
        yield code(f"response.{name}"), state(noted(**{name: "x"})), compared
    failed = read(_API, "b", response={"httpStatusCode": 500})
    yield (
        "`response.httpStatusCode`",
        state(failed.http_status == 500),
        ("the model reads the body whatever the status is, as in Bedrock; 400 and more is noted"),
    )
    yield "`response.responseBody`", state(read(_API, "b").text == "b"), "the model reads it"
    yield (
        "`response.functionResponse.responseBody`",
        state(read(_PLAIN, "b").text == "b"),
        ("the model reads it"),
    )
    for said, here in (
        ("REPROMPT", "the model tries again"),
        ("FAILURE", "the turn ends with `DependencyFailed`"),
    ):
        found = read_response({"response": {"functionResponse": {"responseState": said}}}, _PLAIN)
        path = code(f"response.functionResponse.responseState: {said}")
        yield path, state(found.state == said), here
    attributes = read(_PLAIN, "b", sessionAttributes={"x": "1"})
    yield (
        "`sessionAttributes`",
        state(attributes.session_attributes == {"x": "1"}),
        "they replace the session's",
    )
    attributes = read(_PLAIN, "b", promptSessionAttributes={"x": "1"})
    kept = attributes.prompt_session_attributes == {"x": "1"}
    yield "`promptSessionAttributes`", state(kept), "they replace the turn's"
    one = [{"knowledgeBaseId": "KB12345678", "retrievalConfiguration": {"x": 1}}]
    found = read(_PLAIN, "b", knowledgeBasesConfiguration=one).knowledge_bases
    told = "later searches of the turn use it"
    yield "`knowledgeBasesConfiguration`", state(found == {"KB12345678": {"x": 1}}), told


# Traces and stop reasons


def trace_members() -> Iterator[Row]:
    yield from members_of(service().shape_for("TracePart"), (), seen().members)


def members_of(shape: Any, path: Row, made: set[Row]) -> Iterator[Row]:
    for name, member in shape.members.items():
        at = (*path, name)
        if at not in made:
            yield code(".".join(at)), "never made"
            continue
        if member.type_name == "list":
            at, member = (*path, f"{name}[]"), member.member
        if member.name == "RetrievedReference":
            yield code(".".join(at)), "works: as the knowledge base returned it"
        elif member.type_name == "structure" and any(one[: len(at)] == at for one in made):
            yield from members_of(member, at, made)
        else:
            yield code(".".join(at)), "works"


def stop_reasons() -> Iterator[Row]:
    for reason in service("bedrock-runtime").shape_for("StopReason").enum:
        yield code(reason), _after(reason)


def _after(reason: str) -> str:
    broken = reason.startswith("malformed")
    text = [{"text": "<thinking>So." if broken else "<answer>Hello.</answer>"}]
    called = reason == "tool_use"
    use = {"toolUseId": "t-1", "name": "vacations__get_days", "input": {"employee": "e"}}
    first = ModelReply([{"toolUse": use}] if called else text, reason)
    model = ScriptedModel([first, "<answer>Again.</answer>"], CLAUDE_35)
    asked = agent(model, plain_turns()[0][0].agent_options()["groups"])
    try:
        reply = asked.invoke("Hi", "s-1")
    except OrchestratorError as error:
        return f"fails: `{type(error).__name__}`"
    if len(model.requests) > 1:
        return "carries out the calls" if called else "a broken reply: the model is asked again"
    answered = f"stop reason `{reply.stop_reason}`"
    return f"ends with the answer, {answered}" if reply.text == "Hello." else f"ends, {answered}"


def main() -> None:
    PAGE.write_text(build(), encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
