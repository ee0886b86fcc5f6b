"""Asks local knowledge bases sixty questions about this project's own pages.

    python evals/retrieval/run.py
    python evals/retrieval/run.py --mode keywords --misses
    python evals/retrieval/run.py --json result.json --min 0.8

The corpus is what the project has today: README, CONTRIBUTING, docs/ and the Markdown of examples/,
templates/ and evals/. The same passages are searched in three ways; a question is answered when one
of the passages that its `expect` names is among the first results.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from orchestrator.knowledge import LocalKnowledgeBase

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = (
    *("README.md", "CONTRIBUTING.md", "docs/*.md", "evals/README.md", "templates/README.md"),
    *("action_groups/README.md", "memory/README.md", "examples/**/*.md"),
)
OUR_OWN = "docs/knowledge-bases.md"  # it tells of these questions
DEPTH = 10
MODES = {
    "hybrid": {},
    "keywords": {},
    "embeddings": {"vectorSearchConfiguration": {"overrideSearchType": "SEMANTIC"}},
}


@dataclass
class Result:
    """How one way of searching did.

    Attributes:
        mode: The way.
        ranks: The rank of the first right passage for each question; 0 when there was none.
        milliseconds: CPU time of a query, on average, with its embedding.
    """

    mode: str
    ranks: list[int] = field(default_factory=list)
    milliseconds: float = 0.0

    def hit(self, depth: int) -> float:
        """The share of questions with a right passage among the first `depth`."""
        return sum(0 < rank <= depth for rank in self.ranks) / len(self.ranks)

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank of the first right passage."""
        return sum(1 / rank for rank in self.ranks if rank) / len(self.ranks)


def load_questions(path: Path = HERE / "questions.yaml") -> list[dict[str, Any]]:
    """The questions: `kind`, `question` and `expect`."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def copy_pages(target: Path) -> None:
    """Copies the corpus into a folder."""
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            name = page.relative_to(ROOT)
            if name.as_posix() != OUR_OWN and not any(it.startswith(".") for it in name.parts):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, target / name)


def places_of(reference: dict[str, Any]) -> Iterator[str]:
    """What a passage may be called in `expect`: its page, and its page with each heading."""
    page = reference["location"]["customDocumentLocation"]["id"]
    yield page
    heading, blank, _ = reference["content"]["text"].partition("\n\n")
    for part in heading.replace("`", "").split(" > ") if blank else ():
        yield f"{page}#{part}"


def missing(questions: Sequence[dict[str, Any]], base: LocalKnowledgeBase) -> list[str]:
    """Questions none of whose expected passages is there (any more)."""
    there = set()
    for found in base.store.read():
        page = {"id": found.name}
        reference = {
            "content": {"text": found.content.whole},
            "location": {"customDocumentLocation": page},
        }
        there.update(places_of(reference))
    return [it["question"] for it in questions if not there.intersection(it["expect"])]


def ask(mode: str, base: LocalKnowledgeBase, questions: Sequence[dict[str, Any]]) -> Result:
    """Asks all questions in one way."""
    result = Result(mode)
    vector = {"numberOfResults": DEPTH, **MODES[mode].get("vectorSearchConfiguration", {})}
    began = time.process_time()
    for item in questions:
        found = base.retrieve(item["question"], {"vectorSearchConfiguration": vector})
        right = (set(places_of(it)) & set(item["expect"]) for it in found)
        result.ranks.append(next((rank for rank, it in enumerate(right, 1) if it), 0))
    result.milliseconds = 1000 * (time.process_time() - began) / len(questions)
    return result


def main() -> int:
    """Runs the evaluation."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", choices=MODES, action="append", help="only this way; repeatable")
    parser.add_argument("--misses", action="store_true", help="list questions without a first hit")
    parser.add_argument("--json", metavar="FILE", help="write all ranks to a file")
    parser.add_argument("--min", type=float, default=0.0, help="fail below this hybrid hit@3")
    given = parser.parse_args()
    questions = load_questions()
    with tempfile.TemporaryDirectory() as folder:
        copy_pages(Path(folder))
        results = []
        for mode in given.mode or MODES:
            embedder = None if mode == "keywords" else "local"
            base = LocalKnowledgeBase(folder, id="pages", embedder=embedder)
            passages = base.index().passages
            for gone in missing(questions, base):
                print(f"no expected passage is there: {gone}", file=sys.stderr)
            results.append(ask(mode, base, questions))
    show(results, questions, passages, misses=given.misses)
    if given.json:
        document = {"passages": passages, "results": [asdict(it) for it in results]}
        Path(given.json).write_text(json.dumps(document, indent=1), encoding="utf-8")
    hybrid = [it for it in results if it.mode == "hybrid"]
    return 1 if hybrid and hybrid[0].hit(3) < given.min else 0


def show(
    results: Sequence[Result],
    questions: Sequence[dict[str, Any]],
    passages: int,
    *,
    misses: bool,
) -> None:
    """Prints the table, and on demand what was not found first."""
    console = Console()
    table = Table(title=f"{len(questions)} questions, {passages} passages")
    for name in ("search", "hit@1", "hit@3", "MRR", "words", "paraphrase", "code", "CPU ms"):
        table.add_column(name, justify="left" if name == "search" else "right")
    for result in results:
        kinds = [_of_kind(result, questions, kind) for kind in ("words", "paraphrase", "code")]
        table.add_row(
            *(result.mode, f"{result.hit(1):.2f}", f"{result.hit(3):.2f}", f"{result.mrr:.2f}"),
            *(f"{kind.hit(3):.2f}" for kind in kinds),
            f"{result.milliseconds:.1f}",
        )
    console.print(table)
    console.print("The columns of kinds are hit@3.")
    for result in results if misses else ():
        for item, rank in zip(questions, result.ranks, strict=True):
            if rank != 1:
                console.print(f"{result.mode}: {rank or 'none'}: {item['question']}", markup=False)


def _of_kind(result: Result, questions: Sequence[dict[str, Any]], kind: str) -> Result:
    pairs = zip(result.ranks, questions, strict=True)
    return Result(result.mode, [rank for rank, item in pairs if item["kind"] == kind])


if __name__ == "__main__":
    raise SystemExit(main())
