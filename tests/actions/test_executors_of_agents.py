"""APIs and MCP servers in whole agents: definitions, confirmation, disabled groups, the trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_support import document, group, json_body
from loopback import Sent, Site
from whole_agents import BOTH, NATIVE, Family, agent, answer

from orchestrator import ActionGroup, Agent
from orchestrator.actions import HttpExecutor, LambdaArn, MCPServer
from orchestrator.definition import build_action_groups, load_definition
from orchestrator.errors import DefinitionError

ARN = "arn:aws:lambda:eu-central-1:123456789012:function:claims"
PAYLOAD = json.dumps({**document(), "servers": [{"url": "https://api.example/v1"}]})


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(Sent(b"opened")).running() as site:
        yield site


def confirmed(site: Site, **members: Any) -> ActionGroup:
    body = json_body(who={"type": "string"})
    schema = document(verb="post", requestBody=body, **{"x-requireConfirmation": "ENABLED"})
    return group(site.url(), schema)


@BOTH
@pytest.mark.parametrize("allowed", [True, False])
def test_an_api_operation_waits_for_the_user(family: Family, allowed: bool, site: Site) -> None:
    name = "POST::api::it" if family.native else "POST::api::/claims"
    model = family.model([family.calls((name, {"who": "Ada"})), answer("Done.")])
    asked = agent(model, [confirmed(site)])
    control = asked.invoke("Open one.", "s-1").return_control
    assert control is not None and site.got == []
    (call,) = (one["apiInvocationInput"] for one in control.invocation_inputs)
    assert call["actionInvocationType"] == "USER_CONFIRMATION"
    assert asked.invoke(session_id="s-1", results=control.answer(allowed)).text == "Done."
    assert [got.body for got in site.got] == ([b'{"who": "Ada"}'] if allowed else [])


def test_some_of_several_calls_are_allowed(site: Site) -> None:
    calls = [("POST::api::it", {"who": name}) for name in ("Ada", "Bob", "Cy")]
    model = NATIVE.model([NATIVE.calls(*calls), answer("Done.")])
    asked = agent(model, [confirmed(site)])
    control = asked.invoke("Open three.", "s-1").return_control
    assert control is not None and len(control.invocation_inputs) == 3
    results = control.answer({"/claims": [True, False, True]})
    asked.invoke(session_id="s-1", results=results)
    assert sorted(got.body for got in site.got) == [b'{"who": "Ada"}', b'{"who": "Cy"}']


def test_the_key_of_a_call_goes_with_its_request(site: Site) -> None:
    schema = document(verb="post")
    model = NATIVE.model([NATIVE.calls(("POST::api::it", {})), answer("Done.")] * 2)
    asked = agent(model, [group(site.url(), schema)])
    asked.invoke("Open one.", "s-1")
    asked.invoke("Open one.", "s-1")
    first, second = (got.headers["idempotency-key"] for got in site.got)
    assert first and second and first != second


def test_no_credential_is_in_the_trace_or_the_prompt(
    site: Site, canaries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Authorization": "Bearer ${env:OPENAI_API_KEY}", "X-User": "${session:user}"}
    site.answers = [Sent(f"echo {canaries['OPENAI_API_KEY']}".encode())]
    model = NATIVE.model([NATIVE.calls(("GET::api::it", {})), answer("Done.")])
    asked = agent(model, [group(site.url(), headers=headers)])
    secret = canaries["session attribute"]
    reply = asked.invoke("Read.", "s-1", session_attributes={"user": secret})
    assert site.got[0].headers["authorization"].endswith(canaries["OPENAI_API_KEY"])
    assert site.got[0].headers["x-user"] == secret
    canaries.nowhere_in("trace", reply.trace)
    canaries.nowhere_in("prompts", [one.messages for one in model.requests])
    canaries.nowhere_in("executor", repr(asked.plan.catalog.executor))


def loaded(folder: Path, groups: str) -> list[ActionGroup]:
    (folder / "agent.yaml").write_text(f"agentName: a\nactionGroups:\n{groups}")
    return build_action_groups(load_definition(folder))


def test_a_definition_of_each_executor(tmp_path: Path) -> None:
    payload = json.dumps(PAYLOAD)
    api, function = loaded(
        tmp_path,
        f"""
  - actionGroupName: api
    apiSchema: {{payload: {payload}}}
    actionGroupExecutor:
      http: {{baseUrl: "https://a.example", headers: {{X-Key: "${{env:KEY}}"}},
              timeoutSeconds: 5, allowPrivate: [a.example]}}
  - actionGroupName: function
    functionSchema: {{functions: [{{name: f}}]}}
    actionGroupExecutor: {{lambda: "{ARN}:live"}}
  - actionGroupName: off
    actionGroupState: DISABLED
    actionGroupExecutor: {{mcp: {{command: [/nowhere]}}}}
""",
    )
    assert isinstance(api.executor, HttpExecutor) and isinstance(function.executor, LambdaArn)
    assert repr(api.executor) == "HttpExecutor('https://a.example')"
    assert function.executor.arn == f"{ARN}:live"


def test_an_agents_folder_that_calls_an_api(tmp_path: Path, site: Site) -> None:
    (tmp_path / "agent.yaml").write_text(
        f"""
agentName: a
instruction: You read claims.
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
actionGroups:
  - actionGroupName: api
    apiSchema: {{payload: {json.dumps(PAYLOAD)}}}
    actionGroupExecutor: {{http: {{baseUrl: {site.url()}, allowPrivate: [localhost]}}}}
"""
    )
    model = NATIVE.model([NATIVE.calls(("GET::api::it", {})), answer("Read.")])
    assert Agent.load(tmp_path, model=model).invoke("Read.").text == "Read."
    assert [got.path for got in site.got] == ["/claims"]


@pytest.mark.parametrize(
    ("executor", "column", "said"),
    [
        ("{http: {}}", 16, "nothing says where the API is"),
        ("{http: {baseUrl: 'https://a.example/?k=v'}}", 33, "may have no query"),
        ("{http: {headers: {Host: canary}}}", 33, "set by the connection"),
        ("{http: {headers: {A: 1}}}", 48, "must be a text; put it in quotes"),
        ("{http: {timeoutSeconds: 0}}", 50, "must be greater than 0"),
        ("{http: {url: 'https://a.example'}}", 34, "'url' is not a member"),
        ("{lambda: 'arn:aws:s3:::a'}", 35, "is not the ARN of a Lambda function"),
    ],
)
def test_a_definition_that_is_wrong(tmp_path: Path, executor: str, column: int, said: str) -> None:
    payload = json.dumps(json.dumps(document()))
    with pytest.raises(DefinitionError, match=said) as caught:
        loaded(
            tmp_path,
            f"  - actionGroupName: api\n    actionGroupExecutor: {executor}\n"
            f"    apiSchema: {{payload: {payload}}}\n",
        )
    assert caught.value.file == str(tmp_path / "agent.yaml")
    assert caught.value.line == (5 if column == 16 else 4)
    assert "canary" not in str(caught.value)


def test_an_api_needs_a_document(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="an API over HTTP needs an apiSchema, not functions"):
        loaded(
            tmp_path,
            "  - actionGroupName: api\n    actionGroupExecutor: {http: {}}\n"
            "    functionSchema: {functions: [{name: f}]}\n",
        )


def test_a_disabled_group_is_no_part_of_an_agent(site: Site) -> None:
    off = ActionGroup("off", executor=MCPServer(["/nowhere"]), state="DISABLED")
    model = NATIVE.model([NATIVE.calls(("off::f", {})), answer("No.")])
    asked = agent(model, [off, group(site.url())])
    assert asked.invoke("Off?").text == "No."
    assert "is not a valid function" in str(model.requests[1].messages[-1])
    assert [one.group for one in asked.plan.catalog.operations] == ["api"]
