"""The layout of deploy/, as its own commands make it, without containers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import boto3
import pytest
import yaml
from loopback import reserve_port
from runtime_servers import told
from server_requests import ID, SECRET, write_keys
from serving_support import WaitingModel
from waiting import until

ROOT = Path(__file__).resolve().parents[3]
AGENT_ID = "DEPLOYED01"


def read_args() -> list[str]:
    """What the container of the Deployment runs."""
    file = ROOT / "deploy" / "kubernetes" / "deployment-sqlite.yaml"
    (deployment,) = [
        it for it in yaml.safe_load_all(file.read_text()) if it["kind"] == "Deployment"
    ]
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    args: list[str] = server["args"]
    return args


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Layout:
    """The deployed server: its folders here, its command from the manifest."""

    def __init__(self, folder: Path, model: str, port: int, metrics: int) -> None:
        agent = folder / "agents" / "starter"
        agent.mkdir(parents=True)
        (agent / "agent.yaml").write_text(
            json.dumps(
                {
                    "agentId": AGENT_ID,
                    "agentName": "starter",
                    "instruction": "You answer questions of all kinds, as well as you can.",
                    "foundationModel": model,
                }
            )
        )
        self.metrics = metrics
        (folder / "data").mkdir()
        here = {
            "/agents": str(folder / "agents"),
            "/data/sessions.sqlite": str(folder / "data" / "sessions.sqlite"),
            "/run/keys/keys.yaml": str(write_keys(folder)),
            "0.0.0.0": "127.0.0.1",
            "9090": str(metrics),
        }
        args = [here.get(it, it) for it in read_args()]
        assert not set(here) & set(args)
        self.command = [sys.executable, "-m", "orchestrator", *args, "--port", str(port)]
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        env = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=env, start_new_session=True
            )
        try:
            until(lambda: process.poll() is not None or ask(f"{self.url}/readyz")[0] == 200)
            assert process.poll() is None, self.log.read_text()
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def invoke(self, text: str) -> str:
        with closing(
            boto3.client(
                "bedrock-agent-runtime",
                endpoint_url=self.url,
                region_name="us-east-1",
                aws_access_key_id=ID,
                aws_secret_access_key=SECRET,
            )
        ) as client:
            answer = client.invoke_agent(
                agentId=AGENT_ID, agentAliasId="TSTALIASID", sessionId="s-1", inputText=text
            )
            found: str = told(answer)["text"]
            return found


@pytest.fixture
def layout(tmp_path: Path, model: WaitingModel) -> Iterator[Layout]:
    with reserve_port() as port, reserve_port() as metrics:
        yield Layout(tmp_path, model.spec, port, metrics)


def test_a_deployment_from_start_to_end(layout: Layout, model: WaitingModel) -> None:
    with layout.running() as process, ThreadPoolExecutor(1) as threads:
        # Whoever runs it asks without a key.
        assert ask(f"{layout.url}/livez")[0] == 200
        assert ask(f"{layout.url}/metrics")[0] == 403
        assert (
            "orchestrator_turns_in_flight 0" in ask(f"http://127.0.0.1:{layout.metrics}/metrics")[1]
        )
        # A turn that runs as the server is told to end comes to its own.
        turn = threads.submit(layout.invoke, "Is all well?")
        assert model.asked.wait(60)
        process.send_signal(signal.SIGTERM)
        until(lambda: ask(f"{layout.url}/readyz")[0] != 200)
        model.go.set()
        assert turn.result(60) == "All is well."
        assert process.wait(60) == 0
    # The next one has the session.
    with layout.running() as process:
        assert layout.invoke("And now?") == "All is well."
        assert "Is all well?" in str(model.loopback.asked[-1].json["messages"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    records = [json.loads(line) for line in layout.log.read_text().splitlines() if line[:1] == "{"]
    turns = [it for it in records if it.get("operation") == "InvokeAgent"]
    assert [(it["status"], it["session_id"], it["tenant"]) for it in turns] == [
        (200, "s-1", "team-a"),
        (200, "s-1", "team-a"),
    ]
