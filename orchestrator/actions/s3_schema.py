"""API schemas that are in Amazon S3 (Bedrock: `apiSchema.s3`)."""

from __future__ import annotations

from orchestrator.errors import DefinitionError
from orchestrator.support.aws import read_object

__all__ = ["read_s3_schema"]

_MAX_BYTES = 2_000_000


def read_s3_schema(bucket: str, key: str) -> str:
    """The text of an OpenAPI document in S3, read with boto3's own credentials.

    Args:
        bucket: The bucket's name.
        key: The object's key.

    Raises:
        DefinitionError: The object is too large, or is no UTF-8 text.
        DependencyFailed: It is not there, or may not be read; `AccessDenied` is a kind of it.
    """
    content = read_object(bucket, key, _MAX_BYTES, "the schema")
    what = f"the schema 's3://{bucket}/{key}'"
    if len(content) > _MAX_BYTES:
        raise DefinitionError(f"{what} has more than {_MAX_BYTES} bytes")
    try:
        return str(content, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{what} is not UTF-8 text") from error
