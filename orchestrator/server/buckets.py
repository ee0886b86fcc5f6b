"""Objects in buckets: Amazon S3's, or a folder's that stands for one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from orchestrator.errors import AccessDenied, DependencyFailed, ResourceNotFound, ValidationError
from orchestrator.server.access.permissions import check_access
from orchestrator.server.operations import Caller
from orchestrator.support.aws import (
    Settings,
    Target,
    get_shared_client,
    read_object,
    translate_errors,
)
from orchestrator.support.private_files import make_private_folder, open_private

_S3 = "s3://"
_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.{1,1024})", re.DOTALL)


class BucketObject(NamedTuple):
    """An object in a listing."""

    key: str
    tag: str | None = None  # changes with the content; `None`: compare contents


class Bucket(Protocol):
    """Where objects are."""

    def write(self, key: str, content: bytes) -> None:
        """Stores an object, in place of the one of that key.

        Raises:
            DependencyFailed: It cannot be stored.
        """
        ...

    def list(self, prefix: str) -> Iterator[BucketObject]:
        """The objects whose keys begin with `prefix`.

        Raises:
            DependencyFailed: They cannot be listed.
        """
        ...

    def read(self, key: str, most: int) -> bytes:
        """An object's content, of which at most one byte more than `most` is read.

        Raises:
            DependencyFailed: It is not there, or may not be read.
        """
        ...


def open_bucket(name: str, folders: Mapping[str, Path]) -> Bucket:
    """The bucket called `name`: the folder that stands for it, else Amazon S3's."""
    return _FolderBucket(name, folders[name]) if name in folders else _S3Bucket(name)


def read_uri(uri: str, caller: Caller, folders: Mapping[str, Path], most: int) -> bytes:
    """The content of the object at an address that a caller gave.

    Of what is longer than `most`, one byte more is read, for the caller to refuse it.

    Raises:
        AccessDenied: The caller may not have it read.
        ValidationError: It is no such address.
        ResourceNotFound: A folder that stands for the bucket has none.
        DependencyFailed: It may not be read, or is not in Amazon S3.
    """
    bucket, key = _find_object(uri, caller)
    return open_bucket(bucket, folders).read(key, most)


def write_uri(uri: str, caller: Caller, folders: Mapping[str, Path], content: bytes) -> None:
    """Stores an object at an address that a caller gave.

    Raises:
        AccessDenied: The caller may not have it stored.
        ValidationError: It is no such address.
        ResourceNotFound: It leads out of the folder that stands for the bucket.
        DependencyFailed: It cannot be stored.
    """
    bucket, key = _find_object(uri, caller)
    open_bucket(bucket, folders).write(key, content)


def _find_object(uri: str, caller: Caller) -> tuple[str, str]:
    """The bucket and the key of an address, which the caller may use."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise ValidationError(f"{uri!r:.200} is no address of an object: s3://<bucket>/<key>")
    bucket, key = found.groups()
    check_access(caller, uri)
    # The way to another place, of which nobody was asked whether the caller may use it.
    if not {".", ".."}.isdisjoint(key.split("/")):
        raise ResourceNotFound(f"there is no object {uri!r}")
    return bucket, key


class _S3Bucket:
    def __init__(self, name: str) -> None:
        self._name = name

    def list(self, prefix: str) -> Iterator[BucketObject]:
        place = f"{_S3}{self._name}/{prefix}"
        target = Target(f"the bucket {self._name!r}", place, "allow s3:ListBucket", callers=False)
        client = get_shared_client(Settings("s3", read_timeout=30.0), target)
        pages = iter(
            client.get_paginator("list_objects_v2").paginate(Bucket=self._name, Prefix=prefix)
        )
        while True:
            with translate_errors(target):
                page = next(pages, None)
            if page is None:
                return
            for it in page.get("Contents", ()):
                yield BucketObject(it["Key"], it["ETag"])

    def read(self, key: str, most: int) -> bytes:
        return read_object(self._name, key, most, "the document")

    def write(self, key: str, content: bytes) -> None:
        place = f"{_S3}{self._name}/{key}"
        target = Target(f"the object {place!r}", place, "allow s3:PutObject", callers=False)
        client = get_shared_client(Settings("s3", read_timeout=30.0), target)
        with translate_errors(target):
            client.put_object(Bucket=self._name, Key=key, Body=content)


class _FolderBucket:
    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._root = folder.resolve()

    def list(self, prefix: str) -> Iterator[BucketObject]:
        try:
            keys = sorted(self._keys(""))
        except OSError as error:
            raise DependencyFailed(
                f"the folder that stands for the bucket {self._name!r} cannot be read: "
                f"{error.strerror}",
                resource=self._name,
            ) from error
        return (BucketObject(key) for key in keys if key.startswith(prefix))

    def _keys(self, folder: str) -> Iterator[str]:
        with os.scandir(self._root / folder) as entries:
            for entry in entries:
                key = folder + entry.name
                if entry.name.startswith(".") or entry.is_symlink():
                    continue
                if entry.is_dir():
                    yield from self._keys(key + "/")
                elif entry.is_file():
                    yield key

    def write(self, key: str, content: bytes) -> None:
        path = self._find_path(key)
        try:
            make_private_folder(path.parent)
            with open_private(path, "wb") as file:
                file.write(content)
        except OSError as error:
            raise AccessDenied(
                f"{_S3}{self._name}/{key} cannot be written: {error.strerror}", resource=key
            ) from error

    def _find_path(self, key: str) -> Path:
        """The file of a key, within the folder."""
        path = self._root.joinpath(*PurePosixPath(key).parts)
        # Neither `..` nor a link is part of the way, nor does the key begin at the root.
        if "\0" in key or path != path.resolve() or not path.is_relative_to(self._root):
            raise self._not_found_error(key)
        return path

    def read(self, key: str, most: int) -> bytes:
        path = self._find_path(key)
        try:
            if not path.is_file():
                raise self._not_found_error(key)
            with path.open("rb") as file:
                return file.read(most + 1)
        except OSError as error:
            raise AccessDenied(
                f"{_S3}{self._name}/{key} cannot be read: {error.strerror}", resource=key
            ) from error

    def _not_found_error(self, key: str) -> ResourceNotFound:
        return ResourceNotFound(f"there is no object {f'{_S3}{self._name}/{key}'!r}")
