"""What a message says, in the dialect `legacy`: media in the text, and sections that are YAML."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from orchestrator.errors import TemplateError
from orchestrator.prompts.jinja_pieces import VALUE
from orchestrator.prompts.languages.base import Content, Media, MediaKind, TextContent, ToolUse
from orchestrator.prompts.languages.message_dicts import MEDIA_KINDS, parse_data_url
from orchestrator.prompts.languages.prompty.front_matter import References, read_yaml
from orchestrator.prompts.languages.prompty.markers import Section
from orchestrator.prompts.languages.values import Tokens, strip_pieces
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.source import OPEN
from orchestrator.prompts.template_files import MAX_FILE_BYTES, find_beside

_MEDIUM = re.compile(r"!\[([^\[\]\n]*+)\]\(([^()\s]++)\)")
_ATTRIBUTE = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(?:\"([^\"]*)\"|([^\",]*+))")
_KINDS = {**MEDIA_KINDS, "photo": "image", "sound": "audio", "recording": "audio"}
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class MediaReader:
    """Finds media that the author wrote into texts: `![image](photo.png)`."""

    folder: Path | None  # where files are; without one a name is only an address
    source: str | None

    def content(self, text: str, tokens: Tokens[Any]) -> Iterator[TextContent | Media]:
        """The texts and media of a text with tokens; texts beside media lose their white space."""
        at = 0
        found = None
        for found in _MEDIUM.finditer(text):
            yield from _to_text_content(tokens.pieces(text[at : found.start()]))
            yield self._medium(found, tokens)
            at = found.end()
        if found is None:
            yield TextContent(tuple(tokens.pieces(text)))
        else:
            yield from _to_text_content(tokens.pieces(text[at:]))

    def _medium(self, found: re.Match[str], tokens: Tokens[Any]) -> Media:
        label, url = found[1], tokens.plain(found[2])
        attributes = {
            it[1]: tokens.plain(it[2] if it[2] is not None else it[3].strip())
            for it in _ATTRIBUTE.finditer(label)
        }
        kind = _KINDS.get(str(attributes.pop("type", label)).strip().lower())
        guessed = mimetypes.guess_type(url.partition("?")[0])[0] or ""
        if kind is None:
            kind = guessed.partition("/")[0]
            if kind not in ("audio", "video"):
                kind = "file" if kind in ("application", "text") else "image"
            if label.strip() and not attributes:
                attributes = {"alt": tokens.plain(label)}
        media_kind = cast(MediaKind, kind)
        if inline := parse_data_url(url):
            return Media(media_kind, data=inline[1], media_type=inline[0], attributes=attributes)
        # A value may not choose a file: only an address that the author wrote is read.
        data = self._bytes(url) if OPEN not in found[2] else b""
        return Media(media_kind, url, data, guessed if data else "", attributes)

    def _bytes(self, name: str) -> bytes:
        """The bytes of a file beside the template; none when there is no such file."""
        if self.folder is None or ":" in name:
            return b""
        path = find_beside(self.folder, name)
        if path is None:
            raise TemplateError(
                f"the file {name!r} is outside of the template's folder", file=self.source
            )
        if not path.is_file():
            return b""
        if path.stat().st_size > 5 * MAX_FILE_BYTES:
            raise TemplateError(
                f"the file is larger than {5 * MAX_FILE_BYTES:,} bytes", file=str(path)
            )
        return path.read_bytes()


def _to_text_content(pieces: Sequence[Piece]) -> Iterable[TextContent]:
    stripped = strip_pieces(pieces)
    return [TextContent(tuple(stripped))] if stripped else []


def read_section(
    section: Section, tokens: Tokens[Any], source: str | None, references: References | None = None
) -> Any:
    """The data of a section: YAML that the author wrote, with values in its texts.

    Without `references`, numbers are texts as they are written: ids are names, even of digits.
    """
    # References are resolved before the values are put in: a value cannot be a reference.
    written = tokens.restore_references(section.content)
    data = read_yaml(written, source, section.line + 1, texts=references is None)
    return _fill_tokens(references.resolve(data) if references is not None else data, tokens)


def _fill_tokens(data: Any, tokens: Tokens[Any]) -> Any:
    if isinstance(data, Mapping):
        return {
            str(_fill_tokens(key, tokens)): _fill_tokens(one, tokens) for key, one in data.items()
        }
    if isinstance(data, list):
        return [_fill_tokens(one, tokens) for one in data]
    if not isinstance(data, str) or OPEN not in data:
        return data
    text = tokens.plain(data)
    return _parse_number(text) if tokens.origin(data) == VALUE else text


def _parse_number(text: str) -> Any:
    # `n: {{ n }}` is a number where the input is a number.
    if text in ("true", "false"):
        return text == "true"
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def read_tool_uses(
    section: Section, data: Any, texts: Any, source: str | None
) -> tuple[Content, ...]:
    """The calls of a section `assistant[type="tool_call"]`: its data, and the same as texts."""
    uses: list[Content] = []
    calls, written = (it if isinstance(it, list) else [it] for it in (data, texts))
    for one, texts_of_one in zip(calls, written, strict=True):
        function = one.get("function") if isinstance(one, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            message = "a message of type tool_call is YAML: id, type: function, and function"
            raise section.error(f"{message} with a name and arguments", source)
        given = function.get("arguments")
        id = str(texts_of_one.get("id", ""))
        uses.append(ToolUse(id, function["name"], {} if given is None else given))
    return tuple(uses)


def read_tools(section: Section, data: Any, source: str | None) -> list[dict[str, Any]]:
    """The tools of a section `tools:`."""
    if data is None:
        return []
    if not isinstance(data, list) or not all(isinstance(one, Mapping) for one in data):
        message = "a section tools: is a YAML list of tools, each with id, type and options"
        raise section.error(message, source)
    return [dict(one) for one in data]
