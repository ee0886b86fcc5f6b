"""MCP servers as action groups, over both transports."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_support import SECRET, context, run
from mcp_servers import http_server, stdio_server
from whole_agents import NATIVE, agent, answer

from orchestrator.actions import ActionGroup, Catalog, MCPServer
from orchestrator.definition import build_action_groups, load_definition
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
)

pytest.importorskip("mcp")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MCPServer]:
    with stdio_server(tmp_path) as server:
        yield server


def running(folder: Path) -> bool:
    pid = int((folder / "pid").read_text())
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.exhaustive
def test_the_tools_are_the_groups_operations(server: MCPServer) -> None:
    made = ActionGroup("demo", executor=server)
    assert [one.name for one in made.operations] == [
        *("add", "files_read", "every_kind", "only_structure", "fails", "end", "change", "wait")
    ]
    add = made.operations[0]
    assert (add.description, add.idempotent) == ("Adds two numbers.", True)
    assert [(one.name, one.type, one.required) for one in add.parameters] == [
        ("a", "integer", True),
        ("b", "integer", False),
    ]
    assert (add.tool_use_name, add.xml_name) == ("demo__add", "demo::add")
    assert not made.operations[1].idempotent


def test_calls_and_their_results(server: MCPServer) -> None:
    tools = Catalog([ActionGroup("demo", executor=server)])
    assert run(tools, "add", a="41").text == "42"
    result = run(tools, "every_kind")
    assert result.text == "first\n[file-1.png: image/png, 3 bytes]\nheld\nb: file:///b.txt"
    assert result.files == ({"name": "file-1.png", "type": "image/png", "bytes": b"PNG"},)
    assert run(tools, "only_structure").text == '{"open": 3}'
    result = run(tools, "fails", why="no such claim")
    assert (result.text, result.state) == ("no such claim", "REPROMPT")


def test_a_whole_turn(server: MCPServer) -> None:
    model = NATIVE.model([NATIVE.calls(("demo::add", {"a": 2, "b": 3})), answer("Five.")])
    asked = agent(model, [ActionGroup("demo", executor=server)])
    assert asked.invoke("2 + 3?").text == "Five."
    assert "'5'" in str(model.requests[1].messages[-1])


def test_the_command_gets_only_the_variables_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("WHO", "Ada")
    with stdio_server(tmp_path, environment={"OWNER": "${env:WHO}!"}) as server:
        tools = Catalog([ActionGroup("demo", executor=server)])
        assert run(tools, "files_read", path="a").text == "a of Ada!, None"


@pytest.mark.exhaustive
def test_only_some_tools_and_some_with_confirmation(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tools": ["add", "fails"], "require_confirmation": ["fails"]}
    with stdio_server(tmp_path, **options) as server:
        made = ActionGroup("demo", executor=server)
        assert [(one.name, one.require_confirmation) for one in made.operations] == [
            ("add", False),
            ("fails", True),
        ]
    with (
        stdio_server(tmp_path, tools=["ad"]) as server,
        pytest.raises(DefinitionError, match="has no tool 'ad'; did you mean 'add'"),
    ):
        ActionGroup("demo", executor=server)


@pytest.mark.exhaustive
def test_closing_ends_the_process_and_the_next_call_starts_another(
    server: MCPServer, tmp_path: Path
) -> None:
    tools = Catalog([ActionGroup("demo", executor=server)])
    assert running(tmp_path)
    first = (tmp_path / "pid").read_text()
    server.close()
    assert not running(tmp_path)
    assert run(tools, "add", a=1).text == "2"
    assert (tmp_path / "pid").read_text() != first


@pytest.mark.exhaustive
def test_a_server_that_nobody_has_any_more_is_stopped(tmp_path: Path) -> None:
    server = stdio_server(tmp_path)
    assert len(server.fingerprint) == 64
    assert running(tmp_path)
    del server
    gc.collect()
    assert not running(tmp_path)


@pytest.mark.exhaustive
def test_a_process_that_ends_leaves_no_server_behind(tmp_path: Path) -> None:
    stdio_server(tmp_path)
    code = (
        "import sys; from orchestrator.actions import *;"
        f"s = MCPServer([sys.executable, 'server.py'], folder={str(tmp_path)!r});"
        "g = ActionGroup('demo', executor=s); print(len(g.operations))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("8\n", "")
    assert not running(tmp_path)


@pytest.mark.exhaustive
def test_a_server_that_ends_during_a_call(server: MCPServer, tmp_path: Path) -> None:
    tools = Catalog([ActionGroup("demo", executor=server)])
    with pytest.raises(ActionOutcomeUnknown, match=r"'end' and did not answer .* not asked again"):
        run(tools, "end")
    assert (tmp_path / "ended").read_text() == "x"
    assert run(tools, "add", a=1).text == "2"  # it was started again


@pytest.mark.exhaustive
def test_a_server_that_was_killed_between_calls(server: MCPServer, tmp_path: Path) -> None:
    tools = Catalog([ActionGroup("demo", executor=server)])
    os.kill(int((tmp_path / "pid").read_text()), 9)
    assert run(tools, "add", a=1).text == "2"


@pytest.mark.exhaustive
def test_a_call_that_never_ends(server: MCPServer) -> None:
    tools = Catalog([ActionGroup("demo", executor=server)])
    with pytest.raises(ActionOutcomeUnknown, match=r"time was up|were up"):
        run(tools, "wait", context(seconds=0.5))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/server"], "FileNotFoundError"),
        ([sys.executable, "-c", "pass"], "could not be started"),
        ([sys.executable, "-c", "print('hello')"], "could not be started"),
    ],
)
def test_a_command_that_is_no_server(command: list[str], said: str) -> None:
    with MCPServer(command, timeout=60) as server, pytest.raises(DependencyFailed, match=said):
        ActionGroup("demo", executor=server)


@pytest.mark.exhaustive
def test_what_a_server_writes_to_its_standard_error_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestrator.mcp")
    with stdio_server(tmp_path) as server:
        ActionGroup("demo", executor=server)
    assert "started" in caplog.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either a command or a url"),
        ({"command": ["a"], "url": "https://a.example"}, "either a command or a url"),
        ({"command": "python server.py"}, r"is a list, such as \['python', 'server.py'\]"),
        ({"command": []}, "is a list"),
        ({"url": "file:///etc/passwd"}, "https://"),
        ({"url": "http://a.example", "headers": {"A": "${env:T}"}}, "http://a.example would send"),
        ({"url": "https://a.example", "headers": {"A": "${session:t}"}}, "known: \\$\\{env:NAME"),
        ({"command": ["a"], "timeout": 0}, "above 0"),
    ],
)
def test_a_server_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        MCPServer(**options)


def test_a_group_has_either_a_schema_or_a_server() -> None:
    with pytest.raises(DefinitionError, match="brings its own operations; leave functions out"):
        ActionGroup("demo", functions=[{"name": "f"}], executor=MCPServer(["a"]))


def test_a_disabled_group_starts_nothing() -> None:
    made = ActionGroup("demo", executor=MCPServer(["/nowhere"]), state="DISABLED")
    assert Catalog([made]).operations == ()


def test_streamable_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    with http_server(tmp_path, monkeypatch) as (url, came):
        headers = {"Authorization": "Bearer ${env:TOKEN}"}
        private = ["127.0.0.1"]
        tools_of = ["add", "fails"]
        with MCPServer(url=url, headers=headers, tools=tools_of, allow_private=private) as server:
            tools = Catalog([ActionGroup("demo", executor=server)])
            assert run(tools, "add", a=1, b=2).text == "3"
            assert run(tools, "fails", why="no").state == "REPROMPT"
            assert {one["authorization"] for one in came} == {f"Bearer {SECRET}"}
            monkeypatch.delenv("TOKEN")
            server.close()
            with pytest.raises(AccessDenied, match=r"'Authorization' needs .* 'TOKEN'"):
                run(tools, "add", a=1)


def test_a_url_where_nothing_is() -> None:
    with (
        MCPServer(
            url="http://127.0.0.1:1/mcp?key=canary", timeout=60, allow_private=["127.0.0.1"]
        ) as server,
        pytest.raises(DependencyFailed, match=r"'127\.0\.0\.1:1' could not be started") as caught,
    ):
        ActionGroup("demo", executor=server)
    assert "canary" not in str(caught.value)


def definition(folder: Path, mcp: str, more: str = "") -> list[ActionGroup]:
    (folder / "agent.yaml").write_text(
        "agentName: a\nactionGroups:\n  - actionGroupName: demo\n"
        f"    actionGroupExecutor: {{mcp: {mcp}}}\n{more}"
    )
    return build_action_groups(load_definition(folder))


def test_a_definition(tmp_path: Path) -> None:
    stdio_server(tmp_path)
    command = json.dumps([sys.executable, "server.py"])
    (made,) = definition(
        tmp_path,
        f"{{command: {command}, tools: [files.read], requireConfirmation: [files.read]}}",
        "    environment: {OWNER: Ada}\n",
    )
    executor: Any = made.executor
    with executor:
        assert [(one.name, one.require_confirmation) for one in made.operations] == [
            ("files_read", True)
        ]
        assert run(made, "files_read", path="x").text == "x of Ada, None"


@pytest.mark.parametrize(
    ("mcp", "said"),
    [
        ("{command: [/nowhere]}", r"agent\.yaml:4:32: the MCP server 'nowhere' could not be star"),
        ("{}", "give exactly one of command or url"),
        ("{command: [a], url: 'https://a.example'}", "give exactly one of command or url"),
        ("{command: [a], headers: {A: canary}}", "a command has no headers"),
        ("{command: [a], lockFile: gone.json}", "there is no file 'gone.json'"),
        ("{command: [a], lockFile: ../x.json}", "leads out of the folder"),
        ("{url: 'ftp://a.example'}", "url"),
        ("{url: 'https://a.example', headers: {A: '${x:canary}'}}", "has the reference"),
    ],
)
def test_a_definition_that_is_wrong(tmp_path: Path, mcp: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said) as caught:
        definition(tmp_path, mcp)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "agent.yaml"), 4)


@pytest.mark.exhaustive
def test_a_locked_server_is_started_by_the_first_call(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tools=["add"]) as server:
        server.lock(tmp_path / "demo.json")
    (tmp_path / "pid").unlink()
    with stdio_server(tmp_path, lock_file=tmp_path / "demo.json") as server:
        tools = Catalog([ActionGroup("demo", executor=server)])
        assert [one.name for one in tools.operations] == ["add"]
        assert not (tmp_path / "pid").exists()
        assert run(tools, "add", a=1).text == "2"
    for content in ("[", "[]", '{"a": 1}'):
        (tmp_path / "demo.json").write_text(content)
        with pytest.raises(DefinitionError, match=r"demo\.json"):
            ActionGroup("d", executor=stdio_server(tmp_path, lock_file=tmp_path / "demo.json"))
    (tmp_path / "demo.json").unlink()
    with pytest.raises(DefinitionError, match="there is no such file; write it with"):
        ActionGroup("d", executor=stdio_server(tmp_path, lock_file=tmp_path / "demo.json"))
