"""API schemas in Amazon S3, read when the agent is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.definition import build_action_groups, load_definition
from orchestrator.errors import DefinitionError

OPENAPI = b"""openapi: 3.0.0
info: {title: t, version: "1"}
paths:
  /claims:
    get: {operationId: listClaims, description: Lists., responses: {}}
"""


@pytest.fixture
def bucket(s3: Any) -> Any:
    there = {"LocationConstraint": "eu-central-1"}
    s3.create_bucket(Bucket="schemas", CreateBucketConfiguration=there)
    return s3


def built(folder: Path, key: str = "claims.yaml", bucket: str = "schemas") -> list[Any]:
    (folder / "agent.yaml").write_text(
        "agentName: a\nactionGroups:\n"
        "  - actionGroupName: claims\n"
        f"    apiSchema: {{s3: {{s3BucketName: {bucket}, s3ObjectKey: {key}}}}}\n"
        "    actionGroupExecutor: {customControl: RETURN_CONTROL}\n"
    )
    return build_action_groups(load_definition(folder))


def test_a_schema_is_read(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="schemas", Key="claims.yaml", Body=b"\xef\xbb\xbf" + OPENAPI)
    (group,) = built(tmp_path)
    assert [one.xml_name for one in group.operations] == ["GET::claims::/claims"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"x" * 2_000_001, "has more than 2000000 bytes"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"openapi: 3.0.0\npaths: ]", "line 2 of the payload: this is not YAML"),
    ],
)
def test_a_schema_that_cannot_be_used(
    bucket: Any, tmp_path: Path, content: bytes, said: str
) -> None:
    bucket.put_object(Bucket="schemas", Key="claims.yaml", Body=content)
    with pytest.raises(DefinitionError, match=said) as caught:
        built(tmp_path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "agent.yaml"), 4)


@pytest.mark.parametrize("where", [("gone.yaml", "schemas"), ("claims.yaml", "other")])
def test_a_schema_that_is_not_there(bucket: Any, tmp_path: Path, where: tuple[str, str]) -> None:
    with pytest.raises(DefinitionError, match=rf"no such thing as the schema 's3://{where[1]}"):
        built(tmp_path, *where)


def test_there_are_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(DefinitionError, match=r"agent\.yaml:4:.* no AWS credentials .*claims"):
        built(tmp_path)
