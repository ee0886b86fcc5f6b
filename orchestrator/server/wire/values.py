"""Values without parts, checked, read from JSON and written to it; and what is wrong with one.

Problems are worded as AWS's services word them.
"""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import cache
from typing import Any, NamedTuple

from botocore.model import Shape, StringShape

from orchestrator.definition.agent import RAISED_LENGTHS
from orchestrator.support.safe_json import LARGE

Path = tuple[Any, str] | None
"""Where a value lies: the path around it and its name. Spelled out only when something is wrong."""

HIDDEN = object()
"""Stands for a value that messages do not show."""

_MOST = 50
_LONGEST = 200


class Problem(NamedTuple):
    """One thing that is wrong."""

    path: Path  # where
    constraint: str  # what is not so
    value: Any = HIDDEN  # the value, when it may be shown
    # Whether the value is of the right kind, but against a length, range, pattern or enum
    limit: bool = False

    @property
    def place(self) -> str:
        """Such as `messages.1.member.role`."""
        return format_path(self.path)

    def __str__(self) -> str:
        value = "" if self.value is HIDDEN else f" {_format_value(self.value)}"
        return f"Value{value} at '{self.place}' failed to satisfy constraint: {self.constraint}"


class Problems:
    """All that is wrong with a value."""

    __slots__ = ("found", "more")

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.more = 0

    def add(self, path: Path, constraint: str, value: Any = HIDDEN, *, limit: bool = False) -> None:
        """Notes a problem; those after the fiftieth are counted only."""
        if len(self.found) < _MOST:
            self.found.append(Problem(path, constraint, value, limit))
        else:
            self.more += 1

    def __bool__(self) -> bool:
        return bool(self.found)

    def __str__(self) -> str:
        count = len(self.found) + self.more
        errors = "error" if count == 1 else "errors"
        shown = "; ".join(map(str, self.found))
        return f"{count} validation {errors} detected: {shown}" + ("; ..." if self.more else "")


def is_deeper(path: Path, names: int) -> bool:
    """Whether a path has more names than so many."""
    while path is not None and names >= 0:
        path, names = path[0], names - 1
    return names < 0


def format_path(path: Path) -> str:
    """A path with dots, as AWS writes it: the parts of a list are `.1.member`, of a map `.KEY`."""
    names = []
    while path is not None:
        path, name = path
        names.append(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}...")
    return ".".join(reversed(names))


def _format_value(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value)
    return f"'{text}'" if len(text) <= _LONGEST else f"'{text[:_LONGEST]}...'"


_DIGITS = re.compile(r"/d(?=[{+*])")
# A hyphen that two parts may take, which takes for ever; and letters, of which marks are no part.
_TRANSLATED = (
    (r"(-*[a-zA-Z0-9\+\-\.])", r"[a-zA-Z0-9\+\-\.]"),
    (r"[\p{L}\p{M}0-9_]", r"\w"),
    (r"\p{L}", r"[^\W\d_]"),
)
_CATEGORY_C = (r"\P{C}", r"[^\p{C}]")
_ONE_CLASS = re.compile(r"\^?(\(\?!\\s\*\$\))?(\[[^\]]*\]|\.|\\[sSdDwW])[*+]\$?")
_LONGEST_MATCHED = 2048


# A model's pattern must match the whole text, as Java's `matches` does. Three things are not as the
# models say. Unicode's categories (`\p{C}`) are not Python's, and are translated; `.` is any
# character. One pattern has `/d` where digits were meant, and would refuse every ARN. Some take a
# time that grows with the square of the text's length, or worse; a text for such a one is never
# longer than 2,048, so that none costs more than milliseconds.


@cache
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """What says whether a text matches a pattern of a model."""
    translated = _DIGITS.sub(r"\\d", pattern)
    for text, ours in _TRANSLATED:
        translated = translated.replace(text, ours)
    if any(text in pattern for text in _CATEGORY_C):
        for text in _CATEGORY_C:
            translated = translated.replace(text, r"[^\0]")
        match = re.compile(translated, re.DOTALL).fullmatch
        return lambda text: match(_without_category_c(text)) is not None
    match = re.compile(translated, re.DOTALL).fullmatch
    if _ONE_CLASS.fullmatch(pattern):
        return lambda text: match(text) is not None
    return lambda text: len(text) <= _LONGEST_MATCHED and match(text) is not None


def _without_category_c(text: str) -> str:
    """The text with NUL for what is in Unicode's category C: control, format, unassigned."""
    if text.isprintable():
        return text
    return "".join("\0" if unicodedata.category(each)[0] == "C" else each for each in text)


Walk = Callable[[Any, Path, Problems], Any]
"""Checks a value and gives it read, or written. What is wrong goes to the problems."""

NULL = "Member must not be null"
_DEEPEST = 100
_LARGEST = sys.float_info.max
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
# Bits of whole numbers in Smithy, the language of AWS's models.
_RANGES = {"integer": 31, "long": 63}


_Check = Callable[[int | float, Path, Problems, Any], None]


def _get_most(shape: Shape) -> float:
    most: float = shape.metadata.get("max", math.inf)
    return max(most, RAISED_LENGTHS.get(shape.name, most))


def make_length_check(shape: Shape, what: str = "length") -> _Check:
    """The check of a size, or of a number itself, against the shape's `min` and `max`."""
    low, high = shape.metadata.get("min", -math.inf), _get_most(shape)

    def check(size: int | float, path: Path, problems: Problems, value: Any) -> None:
        if size < low:
            wrong = f"Member must have {what} greater than or equal to {low}"
            problems.add(path, wrong, value, limit=True)
        elif size > high:
            wrong = f"Member must have {what} less than or equal to {high}"
            problems.add(path, wrong, value, limit=True)

    return check


_UNLIKE_THE_SERVICE = frozenset({"AgentAliasArn", "TraceId"})
"""Shapes whose limits the service itself does not keep in its answers (recorded): trace ids have
far over 16 letters, and an inline agent is `agent-alias/INLINE_AGENT/TSTALIASID`."""
_ALSO = {
    ("PromptType", "ORCHESTRATION"): frozenset({"MEMORY_SUMMARIZATION", "ROUTING_CLASSIFIER"}),
    ("NodeType", "PromptNode"): frozenset({"AgentNode"}),
    ("Type", "REPROMPT"): frozenset({"ACTION_GROUP_CODE_INTERPRETER"}),
}
"""Values beyond their enums, by the shape's name and one of its own values (parameters of functions
have a `Type`, too). Each of the two services names one of these stages, and agents of the service
have had the other's (recorded). In flows only agents ask the user, and the enum of the nodes that
do has none. Observations of the code interpreter have a type of their own (recorded)."""


def _make_string_walk(shape: Shape, hidden: bool) -> Walk:
    low, high = shape.metadata.get("min", 0), _get_most(shape)
    check = make_length_check(shape)
    enum = frozenset(shape.enum) if isinstance(shape, StringShape) else frozenset()
    enum = enum.union(*(_ALSO.get((shape.name, value), ()) for value in enum))
    pattern = shape.metadata.get("pattern")
    matches = compile_pattern(pattern) if pattern else None

    def walk(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not str and not isinstance(value, str):
            problems.add(path, "Member must be a string")
            return value
        if not (value.isascii() or _is_unicode(value)):
            problems.add(path, "Member must not have half of a surrogate pair")
            return value
        shown = HIDDEN if hidden else value
        if not low <= len(value) <= high:
            check(len(value), path, problems, shown)
        elif matches is not None and not matches(value):
            wrong = f"Member must satisfy regular expression pattern: {pattern}"
            problems.add(path, wrong, shown, limit=True)
        if enum and value not in enum:
            wrong = f"Member must satisfy enum value set: [{', '.join(sorted(enum))}]"
            problems.add(path, wrong, shown, limit=True)
        return value

    return walk


def _make_string_write_walk(shape: Shape, hidden: bool) -> Walk:
    plain = StringShape(shape.name, {"type": "string"})
    return _make_string_walk(plain if shape.name in _UNLIKE_THE_SERVICE else shape, hidden)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_integer_walk(shape: Shape, hidden: bool) -> Walk:
    check = make_length_check(shape, "value")
    most = 2 ** _RANGES[shape.type_name]

    def walk(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not int or not -most <= value < most:
            problems.add(path, f"Member must be a whole number ({shape.type_name})")
        else:
            check(value, path, problems, HIDDEN if hidden else value)
        return value

    return walk


def _make_number_walk(shape: Shape, hidden: bool) -> Walk:
    check = make_length_check(shape, "value")

    def walk(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) not in (int, float) or not is_finite(value):
            problems.add(path, "Member must be a number")
            return value
        check(value, path, problems, HIDDEN if hidden else value)
        return float(value)

    return walk


def is_finite(value: int | float) -> bool:
    """Whether a float can hold the number."""
    return -_LARGEST <= value <= _LARGEST


def _make_boolean_walk(shape: Shape, hidden: bool) -> Walk:
    def walk(value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, bool):
            problems.add(path, "Member must be true or false")
        return value

    return walk


def _make_blob_read_walk(shape: Shape, hidden: bool) -> Walk:
    check = make_length_check(shape)

    def walk(value: Any, path: Path, problems: Problems) -> Any:
        try:
            read = _decode_base64(value)
        except (ValueError, TypeError):
            problems.add(path, "Member must be text in base64")
            return value
        check(len(read), path, problems, HIDDEN)
        return read

    return walk


def _decode_base64(value: Any) -> bytes:
    """Bytes in base64; a long text is read in parts, so that other threads go on.

    Raises:
        TypeError: It is no text.
        ValueError: It is not in base64.
    """
    if not isinstance(value, str):
        raise TypeError("it is no text")
    if len(value) <= LARGE:
        return b64decode(value, validate=True)
    # Padding is at the end, in the last part.
    if len(value) % 4 or value.find("=", 0, -2) >= 0:
        raise ValueError("its padding is wrong")
    starts = range(0, len(value), LARGE)
    return b"".join([b64decode(value[at : at + LARGE], validate=True) for at in starts])


def _make_blob_write_walk(shape: Shape, hidden: bool) -> Walk:
    check = make_length_check(shape)

    def walk(value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, (bytes, bytearray)):
            problems.add(path, "Member must be bytes")
            return value
        check(len(value), path, problems, HIDDEN)
        return b64encode(value).decode("ascii")

    return walk


def _make_time_read_walk(shape: Shape, hidden: bool) -> Walk:
    def walk(value: Any, path: Path, problems: Problems) -> Any:
        try:
            return _parse_time(value)
        except (ValueError, TypeError, OverflowError, OSError):
            problems.add(path, "Member must be a timestamp")
            return value

    return walk


def _parse_time(value: Any) -> datetime:
    """A time in any of the three forms that AWS uses, whichever the model says."""
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = parsedate_to_datetime(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _make_time_write_walk(shape: Shape, hidden: bool) -> Walk:
    form = shape.serialization.get("timestampFormat", "unixtimestamp")

    def walk(value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, datetime) and value.tzinfo is not None:
            return format_time(value, form)
        if form == "iso8601" and isinstance(value, str) and _ISO.fullmatch(value):
            # A trace's own: as recorded when it happened, to the nanosecond.
            return value
        problems.add(path, "Member must be a datetime with a zone")
        return value

    return walk


def format_time(value: datetime, form: str) -> str | float:
    """A time as AWS writes it: `iso8601` with nanoseconds, `rfc822`, or seconds since 1970."""
    if form == "unixtimestamp":
        return value.timestamp()
    value = value.astimezone(UTC)
    if form == "rfc822":
        return format_datetime(value, usegmt=True)
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond:06}000Z"


def walk_document(value: Any, path: Path, problems: Problems) -> Any:
    """Any JSON, as it is: no deeper than 100 levels, and of finite numbers."""
    wrong = _find_json_problem(value, _DEEPEST)
    if wrong:
        problems.add(path, wrong)
    return value


def _find_json_problem(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return "" if _is_unicode(value) else "Member must not have half of a surrogate pair"
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return "" if is_finite(value) else "Member must have finite numbers only"
    if not isinstance(value, Mapping | list | tuple):
        return f"Member must be JSON, not {type(value).__name__}"
    if depth == 0:
        return f"Member must not be deeper than {_DEEPEST} levels"
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and _is_unicode(key) for key in value):
            return "Member must have texts for keys"
        value = value.values()
    return next(filter(None, (_find_json_problem(each, depth - 1) for each in value)), "")


_BOTH: dict[str, Callable[[Shape, bool], Walk]] = {
    "string": _make_string_walk,
    "integer": _make_integer_walk,
    "long": _make_integer_walk,
    "float": _make_number_walk,
    "double": _make_number_walk,
    "boolean": _make_boolean_walk,
}
SCALARS_READ = {**_BOTH, "blob": _make_blob_read_walk, "timestamp": _make_time_read_walk}
"""What makes the walk of a scalar shape, by its type, for what was received."""
SCALARS_WRITTEN = {
    **_BOTH,
    "string": _make_string_write_walk,
    "blob": _make_blob_write_walk,
    "timestamp": _make_time_write_walk,
}
"""The same, for what is sent."""
