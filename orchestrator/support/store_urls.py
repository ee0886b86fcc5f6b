"""What a text that names a store means: a path, or one of four kinds of URL.

| text | store |
|---|---|
| `memory:` | this process's memory |
| `sqlite:///state.sqlite` | a SQLite file, here one in the working directory; `sqlite:////var/s.sqlite`
  has an absolute path (as SQLAlchemy reads such URLs) |
| `dynamodb://table?region=eu-central-1` | a table of DynamoDB; `endpoint_url=`, `profile=` and
  `ttl_days=` may follow |
| `postgresql://user:password@host/database` | a PostgreSQL database, as libpq reads such URLs
  (PostgreSQL: "Connection URIs"); `pool_size=` may follow |
| anything else | the path of a SQLite file |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from orchestrator.errors import ValidationError
from orchestrator.support.redaction import MASK

_LONGEST = 4_096
_SCHEMES = ("memory", "sqlite", "dynamodb", "postgresql")
# A path may have a colon; it begins like a URL only if two slashes, or a known name, say so.
_URL = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]+)://|(?i:({'|'.join(_SCHEMES)}|postgres):)")
# (PostgreSQL: "Connection URIs"; several hosts stand apart by commas.)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]*)(:[0-9]*)?")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")  # (DynamoDB: "Naming rules")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_WAYS = (
    "give a path, memory:, sqlite:///path, dynamodb://table?region=eu-central-1, or "
    "postgresql://user@host/database"
)
_POOL = 16  # connections of a process, if the URL does not say how many
_MOST_CONNECTIONS = 1_000
_MOST_DAYS = 3_650


@dataclass(frozen=True, slots=True)
class MemoryUrl:
    """A store in this process's memory."""

    display_name: str = "memory:"  # how messages name it


@dataclass(frozen=True, slots=True)
class SqliteUrl:
    """A SQLite file."""

    path: Path  # the file, or `:memory:`

    @property
    def display_name(self) -> str:
        """How messages name it."""
        return str(self.path)


@dataclass(frozen=True, slots=True)
class DynamoUrl:
    """A table of DynamoDB."""

    table: str  # its name
    region: str | None = None  # the environment's when `None`
    endpoint_url: str | None = None  # another address than the region's
    profile: str | None = None  # of AWS's configuration files
    ttl_days: int | None = None  # after how many days what nobody changed is deleted; never: `None`

    @property
    def display_name(self) -> str:
        """How messages name it."""
        return f"dynamodb://{self.table}"


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """A PostgreSQL database."""

    conninfo: str = field(repr=False)  # what libpq is given; it may have a password
    display_name: str  # how messages name it: without the password
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what no message may show
    pool_size: int = _POOL  # how many connections a process may have


StoreUrl = MemoryUrl | SqliteUrl | DynamoUrl | PostgresUrl


def parse_store(name: str | Path | StoreUrl) -> StoreUrl:
    """What names a store, taken apart.

    Raises:
        ValidationError: It is a URL of an unknown kind, or has parameters that its kind has not;
            the message shows no password.
    """
    if isinstance(name, MemoryUrl | SqliteUrl | DynamoUrl | PostgresUrl):
        return name
    found = _URL.match(name) if isinstance(name, str) else None
    if found is None:
        return SqliteUrl(Path(name))
    scheme = (found[1] or found[2]).lower()
    text = str(name)
    if len(text) > _LONGEST or any(character < " " for character in text):
        raise ValidationError(
            f"the {scheme!r} URL of a store is too long, or has control characters"
        )
    match scheme:
        case "memory":
            return _parse_memory(text)
        case "sqlite":
            return _parse_sqlite(text)
        case "dynamodb":
            return _parse_dynamodb(text)
        case "postgresql" | "postgres":
            return _parse_postgres(text)
    raise ValidationError(f"there are no stores of the kind {scheme[:40]!r}: {_WAYS}")


def resolve_store(name: str | Path, base: Path | None = None) -> str | Path:
    """The same name with an absolute path, for a process that works elsewhere."""
    url = parse_store(name)
    if not isinstance(url, SqliteUrl) or str(url.path) == ":memory:":
        return name
    return (base or Path.cwd()).joinpath(url.path).resolve()


def _parse_memory(text: str) -> MemoryUrl:
    if text.lower() not in ("memory:", "memory://"):
        raise ValidationError("a store in memory has no name or parameters: write memory:")
    return MemoryUrl()


def _parse_sqlite(text: str) -> SqliteUrl:
    head, question, _ = text.partition("?")
    path = unquote(head[len("sqlite:") :])
    if question or not path.startswith("///") or path == "///":
        raise ValidationError(
            f"{text!r} is no URL of a SQLite file: write sqlite:///state.sqlite for one in the "
            "working directory, sqlite:////var/lib/state.sqlite for an absolute path; it has no "
            "parameters"
        )
    return SqliteUrl(Path(path[3:]))


def _parse_dynamodb(text: str) -> DynamoUrl:
    parts = urlsplit(text)
    table = unquote(parts.netloc)
    if not _TABLE.fullmatch(table) or parts.path not in ("", "/") or parts.fragment:
        raise ValidationError(
            "a DynamoDB store is named by its table, such as dynamodb://sessions?region="
            "eu-central-1; a table's name has 3 to 255 letters, digits, '_', '.' and '-', and "
            "credentials come from the environment or a profile"
        )
    given = _parse_parameters(parts.query, "dynamodb", "region endpoint_url profile ttl_days")
    region, endpoint = given.get("region"), given.get("endpoint_url")
    if region is not None and not _REGION.fullmatch(region):
        raise ValidationError(f"region {region[:40]!r} of a DynamoDB store is no name of a region")
    if endpoint is not None:
        _check_endpoint(endpoint)
    days = given.get("ttl_days")
    return DynamoUrl(
        table,
        region,
        endpoint,
        given.get("profile"),
        None if days is None else _parse_count("ttl_days", days, _MOST_DAYS),
    )


def _check_endpoint(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable, parts = False, None
    if not is_usable or (parts is not None and parts.username is not None):
        raise ValidationError(
            "endpoint_url of a DynamoDB store must be an http(s) address without a name and a "
            "password, such as http://127.0.0.1:8000"
        )


def _parse_postgres(text: str) -> PostgresUrl:
    try:
        parts = _split_postgres(text)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        secrets = [unquote(parts.password)] if parts.password else []
    except ValueError:
        raise ValidationError(
            "the 'postgresql' URL of a store cannot be read: write postgresql://user:password@"
            "host/database, and percent-encode what its name and password have of '@', ':', '/', "
            "'?', '#', '%' and spaces, and every other '@'"
        ) from None
    pool_size, rest = _POOL, []
    for key, value in query:
        if key == "pool_size":
            pool_size = _parse_count(key, value, _MOST_CONNECTIONS)
        else:
            rest.append((key, value))
            if "password" in key:
                secrets.append(value)
    # (Not by `urlunsplit`: it leaves out the slashes before an empty authority.)
    conninfo = f"postgresql://{parts.netloc}{parts.path}"
    if rest:
        conninfo += f"?{urlencode(rest, quote_via=quote)}"
    # Where it is reached, without whatever else libpq may be told.
    place = parts.netloc.rpartition("@")[2]
    user = f"{unquote(parts.username)}:{MASK}@" if parts.password and parts.username else ""
    user = user or (f"{unquote(parts.username)}@" if parts.username else "")
    display_name = f"postgresql://{user}{place}{parts.path}"
    return PostgresUrl(conninfo, display_name, tuple(filter(None, secrets)), pool_size)


def _split_postgres(text: str) -> SplitResult:
    # A password that is not percent-encoded ends too early, and its rest is taken for a host, a
    # database or a parameter, which messages show. Such a URL is a `ValueError`.
    rest = text.partition(":")[2]
    if not rest.startswith("//") or "#" in rest or _BAD_ESCAPE.search(rest):
        raise ValueError
    parts = urlsplit(text)
    user, _, hosts = parts.netloc.rpartition("@")
    if "@" in user + parts.path + parts.query or user.count(":") > 1 or " " in user:
        raise ValueError
    if not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise ValueError
    return parts


def _parse_parameters(query: str, scheme: str, known: str) -> dict[str, str]:
    names, given = known.split(), {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in names:
            raise ValidationError(
                f"a {scheme!r} URL has no parameter {key[:40]!r}; it has {', '.join(names)}"
            )
        if key in given or not value:
            raise ValidationError(f"give the parameter {key!r} of a {scheme!r} URL once, not empty")
        given[key] = value
    return given


def _parse_count(name: str, value: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value) or not 1 <= int(value) <= most:
        raise ValidationError(f"{name} must be a whole number from 1 to {most}, not {value[:40]!r}")
    return int(value)
