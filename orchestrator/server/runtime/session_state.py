"""What a caller tells of a session: checked, and its files read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.engine.input_files import MOST_BYTES
from orchestrator.errors import ValidationError
from orchestrator.server.buckets import read_uri
from orchestrator.server.operations import Caller
from orchestrator.server.runtime.resources import check_retrieval

if TYPE_CHECKING:
    from orchestrator.server.state import ServerState


def has_s3_files(state: Mapping[str, Any]) -> bool:
    """Whether a file of the state is in S3: to read it may take its time."""
    return any((file.get("source") or {}).get("s3Location") for file in state.get("files") or ())


def read_state(world: ServerState, caller: Caller, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `sessionState` or `inlineSessionState` as the engine may have it.

    Args:
        world: What the server has open.
        caller: Who tells it.
        state: Bedrock's members, as boto3's caller gives them.

    Returns:
        The state; the bytes of files in S3 are in it.

    Raises:
        Fault: The caller may not use what it names.
        ValidationError: A file has no source.
        ResourceNotFound: A file is not there.
        DependencyFailed: A file could not be read.
    """
    for base in state.get("knowledgeBaseConfigurations") or ():
        check_retrieval(caller, base.get("retrievalConfiguration"))
    files = state.get("files")
    if not files:
        return state
    return {**state, "files": [_read_file(world, caller, file) for file in files]}


def _read_file(world: ServerState, caller: Caller, file: Mapping[str, Any]) -> Mapping[str, Any]:
    source = file.get("source")
    if not source:  # the engine reads files of other forms, which only its own callers may give
        raise ValidationError(f"the file {file.get('name')!r} has no source")
    if source.get("sourceType") != "S3" or "s3Location" not in source:
        return file
    content = read_uri(
        source["s3Location"].get("uri", ""), caller, world.settings.buckets, MOST_BYTES
    )
    return {**file, "source": {"sourceType": "BYTE_CONTENT", "byteContent": {"data": content}}}
