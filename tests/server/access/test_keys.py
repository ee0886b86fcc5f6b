"""The file of access keys: read strictly, read again when it changes, and never told."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from server_requests import API_KEY, ID, KEYS, SECRET, write_keys

from orchestrator import DefinitionError
from orchestrator.errors import ResourceNotFound
from orchestrator.server.access.keys import Keys, warn_if_readable
from orchestrator.server.operations import Caller

YAML = """
- accessKeyId: AKIDTEAMA
  secretAccessKey: the-secret-of-team-a-0001
  tenant: team-a
  allow: ["arn:aws:lambda:*:*:function:claims", "anthropic.*"]
"""

ARN = "arn:aws:lambda:us-east-1:000000000000:function"


def changed(file: Path, text: str) -> None:
    """Writes a file whose times tell that it is another one."""
    file.write_text(text)
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))


def test_yaml_and_json(tmp_path: Path) -> None:
    key = Keys(write_keys(tmp_path, YAML)).find_key_pair(ID)
    assert key is not None
    assert key.caller.tenant == "team-a"
    assert key.caller.may_use("arn:aws:lambda:eu-west-1:123456789012:function:claims")
    assert not key.caller.may_use("arn:aws:lambda:eu-west-1:123456789012:function:other")
    keys = Keys(write_keys(tmp_path))
    bearer = keys.find_api_key(API_KEY)
    assert bearer is not None and bearer.caller.tenant == "team-c"
    assert keys.find_api_key(SECRET) is None and keys.find_key_pair(API_KEY) is None


def test_no_secret_is_shown(tmp_path: Path) -> None:
    keys = Keys(write_keys(tmp_path))
    shown = f"{keys!r} {keys.find_key_pair(ID)!r} {keys.find_api_key(API_KEY)!r} {vars(keys)}"
    assert all(
        secret not in shown
        for key in KEYS
        for secret in (key.get("secretAccessKey"), API_KEY)
        if secret
    )


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = write_keys(tmp_path)
    keys = Keys(file)
    changed(file, json.dumps([KEYS[1]]))
    assert keys.find_key_pair(ID) is None
    assert keys.find_key_pair("AKIDTEAMB") is not None


def test_a_changed_file_that_is_wrong_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_keys(tmp_path)
    keys = Keys(file)
    changed(file, f"- accessKeyId: [{SECRET}")
    for _ in range(3):
        assert keys.find_key_pair(ID) is not None
    assert len(caplog.records) == 1
    assert SECRET not in caplog.text
    file.unlink()
    assert keys.find_key_pair(ID) is not None


def test_others_who_can_read_it_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_keys(tmp_path)
    warn_if_readable(file)
    assert not caplog.records
    file.chmod(0o644)
    warn_if_readable(file)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "chmod 600" in caplog.text


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ResourceNotFound, match=r"nothing\.yaml"):
        Keys(tmp_path / "nothing.yaml")


GOOD = KEYS[0]


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ([], "at least one key"),
        ({"a": 1}, "at least one key"),
        (["x"], "is no mapping"),
        ([{**GOOD, "tenant": ""}], "needs a tenant"),
        ([{**GOOD, "tenant": "a/b"}], "needs a tenant"),
        ([{**GOOD, "tenant": 7}], "that is no text"),
        ([{**GOOD, "secretAccessKey": ""}], "together"),
        ([{"tenant": "a"}], "or apiKey"),
        ([{"tenant": "a", "apiKey": "short"}], "can be guessed"),
        ([{**GOOD, "accessKeyId": "a/b"}], "accessKeyId that is not"),
        ([{**GOOD, "allow": "*"}], "no list"),
        ([{**GOOD, "alow": ["*"]}], "a member that is none of"),
        ([GOOD, GOOD], "the same accessKeyId"),
        ([KEYS[2], KEYS[2]], "the same apiKey"),
    ],
)
def test_mistakes(tmp_path: Path, entries: Any, match: str) -> None:
    with pytest.raises(DefinitionError, match=match) as error:
        Keys(write_keys(tmp_path, entries if isinstance(entries, str) else json.dumps(entries)))
    assert SECRET not in str(error.value)
    assert "keys.json" in str(error.value)


def test_a_mistake_in_the_text_is_placed_and_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as error:
        Keys(write_keys(tmp_path, f"- a: 1\n- secretAccessKey: {SECRET}: {SECRET}\n"))
    assert error.value.line == 2
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None and error.value.__suppress_context__


@pytest.mark.parametrize(
    ("pattern", "arn", "allowed"),
    [
        ("arn:aws:lambda:*:*:function:claims", f"{ARN}:claims", True),
        ("arn:aws:lambda:*:*:function:claims", f"{ARN}:claims:1", False),
        ("arn:aws:lambda:*:*:function:claims", f"{ARN}:function:claims", False),
        ("arn:aws:lambda:*:*:function:claims", "arn:aws:lambda:a:1:b:function:claims", False),
        ("arn:aws:lambda:*:*:function:claims:*", f"{ARN}:claims:1", True),
        ("arn:aws:lambda:*:*:function:claims-*", f"{ARN}:claims-a:1", False),
        ("arn:aws:lambda:*", f"{ARN}:claims:1", True),
        ("arn:aws:*", f"{ARN}:claims", True),
        ("*", f"{ARN}:claims", True),
        ("s3://*", f"{ARN}:claims", False),
    ],
)
def test_the_parts_of_a_lambdas_arn_stay_apart(pattern: str, arn: str, allowed: bool) -> None:
    assert Caller("team-a", (pattern,)).may_use(arn) is allowed
