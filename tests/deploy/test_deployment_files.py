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


def read_pod() -> dict[str, Any]:
    file = DEPLOY / "kubernetes" / "deployment.yaml"
    manifests = yaml.safe_load_all(file.read_text())
    (found,) = [it["spec"]["template"] for it in manifests if it["kind"] == "Deployment"]
    return dict(found)


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
    for it in read_manifests():
        if it["kind"] == "Deployment":
            for container in it["spec"]["template"]["spec"]["containers"]:
                yield f"kubernetes {container['name']}", container["args"]
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


def server_args() -> list[str]:
    return COMMANDS["kubernetes server"]


def option(args: list[str], name: str) -> str:
    return args[args.index(name) + 1]


def test_processes_have_the_time_to_end() -> None:
    (pod,) = [
        it["spec"]["template"]["spec"] for it in read_manifests() if it["kind"] == "Deployment"
    ]
    (server,) = pod["containers"]
    waits = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    seconds = int(option(server_args(), "--shutdown-seconds"))
    assert pod["terminationGracePeriodSeconds"] >= waits + seconds + 10
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]
    assert int(service["stop_grace_period"].removesuffix("s")) >= 10 + int(
        option(service["command"], "--shutdown-seconds")
    )
    unit = read_unit()["Service"]
    command = COMMANDS["orchestrator.service"]
    assert int(unit["TimeoutStopSec"]) >= 10 + int(option(command, "--shutdown-seconds"))
    assert unit["KillMode"] == "mixed"


def test_manifests_name_what_is_there() -> None:
    manifests = read_manifests()
    there = {(it["kind"], it["metadata"]["name"]) for it in manifests}
    pod = read_pod()
    for volume in pod["spec"]["volumes"]:
        for kind, key, name in (
            ("ConfigMap", "configMap", "name"),
            ("Secret", "secret", "secretName"),
            ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
        ):
            assert key not in volume or (kind, volume[key][name]) in there
    labels = pod["metadata"]["labels"]
    for it in manifests:
        if it["kind"] in ("Service", "NetworkPolicy"):
            selector = it["spec"].get("selector") or it["spec"]["podSelector"]["matchLabels"]
            assert selector.items() <= labels.items()
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    (server,) = pod["spec"]["containers"]
    assert {mount["name"] for mount in server["volumeMounts"]} == volumes
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert ports == {"http": 8080, "metrics": int(option(server_args(), "--metrics-port"))}
    probes = {
        name: server[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
    }
    assert {name: (it["path"], it["port"]) for name, it in probes.items()} == {
        "startup": ("/livez", "http"),
        "liveness": ("/livez", "http"),
        "readiness": ("/readyz", "http"),
    }


def test_nothing_runs_as_root_or_writes_outside_its_folders() -> None:
    (pod,) = [
        it["spec"]["template"]["spec"] for it in read_manifests() if it["kind"] == "Deployment"
    ]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    (server,) = pod["containers"]
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    user = re.findall(r"^USER (\d+):\d+$", dockerfile, re.MULTILINE)
    assert user == [str(pod["securityContext"]["runAsUser"])] != ["0"]
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    # No port but on the machine itself: TLS ends in a proxy before it.
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert read_unit()["Service"]["DynamicUser"] == "yes"


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
