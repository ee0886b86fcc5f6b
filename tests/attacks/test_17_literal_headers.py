"""Attack 17: a definition that holds a credential itself, in a header of any name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loopback import Sent, Site
from mcp_servers import stdio_server
from whole_agents import NATIVE, agent, answer

from orchestrator import ActionGroup, DefinitionError
from orchestrator.actions import HttpExecutor, MCPServer
from orchestrator.definition import lint_definition, load_definition

SECRET = "Zq7-canary-T0ken"
API: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/me": {"get": {"operationId": "me", "description": "Me.", "responses": {}}}},
}
CREDENTIALS = ["Authorization", "X-Api-Key", "Ocp-Apim-Subscription-Key", "X-Auth-Token", "Cookie"]
OTHERS = {"Accept-Language": "en-GB-oxendict", "X-Tenant": "acme-corporation"}

DEFINITION = """
agentName: claims
instruction: You help people with their claims, and with all that they need to know.
actionGroups:
  - actionGroupName: api
    apiSchema: {{payload: '{api}'}}
    actionGroupExecutor: {{http: {{baseUrl: "https://api.example", headers: {headers}}}}}
"""


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("name", CREDENTIALS)
@pytest.mark.parametrize("scheme", ["", "Bearer "])
def test_an_api_that_repeats_one_does_not_show_it_to_the_model(
    name: str, scheme: str, status: int
) -> None:
    with Site(Sent(f'{{"seen": "{SECRET}"}}'.encode(), status)).running() as site:
        executor = HttpExecutor(
            site.url(), headers={name: scheme + SECRET}, allow_private=["localhost"]
        )
        model = NATIVE.model([NATIVE.calls(("GET::api::me", {})), answer("Done.")])
        asked = agent(model, [ActionGroup("api", api_schema=API, executor=executor)])
        reply = asked.invoke("Who am I?")
        assert site.got[0].headers[name.lower()] == scheme + SECRET
    assert SECRET not in f"{reply.text} {reply.trace} {model.requests[1].messages}"
    assert "[a credential]" in str(model.requests[1].messages)


def test_other_headers_stay_in_results() -> None:
    words = " ".join(OTHERS.values())
    with Site(Sent(json.dumps(words).encode())).running() as site:
        executor = HttpExecutor(site.url(), headers=OTHERS, allow_private=["localhost"])
        model = NATIVE.model([NATIVE.calls(("GET::api::me", {})), answer("Done.")])
        agent(model, [ActionGroup("api", api_schema=API, executor=executor)]).invoke("Who?")
    assert words in str(model.requests[1].messages)


@pytest.mark.parametrize("name", CREDENTIALS)
def test_it_is_not_sent_in_the_open(name: str) -> None:
    with pytest.raises(DefinitionError, match="use https") as failed:
        HttpExecutor("http://api.example", headers={name: SECRET})
    assert SECRET not in str(failed.value)
    with pytest.raises(DefinitionError, match="use https"):
        MCPServer(url="http://api.example/mcp", headers={name: SECRET})


def _definition(folder: Path, headers: dict[str, Any]) -> Path:
    text = DEFINITION.format(api=json.dumps(API), headers=json.dumps(headers))
    (folder / "agent.yaml").write_text(text)
    return folder


@pytest.mark.parametrize("name", CREDENTIALS)
def test_lint_says_to_take_it_from_the_environment(name: str, tmp_path: Path) -> None:
    definition = load_definition(_definition(tmp_path, {name: SECRET, **OTHERS}))
    (found,) = [it for it in lint_definition(definition) if it.code == "literal-credential"]
    assert name in found.message and "${env:NAME}" in (found.suggestion or "")
    assert SECRET not in f"{found}"
    assert SECRET not in repr(definition)


@pytest.mark.parametrize("name", CREDENTIALS)
def test_lint_is_content_with_a_reference(name: str, tmp_path: Path) -> None:
    definition = load_definition(_definition(tmp_path, {name: "Bearer ${env:TOKEN}"}))
    assert not [it for it in lint_definition(definition) if it.code == "literal-credential"]


def test_lint_knows_a_credential_by_its_form(tmp_path: Path) -> None:
    definition = load_definition(_definition(tmp_path, {"X-Other": "sk-proj-abcdefghijklmnop12"}))
    assert [it.code for it in lint_definition(definition)] == ["literal-credential"]


def test_a_tool_server_that_repeats_one_does_not_show_it_to_the_model(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    environment = {"API_KEY": SECRET}
    with stdio_server(tmp_path, environment=environment) as server:
        group = ActionGroup("demo", executor=server)
        call = ("demo::fails", {"why": f"the key {SECRET} is wrong"})
        model = NATIVE.model([NATIVE.calls(call), answer("Done.")])
        agent(model, [group]).invoke("Go")
    result = model.requests[1].messages[-1]
    assert SECRET not in str(result) and "[a credential]" in str(result)
