"""Stores in PostgreSQL behind PgBouncer, which shares a few connections among all who ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from loopback import reserve_port
from postgres_server import PASSWORD, USER, is_up
from waiting import until

from orchestrator import Agent, Sessions
from orchestrator.sessions import PostgresStore
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
THREADS, QUESTIONS = 8, 60
SETTINGS = """\
[databases]
* = host=127.0.0.1 port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = {connections}
"""


@contextmanager
def open_pooler(url: str, mode: str, connections: int) -> Iterator[str]:
    """The URL of the same database through a PgBouncer with so many connections to it."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("PgBouncer is not installed: no program pgbouncer in PATH")
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-pooler-"))
    prefix: list[str] = []
    if os.getuid() == 0:  # it refuses to run as root
        shutil.chown(folder, 65534, 65534)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    folder.chmod(0o755)
    port = urlsplit(url).port
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        own_port = stack.enter_context(reserve_port())
        settings = {"port": port, "own_port": own_port, "folder": folder}
        (folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n')
        (folder / "settings").write_text(
            SETTINGS.format(**settings, mode=mode, connections=connections)
        )
        command = [*prefix, program, "-q", str(folder / "settings")]
        process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        stack.callback(process.kill)
        pooled = url.replace(f":{port}/", f":{own_port}/")
        until(lambda: is_up(process, pooled))
        yield pooled


@pytest.mark.parametrize(("mode", "connections"), [("session", 50), ("transaction", 2)])
def test_two_processes_ask_through_a_pooler(postgres_url: str, mode: str, connections: int) -> None:
    pooler = open_pooler(postgres_url, mode, connections)
    with pooler as url, closing(PostgresStore(url)) as store:
        # Of a URL of its own it has connections of its own, as another process has.
        with closing(PostgresStore(f"{url}?application_name=other")) as other:
            _ask_both(store, other)
        with psycopg.connect(url) as db:
            found = db.execute("SHOW enable_seqscan").fetchone()
    assert found == ("on",)  # what others of its users see


def _ask_both(store: PostgresStore, other: PostgresStore) -> None:
    agents = []
    for it in (store, other):
        model = ScriptedModel(["<answer>Hello."] * 2 * QUESTIONS, CLAUDE)
        agents.append(Agent("greeter", "You greet people.", model, sessions=Sessions(it)))

    def ask(number: int) -> str:
        agent = agents[number % 2]
        agent.invoke(f"first {number}", f"s-{number}")
        return agent.invoke(f"then {number}", f"s-{number}").text

    with ThreadPoolExecutor(THREADS) as threads:
        assert {*threads.map(ask, range(QUESTIONS))} == {"Hello."}
    for number in range(QUESTIONS):
        turns = agents[number % 2 - 1].turns(f"s-{number}")
        assert [it.question for it in turns] == [f"first {number}", f"then {number}"]
    assert list(store.list_unfinished()) == []
