"""Files that somebody dropped on a page: checked, bounded, and put into a folder of their own."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.support.private_files import open_private

MOST_FILES = 50
MOST_BYTES = 20_000_000
_LONGEST_NAME = 200


@contextmanager
def unpack_files(given: Any) -> Iterator[list[Path]]:
    """The files as they lie in a folder that is there while a `with` block runs.

    Args:
        given: A list of `{"name": …, "data": …}`, the data in Base64.

    Raises:
        ValidationError: They are too many or too large, or a name is none.
    """
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_FILES:
        raise ValidationError(f"drop 1 to {MOST_FILES} files")
    contents = dict(map(_read_file, given))
    if len(contents) < len(given):
        raise ValidationError("two of the files have the same name")
    if sum(map(len, contents.values())) > MOST_BYTES:
        raise ValidationError(f"the files have more than {MOST_BYTES:,} bytes")
    with TemporaryDirectory(prefix="dropped-") as folder:
        # Links on the way to the folder would look as if files were outside of it.
        root = Path(folder).resolve()
        files = []
        for name, data in contents.items():
            files.append(root / name)
            with open_private(files[-1], "wb") as stream:
                stream.write(data)
        yield files


def _read_file(given: Any) -> tuple[str, bytes]:
    if not isinstance(given, Mapping) or not isinstance(given.get("data"), str):
        raise ValidationError("a file has a 'name' and its 'data' in Base64")
    name = given.get("name")
    if not isinstance(name, str) or not _is_plain_name(name):
        raise ValidationError(f"{str(name)[:_LONGEST_NAME]!r} is no file's name that is taken here")
    try:
        return name, base64.b64decode(given["data"], validate=True)
    except (binascii.Error, ValueError):
        raise ValidationError(f"the data of {name!r} is no Base64") from None


def _is_plain_name(name: str) -> bool:
    return (
        0 < len(name.encode("utf-8", "replace")) <= _LONGEST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set("/\\:")
    )
