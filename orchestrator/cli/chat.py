"""`orchestrator chat`: a conversation with an agent in the terminal."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.agents import ensure_data_folder, load_agent, load_models, note_templates
from orchestrator.cli.findings import error_document, show_error
from orchestrator.cli.live import LiveTurn
from orchestrator.cli.options import Tools, Turn
from orchestrator.cli.render import show_prompt_text
from orchestrator.cli.return_control import ask_results, show_waiting_calls
from orchestrator.cli.scripts import is_template
from orchestrator.cli.terminal import (
    Terminal,
    assemble,
    clean,
    format_count,
    hide_prints,
    shorten,
    show_prints,
    style_text,
)
from orchestrator.cli.verb import AGENT_FAILED, verb
from orchestrator.errors import OrchestratorError, ValidationError

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.engine.run.options import Options
    from orchestrator.engine.trace.reply import Reply


@verb
def chat(
    terminal: Terminal,
    turn: Turn,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...",
            help="Of a template: its inputs, but for the question and the earlier turns.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every step.")] = False,
    tool: Tools = None,
) -> None:
    """Talk to an agent or a template.

    Ctrl-C stops the answer that is under way, Ctrl-D leaves, /help lists the commands. When the
    agent hands a call over, you are asked for its result. Files come with the first question.
    Without a terminal, every line of stdin is a question; --json then writes one reply a line.

    [bold]Examples[/bold]
      $ orchestrator chat examples/insurance
      $ orchestrator chat examples/hr --attribute employeeId=e-1042 --trace
      $ orchestrator chat my-agent --session s-1 --model local:0.5b
      $ orchestrator chat greeting.prompty tone=kind --model local
    """
    options = turn.options()
    agent = _load(terminal, turn, words or (), tool)
    talk = Chat(terminal, agent, turn.session or str(uuid.uuid4()), options, trace=trace)
    talk.files = turn.input_files()
    if terminal.interactive and terminal.out.is_terminal:
        _run_interactive(talk, turn.folder)
    elif not talk.answer_lines():
        raise typer.Exit(AGENT_FAILED)


def _load(
    terminal: Terminal, turn: Turn, words: Sequence[str], tool: Sequence[str] | None
) -> Agent:
    if is_template(turn.folder):
        from orchestrator.cli.templates import load_template_agent

        return load_template_agent(
            terminal, turn.folder, words, turn.model, tool, turn.session, turn.state
        )
    if words or tool:
        named = (words or tool or ("",))[0]
        raise ValidationError(f"{named!r}: only a template has inputs and --tool; leave it out")
    agent = load_agent(turn.folder, turn.model, turn.session, turn.state)
    note_templates(agent, turn.folder, terminal)
    load_models(agent, terminal)
    return agent


def _run_interactive(talk: Chat, folder: Path) -> None:
    try:
        history = ensure_data_folder(folder) / "history"
    except OSError:  # somebody else's agent: a conversation needs no history
        history = None
    with Keyboard(history, colour=talk.terminal.out.color_system) as keyboard:
        talk.run_interactive(keyboard)


class Chat:
    """A conversation; `files` come with its next question."""

    def __init__(
        self, terminal: Terminal, agent: Agent, session: str, options: Options, *, trace: bool
    ) -> None:
        self.terminal = terminal
        self.trace = trace
        self._agent = agent
        self._session = session
        self._options = options
        self.files: list[dict[str, Any]] = []
        self._prompt = ""
        self._commands: dict[str, tuple[Callable[[], None], str]] = {
            "/trace": (self._toggle_trace, "show the steps of each turn, or stop showing them"),
            "/prompt": (self._show_prompt, "show the last prompt that the model was sent"),
            "/reset": (self._reset, "begin the conversation anew"),
            "/session": (lambda: terminal.print(session), "show the session's id"),
            "/help": (self._show_help, "show this"),
            "/quit": (self._show_help, "leave; so does Ctrl-D"),
        }

    def answer_lines(self) -> bool:
        """Answers every line of stdin, and returns whether no turn failed."""
        well = True
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                self._answer_line(line.strip())
            except OrchestratorError as error:
                well = False
                if self.terminal.json:
                    self.terminal.line(error_document(error))
                show_error(self.terminal, error)
        return well

    def _answer_line(self, question: str) -> None:
        if self.terminal.json:
            reply = self._agent.invoke(question, self._session, **self._take_options())
            self.terminal.line(reply.as_dict())
        else:
            live = LiveTurn(self.terminal, trace=self.trace)
            try:
                reply = live.run(
                    self._agent.stream(question, self._session, **self._take_options())
                )
            finally:
                live.finish()
            if reply.return_control is not None:
                show_waiting_calls(self.terminal, reply.return_control)
            self._note_missing_tool(reply)

    def _note_missing_tool(self, reply: Reply) -> None:
        # Only a template's model calls what nobody carries out.
        if reply.stop_reason == "tool_use":
            self.terminal.note("nobody carries the call out: give --tool NAME=FILE:FUNCTION")

    def _take_options(self) -> Options:
        options: Options = {**self._options}
        if self.files:
            options["files"], self.files = self.files, []
        return options

    def run_interactive(self, keyboard: Keyboard) -> None:
        """Talks until the user leaves."""
        self._greet()
        while (line := keyboard.question()) is not None:
            if line.startswith("/"):
                if line == "/quit":
                    return
                self._run_command(line)
            elif line:
                self._run_turn(line, keyboard)
            self.terminal.print()

    def _run_turn(self, question: str, keyboard: Keyboard) -> None:
        live = LiveTurn(self.terminal, trace=self.trace)
        try:
            self._run_to_end(live, question, keyboard)
        except KeyboardInterrupt:
            self.terminal.note(clean(live.describe_interruption()))
        except OrchestratorError as error:
            show_error(self.terminal, error)
        finally:
            live.finish()
            self._prompt = live.prompt or self._prompt

    def _run_to_end(self, live: LiveTurn, question: str, keyboard: Keyboard) -> None:
        options = self._take_options()
        while True:
            reply = live.run(self._agent.stream(question, self._session, **options))
            if reply.return_control is None:
                self._note_missing_tool(reply)
                return
            results = ask_results(reply.return_control, self.terminal, keyboard.answer)
            question, options = "", {**self._options, "results": results}

    def _run_command(self, line: str) -> None:
        found = self._commands.get(line.split()[0])
        if found is None:
            self.terminal.print(f"there is no command {shorten(line, 40)!r}; /help lists them")
        else:
            found[0]()

    def _greet(self) -> None:
        plan = self._agent.plan
        model = plan.orchestration.model.model_id
        self.terminal.block(assemble((plan.name, "agent"), f"  {model}"))
        groups = {operation.group for operation in plan.catalog.operations}
        count = format_count(len(plan.catalog.operations), "action")
        actions = f"{count} in {', '.join(sorted(groups))}" if groups else "no actions"
        self.terminal.block(style_text(f"{actions} · /help lists commands", "quiet"))
        self.terminal.print()

    def _toggle_trace(self) -> None:
        self.trace = not self.trace
        if self.trace:
            show_prints(self.terminal)
        elif not self.terminal.debug:
            hide_prints()
        self.terminal.print(f"the steps are {'shown' if self.trace else 'hidden'} from now on")

    def _show_prompt(self) -> None:
        if self._prompt:
            show_prompt_text(self.terminal, self._prompt)
        else:
            self.terminal.print("no prompt was sent yet; ask something first")

    def _reset(self) -> None:
        self._agent.end_session(self._session)
        self.terminal.print("the conversation begins anew")

    def _show_help(self) -> None:
        for name, (_, what) in self._commands.items():
            self.terminal.block(f"{name:<9} {what}")
        self.terminal.block(
            "A line that ends in \\ goes on in the next one. Ctrl-C stops an answer."
        )


_PASTE_SECONDS = 0.02
_HISTORY = 1000


class Keyboard:
    """Reads questions and answers from a terminal, with a history of the questions."""

    def __init__(self, history: Path | None, *, colour: str | None) -> None:
        self._file = history
        # The marks tell readline which characters take no room.
        self._prompt = "\001\033[1;32m\002›\001\033[0m\002 " if colour else "› "
        self._readline: Any = None

    def __enter__(self) -> Keyboard:
        with suppress(ImportError):  # Windows has none
            import readline

            self._readline = readline
            if self._file is not None and self._file.exists():
                with suppress(OSError):
                    readline.read_history_file(self._file)
            readline.set_auto_history(False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._readline is not None and self._file is not None:
            self._readline.set_history_length(_HISTORY)
            with suppress(OSError):
                self._readline.write_history_file(self._file)

    def question(self) -> str | None:
        """The next question, `""` when there is none, `None` when the user leaves."""
        try:
            text = self._read_lines(self._prompt).strip()
        except EOFError:
            print()
            return None
        except KeyboardInterrupt:
            print("\n(Ctrl-D leaves)", end="")
            return ""
        if text and self._readline is not None:
            self._readline.add_history(text.replace("\n", " "))
        return text

    def answer(self, prompt: str) -> str:
        """One answer, outside the history.

        Raises:
            KeyboardInterrupt: The user would rather not; also at the end of the input.
        """
        try:
            return input(prompt)
        except EOFError:
            raise KeyboardInterrupt from None

    def _read_lines(self, prompt: str) -> str:
        lines = [input(prompt)]
        while lines[-1].endswith("\\") or _has_more_input():
            lines[-1] = lines[-1].removesuffix("\\")
            lines.append(input("  "))
        return "\n".join(lines)


def _has_more_input() -> bool:
    # Lines that are there before anybody can have typed them were pasted.
    import select

    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], _PASTE_SECONDS)[0])
    return False
