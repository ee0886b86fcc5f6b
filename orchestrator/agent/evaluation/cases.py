"""Cases: what is asked of an agent, and what is checked then. Files in JSONL, JSON or YAML.

A check that is misspelt would pass whatever the agent does, so nothing unknown is let through.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.agent.evaluation.checks import CHECKS
from orchestrator.agent.evaluation.older_cases import is_older, translate_case
from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.support.documents import Rules, Source, decode, parse, parse_json
from orchestrator.support.spelling import did_you_mean

MOST_BYTES = 16_000_000
MOST_CASES = 10_000
MOST_TURNS = 200
_LONGEST_ID = 200
_RULES = Rules(max_nodes=1_000_000)
# What the user says where an agent asks whether it shall make a call that the case expects.
YES = "Yes."


@dataclass(frozen=True, slots=True)
class CaseTurn:
    """One turn of a case.

    Attributes:
        question: What the user says.
        expect: The checks by name, as their kinds read them.
        results: What answers calls that are handed over, by function or path, as for
            `ControlReturn.answer`.
        confirms: What the user says where the agent asks before an expected call; empty: nothing.
    """

    question: str
    expect: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    confirms: str = YES


@dataclass(frozen=True, slots=True)
class Case:
    """A question or a whole conversation, held in a session of its own.

    Attributes:
        id: Names it in its file.
        turns: What the user says, turn for turn.
        agent: The folder of its agent beside those of the others; empty for the one that is named.
        tags: What reports group by.
        session_attributes: Attributes of the session.
        prompt_session_attributes: Attributes that prompts show.
        digest: Of all that is said and expected, and not of its id and tags; empty for a case that
            no file holds.
    """

    id: str
    turns: tuple[CaseTurn, ...]
    agent: str = ""
    tags: tuple[str, ...] = ()
    session_attributes: Mapping[str, str] = field(default_factory=dict)
    prompt_session_attributes: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a file.

    Attributes:
        file: Its path.
        digest: Of its text (SHA-256), so that a run knows whether it is still the same.
        cases: The cases, in order.
    """

    file: Path
    digest: str
    cases: tuple[Case, ...]


def read_cases(path: Path) -> Cases:
    """The cases of a file: `.jsonl` has one a line, `.json` and `.yaml` a list or `cases`.

    Raises:
        DefinitionError: A case is wrong, with file, line and column.
        ResourceNotFound: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceNotFound(f"the cases {str(path)!r} cannot be read: {reason}") from error
    text = decode(content, str(path), limit=MOST_BYTES)
    reader = _Reader(path.absolute().parent)
    for entry in _split(text, path):
        reader.add(entry)
    if not reader.cases:
        raise DefinitionError("there is no case in it; write one a line", file=path)
    return Cases(path, hashlib.sha256(content).hexdigest(), tuple(reader.cases.values()))


class _Entry(NamedTuple):
    """A case as it stands in a file, or the defaults of those that follow."""

    data: Any
    source: Source
    keys: tuple[str | int, ...]
    is_default: bool = False


def _split(text: str, path: Path) -> Iterator[_Entry]:
    file = str(path)
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                document = parse_json(line, file, _RULES, line=number)
                source, data = Source(file, root=document.root), document.data
                lone = isinstance(data, dict) and set(data) == {"defaults"}
                yield (
                    _Entry(data["defaults"], source, ("defaults",), True)
                    if lone
                    else _Entry(data, source, ())
                )
        return
    if path.suffix not in (".json", ".yaml", ".yml"):
        raise DefinitionError("cases are in a file .jsonl, .json, .yaml or .yml", file=path)
    read = parse_json if path.suffix == ".json" else parse
    document = read(text, file, _RULES)
    source = Source(file, root=document.root)
    yield from _list_entries(document.data, source)


def _list_entries(data: Any, source: Source) -> Iterator[_Entry]:
    keys: tuple[str | int, ...] = ()
    if isinstance(data, dict):
        _check_names(data, ("defaults", "cases"), source, (), "the file")
        if "defaults" in data:
            yield _Entry(data["defaults"], source, ("defaults",), True)
        data, keys = data.get("cases"), ("cases",)
    if not isinstance(data, list):
        raise source.error("this is no list of cases", *keys)
    for index, one in enumerate(data):
        yield _Entry(one, source, (*keys, index))


# -- one case ------------------------------------------------------------------------------------

_CASE = ("id", "agent", "tags", "turns", "session_attributes", "prompt_session_attributes")
_TURN = ("question", "expect", "results", "confirms")
_DEFAULTS = tuple(name for name in (*_CASE, *_TURN) if name not in ("id", "turns", "question"))


class _Reader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._defaults: Mapping[str, Any] = {}
        self._default_expect: Mapping[str, Any] = {}  # as it is written
        self._checks: Mapping[str, Any] = {}  # as their kinds read them
        self.cases: dict[str, Case] = {}

    def add(self, entry: _Entry) -> None:
        data, source, keys, is_default = entry
        if not isinstance(data, dict):
            raise source.error("this is no case: a case is a mapping with 'id'", *keys)
        if is_default:
            _check_names(data, _DEFAULTS, source, keys, "the defaults")
            self._checks = self._read_expect(data.get("expect", {}), source, (*keys, "expect"))
            self._default_expect = data.get("expect", {})
            self._defaults = {name: one for name, one in data.items() if name != "expect"}
            return
        case = self._read_case(_translate_older(data, source, keys), source, keys)
        if case.id in self.cases:
            raise source.error(f"the id {case.id!r} is used twice", *keys, "id")
        if len(self.cases) >= MOST_CASES:
            raise source.error(f"there are more than {MOST_CASES:,} cases; split the file", *keys)
        self.cases[case.id] = case

    def _read_case(self, data: dict[str, Any], source: Source, keys: tuple[str | int, ...]) -> Case:
        if "turns" in data:
            _check_names(data, _CASE, source, keys, "a case with 'turns'")
        else:
            _check_names(data, (*_CASE, *_TURN), source, keys, "the case")
        member = _Members({**self._defaults, **data}, source, keys)
        listed = data.get("turns", [{name: data[name] for name in _TURN if name in data}])
        if not isinstance(listed, list) or not 0 < len(listed) <= MOST_TURNS:
            raise source.error(f"turns are a list of 1 to {MOST_TURNS}", *keys, "turns")
        in_list = "turns" in data
        return Case(
            id=member.read("id", _read_id),
            turns=tuple(
                self._read_turn(one, source, (*keys, "turns", index) if in_list else keys)
                for index, one in enumerate(listed)
            ),
            agent=member.read("agent", _read_text, ""),
            tags=member.read("tags", _read_tags, ()),
            session_attributes=member.read("session_attributes", _read_attributes, {}),
            prompt_session_attributes=member.read(
                "prompt_session_attributes", _read_attributes, {}
            ),
            digest=_compute_digest(self._defaults, self._default_expect, data, listed),
        )

    def _read_turn(self, data: Any, source: Source, keys: tuple[str | int, ...]) -> CaseTurn:
        if not isinstance(data, dict):
            raise source.error("this is no turn: a turn is a mapping with 'question'", *keys)
        _check_names(data, _TURN, source, keys, "the turn")
        expect = data.get("expect", {})
        own = self._read_expect(expect, source, (*keys, "expect"))
        checks = {**{name: one for name, one in self._checks.items() if name not in expect}, **own}
        if "calls" in checks and "no_calls" in checks:
            raise source.error("both 'calls' and 'no_calls' are expected", *keys, "expect")
        member = _Members({**self._defaults, **data}, source, keys)
        return CaseTurn(
            question=member.read("question", _read_text),
            expect=checks,
            results=member.read("results", _read_mapping, {}),
            confirms=member.read("confirms", _read_confirmation, YES),
        )

    def _read_expect(
        self, data: Any, source: Source, keys: tuple[str | int, ...]
    ) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise source.error("'expect' is a mapping from checks to what they expect", *keys)
        _check_names(data, tuple(CHECKS), source, keys, "'expect'")
        checks = {}
        for name, value in data.items():
            if value is None:  # it takes a default away
                continue
            kind = CHECKS[name]
            try:
                checks[name] = kind.read(value, self._folder)
            except ValueError as error:
                message = f"the check {name!r} is {kind.form}: {error}"
                raise source.error(message, *keys, name) from error
        return checks


def _translate_older(
    data: dict[str, Any], source: Source, keys: tuple[str | int, ...]
) -> dict[str, Any]:
    if not is_older(data):
        return data
    try:
        return translate_case(data)
    except ValueError as error:
        raise source.error(str(error), *keys) from error


def _compute_digest(
    defaults: Mapping[str, Any],
    default_expect: Mapping[str, Any],
    case: Mapping[str, Any],
    turns: Iterable[Mapping[str, Any]],
) -> str:
    """A digest of a case with its defaults, as both are written."""
    said = [
        {
            **{name: one for name, one in defaults.items() if name in _TURN},
            **turn,
            "expect": _drop_empty({**default_expect, **turn.get("expect", {})}),
        }
        for turn in turns
    ]
    around = {
        name: one
        for name, one in {**defaults, **case}.items()
        if name in _CASE and name not in ("id", "tags", "turns")
    }
    text = json.dumps([around, said], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _drop_empty(checks: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in checks.items() if one is not None}


def _check_names(
    data: Mapping[str, Any],
    allowed: tuple[str, ...],
    source: Source,
    keys: tuple[str | int, ...],
    what: str,
) -> None:
    for name in data:
        if name not in allowed:
            close = did_you_mean(name, allowed) or f"; there are {', '.join(allowed)}"
            raise source.error(f"{what} has no {name!r}{close}", *keys, name)


_NEEDED = object()


class _Members:
    """The members of a case or turn, read with their places."""

    def __init__(
        self, data: Mapping[str, Any], source: Source, keys: tuple[str | int, ...]
    ) -> None:
        self._data, self._source, self._keys = data, source, keys

    def read(self, name: str, read: Callable[[Any], Any], default: Any = _NEEDED) -> Any:
        if name not in self._data:
            if default is _NEEDED:
                raise self._source.error(f"there is no {name!r}", *self._keys)
            return default
        try:
            return read(self._data[name])
        except ValueError as error:
            raise self._source.error(f"{name!r} is {error}", *self._keys, name) from error


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def _read_id(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID or not value.isprintable():
        raise ValueError(f"a text of 1 to {_LONGEST_ID} characters on one line")
    return value


def _read_tags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ValueError("a list of texts")
    return tuple(dict.fromkeys(value))


def _read_attributes(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError("a mapping from names to texts")
    return value


def _read_mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a mapping from a function or path to its result")
    return value


def _read_confirmation(value: Any) -> str:
    if value is False:
        return ""
    if value is True:
        return YES
    if not isinstance(value, str) or not value.strip():
        raise ValueError('a text, such as "Yes.", or false')
    return value
