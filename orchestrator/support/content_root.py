"""Where the shipped content lives: `templates/`, `action_groups/`, `memory/`, `examples/`.

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
