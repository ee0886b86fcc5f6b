"""The executor of `AMAZON.CodeInterpreter`: runs what a model wrote, in a sandbox."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext, Operation, Parameter
from orchestrator.actions.code_interpreter import files
from orchestrator.actions.code_interpreter.jail.variables import FILE as VARIABLES
from orchestrator.actions.code_interpreter.process import Outcome, Refusal, Run, check_platform
from orchestrator.actions.code_interpreter.scratch import Scratch, Session, session_key
from orchestrator.actions.code_interpreter.settings import CodeInterpreterSettings
from orchestrator.actions.code_interpreter.storage import Storage
from orchestrator.errors import DefinitionError, DependencyFailed, ValidationError
from orchestrator.message import to_json
from orchestrator.support.threads import in_thread

_WAYS_OUT = (
    "run it on Linux 6.2 or newer, or where unprivileged user namespaces are permitted; give the "
    "action group an executor of your own; or disable the group"
)
_STARTING = 20.0  # seconds to wait for others, and to make the sandbox
_NAMED = 10  # files that are not returned, with the reason
_PAGE = 4096  # a file takes whole pages
_FEWEST_BYTES = 200  # of output that is shown, however small a result may be


class CodeInterpreter:
    """Runs Python programs in a sandbox: no network, no other processes, files of the session only.

    A program runs in a process of its own, which locks itself up by means of the Linux kernel and
    then tries whether that holds; if it does not, the program does not run. See
    `docs/code-interpreter.md` for what is confined, and how.

    One object serves many sessions and threads. Programs of one session run one after the other,
    and see the files and the variables that earlier ones left. Both go when the interpreter is
    closed, or this process ends.
    """

    def __init__(self, settings: CodeInterpreterSettings | None = None) -> None:
        """Makes the interpreter; nothing is started, and no folder made, before the first program.

        Raises:
            DefinitionError: There is no sandbox for this platform.
        """
        if reason := check_platform():
            raise DefinitionError(f"the code interpreter cannot run here: {reason}; {_WAYS_OUT}")
        self.settings = settings or CodeInterpreterSettings()
        self._scratch = Scratch(self.settings.sessions, self.settings.parallel)
        self._finalizer = weakref.finalize(self, self._scratch.close)

    def __repr__(self) -> str:
        return f"CodeInterpreter({self.settings!r})"

    def close(self) -> None:
        """Ends what is running, and removes all files; the interpreter can be used no more."""
        self._finalizer()

    def check(self) -> tuple[str, ...]:
        """Makes a sandbox, and says what it is made of: `namespaces`, `landlock`, `seccomp`.

        Raises:
            DependencyFailed: There can be none here.
        """
        context = CallContext({}, "", "", {}, {}, self.settings.output_bytes)
        outcome, _ = self._perform("", context, lambda: False)
        if not outcome.isolation:
            raise DependencyFailed(
                f"the code interpreter's sandbox could not be tried: {outcome.stopped}",
                resource=CODE_INTERPRETER_GROUP,
            )
        return outcome.isolation

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Runs the program in `call`'s argument `code`.

        Returns:
            What it printed, as JSON for the model: `code_execution_output`,
            `code_execution_error`, `is_error` and `files`; the files it made or changed; and as
            `details`
            `executionOutput`, `executionError`, `executionTimeout` (Bedrock:
            `CodeInterpreterInvocationOutput`). A program that fails is no failure of the action:
            the model reads its traceback.

        Raises:
            DependencyFailed: There can be no sandbox here; the program did not run.
            ThrottlingError: Others ran for as long as this one had time.
            ValidationError: A file of `context.files` has an impossible name, or is too large.
        """
        return self._result(call, context, lambda: False)

    async def acall(self, call: Call, context: CallContext) -> ActionResult:
        """Does what `call` does without blocking the event loop; cancelling it ends the program."""
        import asyncio

        cancelled = threading.Event()
        work = in_thread(partial(self._result, call, context, cancelled.is_set))
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            cancelled.set()
            with contextlib.suppress(Exception):  # its outcome is wanted by nobody
                await asyncio.shield(asyncio.wrap_future(work))
            raise

    def _result(
        self, call: Call, context: CallContext, cancelled: Callable[[], bool]
    ) -> ActionResult:
        code = call.arguments.get("code")
        if not isinstance(code, str) or "\0" in code:
            return ActionResult("The parameter 'code' must be a Python program.", "REPROMPT")
        outcome, returned = self._perform(code, context, cancelled)
        error = outcome.error
        if outcome.stopped:
            error = f"{_ensure_newline(error)}The program was ended: {outcome.stopped}."
        return ActionResult(
            _render_result(outcome, error, returned, context.max_bytes),
            files=returned.files,
            details={
                "executionOutput": outcome.output,
                "executionError": error,
                "executionTimeout": outcome.timeout,
            },
        )

    def _perform(
        self, code: str, context: CallContext, cancelled: Callable[[], bool]
    ) -> tuple[Outcome, files.Returned]:
        user_files = _collect_files(context.files, self.settings)
        until = time.monotonic() + _seconds(self.settings, context)
        scratch = self._scratch
        try:
            with scratch.turn(session_key(context), until, cancelled) as session:
                # Half for each output, so that the result as a whole is not too large.
                half = max((context.max_bytes - 2000) // 2, _FEWEST_BYTES)
                shown = min(self.settings.output_bytes, half)
                # The service's name of the working folder, in prompts that were written for it.
                run = Run(
                    code.replace("$BASE_PATH$", "."),
                    self.settings,
                    until,
                    shown,
                    lambda: cancelled() or scratch.closed,
                )
                return _execute(run, session, user_files)
        except Refusal as error:
            raise DependencyFailed(
                f"the code interpreter has no sandbox here: {error}. The program did not run; "
                f"{_WAYS_OUT}",
                resource=CODE_INTERPRETER_GROUP,
            ) from None


# All of it: waiting for others, making the sandbox, and the program.
def _seconds(settings: CodeInterpreterSettings, context: CallContext) -> float:
    most = settings.seconds + _STARTING
    if context.seconds is None:
        return most
    # The program must have been ended before its caller gives it up.
    return min(most, max(context.seconds - 1, context.seconds / 2))


def _collect_files(
    user_files: Sequence[Mapping[str, Any]], settings: CodeInterpreterSettings
) -> dict[str, bytes]:
    named: dict[str, bytes] = {}
    for file in user_files:
        name, content = files.file_name(file.get("name")), file.get("bytes")
        if not isinstance(content, bytes):
            raise ValidationError(f"the file {name!r} has no bytes; give its content as bytes")
        if name in named:
            raise ValidationError(f"there are two files {name!r}; rename one")
        named[name] = content
    if sum(map(len, named.values())) > settings.scratch_bytes:
        raise ValidationError(
            f"the files have more than {settings.scratch_bytes} bytes together; give fewer, or "
            "raise the code interpreter's setting 'scratch_bytes'"
        )
    return named


def _execute(
    run: Run, session: Session, user_files: Mapping[str, bytes]
) -> tuple[Outcome, files.Returned]:
    settings = run.settings
    with files.open_folder(session.folder) as folder:
        for name, content in user_files.items():
            digest = sha256(content).digest()
            # A file that is the same stays: the code may have changed its copy.
            if session.user_files.get(name) != digest:
                files.place(folder, name, content)
                session.user_files[name] = digest
        limits = settings.scratch_bytes, settings.scratch_files
        outcome, why = Outcome("", "", "", False, ()), files.check_size(folder, *limits)
        if not why:
            _place_variables(session, folder, settings)
            with contextlib.closing(Storage(folder)) as storage:
                outcome = run.run(session.base, session.folder, storage)
                _take_variables(session, storage.used, settings, stopped=bool(outcome.stopped))
                files.take(folder, VARIABLES, 0)
                why = files.check_size(storage.used, *limits)
                if not why:
                    storage.keep()
                    return outcome, files.collect_changes(
                        storage.used, storage.before, settings.files, settings.file_bytes
                    )
        files.empty(folder)
        session.user_files.clear()
    stopped = f"{why}; all files in the working folder were removed"
    return dataclasses.replace(outcome, stopped=stopped), files.Returned()


# A program's variables are a file in its working folder only before its first line and after its
# last one. Nothing here reads what is in it: only the sandbox does.
def _place_variables(session: Session, folder: int, settings: CodeInterpreterSettings) -> None:
    with contextlib.suppress(FileNotFoundError):
        size = session.variables.stat().st_size + _PAGE
        room = settings.scratch_bytes - size, settings.scratch_files - 1
        if not files.check_size(folder, *room):
            files.place(folder, VARIABLES, session.variables.read_bytes())


def _take_variables(
    session: Session, folder: int, settings: CodeInterpreterSettings, *, stopped: bool
) -> None:
    content = files.take(folder, VARIABLES, settings.scratch_bytes)
    if content is not None:
        session.store_variables(content)
    elif not stopped:  # one that was ended leaves what there was before
        session.variables.unlink(missing_ok=True)


def _render_result(outcome: Outcome, error: str, returned: files.Returned, most: int) -> str:
    """What the model reads (recorded: its members); at most `most` bytes, if there is room."""
    shown: dict[str, Any] = {"code_execution_output": outcome.output}
    if error:
        shown["code_execution_error"] = error
    # Libraries warn on the standard error: a model would mend what works.
    shown["is_error"] = outcome.failed or bool(outcome.stopped)
    if returned.files:
        made = (f"{it['name']} ({it['type']}, {len(it['bytes'])} bytes)" for it in returned.files)
        shown["files_for_user"] = list(made)
    if left := returned.left_out:
        more = [f"... and {len(left) - _NAMED} more"] if len(left) > _NAMED else []
        shown["files_not_for_user"] = [*left[:_NAMED], *more]
    length = most
    while (
        len((text := to_json(shown)).encode("utf-8", "replace")) > most and length > _FEWEST_BYTES
    ):
        length //= 2  # signs that JSON writes as several took more room than they were counted for
        for name in ("code_execution_output", "code_execution_error"):
            if name in shown:
                shown[name] = _shorten(shown[name], length)
    return text


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _shorten(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[...]\n{text[-half:]}"


def _ensure_newline(text: str) -> str:
    return f"{text}\n" if text and not text.endswith("\n") else text


# The group's name in the operation's tool name (Bedrock: recorded); users cannot take it.
CODE_INTERPRETER_GROUP = "codeinterpreteraction"

_DESCRIPTION = (
    "Run a Python program, for calculations, data and charts, and get what it prints, the value of "
    "its last expression, and the files it makes. It goes on where your last program of this "
    "conversation ended: variables, functions and files are still there; open files, generators "
    "and threads are not. The user's files are in the working folder, $BASE_PATH$; look into a "
    "file that you do not know before you work with it. Save charts as image files instead of "
    "showing them; the user gets every file that you write, so do not name image files in your "
    "answer. Write the program yourself and never ask the user for code. Run at most three "
    "programs in a row before you answer. There is no network, and no other process can be started."
)


def code_operation() -> Operation:
    """`get::codeinterpreteraction::execute`, with the parameter `code`.

    It may be run again when its outcome is unknown: what a stopped process had done is gone with
    its scratch folder.
    """
    described = {"type": "string", "description": "The Python program, whole."}
    code = Parameter("code", "string", described["description"], True, "query", described)
    return Operation(
        group=CODE_INTERPRETER_GROUP,
        name="execute",
        description=_DESCRIPTION,
        parameters=(code,),
        verb="get",
        path="execute",
        idempotent=True,
        schema={"type": "object", "properties": {"code": described}, "required": ["code"]},
    )
