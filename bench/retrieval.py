"""Searching a local knowledge base of 10,000 passages: what a query costs, by way of searching."""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate, islice, product
from pathlib import Path
from typing import Any

from bench.harness import Row, settle

PASSAGES = 10_000
_PER_FILE = 20
_LIMIT = 20.0
_QUERIES = 40
_WORDS = 20_000
# As in a language without its stop words: some are in half of all texts, most in very few.
_WEIGHTS = list(accumulate(1 / (rank + 20) for rank in range(_WORDS)))


def retrieval() -> list[Row]:
    """A query over 10,000 passages; vectors of passages are random, the query's is real."""
    from orchestrator.errors import ModelNotReady
    from orchestrator.knowledge import LocalKnowledgeBase
    from orchestrator.models import resolve_embedder

    model: Any = resolve_embedder("local")
    try:
        model.embed(["warm up"])
    except ModelNotReady:
        model = None
    words = ["".join(it) for it in islice(product("aeiklmnorstu", repeat=5), _WORDS)]
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), words, chance)
        embedder = _Embedder(model)
        index = Path(folder) / ".index.sqlite"
        hybrid = LocalKnowledgeBase(folder, id="bench", index=index, embedder=embedder)
        keywords = LocalKnowledgeBase(folder, id="bench", index=index, embedder=None, refresh=False)
        report = hybrid.index()
        assert report.passages == PASSAGES, report.passages
        queries = [f"What about {' '.join(_text(words, chance, 8))}?" for _ in range(_QUERIES)]
        kind = {"equals": {"key": "part", "value": 3}}
        filtered = {"vectorSearchConfiguration": {"filter": kind}}
        with_query = f"with{'' if model else 'out'} embedding the query"
        semantic = {"vectorSearchConfiguration": {"overrideSearchType": "SEMANTIC"}}
        rows: list[Row] = [
            _row(f"search in {PASSAGES:,} passages, {name}", work, queries, note, _LIMIT)
            for name, work, note in (
                ("hybrid", lambda it: hybrid.retrieve(it), with_query),
                ("hybrid, filter", lambda it: hybrid.retrieve(it, filtered), with_query),
                ("embeddings", lambda it: hybrid.retrieve(it, semantic), with_query),
                ("keywords", lambda it: keywords.retrieve(it), "needs no model"),
            )
        ]
        if model:
            alone = "part of the rows above"
            rows.append(
                _row("embedding a query", lambda it: model.embed([it]), queries, alone, None)
            )
    return rows


class _Embedder:
    """Random vectors for passages, real ones for queries if there is a model."""

    id = "bench"
    dimensions = 384

    def __init__(self, model: Any) -> None:
        import numpy as np

        self._model = model
        self._random = np.random.default_rng(7)

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy as np

        if self._model is not None and len(texts) == 1:
            return self._model.embed(texts)
        rows = self._random.standard_normal((len(texts), self.dimensions), np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _text(words: Sequence[str], chance: random.Random, count: int) -> list[str]:
    return chance.choices(words, cum_weights=_WEIGHTS, k=count)


def _write(folder: Path, words: Sequence[str], chance: random.Random) -> None:
    for number in range(PASSAGES // _PER_FILE):
        sections = [
            f"## Section {n}\n\n{' '.join(_text(words, chance, 100))}.\n" for n in range(_PER_FILE)
        ]
        page = folder / f"page-{number}.md"
        page.write_text("\n".join(sections))
        attributes = json.dumps({"metadataAttributes": {"part": number % 10}})
        page.with_name(page.name + ".metadata.json").write_text(attributes)


def _milliseconds(work: Callable[[str], Any], queries: Sequence[str]) -> tuple[float, float]:
    """CPU and wall-clock milliseconds of a query: medians."""
    for query in queries[:3]:
        work(query)
    settle()
    cpu, wall = [], []
    for query in queries:
        began, started = time.process_time(), time.perf_counter()
        work(query)
        cpu.append(time.process_time() - began)
        wall.append(time.perf_counter() - started)
    return 1000 * statistics.median(cpu), 1000 * statistics.median(wall)


def _row(
    name: str, work: Callable[[str], Any], queries: Sequence[str], note: str, limit: float | None
) -> Row:
    cpu, wall = _milliseconds(work, queries)
    return (name, cpu, "ms", limit, f"{note}; {wall:.1f} ms of wall clock")
