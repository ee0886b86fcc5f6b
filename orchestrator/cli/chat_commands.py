"""The commands of `orchestrator chat`: `/trace`, `/retry` and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from orchestrator.cli.agents import find_team_plan
from orchestrator.cli.conversation_file import save_conversation
from orchestrator.cli.findings import format_path, show_error
from orchestrator.cli.render import show_sent_prompts
from orchestrator.cli.return_control import ask_yes_no
from orchestrator.cli.steps import format_call, list_steps
from orchestrator.cli.talk import Question, Talk
from orchestrator.cli.terminal import clean, hide_prints, shorten, show_prints, style_text
from orchestrator.cli.trace import TraceView
from orchestrator.errors import OrchestratorError, SessionConflict

if TYPE_CHECKING:
    from orchestrator.engine.plan import Plan
    from orchestrator.engine.trace.past_turns import PastTurn

_NOTHING_ASKED = "nothing was asked yet in this conversation"


class Typist(Protocol):
    """Where the user types: a `Keyboard`, or a test's."""

    def answer(self, prompt: str) -> str:
        """One answer; raises `KeyboardInterrupt` when the user would rather not."""

    def edit(self, text: str) -> str:
        """What the user makes of a text; raises as `answer` does."""


class _Command(NamedTuple):
    run: Callable[[str], None]  # is given what stands after the name
    words: str  # what may stand there, for the list
    what: str


class ChatCommands:
    """Carries out commands in a conversation."""

    def __init__(self, talk: Talk, typist: Typist) -> None:
        self._talk = talk
        self._terminal = talk.terminal
        self._typist = typist
        self._saved: set[Path] = set()  # the files that this conversation wrote
        self._commands = {
            "/trace": _Command(
                self._trace, "[on|off]", "show the last turn's steps, or those of every turn"
            ),
            "/prompt": _Command(self._show_prompts, "", "show the prompts of the last turn"),
            "/retry": _Command(self._retry, "", "undo the last turn, and ask its question again"),
            "/edit": _Command(self._edit, "[TEXT]", "undo the last turn, and ask another question"),
            "/save": _Command(self._save, "FILE", "write the conversation to a .md or .json file"),
            "/reset": _Command(self._reset, "", "begin the conversation anew"),
            "/session": _Command(self._show_session, "", "show the session's id"),
            "/help": _Command(self._show_help, "", "show this"),
            "/quit": _Command(self._show_help, "", "leave; so does Ctrl-D"),
        }

    def run(self, line: str) -> bool:
        """Carries out the command of a line; whether the conversation goes on.

        Errors are shown, and Ctrl-C ends the command.
        """
        name, _, rest = line.partition(" ")
        command, rest = self._commands.get(name), rest.strip()
        if command is None:
            self._refuse(name)
        elif rest and not command.words:
            self._terminal.print(f"{name} stands alone; /help lists the commands")
        elif name == "/quit":
            return False
        else:
            self._carry_out(command, rest)
        return True

    def _carry_out(self, command: _Command, rest: str) -> None:
        try:
            command.run(rest)
        except KeyboardInterrupt:
            self._terminal.note("stopped")
        except OrchestratorError as error:
            show_error(self._terminal, error)

    def _refuse(self, name: str) -> None:
        self._terminal.print(
            f"there is no command {shorten(name, 40)!r}; a question that begins with / is asked "
            "with //"
        )
        self._list_commands()

    def _trace(self, rest: str) -> None:
        if rest in ("on", "off"):
            self._show_steps(on=rest == "on")
        elif rest:
            self._terminal.print("/trace shows the last turn; /trace on or off is for every turn")
        else:
            self._show_trace()

    def _show_steps(self, *, on: bool) -> None:
        self._talk.trace = on
        if on:
            show_prints(self._terminal)
        elif not self._terminal.debug:
            hide_prints()
        self._terminal.print(f"the steps are {'shown' if on else 'hidden'} from now on")

    def _show_trace(self) -> None:
        turn = self._talk.find_last_turn()
        if turn is None:
            self._terminal.print(_NOTHING_ASKED)
            return
        view = TraceView(self._terminal)
        for part in turn.trace:
            view.show(view.feed(part))
        view.finish()

    def _show_prompts(self, _: str) -> None:
        turn = self._talk.find_last_turn()
        if turn is None:
            self._terminal.print(_NOTHING_ASKED)
        elif not show_sent_prompts(self._terminal, turn.trace, self._talk.agent.plan):
            self._terminal.print("no model was asked in the last turn")

    def _retry(self, _: str) -> None:
        asked = self._find_question()
        if asked is None:
            self._terminal.print(_NOTHING_ASKED)
        elif self._undo(asked):
            self._ask(asked.text, asked)

    def _edit(self, rest: str) -> None:
        asked = self._find_question()
        if asked is None:
            self._terminal.print(_NOTHING_ASKED)
            return
        text = rest or self._typist.edit(asked.text)
        if not text or text == asked.text:
            self._terminal.print("nothing was changed; /retry asks the question again")
        elif self._undo(asked):
            self._ask(text, asked)

    def _ask(self, text: str, again: Question) -> None:
        self._terminal.block(style_text(f"› {clean(text)}", "quiet"))
        self._talk.ask(text, self._typist.answer, again=again)

    def _find_question(self) -> Question | None:
        if self._talk.last is not None:
            return self._talk.last
        turn = self._talk.find_last_turn()  # an earlier process may have asked it
        return None if turn is None else Question(turn.question, [], "")

    def _undo(self, asked: Question) -> bool:
        # A question that was refused at once, such as one that is too long, has no turn.
        turn = self._talk.find_last_turn()
        if turn is None or turn.id == asked.before:
            return True
        if not self._may_repeat(turn):
            return False
        self._talk.agent.undo_turn(self._talk.session)
        return True

    def _may_repeat(self, turn: PastTurn) -> bool:
        calls = _list_effects(turn, self._talk.agent.plan)
        if not calls:
            return True
        self._terminal.block(
            f"What the turn did stays done, and may be done again: {'; '.join(calls)}", stderr=True
        )
        return ask_yes_no(self._typist.answer, "Ask again?")

    def _save(self, rest: str) -> None:
        if not rest:
            self._terminal.print("/save FILE: give a file whose name ends in .md or .json")
            return
        file = Path(rest).expanduser()
        if file.exists() and file.resolve() not in self._saved:
            question = f"{str(file)!r} exists. Overwrite it?"
            if not ask_yes_no(self._typist.answer, clean(question)):
                return
        count = save_conversation(file, self._talk.agent, self._talk.session)
        self._saved.add(file.resolve())
        self._terminal.path(f"saved {count} to {clean(format_path(file))}")

    def _reset(self, _: str) -> None:
        self._talk.agent.end_session(self._talk.session)
        self._talk.last = None
        self._terminal.print("the conversation begins anew")

    def _show_session(self, _: str) -> None:
        self._terminal.print(self._talk.session)

    def _show_help(self, _: str) -> None:
        self._list_commands()
        self._terminal.block(
            "A question that begins with / is asked with //. A line that ends in \\ goes on in the "
            "next one. Ctrl-C stops an answer."
        )

    def _list_commands(self) -> None:
        width = max(len(f"{name} {it.words}") for name, it in self._commands.items()) + 2
        for name, command in self._commands.items():
            line = f"{f'{name} {command.words}':<{width}}{command.what}"
            self._terminal.block(line, hanging=width)


def _list_effects(turn: PastTurn, plan: Plan) -> list[str]:
    """The calls of a turn that may not be made once more without doing something once more."""
    try:
        parts = turn.trace
    except SessionConflict:  # the agent was changed since
        return ["its actions, which the changed agent no longer knows"]
    made = {step.subject for step in list_steps(parts) if step.verb == "calls"}
    effects: dict[str, None] = {}
    for part in parts:
        owner = find_team_plan(plan, part.get("collaboratorName", ""))
        for call in _iter_calls(part):
            if format_call(call) in made and not _is_repeatable(call, owner):
                effects[shorten(format_call(call), 200)] = None
    return list(effects)


def _iter_calls(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for member in part["trace"].values():
        value = member.get("invocationInput") if isinstance(member, Mapping) else None
        if value and (call := value.get("actionGroupInvocationInput")):
            yield call


def _is_repeatable(call: Mapping[str, Any], plan: Plan | None) -> bool:
    names = (call.get(it, "") for it in ("actionGroupName", "function", "verb", "apiPath"))
    group, function, verb, path = names
    found = plan.catalog.find(group, function, verb.upper(), path) if plan is not None else None
    return found is not None and found.idempotent
