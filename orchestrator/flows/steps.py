"""What a script asks for while it runs, one step at a time, and what it is sent back.

An interpreter is a generator: it yields a step, is sent its answer, and returns an `Outcome`. It
does nothing itself: no clock, no chance, no file, no server. So it may be run again from its
beginning with the answers that a journal has, and comes to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from orchestrator.errors import FlowError
from orchestrator.flows.work import ScriptWork


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a script."""

    line: int  # the line, from 1
    column: int = 1  # the column in it, from 1
    statement: str = ""  # the statement's first line

    def error(
        self,
        message: str,
        message_zh: str,
        file: str | Path | None = None,
        *,
        with_column: bool = False,
    ) -> FlowError:
        """The error of what stands here; its Chinese message names the line itself."""
        column = f"第 {self.column} 列" if with_column else ""
        return FlowError(
            message,
            file=file,
            line=self.line,
            column=self.column,
            statement=self.statement,
            message_zh=f"第 {self.line} 行{column}：{message_zh}",
        )


class StreamParser(Protocol):
    """Parses a reply while it streams, into members of `token` events."""

    def feed(self, text: str) -> Sequence[Mapping[str, Any]]:
        """Parses the next piece; returns the members of its `token` events."""
        ...

    def finish(self) -> Sequence[Mapping[str, Any]]:
        """Those of what was held back, when the reply has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model. Its answer is a `ModelAnswer` (`orchestrator.flows.custom`)."""

    place: Place  # the statement that asks
    # Messages in Converse's shape, without system messages; a last one of the assistant is a
    # prefill
    messages: Sequence[Mapping[str, Any]]
    system: str = ""  # the system text
    # Inference settings in Bedrock's names
    inference: Mapping[str, Any] = field(default_factory=dict)
    # Specifications in Converse's shape of what the model may call; they are not carried out, the
    # script does that
    tools: Sequence[Mapping[str, Any]] = ()
    # The only replies that are right, for models that can be held to them
    choices: Sequence[str] = ()
    # How many of the choices are one reply: the fewest, and the most
    picks: tuple[int, int] = (1, 1)
    separator: str = ","  # what stands between several
    # Texts that shall be likelier or rarer, and what is added to their tokens' logits; `None` for
    # never. Only for models that take it, see `Known.biases`.
    bias: Sequence[tuple[str, float | None]] = ()
    live: bool = True  # whether the reply is shown while it streams
    # Whether the reply is the script's result, if nothing goes wrong: the answer of an agent
    last: bool = False
    # Creates the parser of the streamed reply, where the text is not sent as it is
    pieces: Callable[[], StreamParser] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Call a function by its name: a registered one, or an action, search or agent of the project.

    Its answer is what it returned, as JSON data.
    """

    place: Place  # the statement that calls
    name: str  # the name
    args: Sequence[Any] = ()  # arguments by place
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # arguments by name


@dataclass(frozen=True, slots=True)
class Code:
    """Run Python in the sandbox. Its answer is the value, as JSON data."""

    place: Place  # the statement
    text: str  # the program
    # What it may read, by name, as JSON data
    variables: Mapping[str, Any] = field(default_factory=dict)
    # The names of which the first that is bound when it ends is its value; then the last one that
    # it assigned
    names: Sequence[str] = ("python_res", "result")
    line: int = 0  # the script's line that it begins in; 0 where it does not stand there
    files: Mapping[str, str] | None = None  # what it may open, by path; `None` for no `open`


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Read a text file of a folder that the script may read (`Program.folders`).

    Its answer is the text; where it cannot be read, a `FileMissing`.
    """

    place: Place  # the statement
    path: str  # relative to a folder, or absolute


@dataclass(frozen=True, slots=True)
class FileMissing:
    """Why a file cannot be read."""

    why: str  # the reason
    why_zh: str  # the same in Chinese


@dataclass(frozen=True, slots=True)
class RandomNumber:
    """Ask for chance. Its answer is a whole number, the same when the script is run again."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A breakpoint. Its answer is `continue` or `step`, when somebody goes on."""

    place: Place  # the breakpoint, or in `step` mode the next statement
    output: Any  # the value of the last statement that ran
    variables: Mapping[str, Any]  # all variables


@dataclass(frozen=True, slots=True)
class AskUser:
    """Say something to the user and wait. Its answer is the user's text."""

    place: Place  # the statement
    text: str  # the text
    output: Any  # the value of the last statement that ran
    variables: Mapping[str, Any]  # all variables


@dataclass(frozen=True, slots=True)
class Parallel:
    """Do independent works side by side. Its answer is the list of what they return, in order.

    The first in order that fails, fails the step; the others stop at their next step.
    """

    place: Place  # the statement
    # Each begins one; it returns JSON data, and neither waits at a breakpoint nor asks the user
    works: Sequence[Callable[[], Generator[Step, Any, Any]]]
    most: int  # how many are done at the same time


EventType = Literal[
    "run_start",
    "statement_start",
    "token",
    "tool_call",
    "tool_result",
    "role_switch",
    "variable_set",
    "breakpoint",
    "exit",
    "warning",
    "error",
    "run_end",
]


@dataclass(frozen=True, slots=True)
class Event:
    """An event for listeners. It has no answer, and changes nothing."""

    type: EventType  # what happened
    place: Place  # where
    # More of it, as JSON data, such as `{"name": "result", "value": ...}`
    members: Mapping[str, Any] = field(default_factory=dict)


Step = Ask | Call | Code | ReadFile | RandomNumber | Pause | AskUser | Parallel | Event


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a script ended."""

    output: Any  # its result, as JSON data
    variables: Mapping[str, Any]  # every name that it knows, and its value, as JSON data
    # The messages of its last dialogue, in Converse's shape, the system text first
    messages: Sequence[Mapping[str, Any]] = ()


Running = Generator[Step, Any, Outcome]


@dataclass(slots=True)
class WorkTime:
    """How long a run has worked at what has a limit for all of it, such as regular expressions.

    The journal has it at each statement, so a run that goes on has worked no longer than before.
    """

    seconds: float = 0.0  # the time so far
    times: int = 0  # how often, also while it goes over what it has done
    # Whether time is added: not while the run goes over statements that it has run
    counts: bool = True


@dataclass(frozen=True, slots=True)
class CallCatalog:
    """What a script may call, besides what it defines itself."""

    # Converse's tool specifications by name: of registered functions, under their names, and of the
    # agent's actions, searches and collaborators, under the names that models call them by
    specs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # What scripts may call them besides, such as a function without its action group
    names: Mapping[str, str] = field(default_factory=dict)
    stepping: bool = False  # whether the run waits before its first statement
    # Whether loops run in parallel: `None` where a loop asks for it, `True` wherever it
    # is possible, `False` nowhere
    parallel: bool | None = None
    most: int = 8  # how much runs at the same time
    # Time for what needs a separate limit, such as one regular expression. It is short: nothing
    # else runs in an event loop meanwhile
    seconds: float = 0.1
    biases: bool = False  # whether the model takes a bias of tokens
    # How long the run has worked at what has a limit
    worked: WorkTime = field(default_factory=WorkTime)
    # What the run has done by itself
    work: ScriptWork = field(default_factory=ScriptWork)

    def name_of(self, name: str) -> str:
        """The name in `specs` that a script's name means; empty when it means none."""
        return name if name in self.specs else self.names.get(name, "")

    @property
    def all_names(self) -> set[str]:
        """Every name that means something."""
        return {*self.specs, *filter(self.name_of, self.names)}


Finding = tuple[Literal["error", "warning", "info"], str, Place, str, str]
"""What is doubtful in a script: how bad it is, its code, its place, what it is, the way out."""


class Program(Protocol):
    """A script that was read whole, and can be run any number of times, at once too."""

    language: str  # `ppe` or `pl`
    file: str | None  # the file that it was read from, if any
    digest: str  # of its text, and of all that it loads: a paused run goes on with the same only
    uses_code: bool  # whether it may run Python
    text_input: str  # the argument that takes the text of an agent's user
    folders: Sequence[Path]  # below which it may read files

    def arguments(self) -> tuple[Collection[str], Collection[str] | None]:
        """The arguments that it wants, and all that mean something to it; `None` for any."""
        ...

    def findings(self) -> Iterator[Finding]:
        """What may not do what was meant, found without running it."""
        ...

    def run(self, arguments: Mapping[str, Any] | str | None, known: CallCatalog) -> Running:
        """Runs it from its beginning.

        Args:
            arguments: Values by name, or for PPE one text.
            known: What it may call; what it calls and is not known is an error before anything
                is asked.

        Raises:
            FlowError: Something is wrong, with line and column.
        """
        ...
