"""Which operation a method and a path mean."""

from __future__ import annotations

import pytest
from shape_values import ALL

from orchestrator.server.wire.api import Api, Route, Routes
from orchestrator.server.wire.shapes import operation_model

API = Api({})


def meant(method: str, path: str) -> str | None:
    found = API.match(method, path)
    return found.operation if found is not None else None


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("POST", "/agents/", "ListAgents"),
        ("PUT", "/agents/", "CreateAgent"),
        ("POST", "/agents/ABCDEFGHIJ/", "PrepareAgent"),
        ("POST", "/agents/ABCDEFGHIJ", "InvokeInlineAgent"),
        ("GET", "/agents/ABCDEFGHIJ/", "GetAgent"),
        ("POST", "/agents/A/agentAliases/T/sessions/s/text", "InvokeAgent"),
        ("POST", "/agents/A/agentaliases/", "ListAgentAliases"),
        ("POST", "/flows/validate-definition", "ValidateFlowDefinition"),
        ("POST", "/flows/ABCDEFGHIJ/", "PrepareFlow"),
        ("POST", "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Afoundation-model%2Fm/converse",
         "Converse"),
        ("POST", "/model/m/invoke-with-response-stream", "InvokeModelWithResponseStream"),
    ],
)  # fmt: skip
def test_paths_are_told_apart(method: str, path: str, operation: str) -> None:
    assert meant(method, path) == operation


@pytest.mark.parametrize("operation", ALL, ids="-".join)
def test_every_operation_is_found_where_its_model_says(operation: tuple[str, str]) -> None:
    http = operation_model(*operation).http
    found = API.match(http["method"], http["requestUri"])
    assert found is not None
    assert operation in [(route.service, route.operation) for route in found.routes]


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("PUT", "/agents", "CreateAgent"),
        ("GET", "/agents/ABCDEFGHIJ", "GetAgent"),
        ("GET", "/knowledgebases/ABCDEFGHIJ/", "GetKnowledgeBase"),
        ("POST", "/retrieveAndGenerate/", "RetrieveAndGenerate"),
        ("PATCH", "/sessions/s/", "EndSession"),
    ],
)
def test_a_slash_more_or_less_is_forgiven_where_it_means_nothing_else(
    method: str, path: str, operation: str
) -> None:
    assert meant(method, path) == operation


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/agents//"),
        ("POST", "//agents/"),
        ("POST", "/agents/x//"),
        ("POST", "agents/"),
        ("POST", ""),
        ("POST", "/"),
        ("POST", "/%61gents/"),
        ("POST", "/Agents/"),
        ("POST", "/agents/a/b"),
        ("POST", "/agents/../agents/x/y"),
        ("POST", "/agents/;x=1/y/"),
        ("get", "/agents/ABCDEFGHIJ/"),
        ("TRACE", "/agents/"),
        ("HEAD", "/agents/ABCDEFGHIJ/"),
        ("POST", "/model//converse"),
        ("POST", "/tags"),
        ("GET", "/tags/arn:aws:bedrock:us-east-1:0:agent/ABCDEFGHIJ"),
    ],
)
def test_what_no_model_has_means_nothing(method: str, path: str) -> None:
    assert meant(method, path) is None


def test_a_label_is_one_piece_however_it_is_escaped() -> None:
    found = API.match("GET", "/tags/arn%3Aaws%3Abedrock%3A%3A%3Aagent%2FA")
    assert found is not None and found.labels == ("arn%3Aaws%3Abedrock%3A%3A%3Aagent%2FA",)
    assert [route.service for route in found.routes] == ["bedrock-agent", "bedrock-agent-runtime"]


def test_greedy_labels_and_fixed_parts_of_a_query() -> None:
    """No operation has them today; other services of AWS do."""
    routes = Routes(
        [
            ("s", "Get", "GET", "/{Bucket}/{Key+}"),
            ("s", "List", "GET", "/{Bucket}"),
            ("s", "ListMore", "GET", "/{Bucket}?list-type=2"),
            ("s", "Named", "GET", "/fixed/{Key}"),
        ]
    )

    def found(path: str, query: str = "") -> tuple[list[str], tuple[str, ...]]:
        told = routes.match("GET", path, query)
        assert told is not None
        return [route.operation for route in told[0]], told[1]

    assert found("/b/k/l/m") == (["Get"], ("b", "k/l/m"))
    assert found("/b") == (["List"], ("b",))
    assert found("/b", "x=1&list-type=2") == (["ListMore", "List"], ("b",))
    assert found("/fixed/k") == (["Named"], ("k",))
    assert found("/fixed/k/l") == (["Get"], ("fixed", "k/l"))
    assert Route("s", "Get", ("Bucket", "Key")) in routes.match("GET", "/b/k")[0]  # type: ignore
