"""The files in deploy/ fit the command line, each other, and docs/deployment.md."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from orchestrator.cli.commands import app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def read_manifests() -> list[dict[str, Any]]:
    return [it for file in MANIFESTS for it in yaml.safe_load_all(file.read_text())]


def list_pods() -> dict[str, dict[str, Any]]:
    """The pods, by the names of their files."""
    return {
        file.name: it["spec"]["template"]
        for file in MANIFESTS
        for it in yaml.safe_load_all(file.read_text())
        if it["kind"] == "Deployment"
    }


PODS = list_pods()
SERVERS = [name for name in PODS if name.startswith("deployment")]


def read_dockerfile(word: str) -> list[str]:
    """The arguments of the last instruction of a name, which is written as JSON."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return list(json.loads(re.findall(rf"^{word} (\[.*\])$", text, re.MULTILINE)[-1]))


def read_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "orchestrator.service")
    return unit


def list_commands() -> Iterator[tuple[str, list[str]]]:
    """What each file runs, without the program's name."""
    yield "Dockerfile", read_dockerfile("CMD")
    for name, service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].items():
        if service["image"] == "bedrock-orchestrator":
            yield f"compose.yaml {name}", service["command"]
    program, *rest = shlex.split(read_unit()["Service"]["ExecStart"])
    assert program.endswith("/bin/orchestrator")
    yield "orchestrator.service", rest
    for name, pod in list_pods().items():
        (container,) = pod["spec"]["containers"]
        yield name, container["args"]
    for command in re.findall(r"^\$ orchestrator (.*)$", PAGE, re.MULTILINE):
        yield f"deployment.md {command[:40]}", shlex.split(command.replace("\\", ""))


COMMANDS = dict(list_commands())


@pytest.mark.parametrize("place", COMMANDS)
def test_each_command_is_one_of_the_command_line(place: str) -> None:
    command: Any = typer.main.get_command(app)
    words = list(COMMANDS[place])
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    options = {flag: one for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, has_value, _ = word.partition("=")
            assert name in options, f"{place}: {name}"
            if not has_value and not getattr(options[name], "is_flag", False):
                assert words and not words[0].startswith("--"), f"{place}: {name} has no value"
                words.pop(0)


def option(args: list[str], name: str) -> str:
    return args[args.index(name) + 1]


def read_services() -> list[dict[str, Any]]:
    """The server and the worker of compose.yaml."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return [services["server"], services["worker"]]


def test_processes_have_the_time_to_end() -> None:
    for name, pod in PODS.items():
        (container,) = pod["spec"]["containers"]
        before = container.get("lifecycle", {"preStop": {"exec": {"command": ["", 0]}}})
        waits = int(before["preStop"]["exec"]["command"][1])
        seconds = int(option(COMMANDS[name], "--shutdown-seconds"))
        assert (name in SERVERS) == (waits > 0)
        assert pod["spec"]["terminationGracePeriodSeconds"] >= waits + seconds + 10
    for service in read_services():
        assert int(service["stop_grace_period"].removesuffix("s")) >= 10 + int(
            option(service["command"], "--shutdown-seconds")
        )
    unit = read_unit()["Service"]
    command = COMMANDS["orchestrator.service"]
    assert int(unit["TimeoutStopSec"]) >= 10 + int(option(command, "--shutdown-seconds"))
    assert unit["KillMode"] == "mixed"


@pytest.mark.parametrize("name", PODS)
def test_pods_name_what_is_there(name: str) -> None:
    manifests = read_manifests()
    there = {(it["kind"], it["metadata"]["name"]) for it in manifests}
    pod = PODS[name]["spec"]
    assert ("ServiceAccount", pod["serviceAccountName"]) in there
    for volume in pod["volumes"]:
        for kind, key, member in (
            ("ConfigMap", "configMap", "name"),
            ("Secret", "secret", "secretName"),
            ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
        ):
            assert key not in volume or (kind, volume[key][member]) in there
    (container,) = pod["containers"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    members = {it["metadata"]["name"]: it["stringData"] for it in manifests if "stringData" in it}
    env = {it["name"]: it for it in container["env"]}
    assert "AWS_REGION" in env
    for variable in env.values():
        source = variable.get("valueFrom", {}).get("secretKeyRef")
        assert source is None or source["key"] in members[source["name"]]
    # Kubernetes puts in what an argument names.
    named = {it[2:-1] for it in container["args"] if it.startswith("$(")}
    assert named <= set(env)


def test_replicas_share_a_database_and_files_are_of_one() -> None:
    for manifest in read_manifests():
        if manifest["kind"] == "Deployment":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            is_shared = option(container["args"], "--state") == "$(DATABASE)"
            assert is_shared == (manifest["spec"]["replicas"] > 1)
            assert is_shared == ("strategy" not in manifest["spec"])
    worker = COMMANDS["worker.yaml"]
    assert option(worker, "--state") == option(worker, "--database")
    server, worker = (it["command"] for it in read_services())
    assert option(server, "--state") == option(worker, "--state") == option(worker, "--database")


@pytest.mark.parametrize("name", SERVERS)
def test_callers_and_probes_reach_a_server(name: str) -> None:
    pod = PODS[name]
    labels = pod["metadata"]["labels"]
    for it in read_manifests():
        if it["kind"] in ("Service", "NetworkPolicy"):
            selector = it["spec"].get("selector") or it["spec"]["podSelector"]["matchLabels"]
            assert selector.items() <= labels.items()
    (server,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert ports == {"http": 8080, "metrics": int(option(COMMANDS[name], "--metrics-port"))}
    probes = {
        name: server[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
    }
    assert {name: (it["path"], it["port"]) for name, it in probes.items()} == {
        "startup": ("/livez", "http"),
        "liveness": ("/livez", "http"),
        "readiness": ("/readyz", "http"),
    }


def test_nothing_runs_as_root_or_writes_outside_its_folders() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    user = re.findall(r"^USER (\d+):\d+$", dockerfile, re.MULTILINE)
    for pod in (it["spec"] for it in PODS.values()):
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert user == [str(pod["securityContext"]["runAsUser"])] != ["0"]
    for service in read_services():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        # No port but on the machine itself: TLS ends in a proxy before it.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    unit = read_unit()["Service"]
    assert unit["User"] == "orchestrator" and unit["ProtectSystem"] == "strict"


def test_a_changed_file_of_keys_is_seen() -> None:
    """What is mounted is the folder: a file alone, or a copy, would stay as it was."""
    (mount,) = [it for it in read_services()[0]["volumes"] if it.startswith("./keys:")]
    folders = {"compose.yaml server": mount.split(":")[1], "Dockerfile": "/run/keys"}
    for name in SERVERS:
        (server,) = PODS[name]["spec"]["containers"]
        (where,) = [it for it in server["volumeMounts"] if it["name"] == "keys"]
        assert "subPath" not in where
        folders[name] = where["mountPath"]
    unit = read_unit()["Service"]
    assert not {"LoadCredential", "BindReadOnlyPaths"} & set(unit)
    folders["orchestrator.service"] = "/etc/orchestrator/keys"
    assert {name: option(COMMANDS[name], "--keys") for name in folders} == {
        name: f"{folder}/keys.yaml" for name, folder in folders.items()
    }


def test_every_server_asks_for_keys() -> None:
    servers = [args for args in COMMANDS.values() if args[0] == "serve" and "0.0.0.0" in args]
    assert len(servers) >= 3
    assert all("--keys" in args and "--open" not in args for args in servers)


def test_the_image_copies_what_a_wheel_is_made_of() -> None:
    import tomllib

    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wanted = set(wheel["targets"]["wheel"]["only-include"])
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE))
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert copied == wanted == {it[1:] for it in ignored if re.fullmatch(r"!\w+", it)} - {"LICENSE"}


def test_the_page_names_every_file() -> None:
    files = [it for it in DEPLOY.rglob("*") if it.is_file()]
    assert files and all(it.name in PAGE for it in files), files
