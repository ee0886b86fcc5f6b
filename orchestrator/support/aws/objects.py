"""Objects in Amazon S3, read up to a size."""

from __future__ import annotations

from typing import Any

from orchestrator.support.aws.clients import Settings, get_shared_client
from orchestrator.support.aws.failures import Target, translate_errors


def read_object(bucket: str, key: str, most: int, what: str) -> bytes:
    """The content of an object, of which at most one byte more than `most` is read.

    Args:
        bucket: The bucket's name.
        key: The object's key.
        most: The most bytes that it may have; the caller refuses what is longer.
        what: What the object is, for messages; its place is added.

    Raises:
        DependencyFailed: It is not there, or may not be read; `AccessDenied` is a kind of it.
    """
    place = f"s3://{bucket}/{key}"
    target = Target(
        f"{what} {place!r}",
        place,
        "allow s3:GetObject",
        quoted=frozenset(("AccessDenied", "AllAccessDisabled")),
        callers=False,
    )
    client = get_shared_client(Settings("s3", read_timeout=30.0), target)
    with translate_errors(target):
        return body_of(client.get_object(Bucket=bucket, Key=key)["Body"], most)


def body_of(stream: Any, most: int) -> bytes:
    """A streamed body, of which at most one byte more than `most` is read; the stream is closed.

    Raises:
        BotoCoreError: It broke off.
    """
    try:
        body: bytes = stream.read(most + 1)
        if len(body) <= most:
            stream.read(1)  # botocore compares the length only where it finds the end
        return body
    finally:
        stream.close()
