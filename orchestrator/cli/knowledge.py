"""`orchestrator knowledge`: the folders of documents that agents search."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.terminal import (
    Terminal,
    assemble,
    clean,
    format_count,
    join_facts,
    progress_bar,
    shorten,
    style_text,
)
from orchestrator.cli.verb import option, setting, verb
from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from orchestrator.knowledge import IndexReport, LocalKnowledgeBase

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="An agent's folder, or a folder of documents.")
]
Id = Annotated[str | None, option("--id", "ID", "Only this knowledge base of the agent.")]
Keywords = Annotated[
    bool,
    typer.Option("--keywords", help="Search by keywords only; needs no embedding model."),
]


@verb
def index(terminal: Terminal, folder: Folder, id: Id = None, keywords: Keywords = False) -> None:
    """Read what is new or changed in a folder, and forget what is gone.

    The index is one SQLite file in FOLDER/.orchestrator, which can be deleted at any time.

    [bold]Examples[/bold]
      $ orchestrator knowledge index examples/handbook
      $ orchestrator knowledge index documents --keywords
    """
    documents = []
    for base in _find_bases(folder, id, keywords=keywords):
        with progress_bar(terminal, counts=True) as progress:
            report = base.index(progress)
        skipped = [{"name": name, "reason": why} for name, why in report.skipped.items()]
        about = {"id": base.id, "folder": str(base.folder)}
        documents.append({**about, **asdict(report), "skipped": skipped})
        if not terminal.json:
            _report_index(terminal, base, report)
    if terminal.json:
        terminal.document({"knowledgeBases": documents})


@verb
def search(
    terminal: Terminal,
    folder: Folder,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    id: Id = None,
    keywords: Keywords = False,
    results: Annotated[
        int, setting("--results", "N", "How many passages to show: 1 to 100.", "-n")
    ] = 5,
    condition: Annotated[
        str | None, option("--filter", "JSON", "A metadata filter of Bedrock, as JSON.")
    ] = None,
) -> None:
    """Show the passages that an agent would get for a question.

    [bold]Examples[/bold]
      $ orchestrator knowledge search examples/handbook "May I bring my dog?"
      $ orchestrator knowledge search documents "form EX-14" --keywords --json
    """
    if not 1 <= results <= 100:
        raise ValidationError(f"--results {results} is not possible: give 1 to 100")
    settings: dict[str, Any] = {"numberOfResults": results}
    if condition is not None:
        settings["filter"] = json_or(condition, None)
        if settings["filter"] is None:
            example = '{"equals": {"key": "year", "value": 2026}}'
            raise ValidationError(f"--filter {condition!r} is not JSON, such as {example}")
    found = []
    for base in _find_bases(folder, id, keywords=keywords):
        with progress_bar(terminal, counts=True) as progress:
            report = base.index(progress)
        references = base.retrieve(query, {"vectorSearchConfiguration": settings})
        found.append({"id": base.id, "retrievalResults": references})
        if not terminal.json:
            _note_unread(terminal, report)
            _show_passages(terminal, base, references)
    if terminal.json:
        terminal.document({"knowledgeBases": found})


@verb
def list_(terminal: Terminal, folder: Folder, id: Id = None) -> None:
    """List what is indexed: documents and their passages.

    [bold]Examples[/bold]
      $ orchestrator knowledge list examples/handbook
    """
    listed = []
    for base in _find_bases(folder, id, keywords=True):
        documents = base.store.list_documents()
        passages, embedded = base.store.count()
        listed.append(
            {
                "id": base.id,
                "folder": str(base.folder),
                "index": base.store.path,
                "embedder": base.store.embedder or None,
                "passages": passages,
                "embedded": embedded,
                "documents": [{"name": name, "passages": count} for name, count in documents],
            }
        )
        if not terminal.json:
            how = base.store.embedder or "keywords only"
            terminal.block(f"{base.id}  {format_count(passages, 'passage')} · {how}")
            for name, count in documents:
                terminal.block(f"{clean(name)}  {count}", 2)
    if terminal.json:
        terminal.document({"knowledgeBases": listed})


def _find_bases(folder: Path, id: str | None, *, keywords: bool) -> list[LocalKnowledgeBase]:
    from orchestrator.definition.files import FILE_NAMES
    from orchestrator.knowledge import LocalKnowledgeBase

    if any((folder / name).is_file() for name in FILE_NAMES):
        return _find_agent_bases(folder, id, keywords=keywords)
    if not folder.is_dir():
        raise ResourceNotFound(f"there is no folder {str(folder)!r}")
    name = folder.resolve().name or "documents"
    return [
        LocalKnowledgeBase(
            folder,
            id=name,
            index=folder / ".orchestrator" / "knowledge.sqlite",
            embedder=None if keywords else "local",
        )
    ]


def _find_agent_bases(folder: Path, id: str | None, *, keywords: bool) -> list[LocalKnowledgeBase]:
    from orchestrator.definition import load_definition
    from orchestrator.definition.knowledge_base import build_knowledge_bases
    from orchestrator.knowledge import LocalKnowledgeBase

    definition = load_definition(folder)
    if keywords:
        bases = [it.model_copy(update={"embedder": None}) for it in definition.knowledge_bases]
        definition = definition.model_copy(update={"knowledge_bases": tuple(bases)})
    built = build_knowledge_bases(definition, folder)
    found = [it for it in built if isinstance(it, LocalKnowledgeBase) and id in (None, it.id)]
    if not found:
        which = f"no local knowledge base {id!r}" if id else "no knowledge base with a folder"
        raise ValidationError(f"the agent in {str(folder)!r} has {which}")
    return found


def _report_index(terminal: Terminal, base: LocalKnowledgeBase, report: IndexReport) -> None:
    done = {
        "added": len(report.added),
        "changed": len(report.changed),
        "removed": len(report.removed),
        "unchanged": report.unchanged,
    }
    facts = [f"{count} {word}" for word, count in done.items() if count]
    how = "" if base.embedder else "keywords only"
    passages = format_count(report.passages, "passage")
    terminal.block(f"{base.id}  " + join_facts(filter(None, [*facts, passages, how])))
    _note_unread(terminal, report)


def _note_unread(terminal: Terminal, report: IndexReport) -> None:
    from orchestrator.knowledge.documents import READ_ENDINGS

    for name, why in report.skipped.items():
        terminal.note(f"note: {clean(name)} was skipped: {clean(why)}")
    read = f"documents end in {', '.join(READ_ENDINGS)} and the like"
    if report.ignored:
        count = format_count(sum(report.ignored.values()), "file")
        endings = ", ".join(clean(it) or "no ending" for it in sorted(report.ignored)[:8])
        terminal.note(f"note: {count} of other kinds ({endings}) not read; {read}")
    if not report.passages:
        terminal.note(f"note: there are no passages to search; {read}")


def _show_passages(
    terminal: Terminal, base: LocalKnowledgeBase, references: list[dict[str, Any]]
) -> None:
    if base.embedder is None:
        terminal.note("note: searched by keywords only: passages that have the question's words")
    if not references:
        terminal.print(f"{base.id}: nothing was found")
    for number, reference in enumerate(references, 1):
        heading, blank, text = reference["content"]["text"].partition("\n\n")
        name = reference["metadata"]["x-amz-bedrock-kb-chunk-id"]
        score = (f"  {reference['score']:.2f}", "quiet")
        terminal.block(assemble(f"{number}. ", (clean(name), "name"), score))
        if blank:
            terminal.block(style_text(shorten(heading, 200), "heading"), 3)
        terminal.block(shorten(text if blank else heading, 400), 3)
