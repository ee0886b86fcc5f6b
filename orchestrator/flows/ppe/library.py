"""The scripts that a script may call by their names: those beside it and in its search path."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.errors import FlowError
from orchestrator.flows.ppe.data import Source
from orchestrator.flows.ppe.nodes import Script
from orchestrator.flows.ppe.reader import read_script
from orchestrator.flows.ppe.settings import ENDINGS, settings_of
from orchestrator.support.spelling import did_you_mean

_MOST_FILES = 500
_MOST_BYTES = 1_000_000
_ID = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_OWN_ID = re.compile(r"\A---[^\S\n]*\n(?:.*\n)*?_id:[ ]*[\"']?([\w.-]+)")
_KINDS = ("char", "type", "lib")


STANDARD = Path(__file__).with_name("standard")
"""The scripts that every script may call: `file`, `json`, `summary`, `titleify`, `translator`."""


def find_user_folder() -> Path:
    """Where a user puts scripts for all of his scripts."""
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "orchestrator" / "ppe"


class Library:
    """Scripts by their ids: those beside the main one, and those of its search path that it names.

    They are read with the main script, and parsed when they are first called. The search path has
    the folders, the user's folder, and the standard scripts, in this order.
    """

    def __init__(self, text: str, file: Path | None, folders: Sequence[Path] = ()) -> None:
        self._texts: dict[str, tuple[str, str]] = {}
        self._ids: dict[str, str] = {}
        self._read: dict[str, Script] = {}
        self._read_spare: dict[str, Script] = {}
        self._standard: set[str] = set()
        if file is not None:
            folder = file.resolve().parent
            for id, path in _list_scripts(folder, file.name):
                self._add(id, path)
        own = dict(self._texts)
        self._add_named(text, [*folders, find_user_folder(), STANDARD])
        # What stands in where a script of the same name calls functions that nobody registered
        self._spare = {
            id: (str(path), path.read_text(encoding="utf-8"))
            for id, path in _list_scripts(STANDARD, "")
            if id in self._texts and id not in self._standard
        }
        whole = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
        for id, (_, found) in sorted([*self._texts.items(), *self._spare.items()]):
            whole.update(f"\0{id}\0{found}".encode("utf-8", "surrogatepass"))
        self.digest = whole.hexdigest()  # changes with the text of any of them
        self.ids = [id for id in self._texts if id in own or id not in self._standard]

    def _add(self, id: str, path: Path) -> str:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        self._texts[id] = (str(path), text)
        if own := _OWN_ID.search(text.partition("\n---")[0]):
            self._ids.setdefault(own[1], id)
        return text

    def _add_named(self, text: str, folders: Sequence[Path]) -> None:
        """Adds the scripts of the folders that the text names, and those that they name."""
        outer: dict[str, Path] = {}
        for folder in folders:
            for id, path in _list_scripts(folder, ""):
                if id not in self._texts:
                    outer.setdefault(id, path)
        left = [text, *(one for _, one in self._texts.values())]
        while left and outer:
            words = {*_ID.findall(left.pop())}
            for id in words & outer.keys():
                path = outer.pop(id)
                left.append(self._add(id, path))
                if path.parent == STANDARD:
                    self._standard.add(id)

    def is_standard(self, id: str) -> bool:
        """Whether a script is one of the standard ones, which functions of its name are above."""
        return id in self._standard

    def id_of(self, name: str) -> str:
        """The id of the script that a name means: its file's, or its `_id`; empty for none."""
        return name if name in self._texts else self._ids.get(name, "")

    def has(self, name: str) -> bool:
        """Whether there is a script of that name."""
        return bool(self.id_of(name))

    def script(self, name: str) -> Script:
        """A script, with what it inherits."""
        id = self.id_of(name)
        if id not in self._read:
            file, text = self._texts[id]
            self._read[id] = self.resolve_inheritance(read_script(text, id, file))
        return self._read[id]

    def find_spare(self, id: str) -> Script | None:
        """The standard script that another one of its name is above; `None` where there is none."""
        if id in self._spare and id not in self._read_spare:
            file, text = self._spare[id]
            self._read_spare[id] = self.resolve_inheritance(read_script(text, id, file))
        return self._read_spare.get(id)

    def resolve_inheritance(self, script: Script, above: tuple[str, ...] = ()) -> Script:
        """A script with the front matter and the statements of what it inherits from."""
        base = script.front.get("type")
        if not isinstance(base, str) or not _ID.fullmatch(base):
            return script
        if base in _KINDS and (base in above or self.id_of(base) in ("", script.id)):
            return script  # a `type` names a kind of script, and not a script beside it
        if base in (*above, script.id):
            raise FlowError(
                f"the script inherits from itself: {base!r}",
                file=script.file,
                line=1,
                message_zh=f"第 1 行：脚本继承了自身: {base!r}",
            )
        if base in _KINDS and not self.has(base):
            return script
        if not self.has(base):
            there = ", ".join(self.ids) or "none"
            raise FlowError(
                f"the script inherits from {base!r} ('type'), which is neither beside it nor in "
                f"its search path; there is {there}{did_you_mean(base, [*_KINDS, *self.ids])}",
                file=script.file,
                line=1,
                message_zh=f"第 1 行：找不到 'type' 所指的脚本 {base!r}；现有: {there}",
            )
        base = self.id_of(base)
        file, text = self._texts[base]
        found = self.resolve_inheritance(read_script(text, base, file), (*above, script.id))
        front = {**found.front, **script.front}
        return Script(
            script.id,
            script.file,
            front,
            found.body + script.body,
            [*found.calls, *script.calls],
            [*found.warnings, *script.warnings],
            settings_of(front, Source("", 1, script.file)),
            [*found.biases, *script.biases],
            script.style,
        )


def _list_scripts(folder: Path, main: str) -> Iterator[tuple[str, Path]]:
    """The scripts of a folder, but for the main one; none where there is no such folder."""
    paths = sorted(folder.iterdir())[:_MOST_FILES] if folder.is_dir() else []
    for path in paths:
        ending = next((it for it in ENDINGS if path.name.endswith(it)), None)
        if ending is None or path.name == main or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= _MOST_BYTES:
            yield path.name.removesuffix(ending), path
