"""Credentials that AWS refuses: which permission is missing, and whose credentials were used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore import exceptions as boto
from model_servers import Answer
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import AccessDenied
from orchestrator.models import BedrockModel
from orchestrator.support.aws import Settings, Target, failure, get_shared_client
from orchestrator.support.aws.failures import LOCAL_MODEL


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "ACCESS_KEY_ID SECRET_ACCESS_KEY SESSION_TOKEN PROFILE DEFAULT_PROFILE REGION"
    for name in (*names.split(), "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)


def refuse(code: str, target: Target) -> AccessDenied:
    meta = {"HTTPStatusCode": 403, "RequestId": "r-1"}
    response = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": meta}
    error = failure(boto.ClientError(response, "Use"), target)
    assert isinstance(error, AccessDenied)
    return error


# boto3 asks the one of these that it knows itself, and the profile's before the other.
BOTH = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "us-west-2"}
WHO = "`aws sts get-caller-identity{}` says whose credentials these are"


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        (("eu-west-1", "ops"), {}, "the profile 'ops' in the region eu-west-1"),
        ((None, None), {"AWS_PROFILE": "p", "AWS_REGION": "r"}, "the profile 'p' in the region r"),
        ((None, None), BOTH, "the default profile in the region eu-west-1"),
        ((None, "ops"), {"AWS_ACCESS_KEY_ID": "AKIA"}, "the profile 'ops'"),
        ((None, None), {"AWS_ACCESS_KEY_ID": "AKIA"}, "AWS_ACCESS_KEY_ID of the environment"),
        ((None, None), {}, "the default profile"),
    ],
)
def test_a_hint_names_the_profile_and_the_region(
    settings: tuple[str | None, str | None],
    environment: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    target = Target("it", "x", "allow it:Use", region=settings[0], profile=settings[1])
    error = refuse("AccessDenied", target)
    named = expected.split("'")[1:2]
    who = WHO.format(f" --profile {named[0]}" if named else "")
    assert error.hint == f"asked with {expected}; {who}"
    # Callers over HTTP read the message, and not whose account it is.
    assert "ops" not in error.message and "profile 'p'" not in error.message


def test_the_region_is_the_one_that_was_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    keys = "aws_access_key_id = a\naws_secret_access_key = b\n"
    config.write_text(f"[profile ops]\nregion = ap-south-1\n{keys}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    target = Target("it", "x", "allow it:Use", profile="ops")
    settings = Settings("bedrock-runtime", profile="ops", endpoint_url="http://127.0.0.1:9")
    region = get_shared_client(settings, target).meta.region_name
    assert region == "ap-south-1"
    assert f"in the region {region};" in refuse("AccessDenied", target).hint
    missing = failure(boto.EndpointConnectionError(endpoint_url="u"), target)
    assert missing is not None and f"the region {region!r}" in missing.message


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
def test_credentials_that_are_no_good_are_renewed(code: str) -> None:
    target = Target("it", "x", "allow it:Use", profile="my team")
    error = refuse(code, target)
    assert not error.signed_in
    assert (
        error.hint
        == "asked with the profile 'my team'; `aws sso login --profile 'my team'` signs in"
    )


def test_only_a_model_has_the_embedded_one_in_its_place() -> None:
    model = Target("the model 'm'", "m", "allow it:Use", instead=LOCAL_MODEL)
    other = Target("the guardrail 'g'", "g", "allow it:Use", instead="a local guardrail")
    assert "--model local needs no account" in refuse("AccessDenied", model).hint
    assert "--model" not in refuse("AccessDenied", other).hint


def test_a_model_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from model_requests import ask

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(AccessDenied) as caught:
        BedrockModel("amazon.nova-pro-v1:0", region="eu-west-1").complete(ask())
    assert caught.value.hint == (
        "asked with the default profile in the region eu-west-1; --model local needs no account"
    )


def test_pull_names_the_permission_and_no_model(
    serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAQQQQQQQQQQQQQQQQ")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s" * 40)
    server = serve()
    server.listing = Answer(
        b'{"message": "User: x is not authorized"}',
        403,
        {"x-amzn-errortype": "AccessDeniedException", "Content-Type": "application/json"},
    )
    words = ["pull", "ABCDEFGHIJ", "--endpoint-url", server.url, "--region", "eu-west-1", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert error["type"] == "AccessDenied"
    assert error["message"].endswith("— allow bedrock:GetAgent")
    assert error["hint"] == (
        "asked with AWS_ACCESS_KEY_ID of the environment in the region eu-west-1; " + WHO.format("")
    )
