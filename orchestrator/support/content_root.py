"""Where content lives: an agent's folder, and what is shipped.

`templates/`, `action_groups/`, `memory/` and `examples/` are shipped.
The wheel carries these folders inside the package; an editable install reads them from the
repository's root. This module is the only one that knows.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def content_root() -> Path:
    """The folder that holds the content folders."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "_content"
    return packed if packed.is_dir() else package.parent


def get_agent_root(folder: Path) -> Path:
    """The agent's folder, also when its file was named."""
    return folder.parent if folder.is_file() else folder
