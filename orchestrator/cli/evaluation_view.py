"""What `orchestrator eval` shows: a table while it runs, and the report at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.cli.terminal import Terminal, assemble, clean, shorten, style_text

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from orchestrator.agent.evaluation import CaseResult, Comparison, Figures, Run

_MARKS = {"passed": ("✓", "good"), "failed": ("✗", "error"), "error": ("!", "warning")}
_MOST_SHOWN = 30  # cases that did not pass, in the terminal
_MOST_NAMES = 12


class Progress:
    """A table of the variants that is drawn again with each result; lines in a pipe. A context."""

    def __init__(self, terminal: Terminal, run: Run) -> None:
        """Takes the run, whose results are counted."""
        self._terminal, self._run = terminal, run
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        """Begins to show."""
        if self._terminal.err.is_terminal:
            from rich.live import Live

            self._live = Live(self._build_table(), console=self._terminal.err, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the table away."""
        if self._live is not None:
            self._live.stop()

    def show(self, result: CaseResult) -> None:
        """Shows a result that the run has now."""
        if self._live is not None:
            self._live.update(self._build_table())
            return
        mark, style = _MARKS[result.status]
        count = f"{len(self._run.results)}/{self._run.result_count}"
        name = clean(result.case)
        if self._run.head["repeat"] > 1:
            name += f" ({result.repetition})"
        variant = f"  {clean(result.variant)}" if len(self._run.variants) > 1 else ""
        line = assemble(f"{count} ", (f"{mark} {result.status}", style), f" {name}{variant} ")
        line.append(f"{result.seconds:.1f} s", "quiet")
        self._terminal.note(line)

    def _build_table(self) -> Table:
        from rich.table import Table

        table = Table("variant", "done", "of", "passed", "failed", "error", box=None)
        of = self._run.result_count // len(self._run.variants)
        for name in self._run.variants:
            statuses: list[str] = [result.status for result in self._run.of(name)]
            counts = [statuses.count(status) for status in _MARKS]
            cells = map(str, (len(statuses), of, *counts))
            table.add_row(style_text(clean(name), "name"), *cells)
        return table


def show_report(
    terminal: Terminal, run: Run, comparisons: list[Comparison], faults: list[str]
) -> None:
    """Writes the report."""
    from orchestrator.agent.evaluation import sum_tags, sum_variants

    terminal.print(_build_table("variant", sum_variants(run)))
    for name in run.variants:
        tags = list(sum_tags(run, name))
        if tags:
            title = f"tags of {name}" if len(run.variants) > 1 else "tag"
            terminal.print("")
            terminal.print(_build_table(title, tags))
    _show_faulty_cases(terminal, run)
    for comparison in comparisons:
        _show_comparison(terminal, comparison)
    for fault in faults:
        terminal.block(assemble(("\nfailed: ", "error"), clean(fault)))


def _build_table(first: str, figures: list[Figures]) -> Table:
    from rich.table import Table

    table = Table(clean(first), "passed", "of", "rate", "95 %", box=None, pad_edge=False)
    has_cost = any(one.cost is not None for one in figures)
    for heading in ("errors", "turns", "median s", "tokens", *(["cost"] if has_cost else [])):
        table.add_column(heading, justify="right")
    for one in figures:
        low, high = (f"{100 * end:.0f}" for end in one.interval)
        cells = [str(one.passed), str(one.of), f"{100 * one.rate:.0f} %", f"{low}–{high}"]
        cells += [str(one.errors), f"{one.turns_passed}/{one.turns}", f"{one.median_seconds:.1f}"]
        cells += [f"{one.tokens:,}"]
        if has_cost:
            cells.append("" if one.cost is None else f"${one.cost:.4f}")
        table.add_row(style_text(clean(one.name), "name"), *cells)
    return table


def _show_faulty_cases(terminal: Terminal, run: Run) -> None:
    faulty = [result for result in run.results if result.status != "passed"]
    for result in faulty[:_MOST_SHOWN]:
        mark, style = _MARKS[result.status]
        where = clean(result.variant) if len(run.variants) > 1 else ""
        number = f"repetition {result.repetition}" if run.head["repeat"] > 1 else ""
        facts = ", ".join(filter(None, (where, number)))
        terminal.print("")
        terminal.block(assemble((f"{mark} ", style), (clean(result.case), "name"), f"  {facts}"))
        for text, kind in _describe_faults(result):
            terminal.block(style_text(clean(text), kind), 4)
    if len(faulty) > _MOST_SHOWN:
        terminal.print(f"\nand {len(faulty) - _MOST_SHOWN} more; --html or --out has all")


def _describe_faults(result: CaseResult) -> list[tuple[str, str]]:
    lines = [(text, "warning") for text in [result.error] if text]
    for number, turn in enumerate(result.turns, 1):
        faults = [check for check in turn.checks if not check.passed]
        if not faults and not turn.error:
            continue
        turn_name = f"turn {number}: " if len(result.turns) > 1 else ""
        lines.append((f"{turn_name}{shorten(' / '.join(turn.said), 200)}", "quiet"))
        if turn.error:
            lines.append((shorten(turn.error, 400), "warning"))
        for check in faults:
            if check.error:
                lines.append((f"{check.check}: {shorten(check.error, 400)}", "warning"))
            else:
                text = f"{check.check}: expected {check.expected}; got {check.actual or 'nothing'}"
                lines.append((shorten(text, 400), ""))
    return lines


def _show_comparison(terminal: Terminal, comparison: Comparison) -> None:
    one = comparison
    style = {"regression": "error", "improvement": "good"}.get(one.outcome, "info")
    terminal.print("")
    terminal.block(
        assemble(
            (clean(one.variant), "name"), " beside ", (clean(one.baseline), "name"), ": ",
            (one.outcome, style), f" ({100 * one.before:.0f} % → {100 * one.after:.0f} %)",
        )
    )  # fmt: skip
    terminal.block(style_text(one.method, "quiet"), 4)
    for title, changes in (("lost", one.lost), ("gained", one.gained)):
        if changes:
            names = [
                it.case
                if {it.before, it.after} <= {0.0, 1.0}
                else f"{it.case} ({100 * it.before:.0f} → {100 * it.after:.0f} %)"
                for it in changes
            ]
            terminal.block(f"{title}: {_join(names)}", 4)
    if one.left_out:
        terminal.block(f"not compared, for want of a verdict in both: {_join(one.left_out)}", 4)
    if one.changed:
        terminal.block(f"not compared, for the case was changed: {_join(one.changed)}", 4)


def _join(names: list[str]) -> str:
    shown = ", ".join(clean(name) for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
