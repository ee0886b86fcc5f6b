"""`orchestrator eval`: an agent and cases, and what came of them."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.evaluation_view import Progress, show_report
from orchestrator.cli.options import Prices
from orchestrator.cli.terminal import Terminal, clean
from orchestrator.cli.verb import AGENT_FAILED, option, setting, verb
from orchestrator.errors import ValidationError
from orchestrator.support.content_root import get_agent_root

if TYPE_CHECKING:
    from orchestrator.agent.evaluation import Comparison, Evaluation, Run

Models = Annotated[
    list[str] | None,
    option("--model", "SPEC", "Evaluate with this model instead of the agent's. Repeatable."),
]
Prompts = Annotated[
    list[Path] | None,
    option(
        "--prompts",
        "DIR",
        "Evaluate with this folder of templates instead of the agent's. Repeatable.",
    ),
]


@dataclass(frozen=True)
class EvalOptions:
    """What `eval` asks."""

    agent: Annotated[
        Path,
        typer.Argument(
            metavar="AGENT",
            help="The agent's folder; or a folder of several agents, if cases name their `agent`.",
        ),
    ]
    cases: Annotated[
        Path, typer.Argument(metavar="CASES", help="The cases: .jsonl, .json or .yaml.")
    ]
    model: Models = None
    prompts: Prompts = None
    repeat: Annotated[int, setting("--repeat", "K", "Run each case this many times.")] = 1
    only: Annotated[
        list[str] | None,
        option("--only", "WORD", "Only cases with this id, tag or agent. Repeatable."),
    ] = None
    concurrency: Annotated[
        int,
        setting(
            "--concurrency",
            "N",
            "Cases that a model answers at the same time; embedded and scripted ones answer one "
            "by one.",
        ),
    ] = 4
    out: Annotated[
        Path | None,
        option("--out", "RUN", "Write the run to this file (JSONL); an interrupted run continues."),
    ] = None
    junit: Annotated[
        Path | None, option("--junit", "FILE", "Write the results as JUnit's XML.")
    ] = None
    html: Annotated[
        Path | None, option("--html", "FILE", "Write a report as one page without scripts.")
    ] = None
    min: Annotated[
        float | None,
        option("--min", "SHARE", "Fail when a variant passes fewer cases: 0.8, for example."),
    ] = None
    baseline: Annotated[
        Path | None,
        option("--baseline", "RUN", "Fail when a variant is worse than this run, beyond chance."),
    ] = None
    judge: Annotated[
        str | None, option("--judge", "SPEC", "The model that makes the checks `judge`.")
    ] = None
    judge_prompt: Annotated[
        Path | None, option("--judge-prompt", "FILE", "Its prompt, a template in any language.")
    ] = None
    price: Prices = None
    around: Annotated[
        str | None,
        option(
            "--around",
            "FILE:FUNCTION",
            "A context manager around each case, such as one that makes a new database; cases "
            "are then held one by one.",
        ),
    ] = None
    state: Annotated[
        Path | None,
        option("--state", "FILE", "Keep the sessions in this SQLite file, to look at them."),
    ] = None


@verb
def eval_(terminal: Terminal, asked: EvalOptions) -> None:
    """Ask an agent the questions of a file, and check what it does.

    Without --min and --baseline every case must pass. With --min, each variant must pass that share
    of the cases. With --baseline, no variant may be worse than that run by more than chance.

    [bold]Examples[/bold]
      $ orchestrator eval my-agent cases.jsonl
      $ orchestrator eval my-agent cases.yaml --model local --html report.html
      $ orchestrator eval my-agent cases.jsonl --prompts new --baseline main.jsonl
      $ orchestrator eval my-agent cases.jsonl --repeat 5 --out run.jsonl --min 0.8
    """
    from orchestrator.agent.evaluation import compare_runs, compare_variants, read_run

    _check_options(asked)
    evaluation = _build_evaluation(asked)
    baseline = None if asked.baseline is None else read_run(asked.baseline)
    run = _run(terminal, asked, evaluation)
    comparisons = compare_variants(run) if baseline is None else compare_runs(run, baseline)
    verdict = _find_faults(asked, run, comparisons)
    _write_reports(asked, run, comparisons, verdict)
    if terminal.json:
        from orchestrator.agent.evaluation.report import build_document

        terminal.document(build_document(run, comparisons, verdict))
    else:
        show_report(terminal, run, comparisons, verdict)
    if verdict:
        raise typer.Exit(AGENT_FAILED)


def _check_options(asked: EvalOptions) -> None:
    if asked.min is not None and not 0 <= asked.min <= 1:
        raise ValidationError(f"--min is a share from 0 to 1, and not {asked.min:g}")
    if asked.judge_prompt is not None and asked.judge is None:
        raise ValidationError("--judge-prompt is for a model that judges; give --judge SPEC")
    for name in ("out", "junit", "html"):
        file: Path | None = getattr(asked, name)
        # Before a model is paid for.
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise ValidationError(f"--{name} cannot be written to {str(file)!r}")


def _build_evaluation(asked: EvalOptions) -> Evaluation:
    from orchestrator.agent.evaluation import Evaluation, read_cases
    from orchestrator.agent.evaluation.matrix import check_judge
    from orchestrator.agent.evaluation.options import build_judge, choose_cases, combine_variants
    from orchestrator.models.prices import parse_prices

    cases = choose_cases(read_cases(asked.cases), asked.only or ())
    judge = None
    if asked.judge is not None:
        judge = build_judge(asked.judge, get_agent_root(asked.agent), asked.judge_prompt)
    check_judge(cases, judge)
    return Evaluation(
        asked.agent,
        cases,
        combine_variants(asked.model or (), asked.prompts or ()),
        repeat=asked.repeat,
        concurrency=asked.concurrency,
        judge=judge,
        prices=parse_prices(asked.price or ()),
        around=None if asked.around is None else _load_around(asked.around),
        sessions=asked.state,
    )


def _load_around(spec: str) -> Any:
    from orchestrator.agent.evaluation.checks.code import load_function

    return load_function(spec, None, "--around")


def _run(terminal: Terminal, asked: EvalOptions, evaluation: Evaluation) -> Run:
    from orchestrator.agent.evaluation import Execution

    with ExitStack() as stack:
        file = asked.out
        if file is None:
            file = Path(stack.enter_context(TemporaryDirectory())) / "run.jsonl"
        execution = stack.enter_context(Execution(evaluation, file))
        progress = stack.enter_context(Progress(terminal, execution.run))
        if execution.resumed:
            of = execution.run.result_count
            name = clean(str(file))
            terminal.note(f"{name!r} has {execution.resumed} of {of} results; going on")
        for result in stack.enter_context(closing(execution.iterate())):
            progress.show(result)
        return execution.run


def _write_reports(
    asked: EvalOptions, run: Run, comparisons: list[Comparison], faults: list[str]
) -> None:
    from orchestrator.agent.evaluation import build_junit, build_report
    from orchestrator.support.private_files import open_private

    texts = {}
    if asked.junit is not None:
        texts[asked.junit] = build_junit(run)
    if asked.html is not None:
        texts[asked.html] = build_report(run, comparisons, faults)
    for file, text in texts.items():
        # What users and agents said is nobody else's business, unless the owner says so.
        with open_private(file, encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(text)


def _find_faults(asked: EvalOptions, run: Run, comparisons: list[Comparison]) -> list[str]:
    """Why the command fails; nothing when it does not."""
    from orchestrator.agent.evaluation import sum_variants
    from orchestrator.agent.evaluation.summary import find_shortfalls

    figures = sum_variants(run)
    faults = []
    if asked.baseline is not None:
        faults += _find_regressions(comparisons)
        # An outage must not look like a run without regressions.
        faults += [f"{one.name} has {one.errors} errors" for one in figures if one.errors]
    if asked.min is not None:
        faults += find_shortfalls(figures, asked.min)
    if asked.min is None and asked.baseline is None:
        faults += find_shortfalls(figures)
    return faults


def _find_regressions(comparisons: list[Comparison]) -> list[str]:
    faults = []
    for one in comparisons:
        if one.outcome == "regression":
            faults.append(f"{one.variant} is worse than the baseline: {one.method}")
        elif not one.common:
            faults.append(f"{one.variant} has no case in common with the baseline")
    return faults
