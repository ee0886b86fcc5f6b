"""Whether a user's input has nothing to do with what an agent is for, by its meaning.

The embedding model knows English. Of an input in another language nothing is said, and the language
model decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from orchestrator.errors import OrchestratorError
from orchestrator.support.content_words import find_content_words

if TYPE_CHECKING:
    from orchestrator.models.embeddings.base import Embedder

FAR = 0.19
"""An input that is as much nearer to what the agent is not for is out of its scope (measured)."""

FARTHER = 0.3
"""The same for an agent with documents, of which the scope's examples know nothing (measured)."""

NEAR = 0.08
"""A refusal of an input that is not so far is wrong (measured on few inputs)."""

NEAREST, AHEAD = 0.25, 0.08
"""A text is a collaborator's matter if it is so near, and as much nearer than to any other one.

Of 41 inputs to four teams, 24 of the 35 that were somebody's matter were known, and no other.
"""

_ABOUT = "What do you do?"
"""What is asked of any agent, whatever it is for."""

REFUSAL = "Sorry, I can't help with that. It has nothing to do with my task."
"""How the prompt's examples refuse."""

# Its parts, which small models put in other words around them.
_REFUSING = re.compile("can['’]?t help with that|nothing to do with my task", re.IGNORECASE)
_ENGLISH = frozenset(
    "the is are was what which who where when how why do does did can could will would should i you"
    " my me your his her it its we us our they of to in on for with from at by and or an a this"
    " that have has had be been any some please tell give show find write there about not".split()
)
_REFERRING = re.compile(
    r"\b(?:it|its|that|this|those|these|he|she|him|her|his|hers|they|them|their|ones?|there)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(r"\s*(?:and|or|(?:what|how) about)\b", re.IGNORECASE)
_BRIEF = 8  # words of a question that needs the one before it
_LEAST_ENGLISH = 0.3  # of the words
_MOST = 1000  # characters that are looked at
_CLAUSE = re.compile(r"[,;.:!?]\s+|\s(?:and|but|or)\s")
_MOST_CLAUSES = 8


def is_refusal(text: str) -> bool:
    """Whether a text refuses as `REFUSAL` does, in other words around it too."""
    return _REFUSING.search(text) is not None


class LearnedScope:
    """Knows an agent's scope by examples, which are embedded when they are first needed."""

    def __init__(
        self,
        inside: Sequence[str],
        outside: Sequence[str],
        embedder: Embedder,
        collaborators: Mapping[str, str] | None = None,
    ) -> None:
        """Makes the scope; nothing is embedded yet.

        Args:
            inside: What the agent is for: its functions, its instruction, courtesies, and itself.
            outside: Inputs that agents are not for.
            embedder: Gives the vectors.
            collaborators: When each is to be asked, by name.
        """
        self._split = len(inside)
        self._names = [*(collaborators or {})]
        matters = [f"{name}: {text}" for name, text in (collaborators or {}).items()]
        self._texts = [*inside, *outside, *matters]
        self._embedder = embedder
        self._lock = Lock()
        self._vectors: Any = None
        self._is_missing = False

    def measure(self, text: str) -> float | None:
        """How much nearer a text is to the outside than to the inside; `None`: not known."""
        near = self._compare(text)
        if near is None:
            return None
        near, split = near[: len(self._texts) - len(self._names)], self._split
        return float(near[split:].max() - near[:split].max())

    def find_collaborator(self, text: str) -> str:
        """The collaborator whose matter a text certainly is; empty if that is not known."""
        nearest = self._find_nearest(text) if self._names else ""
        clauses = _CLAUSE.split(text[:_MOST])[:_MOST_CLAUSES] if nearest else []
        # A text about several matters is nobody's alone.
        others = {self._find_nearest(clause) for clause in clauses} - {"", nearest}
        return "" if others else nearest

    def _find_nearest(self, text: str) -> str:
        near = self._compare(text)
        if near is None:
            return ""
        matters = sorted(zip(near[-len(self._names) :].tolist(), self._names, strict=True))
        nearest, name = matters[-1]
        second = matters[-2][0] if len(matters) > 1 else 0.0
        return name if nearest >= NEAREST and nearest - second >= AHEAD else ""

    def _compare(self, text: str) -> Any:
        """How near a text is to each text of the scope; `None`: not known."""
        if self._is_missing or not is_english(text):
            return None
        try:
            with self._lock:
                if self._vectors is None:
                    self._vectors = self._embedder.embed(self._texts)
            return (self._embedder.embed([text[:_MOST]]) @ self._vectors.T)[0]
        except OrchestratorError:  # its weights or its runtime are not here
            self._is_missing = True
            return None


def is_english(text: str) -> bool:
    """Whether a text is certainly English."""
    words = re.findall(r"[^\W\d_]+", text[:_MOST].lower().replace("'", " "))
    known = sum(word in _ENGLISH for word in words)
    return text.isascii() and known >= max(1, _LEAST_ENGLISH * len(words))


def find_subjects(text: str) -> set[str]:
    """The beginnings of all words but short and common English ones: what a text may be about."""
    return find_content_words(text, shortest=3) - _ENGLISH


def refers_back(text: str) -> bool:
    """Whether an English text has a word that stands for something said before.

    Such a text says less of what it is about, and seems to be further away than it is.
    """
    return _REFERRING.search(text[:_MOST]) is not None


def goes_on(text: str) -> bool:
    """Whether an English text is a part of a question that was begun before: "and in Paris?"."""
    return _OPENING.match(text) is not None and len(text[:_MOST].split()) <= _BRIEF


def build_scope(
    instruction: str,
    functions: Sequence[Mapping[str, Any]],
    examples: Mapping[str, Sequence[str]],
    embedder: Embedder,
    collaborators: Mapping[str, str] | None = None,
) -> LearnedScope:
    """The scope of an agent.

    Args:
        instruction: The agent's; its first two sentences say what it is for.
        functions: `name` and `description` of each function.
        examples: Inputs by category of pre-processing: C is outside, D are courtesies.
        embedder: Gives the vectors.
        collaborators: When each is to be asked, by name.
    """
    from orchestrator.models.example_classifier import describe_function

    purpose = re.split(r"(?<=[.!?])\s+", instruction.strip())[:2]
    inside = [*map(describe_function, functions), *purpose, _ABOUT, *examples.get("D", ())]
    return LearnedScope(inside, [*examples.get("C", ())], embedder, collaborators)
