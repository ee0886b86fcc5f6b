"""Saves an edited template into the agent's own `templates/` folder, and nowhere else."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from orchestrator.engine.plan import StagePlan
from orchestrator.errors import SessionConflict, ValidationError
from orchestrator.prompts.template_files import get_shipped_folder
from orchestrator.support.atomic_files import write_atomically

_LONGEST = 1_000_000  # characters


def find_file(folder: Path, stage: StagePlan) -> Path:
    """The file of the agent's own that its loading reads for a stage.

    No part of it is from a request: it follows from where the stage's template is now.

    Raises:
        ValidationError: The template is not a file of its own, or it is outside of the folder.
    """
    source = stage.template.source
    own = folder.resolve() / "templates"
    if source is None or not Path(source).is_absolute():
        raise ValidationError(
            f"the {stage.stage} template is in the definition: `orchestrator templates eject "
            f"{stage.stage} {folder.name}` makes a file of it"
        )
    file = Path(source)
    shipped = get_shipped_folder().resolve()
    if file.resolve().is_relative_to(shipped):
        # The same name in the agent's own folder wins over the shipped one.
        file = own / stage.dialect.name / file.name
    if not _is_inside(file, own):
        raise ValidationError(
            f"the {stage.stage} template is {str(file)!r}, which is not in {str(own)!r}: change it "
            "there by hand"
        )
    return file


def _is_inside(file: Path, own: Path) -> bool:
    # Neither the file nor a folder above it may be a link to elsewhere.
    parts = [file, *file.parents]
    inner = parts[: parts.index(own) + 1] if own in parts else []
    plain = bool(inner) and not any(one.is_symlink() for one in inner)
    return plain and (file.is_file() or not file.exists()) and ".." not in file.parts


def digest_of(file: Path, text: str | None = None) -> str:
    """Names what is in a file; empty when there is none."""
    if text is None:
        if not file.is_file():
            return ""
        text = file.read_text(encoding="utf-8-sig")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def compare(before: str, after: str) -> list[tuple[str, str]]:
    """The lines of a difference: a sign (`+`, `-`, `@` or a space) and the line."""
    lines: Sequence[str] = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    )
    return [(line[:1], line[1:]) for line in lines[2:]]


def save_template(file: Path, text: str, digest: str) -> None:
    """Writes a template.

    Raises:
        ValidationError: It is empty or too long.
        SessionConflict: The file was changed since its difference was shown.
    """
    if not text.strip() or len(text) > _LONGEST:
        raise ValidationError(f"a template has 1 to {_LONGEST:,} characters")
    if digest_of(file) != digest:
        raise SessionConflict(
            f"{file.name!r} was changed by somebody else meanwhile: look at the difference again"
        )
    write_atomically(file, text)
