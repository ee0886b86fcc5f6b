"""Arguments and options that several verbs share."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.verb import option, setting
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support import safe_json

if TYPE_CHECKING:
    from orchestrator.engine.run.options import Options

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The agent's folder, or its agent.yaml.")
]
Source = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", help="An agent's folder or its agent.yaml, a script, or a template."
    ),
]
Model = Annotated[
    str | None,
    option(
        "--model",
        "SPEC",
        "Use this model instead of the agent's: local, local:0.5b, a Bedrock model id, "
        "openai:NAME@URL, scripted:FILE, scripted:FILE@MODEL_ID or replay:FILE.",
    ),
]
Prices = Annotated[
    list[str] | None,
    option(
        "--price",
        "MODEL=IN,OUT",
        "What a million tokens of a model cost in dollars, read and written; cached ones may "
        "follow: IN,OUT,CACHE_READ,CACHE_WRITE. Repeatable.",
    ),
]
Tools = Annotated[
    list[str] | None,
    option(
        "--tool",
        "NAME=FILE:FUNCTION",
        "A Python function that a script or a template may call. Repeatable.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Of a Prompty template: a variable that is not set, or a value that looks like a "
        "role's mark, is an error.",
    ),
]
Libraries = Annotated[
    list[Path] | None,
    option(
        "--lib",
        "DIR",
        "A folder with scripts that a PPE script may call, besides those beside it. Repeatable.",
    ),
]
Session = Annotated[
    str | None,
    option("--session", "ID", "Go on with this session; it is kept in the agent's folder."),
]
State = Annotated[
    str | None,
    option(
        "--state",
        "FILE|URL",
        "Keep sessions in this SQLite file, or a store such as postgresql://host/database or "
        "dynamodb://table; ':memory:' keeps none. "
        "Default with --session: FOLDER/.orchestrator/sessions.sqlite.",
    ),
]
_DATABASE = typer.Option(
    "--database",
    metavar="URL",
    help="The database of submitted turns: postgresql://USER@HOST/NAME, or sqlite:///FILE to "
    "try it on one machine.",
    envvar="ORCHESTRATOR_DATABASE",
    show_envvar=False,
    show_default=False,
)
Database = Annotated[str, _DATABASE]
OptionalDatabase = Annotated[str | None, _DATABASE]
PromptAttributes = Annotated[
    list[str] | None,
    option(
        "--prompt-attribute",
        "NAME=VALUE",
        "A prompt session attribute, which the model reads. Repeatable.",
    ),
]


@dataclass(frozen=True)
class Turn:
    """What `chat` and `invoke` ask: which agent, in which session, and what comes along."""

    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="The agent's folder or its agent.yaml; `chat` also takes a template.",
        ),
    ]
    model: Model = None
    session: Session = None
    state: State = None
    attribute: Annotated[
        list[str] | None,
        option("--attribute", "NAME=VALUE", "A session attribute, for actions only. Repeatable."),
    ] = None
    prompt_attribute: PromptAttributes = None
    file: Annotated[
        list[Path] | None,
        option("--file", "PATH", "A file that comes with the question. Repeatable, up to five."),
    ] = None
    use_case: Annotated[
        str,
        setting(
            "--use-case",
            "CASE",
            "What --file is for: CHAT, the model reads it; CODE_INTERPRETER, its programs do.",
        ),
    ] = "CHAT"
    memory_id: Annotated[
        str | None,
        option(
            "--memory-id", "ID", "Whose memory the session belongs to, for an agent that remembers."
        ),
    ] = None

    record: Annotated[
        Path | None,
        option("--record", "FILE", "Add what the models answer to this file, for --replay."),
    ] = None
    replay: Annotated[
        Path | None,
        option("--replay", "FILE", "Answer from what --record wrote, without any model."),
    ] = None
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm every call that asks for confirmation.")
    ] = False
    result: Annotated[
        list[str] | None,
        option(
            "--result",
            "NAME=JSON",
            "The result of a call that is handed over, by its function or API path; true or false "
            "where it only asks for confirmation. Repeatable.",
        ),
    ] = None

    def options(self) -> Options:
        """The options of every invocation."""
        options: Options = {
            "session_attributes": parse_pairs(self.attribute, "--attribute"),
            "prompt_session_attributes": parse_pairs(self.prompt_attribute, "--prompt-attribute"),
        }
        if self.memory_id is not None:
            options["memory_id"] = self.memory_id
        return options

    def input_files(self) -> list[dict[str, Any]]:
        """The files that come with the first question."""
        return [{"path": path, "use_case": self.use_case} for path in self.file or ()]


def read_input(file: str) -> str:
    """The text of a file, or of stdin when it is called `-`.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: It cannot be read as a text.
    """
    if file == "-":
        return sys.stdin.read()
    try:
        # Editors on Windows write a byte order mark, which JSON does not allow.
        return Path(file).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ResourceNotFound(f"there is no file {file!r}; '-' reads stdin") from None
    except UnicodeDecodeError:
        raise ValidationError(f"{file!r} is not UTF-8 text") from None
    except OSError as error:
        raise ValidationError(f"{file!r} cannot be read: {error.strerror}") from error


def read_json(file: str, option: str) -> Any:
    """The JSON value in the file that an option names, or in stdin when it is called `-`.

    Raises:
        ResourceNotFound: There is no such file.
        ValidationError: It is not JSON, or cannot be read.
    """
    text = read_input(file)
    what = "stdin" if file == "-" else repr(file)
    if not text.strip():
        raise ValidationError(f"{option}: {what} is empty, and no JSON")
    try:
        return safe_json.read_json(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{option}: {what} is not JSON: {error}") from error


def parse_pairs(
    items: Sequence[str] | None, option: str, form: str = "NAME=VALUE"
) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; `form` is how messages write one.

    Raises:
        ValidationError: One of them has no `=`.
    """
    found = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ValidationError(f"{option} {item!r} is not {form}")
        found[name] = value
    return found


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")


def parse_duration(text: str, option: str) -> int:
    """A duration such as `30d`, in nanoseconds.

    Raises:
        ValidationError: It is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValidationError(
            f"{option} {text!r} is no duration: give a number with s, m, h, d or w, such as 30d"
        )
    return int(found[1]) * _UNITS[found[2]] * 1_000_000_000
