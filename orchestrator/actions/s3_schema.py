"""API schemas that are in Amazon S3 (Bedrock: `apiSchema.s3`)."""

from __future__ import annotations

from orchestrator.actions.aws import body_of, failure, shared_client
from orchestrator.errors import DefinitionError

__all__ = ["read_s3_schema"]

_MAX_BYTES = 2_000_000
_SECONDS = 30.0


def read_s3_schema(bucket: str, key: str) -> str:
    """The text of an OpenAPI document in S3, read with boto3's own credentials.

    Args:
        bucket: The bucket's name.
        key: The object's key.

    Raises:
        DefinitionError: The object is too large, or is no UTF-8 text.
        DependencyFailed: It is not there, or may not be read; `AccessDenied` is a kind of it.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    name = f"s3://{bucket}/{key}"
    what = f"the schema {name!r}"
    client = shared_client("s3", None, what, read_timeout=_SECONDS)
    try:
        content = body_of(client.get_object(Bucket=bucket, Key=key)["Body"], _MAX_BYTES)
    except (BotoCoreError, ClientError, HTTPError, OSError) as error:
        raise failure(error, what, name) from None
    if len(content) > _MAX_BYTES:
        raise DefinitionError(f"{what} has more than {_MAX_BYTES} bytes")
    try:
        return str(content, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{what} is not UTF-8 text") from error
