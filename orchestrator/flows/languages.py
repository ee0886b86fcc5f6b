"""Reads scripts of both languages, and checks them and their arguments before they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import FlowError, ResourceNotFound, ValidationError
from orchestrator.flows.steps import Program
from orchestrator.support.spelling import did_you_mean

ENDINGS = {".ai.yaml": "ppe", ".ppe.yaml": "ppe", ".pl": "pl"}
"""Languages, by how their files' names end."""

_MAIN = "main"
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Grants:
    """What of the disk a script may use, besides what every script may."""

    libraries: Sequence[Path] = ()  # folders with scripts that a PPE script may call
    files: bool = False  # whether Python of a program may read the files of the program's folder


def read_text(
    text: str,
    language: Literal["ppe", "pl"] | str,
    file: Path | None = None,
    grants: Grants = Grants(),
) -> Program:
    """Reads a script.

    Raises:
        FlowError: It is wrong, with line and column.
    """
    if language == "ppe":
        from orchestrator.flows.ppe import PpeScript

        return PpeScript(text, file, grants.libraries)
    if language == "pl":
        from orchestrator.flows.pl import PlProgram

        return PlProgram(text, file, files=grants.files)
    raise FlowError(
        f"there is no language {language!r}; there are 'ppe' and 'pl'",
        message_zh=f"没有语言 {language!r}，只有 'ppe' 和 'pl'",
    )


def read_file(path: Path, grants: Grants = Grants()) -> Program:
    """Reads a script's file, or the main one of a folder.

    Raises:
        FlowError: It is wrong, or its name says no language.
        ResourceNotFound: There is no such file.
    """
    if path.is_dir():
        path = _main(path)
    language = next((it for ending, it in ENDINGS.items() if path.name.endswith(ending)), None)
    if language is None:
        raise FlowError(
            f"{path.name!r} is not a script's name; scripts end in {', '.join(ENDINGS)}",
            file=path,
            message_zh=f"文件名 {path.name} 不是脚本，应以 {', '.join(ENDINGS)} 结尾",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResourceNotFound(
            f"the script {str(path)!r} cannot be read: {error.strerror}"
        ) from None
    if len(data) > _MOST_BYTES:
        raise FlowError(
            f"the script has more than {_MOST_BYTES} bytes",
            file=path,
            message_zh=f"脚本超过 {_MOST_BYTES} 字节",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FlowError(
            "the script is not in UTF-8", file=path, line=line, message_zh="脚本不是 UTF-8 编码"
        ) from None
    return read_text(text, language, path, grants)


def _main(folder: Path) -> Path:
    for ending in ENDINGS:
        if (file := folder / f"{_MAIN}{ending}").is_file():
            return file
    found = sorted(it for it in folder.iterdir() if it.name.endswith(tuple(ENDINGS)))
    if len(found) == 1:
        return found[0]
    raise ResourceNotFound(
        f"the folder {str(folder)!r} has no main script: name one {_MAIN}.ai.yaml or {_MAIN}.pl"
    )


# An argument that no script reads is a slip, and the run would be paid for.
def check_arguments(program: Program, names: Iterable[str]) -> None:
    """Checks that a program reads, sets or declares all its arguments.

    Raises:
        ValidationError: One means nothing to it.
    """
    wanted, known = program.arguments()
    for name in names:
        if known is not None and name not in known:
            there = ", ".join(wanted) or "none"
            raise ValidationError(
                f"there is no argument {name!r}; there is {there}{did_you_mean(name, wanted)}"
            )


def lint_program(program: Program) -> list[Diagnostic]:
    """What may not do what was meant in a program, in the order of its lines."""
    file = str(Path(program.file)) if program.file else None
    found = [
        Diagnostic(
            severity=severity,
            code=code,
            message=message,
            suggestion=way,
            file=file,
            line=place.line,
            column=place.column,
        )
        for severity, code, place, message, way in program.findings()
    ]
    return sorted(found, key=lambda one: (one.line or 0, one.column or 0))
