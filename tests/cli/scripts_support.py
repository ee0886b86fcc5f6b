"""Cases of scripts that are run from their files, in Python and on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    about: str
    files: Mapping[str, str]
    words: Sequence[str]  # of the command line
    replies: Sequence[Any]
    output: Any
    tools: Sequence[str] = ()  # functions of `tools.py`
    asked: Sequence[str] = field(default=())  # what each request says

    def write(self) -> str:
        """Writes the files into the working directory; the name of the main one."""
        for name, text in self.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        return next(iter(self.files))

    @property
    def tool_words(self) -> list[str]:
        return [f"--tool={name}=tools.py:{name}" for name in self.tools]
