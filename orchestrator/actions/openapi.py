"""OpenAPI 3.0 and 3.1 documents as operations.

Bedrock reads a subset of OpenAPI 3.0; this reader takes more: 3.1, `enum` (Bedrock ignores it),
references, path-item parameters, a missing `operationId`, and form bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from orchestrator.actions.base import Operation, Parameter
from orchestrator.actions.functions import object_schema, read_confirmation
from orchestrator.actions.names import MOST_OPERATIONS, check_count, slug
from orchestrator.actions.schemas import TYPES, SchemaReader, Where, kind_of
from orchestrator.errors import DefinitionError
from orchestrator.support.aws import read_object
from orchestrator.support.documents import Rules, Source, parse, parse_json
from orchestrator.support.spelling import did_you_mean

_VERBS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
_SAFE = ("GET", "HEAD", "OPTIONS")  # may be repeated: they only read (RFC 9110, safe methods)
_PATH_ITEM = (*_VERBS, "parameters", "summary", "description", "servers", "$ref")
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
}
_BODIES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_OWN_HEADERS = ("accept", "content-type", "authorization")  # (OpenAPI: ignored as parameters)
_MOST_PARAMETERS = 500  # of one operation, headers that are ignored included
_MOST_MEMBERS = 100  # of a path, and responses that are looked at
_MOST_URL = 2_000  # characters
_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_SUCCESS = ("200", "201", "202", "203", "204", "206", "2XX", "DEFAULT")


def api_operations(group: str, source: Mapping[str, Any] | str | Path) -> tuple[Operation, ...]:
    """The operations of an OpenAPI document: a mapping, JSON or YAML text, or a file's path.

    An operation without `operationId` is called after its verb and path: `GET /claims/{id}/notes`
    is `get_claims_id_notes`. An `operationId` with other characters than names may have is
    cleaned in the same way.

    Raises:
        DefinitionError: The document is wrong; the message says where.
    """
    return tuple(_Reader(group, *_read(source)).operations())


class _Reader:
    def __init__(self, group: str, content: Mapping[str, Any], source: Source) -> None:
        self._group = group
        self._content = content
        self._source = source
        self._schemas = SchemaReader(content, self._fail)
        self._text = self._schemas.text

    def _fail(self, message: str, where: Where) -> DefinitionError:
        place, _ = self._source.find(where)
        line, column = (place.key or (place.line, place.column)) if place else (None, None)
        at = f" (at {' > '.join(map(str, where))})" if where else ""
        file = self._source.file or None
        return DefinitionError(f"{message}{at}", file=file, line=line, column=column)

    def operations(self) -> Iterator[Operation]:
        content = self._content
        version = str(content.get("openapi", ""))
        if not version.startswith(("3.0", "3.1")):
            wrong = f"`openapi` is {version!r}" if version else "there is no `openapi`"
            raise self._fail(f"{wrong}; OpenAPI 3.0 and 3.1 are read, such as `openapi: 3.0.0`", ())
        paths = content.get("paths")
        if not isinstance(paths, Mapping) or not paths:
            what = "`paths` of the document is empty" if "paths" in content else "it has no `paths`"
            raise self._fail(f"{what}: an action group needs one operation at least", ("paths",))
        if len(paths) > MOST_OPERATIONS:
            raise self._fail(
                f"the document has {len(paths):,} paths, and an action group at most "
                f"{MOST_OPERATIONS} operations; leave out what the agent does not need",
                ("paths",),
            )
        self._server = self._first_server(content.get("servers"), (), "")
        named: dict[str, str] = {}
        shapes: dict[str, str] = {}
        for path, item in paths.items():
            if isinstance(path, str) and path.startswith("x-"):
                continue
            self._check_path(path, shapes)
            for operation in self._path_item(path, item):
                self._check_unique(operation, named)
                check_count(len(named), f"the action group {self._group!r}")
                yield operation

    def _check_path(self, path: object, shapes: dict[str, str]) -> None:
        if not isinstance(path, str) or not path.startswith("/"):
            raise self._fail(f"the path {path!r} must begin with '/'", ("paths", str(path)))
        self._text(path, "a path", ("paths", path))
        shape = _IN_BRACES.sub("{}", path)
        if shape in shapes:
            raise self._fail(
                f"the paths {shapes[shape]!r} and {path!r} are the same but for the names in "
                "braces; put their operations under one",
                ("paths", path),
            )
        shapes[shape] = path

    def _check_unique(self, operation: Operation, named: dict[str, str]) -> None:
        here = f"{operation.verb} {operation.path}"
        where = ("paths", operation.path, operation.verb.lower())
        if operation.name in named:
            raise self._fail(
                f"{named[operation.name]} and {here} have the same name {operation.name!r}; give "
                "each an `operationId` of its own",
                where,
            )
        named[operation.name] = here

    def _path_item(self, path: str, item: Any) -> Iterator[Operation]:
        where: Where = ("paths", path)
        item = self._require_mapping(self._schemas.follow(item, where), "a path", where)
        if len(item) > _MOST_MEMBERS:
            raise self._fail(f"the path has more than {_MOST_MEMBERS} members", where)
        for key in item:
            if key not in _PATH_ITEM and not str(key).startswith("x-"):
                advice = did_you_mean(key, _VERBS)
                raise self._fail(f"{key!r} is not an HTTP verb{advice}", (*where, key))
        shared = self._parameter_list(item.get("parameters"), where)
        server = self._first_server(item.get("servers"), where, self._server)
        for verb in _VERBS:
            if verb in item:
                place = (*where, verb)
                node = self._require_mapping(item[verb], "an operation", place)
                made = self._operation(path, verb, node, shared, place)
                yield replace(made, server=self._first_server(node.get("servers"), place, server))

    def _first_server(self, servers: Any, where: Where, above: str) -> str:
        if not servers:
            return above
        where = (*where, "servers")
        if not isinstance(servers, list):
            raise self._fail("`servers` must be a list", where)
        first = self._require_mapping(servers[0], "a server", where)
        url = self._text(first.get("url"), "a server's url", where)
        variables = self._require_mapping(first.get("variables") or {}, "`variables`", where)

        def fill(found: re.Match[str]) -> str:
            variable = variables.get(found[1])
            if not isinstance(variable, Mapping) or "default" not in variable:
                raise self._fail(f"the server's {found[0]} has no default in `variables`", where)
            return self._text(str(variable["default"]), "a default", where)

        url = _IN_BRACES.sub(fill, url)
        if len(url) > _MOST_URL:
            raise self._fail(f"a server's url has more than {_MOST_URL:,} characters", where)
        return url

    def _operation(
        self,
        path: str,
        verb: str,
        node: Mapping[str, Any],
        shared: dict[tuple[str, str], Parameter],
        where: Where,
    ) -> Operation:
        own = self._parameter_list(node.get("parameters"), where)
        body, content_type = self._body(node.get("requestBody"), (*where, "requestBody"))
        parameters = (*{**shared, **own}.values(), *body)
        self._check_parameters(path, parameters, where)
        name = str(node.get("operationId") or f"{verb}{path}")
        description = node.get("description") or node.get("summary")
        confirmation = self._confirmation(node, where)
        return Operation(
            group=self._group,
            name=slug(name) or verb,
            description=self._text(description, "the description", where).strip(),
            parameters=parameters,
            verb=verb.upper(),
            path=path,
            content_type=content_type,
            require_confirmation=confirmation is True,
            confirmation_waived=confirmation is False,
            idempotent=verb.upper() in _SAFE,
            schema=object_schema(parameters),
            returns=self._returns(node.get("responses"), (*where, "responses")),
            read_result_schema=partial(
                self._read_result, node.get("responses"), (*where, "responses")
            ),
        )

    # Nothing checks answers against this, so that what is wrong here is passed over.
    def _returns(self, nodes: Any, where: Where) -> tuple[str, str] | None:
        key, node = self._find_success(nodes, where)
        media = _first_media(node.get("content")) or {}
        schema = self._follow_mapping(media.get("schema"), (*where, key))
        words, kind = node.get("description") or schema.get("description"), schema.get("type")
        text = self._text(words, "a description", (*where, key)) if isinstance(words, str) else ""
        known = kind if kind in TYPES else ""
        return (known or "object", text.strip()) if known or text.strip() else None

    def _find_success(self, nodes: Any, where: Where) -> tuple[str, Mapping[str, Any]]:
        responses = nodes if isinstance(nodes, Mapping) else {}
        codes = islice(responses, _MOST_MEMBERS)
        key = next((it for it in codes if str(it).upper() in _SUCCESS), "")
        return key, self._follow_mapping(responses.get(key), (*where, key))

    def _read_result(self, nodes: Any, where: Where) -> Mapping[str, Any]:
        key, node = self._find_success(nodes, where)
        media = _first_media(node.get("content")) or {}
        # Its size counts for itself: what a call returns takes no room from what calls are given.
        reader = SchemaReader(self._content, self._fail, of_results=True)
        try:
            return reader.schema(media.get("schema") or {}, (*where, key))
        except DefinitionError:
            return {}

    def _follow_mapping(self, node: Any, where: Where) -> Mapping[str, Any]:
        try:
            found = self._schemas.follow(node, where)
        except DefinitionError:
            return {}
        return found if isinstance(found, Mapping) else {}

    def _confirmation(self, node: Mapping[str, Any], where: Where) -> bool | None:
        key = "x-requireConfirmation"
        try:
            return read_confirmation(node.get(key), f"`{key}`")
        except DefinitionError as error:
            raise self._fail(error.reason, (*where, key)) from None

    def _parameter_list(self, nodes: Any, where: Where) -> dict[tuple[str, str], Parameter]:
        found: dict[tuple[str, str], Parameter] = {}
        if nodes is not None and not isinstance(nodes, list):
            raise self._fail("`parameters` must be a list", (*where, "parameters"))
        if nodes is not None and len(nodes) > _MOST_PARAMETERS:
            what = f"there are more than {_MOST_PARAMETERS} parameters"
            raise self._fail(what, (*where, "parameters"))
        for index, node in enumerate(nodes or ()):
            place = (*where, "parameters", index)
            node = self._require_mapping(self._schemas.follow(node, place), "a parameter", place)
            # OpenAPI 3: parameters with these names shall be ignored.
            if node.get("in") == "header" and str(node.get("name")).lower() in _OWN_HEADERS:
                continue
            parameter = self._parameter(node, place)
            key = (parameter.location, parameter.name)
            if key in found:
                raise self._fail(f"the parameter {parameter.name!r} is there twice", place)
            found[key] = parameter
        return found

    def _parameter(self, node: Mapping[str, Any], where: Where) -> Parameter:
        name = self._schemas.parameter_name(node.get("name"), where)
        location = node.get("in")
        if not isinstance(location, str) or location not in _STYLES:
            raise self._fail(
                f"the parameter {name!r} has `in: {location}`; allowed are {', '.join(_STYLES)}",
                where,
            )
        schema, place = node.get("schema"), (*where, "schema")
        style = node.get("style") or ""
        if schema is None:
            media = _first_media(node.get("content"))
            schema = {"type": "string"} if media is None else media.get("schema", {})
            style = style if media is None else "json"
        elif style not in ("", *_STYLES[location]):
            raise self._fail(
                f"the parameter {name!r} has the style {style!r}; allowed in the {location} are "
                f"{', '.join(_STYLES[location])}",
                where,
            )
        read = self._schemas.schema(schema, place)
        text = self._text(node.get("description"), f"the description of {name!r}", place).strip()
        text = text or read.get("description", "").strip()
        if text:
            read = {**read, "description": text}
        # OpenAPI 3: a path parameter is always required.
        required = location == "path" or node.get("required") is True
        explode = node["explode"] if isinstance(node.get("explode"), bool) else None
        return Parameter(name, kind_of(read), text, required, location, read, style, explode)

    def _body(self, node: Any, where: Where) -> tuple[tuple[Parameter, ...], str]:
        if node is None:
            return (), ""
        node = self._require_mapping(self._schemas.follow(node, where), "a request body", where)
        content = node.get("content")
        types = list(content) if isinstance(content, Mapping) else []
        content_type = next((one for one in _BODIES if one in types), "")
        if not isinstance(content, Mapping) or not content_type:
            raise self._fail(
                f"the request body has the content types {types}; one of {', '.join(_BODIES)} is "
                "needed",
                where,
            )
        place = (*where, "content", content_type, "schema")
        media = self._require_mapping(content[content_type], "a media type", place[:-1])
        schema = self._schemas.schema(media.get("schema", {}), place)
        # AWS: Bedrock gives a body as a list of properties, so that it must be one object.
        if schema.get("type", "object") != "object" or "anyOf" in schema:
            raise self._fail(
                "the request body must be one object: its properties become parameters", place
            )
        return self._schemas.object_parameters(schema, "body", place), content_type

    def _check_parameters(self, path: str, parameters: tuple[Parameter, ...], where: Where) -> None:
        places: dict[str, str] = {}
        for parameter in parameters:
            # Bedrock's event has one list of names, whatever the location.
            if parameter.name in places:
                raise self._fail(
                    f"the name {parameter.name!r} is used in the {places[parameter.name]} and in "
                    f"the {parameter.location}; a model gives each name one value: rename one",
                    where,
                )
            places[parameter.name] = parameter.location
        braces = set(_IN_BRACES.findall(path))
        declared = {name for name, location in places.items() if location == "path"}
        for name in sorted(braces ^ declared):
            raise self._fail(
                f"the path has {{{name}}}, but there is no parameter {name!r} with `in: path`"
                if name in braces
                else f"the parameter {name!r} has `in: path`, but the path has no {{{name}}}",
                where,
            )

    def _require_mapping(self, node: Any, what: str, where: Where) -> Mapping[str, Any]:
        if isinstance(node, Mapping):
            return node
        raise self._fail(f"{what} must be an object, not {type(node).__name__}", where)


def _first_media(content: Any) -> Mapping[str, Any] | None:
    first = next(iter(content.values()), None) if isinstance(content, Mapping) else None
    return first if isinstance(first, Mapping) else None


MOST_LENGTH = 2_000_000
"""Bytes or characters of a document."""

# The names of responses look like numbers.
_RULES = Rules(merge_keys=True, max_depth=100, max_nodes=50_000)
_FILE_RULES = replace(_RULES, aliases=True)  # a caller's text has none


def _read(source: Mapping[str, Any] | str | Path) -> tuple[Mapping[str, Any], Source]:
    if isinstance(source, Mapping):
        return source, Source()
    text = _read_file(source) if isinstance(source, Path) else source
    file, rules = (str(source), _FILE_RULES) if isinstance(source, Path) else ("", _RULES)
    if len(text) > MOST_LENGTH:
        raise DefinitionError(
            f"the schema has more than {MOST_LENGTH} characters", file=file or None
        )
    read = parse_json if text.lstrip()[:1] == "{" else parse
    document = read(text, file, rules)
    if not isinstance(document.data, Mapping):
        is_name = isinstance(source, str) and text.strip().endswith((".yaml", ".yml", ".json"))
        hint = "; for the one in a file give a Path" if is_name else ""
        raise DefinitionError(
            f"the schema must be an OpenAPI document, an object with `openapi` and `paths`{hint}",
            file=file or None,
            line=1 if file else None,
        )
    return document.data, Source(file, root=document.root)


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DefinitionError(f"the schema cannot be read: {reason}", file=file) from error


def read_s3_schema(bucket: str, key: str) -> str:
    """The text of an OpenAPI document in S3, read with boto3's own credentials.

    Raises:
        DefinitionError: The object is too large, or is no UTF-8 text.
        DependencyFailed: It is not there, or may not be read; `AccessDenied` is a kind of it.
    """
    content = read_object(bucket, key, MOST_LENGTH, "the schema")
    what = f"the schema 's3://{bucket}/{key}'"
    if len(content) > MOST_LENGTH:
        raise DefinitionError(f"{what} has more than {MOST_LENGTH} bytes")
    try:
        return str(content, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{what} is not UTF-8 text") from error
