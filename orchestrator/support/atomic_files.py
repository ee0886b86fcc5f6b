"""Files that are there whole, or as they were."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_atomically(file: Path, text: str) -> None:
    """Writes a text into a file, whose folder is made; a file that is there keeps its mode."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as stream:
        try:
            stream.write(text.encode())
            stream.close()
            os.chmod(stream.name, file.stat().st_mode & 0o777 if file.exists() else 0o644)
            os.replace(stream.name, file)
        except BaseException:
            os.unlink(stream.name)
            raise
