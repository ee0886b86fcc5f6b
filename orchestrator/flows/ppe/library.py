"""The scripts beside a script, which it may call by their names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from orchestrator.errors import FlowError
from orchestrator.flows.ppe.data import Source
from orchestrator.flows.ppe.nodes import Script
from orchestrator.flows.ppe.reader import read_script
from orchestrator.flows.ppe.settings import ENDINGS, settings_of

_MOST_FILES = 500
_MOST_BYTES = 1_000_000
_ID = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_OWN_ID = re.compile(r"\A---[^\S\n]*\n(?:.*\n)*?_id:[ ]*[\"']?([\w.-]+)")
_KINDS = ("char", "type", "lib")


class Library:
    """Scripts by their ids: the files beside the main one, read when they are first called."""

    def __init__(self, text: str, file: Path | None) -> None:
        self._texts: dict[str, tuple[str, str]] = {}
        self._ids: dict[str, str] = {}
        self._read: dict[str, Script] = {}
        if file is not None:
            self._find(file.resolve().parent, file.name)
        whole = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
        for id, (_, found) in sorted(self._texts.items()):
            whole.update(f"\0{id}\0{found}".encode("utf-8", "surrogatepass"))
        self.digest = whole.hexdigest()  # changes with the text of any of them

    def _find(self, folder: Path, main: str) -> None:
        for path in sorted(folder.iterdir())[:_MOST_FILES]:
            ending = next((it for it in ENDINGS if path.name.endswith(it)), None)
            if ending is None or path.name == main or path.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size <= _MOST_BYTES:
                text = path.read_text(encoding="utf-8-sig", errors="replace")
                id = path.name.removesuffix(ending)
                self._texts[id] = (str(path), text)
                if own := _OWN_ID.search(text.partition("\n---")[0]):
                    self._ids.setdefault(own[1], id)

    def id_of(self, name: str) -> str:
        """The id of the script that a name means: its file's, or its `_id`; empty for none."""
        return name if name in self._texts else self._ids.get(name, "")

    def has(self, name: str) -> bool:
        """Whether there is a script of that name."""
        return bool(self.id_of(name))

    @property
    def ids(self) -> list[str]:
        """The ids of all."""
        return list(self._texts)

    def script(self, name: str) -> Script:
        """A script, with what it inherits."""
        id = self.id_of(name)
        if id not in self._read:
            file, text = self._texts[id]
            self._read[id] = self.resolve_inheritance(read_script(text, id, file))
        return self._read[id]

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
        if not self.has(base):
            return script
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
