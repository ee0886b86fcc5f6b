"""The code of Lambda functions → handler files of an agent's folder.

A function's whole folder comes over, as Lambda would unpack it, into `functions/NAME`. Code in
other languages than Python, in container images and in archives stays where it is, and that is
noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.actions.names import slug
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import DefinitionError
from orchestrator.transfer.document import Document, note
from orchestrator.transfer.project_files import ProjectFiles

OWN_WAY = "put a handler file in the folder and name it, or set customControl: RETURN_CONTROL"


@dataclass(frozen=True, slots=True)
class FunctionCode:
    """A Lambda function as it is deployed."""

    name: str
    handler: str = ""  # Lambda's own spelling, such as `app.lambda_handler`
    runtime: str = ""
    inline: str | None = None  # the code itself
    path: str = ""  # or the folder or file with it, relative to `base`
    base: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    unknown_variables: tuple[str, ...] = ()  # those of its variables whose values are not known
    layers: tuple[str, ...] = ()  # what else Lambda would unpack beside it
    problem: str = ""  # why there is no code to bring
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """A function's code as files of an agent's folder."""

    spec: str  # file and function, as `actionGroupExecutor.lambda` names them
    texts: Mapping[str, str]  # the files by their paths in the agent's folder
    notes: tuple[Diagnostic, ...] = ()


def build_handler(function: FunctionCode, files: ProjectFiles, folder: str) -> Handler:
    """The files of a function, in a folder of the agent's.

    Raises:
        DefinitionError: There is no code here that can run as a handler; the message says why.
    """
    if function.problem:
        raise DefinitionError(function.problem)
    if function.runtime and not function.runtime.startswith("python"):
        raise DefinitionError(f"it runs {function.runtime}, and handlers here are Python")
    texts, left = _read_code(function, files)
    file, name, extra = _find_handler(function, texts)
    texts = {f"{folder}/{path}": text for path, text in {**texts, **extra}.items()}
    notes = tuple(_note_surroundings(function, folder, texts, left))
    return Handler(f"{folder}/{file}:{name}", texts, notes)


def _read_code(function: FunctionCode, files: ProjectFiles) -> tuple[dict[str, str], list[str]]:
    if function.inline is not None:
        # AWS: a ZipFile is a file `index`, whatever the handler is called.
        return {f"{_split_handler(function)[0]}.py": function.inline}, []
    path = files.resolve(function.path, function.base)
    if path.is_dir():
        return files.read_code(path)
    shown = files.show(path)
    if path.suffix in (".zip", ".jar"):
        raise DefinitionError(f"its code is the archive {shown!r}, which is not unpacked")
    if not path.is_file():
        raise DefinitionError(f"there is no code at {shown!r}")
    return {path.name: files.read_text(str(path))}, []


def _split_handler(function: FunctionCode) -> tuple[str, str]:
    # AWS: `folder/file.function`; Python's own spelling with dots works, too.
    module, _, name = (function.handler or "index.lambda_handler").rpartition(".")
    return module.replace(".", "/"), name


def _find_handler(
    function: FunctionCode, texts: Mapping[str, str]
) -> tuple[str, str, dict[str, str]]:
    """The handler's file and function, and files that are made for it."""
    module, name = _split_handler(function)
    file = next((it for it in (f"{module}.py", f"{module}/__init__.py") if it in texts), "")
    if not file:
        raise DefinitionError(f"its handler {function.handler!r} is in no file of its code")
    if not name.isidentifier():
        raise DefinitionError(f"its handler {function.handler!r} names no function")
    parts = PurePosixPath(file).with_suffix("").parts
    if len(parts) == 1 and parts[0].isidentifier():
        return file, name, {}
    if len(parts) > 1 and all(map(str.isidentifier, parts)):
        # Lambda looks for modules in the outermost folder; a handler here looks beside its file.
        own = "_".join([*parts, "entry"])
        return f"{own}.py", name, {f"{own}.py": f"from {'.'.join(parts)} import {name}\n"}
    own = slug(parts[-1]).replace("-", "_")
    own = own if own.isidentifier() else f"handler_{own}"
    folder = PurePosixPath(file).parent
    copy = (folder / f"{own}.py").as_posix()
    return copy, name, {copy: texts[file]}


def _note_surroundings(
    function: FunctionCode, folder: str, texts: Mapping[str, str], left: list[str]
) -> list[Diagnostic]:
    place: dict[str, Any] = {"file": function.file, "line": function.line}
    notes = []
    if text := texts.get(f"{folder}/requirements.txt", "").strip():
        count = sum(bool(it.strip()) and not it.lstrip().startswith("#") for it in text.split("\n"))
        if count:
            message = f"{folder}/requirements.txt names {count} packages of the function"
            message = message.replace(" 1 packages", " 1 package")
            way = f"pip install -r {folder}/requirements.txt"
            notes.append(note("requirements", message, way, **place))
    if function.unknown_variables:
        some = ", ".join(function.unknown_variables)
        message = f"{function.name} reads {some}: the sources do not tell what it is"
        way = "set it in the group's `environment` in agent.yaml"
        if len(function.unknown_variables) > 1:
            message = message.replace("what it is", "what they are")
            way = way.replace("set it", "set them")
        notes.append(note("environment", message, way, **place))
    if function.layers:
        some = ", ".join(function.layers[:3])
        message = f"the layers of {function.name} are not copied: {some}"
        notes.append(
            note("layers", message, "install what is in them where the agent runs", **place)
        )
    if left:
        some = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
        message = f"{some}: no text, so not copied to {folder}"
        notes.append(note("binary", message, "copy it yourself if it is needed", **place))
    return notes


def bring_code(
    document: Document, functions: Mapping[str, FunctionCode], files: ProjectFiles
) -> None:
    """Puts the code of the functions that an agent calls into it, in place of their ARNs."""
    handlers: dict[str, Handler | str] = {}

    def replace(part: dict[str, Any], member: str, what: str, owner: dict[str, Any]) -> None:
        arn = part.get(member)
        function = functions.get(":".join(str(arn).split(":")[:7])) if arn else None
        if function is None:
            return
        if function.name not in handlers:
            folder = _choose_folder(function.name, document.code)
            handlers[function.name] = _try_to_build(function, files, folder)
        handler = handlers[function.name]
        if isinstance(handler, str):
            # This says more than that the ARN is not known.
            known = [it for it, value in document.stand_ins.items() if value == arn]
            document.notes = [it for it in document.notes if it not in known]
            text = f"{document.name}: {what} calls {arn}, whose code stays: {handler}"
            place: dict[str, Any] = {"file": function.file, "line": function.line}
            document.notes.append(note("code", text, OWN_WAY, **place))
            return
        part[member] = handler.spec
        document.code.update(handler.texts)
        document.notes += [it for it in handler.notes if it not in document.notes]
        if owner is not part:  # an action group
            if function.environment:
                owner["environment"] = dict(function.environment)
            # It was written for Lambda: its working directory is the folder of its code.
            owner["isolation"] = "PROCESS"

    for group in document.parts("actionGroups"):
        executor = group.get("actionGroupExecutor")
        if isinstance(executor, dict):
            replace(executor, "lambda", str(group.get("actionGroupName")), group)
    overrides = document.data.get("promptOverrideConfiguration") or {}
    replace(overrides, "overrideLambda", "the parser", overrides)
    executor = (document.data.get("customOrchestration") or {}).get("executor") or {}
    replace(executor, "lambda", "the custom orchestration", executor)


def _choose_folder(name: str, code: Mapping[str, str]) -> str:
    # Names of functions may differ in what no folder's name has.
    own = f"functions/{slug(name) or 'function'}"
    taken = {"/".join(it.split("/")[:2]).lower() for it in code}
    number, folder = 1, own
    while folder.lower() in taken:
        number += 1
        folder = f"{own}-{number}"
    return folder


def _try_to_build(function: FunctionCode, files: ProjectFiles, folder: str) -> Handler | str:
    try:
        return build_handler(function, files, folder)
    except DefinitionError as error:
        return error.reason


def read_variables(variables: Mapping[Any, Any]) -> dict[str, str]:
    """A function's environment variables as Lambda gives them; what is no scalar is left out."""
    known = {key: it for key, it in variables.items() if isinstance(it, (str, int, float))}
    return {str(key): to_text(it) for key, it in known.items()}


def to_text(value: Any) -> str:
    """A value as sources write it: truth values in small letters."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
