"""`orchestrator run`: runs a script, and shows what it does."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.findings import error_document, show_error
from orchestrator.cli.flow_view import FlowRunner
from orchestrator.cli.options import Libraries, Strict, Tools, read_input, read_json
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import AGENT_FAILED, option, verb
from orchestrator.errors import FlowError, ResourceNotFound, ValidationError
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.agent.flow import Flow
    from orchestrator.agent.flow_run import FlowResult


@dataclass(frozen=True)
class RunOptions:
    """What `run` runs, and how."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A script (*.pl, *.ai.yaml) or its folder, or a template (*.prompty, *.sk.txt, "
            "*.hbs, *.j2, a YAML file of Semantic Kernel, a folder with skprompt.txt).",
        ),
    ]
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE|TEXT",
            help="Its arguments: NAME=VALUE (JSON, else text), NAME=@FILE for a file's content, "
            "or for a PPE script or a template's question one text.",
            show_default=False,
        ),
    ] = None
    model: Annotated[
        str | None,
        option(
            "--model",
            "SPEC",
            "local, local:0.5b, a Bedrock model id, openai:NAME@URL, scripted:FILE, "
            "scripted:FILE@MODEL_ID or replay:FILE. Default: the one that a template names, else "
            "local.",
        ),
    ] = None
    tool: Tools = None
    strict: Strict = False
    lib: Libraries = None
    files: Annotated[
        bool,
        typer.Option("--files", help="Let @code open() the text files of the program's folder."),
    ] = False
    step: Annotated[
        bool, typer.Option("--step", help="Wait before each statement, as at a breakpoint.")
    ] = False
    parallel: Annotated[
        int | None,
        option(
            "--parallel",
            "NUMBER",
            "Run this many items of a FOR at the same time, if they are independent; "
            "1: one by one.",
            min=1,
        ),
    ] = None
    resume: Annotated[
        Path | None,
        option(
            "--resume",
            "FILE",
            "Go on with the run that wrote this state; '--step': for one statement.",
        ),
    ] = None
    text: Annotated[
        str,
        option(
            "--text", "TEXT", "With --resume: the user's answer to a run that has asked the user."
        ),
    ] = ""
    state: Annotated[
        Path | None,
        option(
            "--state",
            "FILE",
            "Write the state of a run that waits to this file. Default: NAME.state.json, "
            "or NAME.2.state.json where that has another run's.",
        ),
    ] = None
    seed: Annotated[
        int | None, option("--seed", "NUMBER", "Make random choices the same again.")
    ] = None


@verb
def run(terminal: Terminal, asked: RunOptions) -> None:
    """Run a script or a template.

    A template (Prompty, Semantic Kernel, Handlebars, Jinja2) is rendered, and its model asked until
    it calls no tool any more; the answer goes to stdout.

    A script is a workflow program or a PPE script. Its result goes to stdout, what happens to
    stderr. At a breakpoint a terminal asks
    what to do; elsewhere the run's state is written to a file, to go on with.

    [bold]Examples[/bold]
      $ orchestrator run examples/flows/fan_in.pl plan="A new bus"
      $ orchestrator run poem.ai.yaml "the moon" --model local:0.5b
      $ orchestrator run papers.pl papers=@papers.json --parallel 4
      $ orchestrator run papers.pl --tool save=tools.py:save --files
      $ orchestrator run story.ai.yaml --lib ~/prompts
      $ orchestrator run flow.pl --step
      $ orchestrator run flow.pl --resume flow.state.json
      $ orchestrator run greeting.prompty question="Who are you?" --model local
      $ orchestrator run prompts/Summarize input=@report.txt
    """
    from orchestrator.agent.files import is_script, is_template
    from orchestrator.agent.flow import load_flow

    if not is_script(asked.file) and is_template(asked.file):
        _run_template(terminal, asked)
        return
    _check_runnable(asked.file)
    flow = load_flow(asked.file, libraries=asked.lib or (), files=asked.files)
    resume = asked.resume
    if resume is not None and asked.words:
        raise ValidationError("a run that is gone on with has its arguments; leave them out")
    if asked.text and resume is None:
        raise ValidationError("--text answers a run that waits for the user; give its --resume")
    options = {
        "model": asked.model or "local",
        "tools": load_tools(asked.tool),
        "parallel": asked.parallel,
    }
    named = asked.state or resume
    state_file = named or Path(f"{_get_script_name(flow, asked.file)}.state.json")
    _check_writable(state_file)
    session = FlowRunner(terminal, flow, options, state_file, named=bool(named))
    try:
        if resume is not None:
            mode = "step" if asked.step else "continue"
            state = read_json(str(resume), "--resume")
            result = session.resume(state, mode=mode, text=asked.text)
        else:
            arguments = parse_arguments(asked.words or (), flow)
            result = session.start(arguments, seed=asked.seed, step=asked.step)
    except FlowError as error:  # it is not the user of the command who is wrong
        _report_error(terminal, error)
        raise typer.Exit(AGENT_FAILED) from error
    _show(terminal, result)


def _check_runnable(file: Path) -> None:
    from orchestrator.agent.files import is_script
    from orchestrator.flows.languages import ENDINGS
    from orchestrator.prompts.template_files import ENDINGS as TEMPLATES

    folder = file.parent if file.stem == "agent" else file
    if not is_script(file) and any(folder.glob("agent.*")):
        raise ValidationError(
            f"{str(file)!r} is an agent; ask it with `orchestrator invoke` or `orchestrator chat`"
        )
    if not file.exists():
        raise ResourceNotFound(f"there is no file {str(file)!r}")
    if file.is_file() and not is_script(file):
        templates = [it for it in TEMPLATES if it not in ENDINGS]
        raise ValidationError(
            f"{str(file)!r} is neither a script nor a template by its name: scripts end in "
            f"{', '.join(ENDINGS)}, templates in {', '.join(templates)}"
        )


def _run_template(terminal: Terminal, asked: RunOptions) -> None:
    from orchestrator.cli.templates import run_template

    for name in ("step", "parallel", "resume", "text", "state", "seed"):
        if getattr(asked, name) not in (None, "", False):
            raise ValidationError(f"--{name} is for scripts, and {str(asked.file)!r} is a template")
    words = asked.words or ()
    run_template(terminal, asked.file, words, asked.model, asked.tool, strict=asked.strict)


def _show(terminal: Terminal, result: FlowResult) -> None:
    if terminal.json:
        terminal.document(result.as_dict())
    elif result.paused is None and result.output is not None:
        output = result.output
        if not isinstance(output, str):
            output = json.dumps(output, ensure_ascii=False, indent=2)
        terminal.raw(f"{clean(output)}\n")


def _report_error(terminal: Terminal, error: FlowError) -> None:
    if terminal.json:
        document = error_document(error)
        document["error"] |= {"statement": error.statement, "message_zh": error.message_zh}
        terminal.document(document)
    show_error(terminal, error)
    languages = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    if error.message_zh and languages.startswith("zh"):
        terminal.note(clean(error.message_zh))


def _check_writable(file: Path) -> None:
    # Checked before the run, so that no model is paid for a state that cannot be kept.
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ValidationError(f"the state cannot be written to {str(file)!r}; give --state FILE")


def _get_script_name(flow: Flow, file: Path) -> str:
    name = Path(flow.program.file or file).name
    for ending in (".ai.yaml", ".ppe.yaml", ".pl"):
        name = name.removesuffix(ending)
    return name


def parse_arguments(words: Sequence[str], flow: Flow) -> dict[str, Any] | str:
    """The arguments that words of a command line mean.

    Raises:
        ValidationError: They mean none, or one that the script does not have.
    """
    from orchestrator.flows.languages import check_arguments

    found: dict[str, Any] = {}
    texts = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            value = read_input(value[1:]) if value.startswith("@") else value
            found[name] = json_or(value, value)
        else:
            texts.append(word)
    # Only a PPE script has a nameless input.
    if len(texts) > 1 or (texts and flow.program.language == "pl"):
        raise ValidationError(f"the argument {texts[-1]!r} is not NAME=VALUE")
    check_arguments(flow.program, found)
    if texts and found:
        return {**found, flow.program.text_input: texts[0]}
    return texts[0] if texts else found


def load_tools(
    items: Sequence[str] | None, *, dotted: bool = False
) -> dict[str, Callable[..., Any]]:
    """The functions that `--tool` names; with `dotted`, also those of plugins, `plugin.function`.

    Raises:
        ValidationError: One is not `NAME=FILE:FUNCTION`.
        DefinitionError: There is no such function, or its file cannot be run.
    """
    from orchestrator.actions.handler_files import check_function, handler_file
    from orchestrator.actions.handler_modules import HandlerModule
    from orchestrator.support.load_errors import build_load_failure

    found: dict[str, Callable[..., Any]] = {}
    modules: dict[Path, HandlerModule] = {}
    for item in items or ():
        name, _, where = item.partition("=")
        file, _, function = where.rpartition(":")
        plain = name.replace(".", "_", 1) if dotted else name
        if not plain.isidentifier() or not file or not function.isidentifier():
            raise ValidationError(f"--tool {item!r} is not NAME=FILE:FUNCTION")
        path = handler_file(file, None, "tool")
        check_function(path, function)
        module = modules.setdefault(path, HandlerModule(path))
        try:
            found[name] = getattr(module.load(), function)
        except (Exception, SystemExit) as error:
            raise build_load_failure(error, path) from error
    return found
