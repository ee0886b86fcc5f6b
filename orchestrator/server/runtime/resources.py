"""What a caller's agents use in the server's name: allowed first, then found here or in AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.aws import read_object
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.operations import Caller, Fault

if TYPE_CHECKING:
    from orchestrator.server.world import World

__all__ = ["check_allowed", "check_retrieval", "object_at"]

_SEARCHES = ("vectorSearchConfiguration", "managedSearchConfiguration")
_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.{1,1024})", re.DOTALL)


def check_allowed(caller: Caller, resource: str) -> None:
    """Checks that a caller's agents may use something in the server's name.

    Raises:
        Fault: They may not (Bedrock: AccessDeniedException).
    """
    if not caller.may_use(resource):
        raise Fault(
            "AccessDeniedException",
            f"this access key may not use {resource!r}: whoever runs the server can allow it",
        )


def check_retrieval(caller: Caller, configuration: Mapping[str, Any] | None) -> None:
    """Checks that a caller may use the models that a `retrievalConfiguration` names.

    Raises:
        Fault: It may not.
    """
    for model in _models_named(configuration or {}):
        check_allowed(caller, model)


def _models_named(configuration: Mapping[str, Any]) -> Iterator[str]:
    for search in _SEARCHES:
        members = configuration.get(search) or {}
        reranking = members.get("rerankingConfiguration") or {}
        reranker = (reranking.get("bedrockRerankingConfiguration") or {}).get("modelConfiguration")
        for named in (reranker, members.get("implicitFilterConfiguration")):
            if named and (arn := named.get("modelArn")):
                yield arn


def object_at(world: World, caller: Caller, uri: str, most: int, what: str) -> bytes:
    """The content of an object in S3, of which at most one byte more than `most` is read.

    A bucket that stands for a local folder is read there.

    Args:
        world: What the server has open.
        caller: Who asks for it.
        uri: Its address, `s3://BUCKET/KEY`.
        most: The most bytes that it may have; the caller refuses what is longer.
        what: What the object is, for messages.

    Raises:
        Fault: The caller may not read it.
        ResourceNotFound: It is not there.
        ValidationError: It is no address.
        DependencyFailed: It could not be read.
    """
    found = _URI.fullmatch(uri)
    if found is None:
        raise ValidationError(f"{uri!r:.200} is no place in S3; write s3://BUCKET/KEY")
    check_allowed(caller, uri)
    bucket, key = found[1], found[2]
    folder = world.settings.buckets.get(bucket)
    if folder is None:
        return read_object(bucket, key, most, what)
    file = _within(folder, key)
    if file is None:
        raise ResourceNotFound(f"there is no {what} {uri!r}")
    with file.open("rb") as stream:
        return stream.read(most + 1)


def _within(folder: Path, key: str) -> Path | None:
    root = folder.resolve()
    try:
        file = (root / key).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # no file can be called so
        return None
