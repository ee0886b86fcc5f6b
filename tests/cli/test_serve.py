"""`orchestrator serve`, as far as it does not serve; tests/server/serving has the rest."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from left_out import sampled

from orchestrator.server.access.keys import Keys


@pytest.mark.parametrize(
    "words", sampled([["shop"], ["shop/agent.yaml"], ["--agents", "shop"], ["."]])
)
def test_the_answer_is_like_that_of_a_good_tool(shop, words):
    command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", *words]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [served.stdout.readline() for _ in range(9)]
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
    assert (
        "the weights or files of local are not on this machine; `orchestrator models list` lists"
    ) in told
    for line in snippet:
        compile(line, "snippet", "exec")


@pytest.mark.exhaustive
def test_agents_that_are_wrong_are_told_and_the_others_served(shop, tmp_path):
    agents = tmp_path / "several"
    shutil.copytree(shop, agents / "shop")
    (agents / "broken").mkdir()
    (agents / "broken" / "agent.yaml").write_text("agentName: broken\ninstruction: 7\n")
    # Compiling finds it, long after reading has.
    shutil.copytree(shop, agents / "other")
    file = agents / "other" / "agent.yaml"
    file.write_text(
        re.sub("agentName: .*", "agentName: other\nfoundationModel: x", file.read_text())
    )
    command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", "--agents", agents]
    for options in ([], ["--json"]):
        served = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            lines = [served.stdout.readline() for _ in range(1 if options else 8)]
        finally:
            served.send_signal(signal.SIGINT)
            rest, _ = served.communicate(timeout=60)
        told = "".join([*lines, rest])
        assert served.returncode == 0
        assert "TSTALIASID" in told
        assert re.search(r"broken/agent.yaml:2:\d+: instruction must be a text", told)
        assert re.search(r"other/agent.yaml:\d+:\d+: ", told)
    assert {one["agentName"] for one in json.loads(told)["wrong"]} == {"broken", "other"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("shop", "--metrics-port", "99999"), "--metrics-port 99999 is no port"),
        (("shop", "--workers", "3"), "3 worker processes share nothing but their state"),
        (("nowhere",), "there is no folder"),
        (("shop", "--keys", "shop/agent.yaml"), "agent.yaml: access keys are a list"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_what_keeps_it_from_starting_is_in_its_log(run, shop, words, why, debug):
    plain = run("serve", *words, "--port", "0")
    assert plain.exit_code in (1, 2) and "error: " in plain.stderr
    logged = run("serve", *words, "--port", "0", "--log-format", "json", *["--debug"] * debug)
    assert logged.exit_code == plain.exit_code
    record = json.loads(logged.stderr)  # one line, and nothing else
    assert (record["level"], record["logger"]) == ("ERROR", "orchestrator.server")
    assert why in record["message"]
    assert ("traceback" in record) is debug


@pytest.mark.parametrize(
    "words", [("serve", "--port"), ("serve", "--port", "0", "--metrics-port"), ("web", "--port")]
)
def test_a_port_in_use(run, shop, words):
    verb, *options = words
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shown = run(verb, shop, *options, port)
    assert shown.exit_code == 2
    assert shown.stderr == (
        f"error: port {port} of '127.0.0.1' is in use by another program: choose another with "
        f"{words[-1]}, or 0 for any that is free\n"
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--host", "0.0.0.0"), "--keys FILE, or --open"),
        (("--workers", "2"), "give --state, or"),
        (("--workers", "0"), "give 1 to 256"),
        (("--port", "70000"), "give 0 to 65535"),
        (("--region", "eu central"), "is no region"),
        (("--account", "12345"), "give twelve digits"),
        (("--turn-seconds", "0"), "give seconds over 0"),
        (("--body-bytes", "0"), "give 1 or more"),
        (("--concurrency", "0"), "give 1 or more"),
        (("--lambda", "claims"), "is not NAME=FILE[:FUNCTION]"),
        (("--bucket", "claims"), "is not NAME=FOLDER"),
        (("--guardrail", "claims"), "is not NAME=FILE"),
        (("--lambda", "claims=claims"), "has to be FILE or FILE:FUNCTION"),
        (("--lambda", "claims=claims.py:"), "has to be FILE or FILE:FUNCTION"),
        (("--lambda", "claims=claims.py"), "handler of the Lambda function 'claims'"),
        (("--lambda", "claims=claims.py:handler"), "handler of the Lambda function 'claims'"),
        (("--bucket", "files=nowhere"), "for bucket 'files'"),
        (("--state", "nowhere/s.sqlite"), "for the state"),
        (("--agents", "nowhere"), "nowhere"),
        (("nowhere",), "there is no folder"),
        ((".", "--agents", "."), "give FOLDER or --agents, not both"),
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


def test_keys_behind_a_link_that_leads_elsewhere_later(run, tmp_path, monkeypatch):
    # A secret that Kubernetes mounts: `keys.yaml` leads to `..data/keys.yaml`, and `..data` is
    # replaced by a link to another folder when the secret changes.
    for turn in ("1", "2"):
        (tmp_path / turn).mkdir()
        (tmp_path / turn / "keys.yaml").write_text(
            f"[{{apiKey: a-long-secret-of-turn-{turn}, tenant: a}}]"
        )
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "keys.yaml").symlink_to("..data/keys.yaml")
    given = []
    monkeypatch.setattr("orchestrator.server.serving.serve", lambda it, report: given.append(it))
    monkeypatch.setattr("orchestrator.cli.serve._schedule_exit", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert run("serve", "--port", 0, "--keys", "keys.yaml").exit_code == 0
    monkeypatch.chdir("/")
    keys = Keys(given[0].keys)
    assert keys.find_api_key("a-long-secret-of-turn-1")
    (tmp_path / "..new").symlink_to("2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    shutil.rmtree(tmp_path / "1")
    assert keys.find_api_key("a-long-secret-of-turn-2")
    assert not keys.find_api_key("a-long-secret-of-turn-1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", sampled(["1", "2"]))
def test_keys_that_others_can_read_are_warned_of_once(tmp_path, workers):
    keys = tmp_path / "keys.yaml"
    keys.write_text("[{apiKey: a-long-secret-of-somebody, tenant: a}]")
    keys.chmod(0o644)
    command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", "--keys", keys]
    command += ["--state", tmp_path / "s.sqlite", "--workers", workers]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert served.stdout.readline()
    finally:
        served.send_signal(signal.SIGINT)
        _, log = served.communicate(timeout=60)
    assert served.returncode == 0
    assert log.count(f"run `chmod 600 {keys}`") == 1


def test_without_the_extra_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr("orchestrator.cli.serve.find_spec", lambda name: None)
    shown = run("serve")
    assert shown.exit_code == 2
    assert "pip install 'bedrock-orchestrator[serve]'" in " ".join(shown.stderr.split())
