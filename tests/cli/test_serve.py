"""`orchestrator serve`, as far as it does not serve; tests/server/serving has the rest."""

import json
import re
import signal
import socket
import subprocess
import sys

import pytest


def test_the_answer_is_like_that_of_a_good_tool(shop):
    command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", "--agents", shop]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [served.stdout.readline() for _ in range(8)]
    finally:
        served.send_signal(signal.SIGINT)
        rest, log = served.communicate(timeout=60)
    told = "".join([*lines, rest])
    url = re.search(r"http://127\.0\.0\.1:\d+", told)[0]
    agent_id = re.search(r"^  ([0-9A-Z]{10})  TSTALIASID  \S+$", told, re.M)[1]
    assert (served.returncode, log) == (0, "")
    snippet = [line.strip() for line in told.splitlines() if line.startswith("  ")][1:]
    assert snippet[0] == "import boto3"
    assert url in snippet[1] and agent_id in snippet[2]
    for line in snippet:
        compile(line, "snippet", "exec")


def test_a_port_in_use(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shown = run("serve", "--port", port)
    assert shown.exit_code == 2
    assert f"port {port} of '127.0.0.1' is in use" in " ".join(shown.stderr.split())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--host", "0.0.0.0"), "--keys FILE, or --open"),
        (("--workers", "2"), "give --state FILE"),
        (("--workers", "0"), "give 1 to 256"),
        (("--port", "70000"), "give 0 to 65535"),
        (("--lambda", "claims"), "is not NAME=VALUE"),
        (("--lambda", "claims=claims.py"), "has to be FILE:FUNCTION"),
        (("--lambda", "claims=claims.py:handler"), "handler of the Lambda function 'claims'"),
        (("--bucket", "files=nowhere"), "for bucket 'files'"),
        (("--state", "nowhere/s.sqlite"), "for the state"),
        (("--agents", "nowhere"), "nowhere"),
        (("--keys", "nowhere.yaml"), "there is no file of access keys"),
        (("--model", "local", "--model", "local:0.5b"), "are both for every agent"),
        (("--model", "anthropic.*=gpt-4"), "openai:gpt-4"),
    ],
)
def test_mistakes(run, options, match):
    shown = run("serve", "--port", 0, *options)
    assert shown.exit_code == 2
    assert match in " ".join(shown.stderr.split())
    assert json.loads(run("serve", "--port", 0, *options, "--json").stdout)["error"]


def test_without_the_extra_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr("orchestrator.cli.serve.find_spec", lambda name: None)
    shown = run("serve")
    assert shown.exit_code == 2
    assert "pip install 'bedrock-orchestrator[serve]'" in " ".join(shown.stderr.split())
