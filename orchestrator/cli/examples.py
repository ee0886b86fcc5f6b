"""The examples that come with the package, as folders of the user's own; for `init`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import unicodedata
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.content_root import content_root
from orchestrator.support.spelling import did_you_mean

STARTER = "starter"

# The examples by name, and the command that a newcomer tries first. What it needs beside the
# folder, such as who is asking, is told in the example's README.
FIRST_COMMANDS = {
    STARTER: "orchestrator chat {folder}",
    "insurance": "orchestrator chat {folder}",
    "hr": "orchestrator chat {folder} --attribute employeeId=e-1042",
    "handbook": "orchestrator chat {folder}",
    "team": "orchestrator chat {folder} --attribute policyId=p-301",
    "flows": 'orchestrator run {folder}/fan_in.pl plan="A bus every ten minutes"',
    "minimal": 'python {folder}/agent.py "When is the library open on Saturday?"',
}

# Stands beside an `agent.yaml`, whose first line names it for editors.
SCHEMA_FILE = "agent.schema.json"

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".orchestrator", "*.sqlite")
_DOCS_LINK = re.compile(r"\[([^]]+)\]\((?:\.\./)+docs/[^)]*\)")


def check_example(name: str, model: str) -> None:
    """Checks that there is this example, and that it can have this model.

    Raises:
        ResourceNotFound: There is none of that name.
        ValidationError: It has no `agent.yaml` that could name a model.
    """
    if name not in FIRST_COMMANDS:
        meant = did_you_mean(name, FIRST_COMMANDS) or "."
        known = ", ".join(sorted(FIRST_COMMANDS))
        raise ResourceNotFound(f"there is no example {name!r}{meant} There are {known}")
    if model != "local" and not (_get_folder(name) / "agent.yaml").is_file():
        raise ValidationError(
            f"the example {name!r} has no agent.yaml that names a model: leave --model out, and "
            "give it to what runs the example"
        )


def copy_example(name: str, folder: Path, model: str) -> None:
    """Copies an example into a folder, as an agent of the folder's name.

    Commands in its texts, which are those of a clone of the project, become those of the folder.
    """
    shutil.copytree(_get_folder(name), folder, ignore=_LEFT_OUT, dirs_exist_ok=True)
    if not (ignored := folder / ".gitignore").exists():
        shutil.copy(_get_folder(STARTER) / ".gitignore", ignored)
    for text in (*folder.rglob("*.md"), *folder.rglob("*.py")):
        _make_paths_own(text, name)
    for file in folder.rglob("agent.yaml"):
        _make_definition_own(file, folder, model)


def _get_folder(name: str) -> Path:
    return content_root() / "examples" / name


def _make_paths_own(file: Path, name: str) -> None:
    text = file.read_text(encoding="utf-8")
    own = _DOCS_LINK.sub(r"\1", text.replace(f"examples/{name}", "."))
    if own != text:
        file.write_text(own, encoding="utf-8")


def _make_definition_own(file: Path, folder: Path, model: str) -> None:
    text = _set_member(file.read_text(encoding="utf-8"), "foundationModel", model)
    if file.parent == folder:
        text = _set_member(text, "agentName", _agent_name(folder.resolve().name))
    up = "../" * (len(file.relative_to(folder).parts) - 1)
    head = f"# yaml-language-server: $schema={up}{SCHEMA_FILE}\n"
    file.write_text(head + text, encoding="utf-8")


def _set_member(text: str, member: str, value: str) -> str:
    # Words that YAML reads as something else than a text are quoted, as numbers are.
    plain = re.fullmatch(r"(?!(?i:null|true|false|yes|no|on|off)$)[A-Za-z][\w.:/@-]*", value)
    line = f"{member}: {value if plain else json.dumps(value, ensure_ascii=False)}"
    changed, count = re.subn(rf"(?m)^{member}: .*$", lambda _: line, text)
    if count != 1:
        raise AssertionError(f"the example's agent.yaml has {count} lines with {member}")
    return changed


def _agent_name(folder: str) -> str:
    # Bedrock's names are letters and digits, with single `_` or `-` between.
    plain = (it for it in unicodedata.normalize("NFKD", folder) if not unicodedata.combining(it))
    return re.sub(r"[^0-9A-Za-z]+", "-", "".join(plain)).strip("-")[:100].strip("-") or "agent"


def list_next_steps(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The commands to try on a copy of an example, and what each is for."""
    quoted = shlex.quote(str(folder))
    yield FIRST_COMMANDS[name].format(folder=quoted), "try it"
    if name != "minimal":
        yield f"orchestrator lint {quoted}", "check it"
    if (folder / "tests").is_dir():
        if find_spec("pytest") is None:
            yield "pip install pytest", "to run its tests"
        yield f"python -m pytest {quoted}", "run its tests, without a model"
