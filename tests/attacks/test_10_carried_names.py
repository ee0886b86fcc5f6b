"""Attack 10: an endpoint, or a file, whose names would lead out of the folder that is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from loopback import serve_handler
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.transfer import Document, changes, files_of, write_files

ID = "ABCDEFGHIJ"
AT = "2026-01-01T00:00:00Z"
HOSTILE = ["../up", "..", "/etc/x", "a/b", "a\\b", "C:x", "a\n", "a\x00b", "", "~x", "a b"]
ARN = f"arn:aws:bedrock:us-east-1:000000000000:agent-alias/{ID}/ABCDEFGHIJ"


class Endpoint:
    """An endpoint that tells whatever it is given."""

    def __init__(self) -> None:
        self.agent: dict[str, Any] = {
            "agentId": ID,
            "agentName": "claims",
            "foundationModel": "anthropic.claude-3-haiku-20240307-v1:0",
        }
        self.group: dict[str, Any] | None = None
        self.member: dict[str, Any] | None = None

    def answer(self, path: str) -> Any:
        if path == f"/agents/{ID}/":
            return {"agent": self.agent}
        if path.endswith("/actiongroups/GROUP00000/"):
            return {"agentActionGroup": {**(self.group or {}), "createdAt": AT}}
        listed = [{"actionGroupId": "GROUP00000"}] if self.group else []
        return {
            "actionGroupSummaries": listed,
            "agentKnowledgeBaseSummaries": [],
            "agentCollaboratorSummaries": [self.member] if self.member else [],
            "tags": {},
        }


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told = endpoint.answer(self.path.partition("?")[0])
            body = (told if isinstance(told, Raw) else json.dumps(told)).encode()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            pass

    with serve_handler(Handler) as url:
        yield url


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canaries: Any) -> Path:
    inner = tmp_path / "in" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return tmp_path


def pull(endpoint: Endpoint, *words: str) -> Any:
    with serving(endpoint) as url:
        return CliRunner().invoke(app, ["pull", ID, "--endpoint-url", url, *words])


def nothing_was_written(place: Path) -> None:
    assert [it for it in place.rglob("*") if it.is_file()] == []


def test_a_friendly_endpoint_is_pulled_from(place: Path) -> None:
    assert pull(Endpoint()).exit_code == 0
    assert [it.relative_to(place).as_posix() for it in place.rglob("*") if it.is_file()] == [
        "in/here/claims/agent.yaml"
    ]


class Raw(str):
    """JSON that is sent as it is."""


@pytest.mark.parametrize(
    "text",
    ['{"agent": {"agentName": "' + "x" * 20_000_001 + '"}}', '{"agent": ' * 100_000],
    ids=["large", "deep"],
)
def test_an_answer_that_is_too_much_is_refused(place: Path, text: str) -> None:
    endpoint = Endpoint()
    endpoint.answer = lambda path: Raw(text)  # type: ignore[method-assign]
    result = pull(endpoint)
    assert result.exit_code in (1, 2) and not isinstance(result.exception, RecursionError)
    assert "the endpoint's answer" in result.output
    nothing_was_written(place)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_group_with_such_a_name_writes_nothing(place: Path, name: str) -> None:
    endpoint = Endpoint()
    schema = {"payload": json.dumps({"openapi": "3.0.0", "paths": {}})}
    endpoint.group = {"actionGroupName": name, "apiSchema": schema}
    assert pull(endpoint).exit_code in (1, 2)
    nothing_was_written(place)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_collaborator_with_such_a_name_writes_nothing(place: Path, name: str) -> None:
    endpoint = Endpoint()
    endpoint.agent["agentCollaboration"] = "SUPERVISOR"
    endpoint.member = {"collaboratorName": name, "agentDescriptor": {"aliasArn": ARN}}
    assert pull(endpoint).exit_code in (1, 2)
    nothing_was_written(place)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_agent_with_such_a_name_writes_nothing(place: Path, name: str) -> None:
    endpoint = Endpoint()
    endpoint.agent["agentName"] = name
    assert pull(endpoint).exit_code in (1, 2)
    nothing_was_written(place)


@pytest.mark.parametrize("kind", ["../ORCHESTRATION", "/ORCHESTRATION", "orchestration"])
def test_a_stage_with_such_a_name_writes_nothing(place: Path, kind: str) -> None:
    endpoint = Endpoint()
    stage = {"promptType": kind, "promptCreationMode": "OVERRIDDEN", "basePromptTemplate": "x"}
    endpoint.agent["promptOverrideConfiguration"] = {"promptConfigurations": [stage]}
    assert pull(endpoint).exit_code in (1, 2)
    nothing_was_written(place)


@pytest.mark.parametrize("arn", ["handler.py", "../../../bin/x.py:main", "/etc/passwd"])
def test_a_function_that_is_a_file_is_refused(place: Path, arn: str) -> None:
    endpoint = Endpoint()
    executor = {"lambda": arn}
    schema = {"functions": [{"name": "f"}]}
    endpoint.group = {
        "actionGroupName": "a",
        "actionGroupExecutor": executor,
        "functionSchema": schema,
    }
    refused = pull(endpoint)
    assert refused.exit_code == 2
    assert "no ARN" in refused.stderr
    nothing_was_written(place)


@pytest.mark.parametrize("model", ["openai:gpt@http://169.254.169.254", "scripted:/etc/passwd"])
def test_a_model_at_an_address_or_in_a_file_is_refused(place: Path, model: str) -> None:
    endpoint = Endpoint()
    endpoint.agent["foundationModel"] = model
    assert pull(endpoint).exit_code == 2
    nothing_was_written(place)


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "templates").symlink_to(outside)
    with pytest.raises(ValidationError, match="through a link"):
        write_files({"templates/orchestration.txt": "x"}, folder, force=True)
    assert [*outside.iterdir()] == []


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValidationError, match="outside"):
        changes({path: "x"}, tmp_path)


@pytest.mark.parametrize("names", [("claims", "CLAIMS"), ("con", "con_"), ("NUL", "nul_")])
def test_names_that_some_systems_take_for_one_have_folders_of_their_own(
    names: tuple[str, str],
) -> None:
    groups = [
        {"actionGroupName": name, "apiSchema": {"payload": f"openapi: 3.0.0 # {name}"}}
        for name in names
    ]
    files = files_of(Document({"agentName": "a", "actionGroups": groups}))
    folders = [it.split("/")[1].lower() for it in files if it.startswith("action_groups/")]
    assert len(set(folders)) == 2
    assert not {"con", "nul"} & set(folders)


def test_an_imported_agent_is_held_to_the_same(tmp_path: Path) -> None:
    told = {"agent": {"agentName": "a", "foundationModel": "m"}, "action_groups": []}
    told["collaborators"] = [{**told, "collaboratorName": "../../up", "collaborators": []}]
    file = tmp_path / "bedrock_config.json"
    file.write_text(json.dumps(told))
    into = tmp_path / "into"
    done = CliRunner().invoke(app, ["import", str(file), "--into", str(into)])
    assert done.exit_code == 0
    written = {it.relative_to(tmp_path).as_posix() for it in tmp_path.rglob("*.yaml")}
    assert written == {"into/agent.yaml", "into/collaborators/up/agent.yaml"}


def test_data_that_is_no_agent_is_refused() -> None:
    with pytest.raises(DefinitionError):
        files_of(Document({"agentName": "a", "actionGroups": [{"actionGroupName": None}]}))
