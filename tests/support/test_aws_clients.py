"""Clients for AWS: made late, made once for each configuration, shared by all who ask."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from orchestrator.errors import AccessDenied, ValidationError
from orchestrator.support.aws import Settings, Target, get_shared_client, translate_errors

pytestmark = pytest.mark.usefixtures("canaries")

SETTINGS = Settings("bedrock-agent-runtime", "eu-west-1")
TARGET = Target("the thing 'x'", "x", "allow it")


def test_importing_what_asks_aws_imports_no_boto3() -> None:
    code = (
        "import sys; import orchestrator.support.aws, orchestrator.agent.bedrock_agent;"
        "import orchestrator.guardrails.bedrock, orchestrator.knowledge.bedrock;"
        "import orchestrator.actions.lambda_arn, orchestrator.actions.openapi;"
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_equal_settings_share_one_client_even_when_asked_at_once() -> None:
    together = Barrier(4)

    def client(_: int) -> Any:
        together.wait(60)
        return get_shared_client(Settings("bedrock-agent-runtime", "eu-west-1"), TARGET)

    with ThreadPoolExecutor(4) as pool:
        (one,) = set(pool.map(client, range(4)))
    assert one.meta.region_name == "eu-west-1"
    assert one.meta.service_model.service_name == "bedrock-agent-runtime"


@pytest.mark.parametrize(
    "other",
    [
        SETTINGS._replace(service="bedrock-runtime"),
        SETTINGS._replace(region="eu-west-2"),
        SETTINGS._replace(endpoint_url="http://127.0.0.1:9"),
        SETTINGS._replace(read_timeout=1.0),
    ],
)
def test_other_settings_are_another_client(other: Settings) -> None:
    assert get_shared_client(other, TARGET) is not get_shared_client(SETTINGS, TARGET)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ACCESS_KEY_ID", "another"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME", "http://127.0.0.1:9"),
        ("AWS_USE_FIPS_ENDPOINT", "true"),
        ("AWS_CA_BUNDLE", "authority.pem"),
        ("HTTPS_PROXY", "http://127.0.0.1:9"),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/other"),
    ],
)
def test_another_environment_is_another_client(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    first = get_shared_client(SETTINGS, TARGET)
    monkeypatch.setenv(name, value)
    second = get_shared_client(SETTINGS, TARGET)
    assert second is not first
    if name.startswith("AWS_ENDPOINT"):
        assert second.meta.endpoint_url == value
    monkeypatch.undo()


def test_a_client_is_prepared_once_and_not_for_others() -> None:
    prepared: list[Any] = []
    plain = get_shared_client(SETTINGS, TARGET)
    mine = get_shared_client(SETTINGS, TARGET, prepared.append)
    assert mine is not plain
    assert prepared == [mine]


def test_the_profiles_region_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "config").write_text("[profile there]\nregion = ap-south-1\n")
    (tmp_path / "credentials").write_text(
        "[there]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    client = get_shared_client(Settings("s3", profile="there"), TARGET)
    assert client.meta.region_name == "ap-south-1"


def test_nothing_is_kept_of_a_client_that_could_not_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    settings = Settings("bedrock-agent-runtime")
    with pytest.raises(AccessDenied, match="no AWS region is known for the thing 'x': set AWS_REG"):
        get_shared_client(settings, TARGET)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert get_shared_client(settings, TARGET).meta.region_name == "eu-west-3"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AccessDenied, match="no AWS credentials were found for the thing 'x'") as e:
        get_shared_client(settings, TARGET)
    assert e.value.resource == "x"


def test_a_token_for_bedrock_is_enough_for_bedrock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "token")
    assert get_shared_client(SETTINGS, TARGET)
    with pytest.raises(AccessDenied, match="no AWS credentials"):
        get_shared_client(Settings("s3"), TARGET)


def use_program(monkeypatch: pytest.MonkeyPatch, folder: Path, prints: str) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    program = folder / "program.py"
    program.write_text(f"print({prints!r})")
    config = folder / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))


@pytest.mark.parametrize("prints", ["secret that is no JSON", '["secret"]'])
def test_a_program_that_prints_no_credentials_is_a_matter_of_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prints: str
) -> None:
    use_program(monkeypatch, tmp_path, prints)
    with pytest.raises(AccessDenied, match=r"\(CredentialRetrievalError\): set AWS_PROFILE") as e:
        get_shared_client(SETTINGS, TARGET)
    assert "secret" not in e.value.message + e.value.hint


def test_a_program_that_is_not_there_is_a_matter_of_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_program(monkeypatch, tmp_path, "")
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {tmp_path / 'none'}\n")
    with pytest.raises(AccessDenied, match="CredentialRetrievalError"):
        get_shared_client(SETTINGS, TARGET)


def test_credentials_that_have_expired_as_they_come_are_a_matter_of_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = {"AccessKeyId": "A", "SecretAccessKey": "B", "SessionToken": "C"}
    expired = {"Version": 1, **key, "Expiration": "2020-01-01T00:00:00Z"}
    use_program(monkeypatch, tmp_path, json.dumps(expired))
    client = get_shared_client(
        Settings("bedrock-runtime", endpoint_url="http://127.0.0.1:9"), TARGET
    )
    with pytest.raises(AccessDenied, match="CredentialRetrievalError"), translate_errors(TARGET):
        client.converse(modelId="m", messages=[])


@pytest.mark.parametrize("url", ["localhost:8080", "http://a b", "https://[::1"])
def test_an_endpoint_that_is_no_address_is_the_callers_mistake(url: str) -> None:
    with pytest.raises(ValidationError, match=r"is no http:// or https:// address; correct"):
        get_shared_client(Settings("bedrock-runtime", endpoint_url=url), TARGET)
