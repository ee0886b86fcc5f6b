"""A run's file: JSONL, a head and then a line a result; nothing in it is ever changed.

```
{"kind": "run", "v": 1, "id": "…", "started": "…", "agent": "…", "cases": {…}, "variants": […], …}
{"kind": "result", "case": "days-left", "variant": "local", "repetition": 1, "status": "passed", …}
```

A run that was interrupted goes on: what is there stays, and a last line that was cut off is written
again. A case that ended in an error is held again: its new result follows, and the last one counts.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from orchestrator.agent.evaluation.results import CaseResult, parse_result
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.private_files import open_private
from orchestrator.support.safe_json import read_json

FORMAT = 1
MOST_BYTES = 1_000_000_000
MOST_LINE = 32_000_000
# Members of a head that do not say what is measured.
_CIRCUMSTANCES = frozenset({"kind", "v", "id", "started", "versions"})


@dataclass(frozen=True)
class Run:
    """A run: its head, and its results in the order in which they came."""

    head: Mapping[str, Any]
    results: list[CaseResult] = field(default_factory=list)

    @property
    def id(self) -> str:
        """What names it."""
        return str(self.head["id"])

    @property
    def variants(self) -> list[str]:
        """The names of its variants."""
        return [variant["name"] for variant in self.head["variants"]]

    @property
    def result_count(self) -> int:
        """How many results it has when it is complete."""
        count: int = self.head["cases"]["count"] * len(self.variants) * self.head["repeat"]
        return count

    def of(self, variant: str) -> list[CaseResult]:
        """The results of a variant."""
        return [result for result in self.results if result.variant == variant]


def build_head(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The head of a new run of what is measured (`Matrix.head`)."""
    return {
        "kind": "run",
        "v": FORMAT,
        "id": uuid.uuid4().hex[:12],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"orchestrator": version("bedrock-orchestrator")},
        **measured,
    }


def read_run(path: Path) -> Run:
    """The run in a file; a last line that was cut off is left out.

    Of several results of one case, variant and repetition the last one counts.

    Raises:
        ResourceNotFound: The file cannot be read.
        ValidationError: It is no run, with the number of the line.
    """
    head: dict[str, Any] | None = None
    results: dict[tuple[str, str, int], CaseResult] = {}
    for number, line in _read_lines(path):
        try:
            data = read_json(line)
            if not isinstance(data, dict):
                raise ValueError("it is no JSON object")
            if head is None:
                head = _check_head(data)
                continue
            result = parse_result(data)
            if result.variant not in (one["name"] for one in head["variants"]):
                raise ValueError(f"the run has no variant {result.variant!r}")
            results[result.key] = result
        except (ValueError, RecursionError) as error:
            raise ValidationError(f"{str(path)!r} is no run: line {number}: {error}") from error
    if head is None:
        raise ValidationError(f"{str(path)!r} is no run: it is empty")
    return Run(head, list(results.values()))


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise ValidationError(f"{str(path)!r} has more than {MOST_BYTES:,} bytes")
            for number, line in enumerate(iter(lambda: file.readline(MOST_LINE + 1), b""), 1):
                if len(line) > MOST_LINE:
                    raise ValidationError(
                        f"{str(path)!r} is no run: line {number} has more than {MOST_LINE:,} bytes"
                    )
                if line.endswith(b"\n") and line.strip():
                    yield number, line
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceNotFound(f"the run {str(path)!r} cannot be read: {reason}") from error


def _check_head(data: dict[str, Any]) -> dict[str, Any]:
    if data.get("kind") != "run":
        raise ValueError("it is not the head of a run")
    if data.get("v") != FORMAT:
        raise ValueError(f"it has the format {data.get('v')!r}, and this version reads {FORMAT}")
    cases, variants = data.get("cases"), data.get("variants")
    numbers = [data.get("repeat"), cases.get("count") if isinstance(cases, dict) else None]
    if any(isinstance(one, bool) or not isinstance(one, int) for one in numbers):
        raise ValueError("its head has no 'repeat' and no 'count' of cases")
    if not isinstance(variants, list) or not variants:
        raise ValueError("its head has no variants")
    if any(not isinstance(one, dict) or not isinstance(one.get("name"), str) for one in variants):
        raise ValueError("a variant of its head has no name")
    if any(not isinstance(data.get(name), str) for name in ("id", "started", "agent")):
        raise ValueError("its head has no 'id', 'started' and 'agent'")
    return data


class RunFile:
    """A run's file that is written. A context that closes it.

    Attributes:
        run: What is in it, but for errors, which say nothing: these cases are to be held again.
            Results are added as they are written.
        resumed: How many results were there already, without errors.
    """

    def __init__(self, path: Path, measured: Mapping[str, Any]) -> None:
        """Opens a file for a new run, or the interrupted one in it.

        Raises:
            ResourceNotFound: It cannot be read or written.
            ValidationError: It holds something else, or a run of something else.
        """
        self._path = path
        new = not path.exists() or not path.stat().st_size
        self.run = Run(build_head(measured)) if new else _leave_out_errors(read_run(path))
        self.resumed = len(self.run.results)
        if not new:
            self._check_same(measured)
        try:
            self._file: IO[bytes] = open_private(path, "wb" if new else "r+b")
        except OSError as error:
            reason = error.strerror or str(error)
            raise ResourceNotFound(f"the run {str(path)!r} cannot be written: {reason}") from error
        if new:
            self._write(self.run.head)
        else:
            self._cut_last_line()

    def _check_same(self, measured: Mapping[str, Any]) -> None:
        head = self.run.head
        # As JSON has it: a tuple is a list.
        other = json.loads(json.dumps(measured))
        names = sorted((other.keys() | head.keys()) - _CIRCUMSTANCES)
        changed = [name for name in names if head.get(name) != other.get(name)]
        if changed:
            raise ValidationError(
                f"{str(self._path)!r} holds a run whose {' and '.join(map(repr, changed))} differ "
                "from what is asked for now; a run is never changed: give another --out"
            )

    def _cut_last_line(self) -> None:
        content_end = 0
        self._file.seek(0)
        for line in iter(self._file.readline, b""):
            if line.endswith(b"\n"):
                content_end += len(line)
        self._file.truncate(content_end)
        self._file.seek(content_end)

    def add(self, result: CaseResult) -> None:
        """Writes a result, so that it is there whatever happens then."""
        self._write(result.as_dict())
        self.run.results.append(result)

    def _write(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data, ensure_ascii=False, default=str)
        try:
            encoded = line.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which models write
            encoded = json.dumps(data, default=str).encode()
        self._file.write(encoded + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> RunFile:
        """The file itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self._file.close()


def _leave_out_errors(run: Run) -> Run:
    return Run(run.head, [result for result in run.results if result.status != "error"])
