"""Which passages fit a question: by meaning, by words, and by both.

Meaning comes first: it finds other words for the same. Words are added to it as a smaller part,
for what has no meaning: names, numbers and codes. (Giving both equal weight, as reciprocal rank
fusion does, is worse than meaning alone; `evals/retrieval` measures it.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.errors import DependencyFailed
from orchestrator.knowledge.filters import Filter
from orchestrator.knowledge.store import Hit, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The ids of the passages that may be found.
Allowed = Collection[int]

# How much of the score of the best keyword hit is added to the cosine, which is at most 1.
WORDS_WEIGHT = 0.15

# How much is added for a name, number or code of the question that few passages have.
CODES_WEIGHT = 0.2

_CANDIDATES = 100
_MOST_TERMS = 64
_COMMON_SHARE = 0.05  # of all passages: a word that so many have is a common one,
_COMMON_FROM = 100  # if it is in at least so many
_TERM = re.compile(r"\w+(?:[-_.:/@]+\w+)*")
_PART = re.compile(r"\w+")
_CODE = re.compile(r"\d|[-_.:/@]|[a-z][A-Z]|^[A-Z]{2,}$")
_STOP = frozenset(
    """
    a about after all also an and any are as at be because been before but by can could did do does
    each for from get give had has have he her here him his how i if in into is it its just like me
    more most much my no not of off on one only or our out over own say says she should so some such
    tell than that the their them then there these they this those through to under up us use was we
    were what when where which while who whom whose why will with would you your
    """.split()
)


def _terms(query: str) -> list[str]:
    # Words that are in every text count only if the question has no others.
    found = dict.fromkeys(_TERM.findall(query))
    parts = dict.fromkeys(part for term in found for part in _PART.findall(term))
    words = [it for it in {**found, **parts} if it.lower() not in _STOP]
    return (words or list(found))[:_MOST_TERMS]


def expression(store: Store, query: str) -> str:
    """An FTS5 expression that finds any word of a question; empty when it has none."""
    return " OR ".join(_find_rarities(store, query))


def _find_rarities(store: Store, query: str) -> dict[str, float]:
    # Words that a great part of the passages has mean little and cost most: they count only when
    # the question has no others. Each is a phrase: nothing in it is an operator, and a code of
    # several parts must stand together.
    size = store.size()
    most = max(_COMMON_FROM, int(size * _COMMON_SHARE))
    having = {f'"{term}"': len(store.find_ids(f'"{term}"', most)) for term in _terms(query)}
    rare = {term: count for term, count in having.items() if count < most}
    # (Lucene's variant of BM25.) SQLite's comes to nothing where half of the passages have a word.
    return {
        # A word that no passage has tells none from another.
        term: math.log1p(max(size - count + 0.5, 0.5) / (count + 0.5))
        for term, count in ((term, max(count, 1)) for term, count in (rare or having).items())
    }


def rank_by_words(store: Store, query: str, limit: int, allowed: Allowed | None) -> list[Hit]:
    """The passages that have words of the question, best first (BM25); scores are from 0 to 1.

    A score is the share of the question's words that the passage has, rare ones counting up to
    twice as much, and never more than that of the passage before. It is comparable between searches
    and indexes, as a cosine is, and BM25 is not: it has no upper end, and comes to nothing in an
    index of few passages.
    """
    rarities = _find_rarities(store, query)
    hits = store.with_words(" OR ".join(rarities), limit, allowed) if rarities else []
    if not hits:
        return []
    rarest = max(rarities.values())
    weights = {term: 0.5 + 0.5 * rarity / rarest for term, rarity in rarities.items()}
    passages = [hit.passage for hit in hits]
    shares = dict.fromkeys(passages, 0.0)
    for term, weight in weights.items():
        for hit in store.with_words(term, limit, passages):
            shares[hit.passage] += weight / sum(weights.values())
    return list(_fall(hits, shares))


def _fall(hits: Sequence[Hit], shares: Mapping[int, float]) -> Iterator[Hit]:
    score = 1.0
    for hit in hits:
        score = min(score, shares[hit.passage])
        yield Hit(hit.passage, score)


class Catalog:
    """The documents' attributes at one revision of an index, in memory."""

    def __init__(self, store: Store) -> None:
        self.revision = store.revision
        self._documents = store.documents()
        self._passages: dict[int, list[int]] = {}
        for passage, document in store.owners():
            self._passages.setdefault(document, []).append(passage)

    def passages(self, filter: Filter) -> Allowed:
        """The passages of the documents that pass a filter."""
        passing = (id for id, attributes in self._documents.items() if filter.test(attributes))
        return [passage for id in passing for passage in self._passages.get(id, ())]


class Vectors:
    """The vectors of an index at one revision: passage `ids`, ascending, and their `matrix`."""

    def __init__(self, store: Store, dimensions: int) -> None:
        """Reads all vectors.

        Raises:
            DependencyFailed: The index failed, or holds something else than vectors.
        """
        import numpy as np

        self.revision = store.revision
        rows = store.vectors(4 * dimensions)
        self.ids = np.array([row[0] for row in rows], np.int64)
        flat = np.frombuffer(b"".join(row[1] for row in rows), "<f4")
        self.matrix: NDArray[np.float32] = flat.reshape(len(rows), dimensions)
        if not np.isfinite(flat).all():
            raise DependencyFailed(
                f"the index {store.path!r} has a vector that is no number; delete it: it is made "
                "again from the documents",
                resource=store.path,
            )

    def mask(self, allowed: Allowed) -> NDArray[np.bool_]:
        """Which rows may be found."""
        import numpy as np

        return np.isin(self.ids, np.fromiter(allowed, np.int64, len(allowed)))


def rank_passages(
    store: Store,
    vectors: Vectors,
    query: str,
    vector: NDArray[np.float32],
    limit: int,
    allowed: Allowed | None,
    *,
    semantic: bool,
) -> list[Hit]:
    """The passages that fit best by meaning, and unless `semantic` by words too; best first.

    Scores are from 0 to 1.
    """
    import numpy as np

    # Not `@`: its threads wait for each other where other work keeps the cores busy.
    scores = np.vecdot(vectors.matrix, vector)
    most = 1.0
    if not semantic:
        scores = scores + _word_scores(store, vectors, query, allowed)
        most += WORDS_WEIGHT + CODES_WEIGHT
    if allowed is not None:
        scores = np.where(vectors.mask(allowed), scores, -np.inf)
    return _best(vectors.ids, scores, limit, most)


def _word_scores(
    store: Store, vectors: Vectors, query: str, allowed: Allowed | None
) -> NDArray[np.float32]:
    # Scores of BM25 differ from index to index, so only their ratio to the best one counts.
    import numpy as np

    added = np.zeros(len(vectors.ids), np.float32)
    words = expression(store, query)
    hits = store.with_words(words, _CANDIDATES, allowed) if words else []
    if hits and hits[0].score > 0:
        share = np.array([hit.score for hit in hits]) / hits[0].score
        _add(added, vectors, [hit.passage for hit in hits], WORDS_WEIGHT * share)
    codes = (term for term in dict.fromkeys(_TERM.findall(query)) if _CODE.search(term))
    for code in codes:
        having = store.find_ids(f'"{code}"', _CANDIDATES)
        if 0 < len(having) < _CANDIDATES:
            rarity = 1 - math.log(len(having)) / math.log(_CANDIDATES)
            _add(added, vectors, having, CODES_WEIGHT * rarity)
    return added


def _add(
    added: NDArray[np.float32], vectors: Vectors, passages: Sequence[int], amount: Any
) -> None:
    import numpy as np

    ids = np.array(passages, np.int64)
    places = np.searchsorted(vectors.ids, ids)
    there = places < len(vectors.ids)
    there[there] = vectors.ids[places[there]] == ids[there]  # others have no vector yet
    amounts = np.broadcast_to(np.asarray(amount, np.float32), ids.shape)
    np.add.at(added, places[there], amounts[there])


def _best(
    ids: NDArray[np.int64], scores: NDArray[np.float32], limit: int, most: float
) -> list[Hit]:
    import numpy as np

    count = min(limit, len(ids))
    if count == 0:
        return []
    top = np.argpartition(-scores, count - 1)[:count]
    top = top[np.lexsort((ids[top], -scores[top]))]
    return [
        Hit(int(ids[row]), min(max(float(scores[row]) / most, 0.0), 1.0))
        for row in top
        if np.isfinite(scores[row])
    ]
