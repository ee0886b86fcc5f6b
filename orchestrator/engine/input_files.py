"""Files that come with a question (Bedrock: `InputFile` of `sessionState.files`).

They are read and checked once, before anything is spent. The limits are the service's (AWS: "Test
code interpretation in Amazon Bedrock"): five files, ten megabytes together.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.spelling import to_camel

if TYPE_CHECKING:
    from mimetypes import MimeTypes

CHAT, CODE_INTERPRETER = "CHAT", "CODE_INTERPRETER"
"""What a file is for (Bedrock: `useCase`): to be read by the model, or by its programs."""

MOST_FILES = 5
MOST_BYTES = 10 * 1024 * 1024

FileKind = tuple[str, str]
"""How a model is shown a file: `text`, `image` or `document`; and Converse's name of its format."""

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_TEXTS = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "yaml", "x-yaml", "x-ndjson", "javascript", "sql", "toml")
)
_EXTENSIONS = {".md": "text/markdown", ".yaml": "text/yaml", ".yml": "text/yaml"}
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
_S3_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.{1,1024})", re.DOTALL)
_FORMS = (
    "give a path, {'name': ..., 'bytes': ...}, or Bedrock's {'name': ..., 'source': ..., "
    "'useCase': ...}"
)


def read_files(given: Any) -> list[dict[str, str]]:
    """Reads the files of an invocation.

    Args:
        given: A list whose items are each a path; `{"path"}` or `{"name", "bytes"}`, both with
            `type` (media type) and `use_case` if need be; or Bedrock's `InputFile`, `{"name",
            "source": {"sourceType", "byteContent": {"mediaType", "data"} or "s3Location":
            {"uri"}}, "useCase"}`. Without a use case a file is for `CHAT`, without a type its
            name tells it. A file in S3 is read with boto3's own credentials.

    Returns:
        For each its `name`, `type`, `bytes` in Base64, and `use_case`.

    Raises:
        ValidationError: There are too many, one is too large, empty, of a wrong name, type or
            form, or two have the same name.
        ResourceNotFound: There is no such file.
        DependencyFailed: One could not be read from S3.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ValidationError(f"files must be a list; {_FORMS}")
    if len(given) > MOST_FILES:
        raise ValidationError(f"there are {len(given)} files; an input has at most {MOST_FILES}")
    files: list[dict[str, str]] = []
    left = MOST_BYTES
    for item in given:
        file, content = _read(item, left)
        left -= len(content)
        if any(file["name"] == other["name"] for other in files):
            raise ValidationError(f"two files are called {file['name']!r}; rename one")
        file["bytes"] = base64.b64encode(content).decode()
        files.append(file)
    return files


def _read(item: Any, left: int) -> tuple[dict[str, str], bytes]:
    if isinstance(item, str | os.PathLike):
        item = {"path": item}
    if not isinstance(item, Mapping):
        raise ValidationError(f"a file is no {type(item).__name__}; {_FORMS}")
    if "source" in item:
        return _read_bedrock_file(item, left)
    members = _members(item, "a file", "path", "name", "bytes", "type", "use_case")
    path, content = members.get("path"), members.get("bytes")
    if (path is None) == (content is None):
        raise ValidationError(f"a file has either a path or its bytes; {_FORMS}")
    name = members.get("name")
    if path is not None:
        name = Path(path).name if name is None else name
        content = _read_from_disk(Path(path), left)
    return _file(name, members.get("type"), members.get("use_case", CHAT), content, left)


def _read_bedrock_file(item: Mapping[str, Any], left: int) -> tuple[dict[str, str], bytes]:
    members = _members(item, "a file", "name", "source", "use_case")
    name = members.get("name")
    here = f"the source of the file {name!r}"
    source = _members(members["source"], here, "source_type", "byte_content", "s3_location")
    kind = source.get("source_type")
    if kind == "S3" and "s3_location" in source:
        uri = _members(source["s3_location"], f"the s3Location of the file {name!r}", "uri")
        content: Any = _read_from_s3(str(uri.get("uri")), left)
        return _file(name, None, members.get("use_case"), content, left)
    if kind == "BYTE_CONTENT" and "byte_content" in source:
        inner = _members(
            source["byte_content"], f"the byteContent of the file {name!r}", "media_type", "data"
        )
        media_type, content = inner.get("media_type"), inner.get("data")
        return _file(name, media_type, members.get("use_case"), content, left)
    raise ValidationError(
        f"{here} must have the sourceType 'S3' and an s3Location, or 'BYTE_CONTENT' and a "
        "byteContent"
    )


def _members(given: Any, what: str, *known: str) -> dict[str, Any]:
    """The members of a mapping, under the names that Python gives them."""
    if not isinstance(given, Mapping):
        raise ValidationError(f"{what} must be a mapping, not {type(given).__name__}")
    spelled = {to_camel(name): name for name in known}
    found = {spelled.get(str(name), str(name)): value for name, value in given.items()}
    if unknown := [name for name in found if name not in known]:
        raise ValidationError(f"{what} has no member {unknown[0]!r}; {_FORMS}")
    return found


def _file(
    name: Any, media_type: Any, use_case: Any, content: Any, left: int
) -> tuple[dict[str, str], bytes]:
    from orchestrator.actions.code_interpreter.files import file_name

    name = file_name(name)
    if use_case not in (CHAT, CODE_INTERPRETER):
        raise ValidationError(
            f"the file {name!r} has the use case {use_case!r}; it is {CHAT!r} or "
            f"{CODE_INTERPRETER!r}"
        )
    file = {"name": name, "type": _media_type(name, media_type), "use_case": use_case}
    content = _bytes(name, content)
    if not content:
        raise ValidationError(f"the file {name!r} is empty")
    if len(content) > left:
        raise ValidationError(
            f"the file {name!r} is too large: the files of an input have at most {MOST_BYTES:,} "
            "bytes together"
        )
    if use_case == CHAT and kind_of(file)[0] == "text":
        _decode_text(name, content)
    return file, content


def _bytes(name: str, content: Any) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if isinstance(content, str):  # as in a request's JSON
        try:
            return base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise ValidationError(f"the content of the file {name!r} must be bytes, or Base64 text")


def _media_type(name: str, given: Any) -> str:
    if given is None:
        suffix = Path(name).suffix.lower()
        guessed = _EXTENSIONS.get(suffix) or _types().guess_type(name)[0]
        return guessed or "application/octet-stream"
    kind = str(given).partition(";")[0].strip().lower()
    if not isinstance(given, str) or not _MEDIA_TYPE.fullmatch(kind):
        raise ValidationError(
            f"the media type {given!r:.100} of the file {name!r} is none; write it such as "
            "'text/csv'"
        )
    return kind


@cache
def _types() -> MimeTypes:
    from mimetypes import MimeTypes

    return MimeTypes()  # the library's own table, the same on every machine


def _read_from_disk(path: Path, left: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(left + 1)
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no file's name"
        raise ValidationError(f"the file {str(path)!r} cannot be read: {why}") from None


def _read_from_s3(uri: str, left: int) -> bytes:
    from orchestrator.support.aws import read_object

    found = _S3_URI.fullmatch(uri)
    if found is None:
        raise ValidationError(f"{uri!r:.200} is no place in S3; write s3://BUCKET/KEY")
    return read_object(found[1], found[2], left, "the file")


def kind_of(file: Mapping[str, str]) -> FileKind:
    """How the model is shown a file of use case `CHAT`.

    Raises:
        ValidationError: Models do not read files of that type.
    """
    media_type = file["type"]
    if media_type in _IMAGES:
        return "image", _IMAGES[media_type]
    if media_type in _DOCUMENTS:
        return "document", _DOCUMENTS[media_type]
    if media_type.startswith("text/") or media_type in _TEXTS or media_type.endswith("+xml"):
        return "text", "txt"
    raise ValidationError(
        f"the file {file['name']!r} is {media_type!r}, which models do not read: for {CHAT} a file "
        "is a text, an image (PNG, JPEG, GIF, WebP) or a document (PDF, Word, Excel); give it a "
        f"'type', or the use case {CODE_INTERPRETER!r}"
    )


def text_in(file: Mapping[str, str]) -> str:
    """The text of a file that was read."""
    return _decode_text(file["name"], base64.b64decode(file["bytes"]))


def _decode_text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValidationError(f"the file {name!r} is not UTF-8 text; save it as UTF-8") from None
