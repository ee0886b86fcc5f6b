"""Attack 10: objects that are reached by leaving the folder that stands for a bucket."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from knowledge_servers import running, write
from runtime_servers import BY_CALLER, CLAUDE, says
from runtime_servers import running as runtime

from orchestrator.errors import OrchestratorError, ResourceNotFound
from orchestrator.server.buckets import open_bucket, read_uri
from orchestrator.server.operations import Caller
from orchestrator.testing import ScriptedModel

SECRET = "canary-of-another-folder"


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """A bucket's folder with links that lead out of it, beside a secret."""
    write(tmp_path / "outside", {"secret.md": SECRET})
    folder = write(tmp_path / "bucket", {"page.md": "An ordinary page.", "sub/page.md": "Another."})
    (folder / "link.md").symlink_to(tmp_path / "outside" / "secret.md")
    (folder / "links").symlink_to(tmp_path / "outside")
    return folder


KEYS = [
    "../outside/secret.md",
    "sub/../../outside/secret.md",
    "link.md",
    "links/secret.md",
    "sub/../page.md/../../outside/secret.md",
    "/etc/hostname",
    "a\0b.md",
    "x" * 300 + ".md",
    "sub",
    "",
    "..",
]


@pytest.mark.parametrize("key", KEYS)
def test_no_key_reads_outside_of_the_folder(bucket: Path, key: str) -> None:
    with pytest.raises(OrchestratorError):
        open_bucket("docs", {"docs": bucket}).read(key, 1000)


@given(
    st.lists(st.sampled_from(["..", ".", "", "links", "link.md", "sub", "secret.md"]), max_size=6)
)
def test_no_made_up_key_gives_the_secret(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    root = tmp_path_factory.mktemp("bucket")
    write(root / "outside", {"secret.md": SECRET})
    folder = write(root / "inside", {"sub/page.md": "A page."})
    (folder / "links").symlink_to(root / "outside")
    (folder / "link.md").symlink_to(root / "outside" / "secret.md")
    key = "/".join(["..", "outside", *parts] if len(parts) % 2 else parts)
    try:
        assert SECRET.encode() not in open_bucket("docs", {"docs": folder}).read(key, 1000)
    except OrchestratorError:
        pass


def test_no_job_brings_the_secret_in(bucket: Path) -> None:
    with running(buckets={"docs": bucket}) as server:
        base = server.base()
        source = server.source(base, "docs")
        job = server.ingested(base, source)
        assert job["statistics"]["numberOfNewDocumentsIndexed"] == 2
        for number, prefix in enumerate(("../outside/", "links/", "link.md")):
            job = server.ingested(base, server.source(base, "docs", prefix, name=f"own-{number}"))
            assert job["statistics"]["numberOfNewDocumentsIndexed"] == 0
        assert SECRET not in str(server.found(base, SECRET, numberOfResults=100)) + str(job)


@pytest.mark.parametrize(
    "key", ["open/../closed.md", "open/./../closed.md", "open/x/../../closed.md"]
)
def test_what_only_begins_as_if_it_was_allowed_is_not_read(tmp_path: Path, key: str) -> None:
    folder = write(tmp_path / "docs", {"open/page.md": "A page.", "closed.md": SECRET})
    caller = Caller("tenant-a", ("s3://docs/open/*",))
    assert read_uri("s3://docs/open/page.md", caller, {"docs": folder}, 100) == b"A page."
    for folders in ({"docs": folder}, {}):  # the second one would be asked of Amazon S3
        with pytest.raises(ResourceNotFound):
            read_uri(f"s3://docs/{key}", caller, folders, 100)


def test_no_way_of_a_turn_leads_out_of_what_is_allowed(tmp_path: Path) -> None:
    folder = write(tmp_path / "docs", {"open/page.md": "A page.", "closed.md": SECRET})
    keys = tmp_path / "keys.json"
    key = {"accessKeyId": "AKIDTEAM", "secretAccessKey": "s" * 20, "tenant": "team"}
    keys.write_text(json.dumps([{**key, "allow": ["s3://docs/open/*", "*claude*"]}]))
    keys.chmod(0o600)
    model = ScriptedModel([says("Read.")] * 4, CLAUDE)
    with (
        runtime(model, keys=keys, buckets={"docs": folder}) as server,
        server.as_caller(key["accessKeyId"], key["secretAccessKey"]) as team,
    ):
        for uri in ("s3://docs/open/../closed.md", "s3://docs/closed.md", "s3://docs/open/page.md"):
            source = {"sourceType": "S3", "s3Location": {"uri": uri}}
            file = {"name": "page.txt", "source": source, "useCase": "CHAT"}
            schema = {"s3BucketName": "docs", "s3ObjectKey": uri.removeprefix("s3://docs/")}
            group = {**BY_CALLER, "apiSchema": {"s3": schema}}
            del group["functionSchema"]
            for given in ({"inlineSessionState": {"files": [file]}}, {"actionGroups": [group]}):
                with suppress(ClientError):
                    team.inline("Read it", **given)
    told = str([request.messages for request in model.requests])
    assert "A page." in told and SECRET not in told
