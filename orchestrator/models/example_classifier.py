"""Pre-processing without a language model: an input is what the nearest example in meaning is.

Small language models sort inputs badly; the vectors of a small embedding model do it better, in a
hundredth of the time (docs/embeddings.md has the figures). Categories are Bedrock's: A malicious,
B probing for or manipulating the agent's workings, C out of scope, D for the agent, E a reply to
the agent's question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.errors import TemplateError
from orchestrator.message import Message, text_of
from orchestrator.models.base import Model, ModelReply, ModelRequest
from orchestrator.prompts.template_files import read_yaml
from orchestrator.support.sentences import QUESTION_MARK
from orchestrator.support.words import part_camel_case

if TYPE_CHECKING:
    from orchestrator.models.embeddings.base import Embedder

# The file of a dialect's folder, or of the user's own templates folder, that has the examples.
EXAMPLES_FILE = "pre_processing_examples.yaml"

# After a question of the agent, an input that is not as near to anything is the reply to it; of a
# long input, one part that is as near to A or B decides.
_NEAR = 0.4

# An input that is less similar to the nearest example than this is near to nothing.
_LEAST = {"A": 0.2, "B": 0.3, "C": 0.25, "D": 0.25}

_MAX_EXAMPLES = 500

# Embedding models see the beginning of a long text only: what follows harmless words counts, too.
_PART = 400
_STEP = 300
_MAX_PARTS = 64
# A question of the agent, with a question mark or as a request.
_ASKS = re.compile(
    r"[?？؟]|\bplease (?:tell|give|provide|name|specify|enter|share|send)\b|\blet me know\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CategoryExamples:
    """Examples of inputs by category."""

    texts: Mapping[str, tuple[str, ...]]  # examples of `A`, `B` and `C`, and optionally of `D`

    @classmethod
    def read(cls, text: str, source: str | Path) -> CategoryExamples:
        """Reads a YAML mapping from categories to lists of examples; `source` is for messages.

        Raises:
            TemplateError: It is not such a mapping, or lacks A, B or C.
        """
        data = read_yaml(text, Path(source))
        for category, examples in data.items():
            if category not in ("A", "B", "C", "D") or not _are_texts(examples):
                raise TemplateError(
                    f"category {category!r} has to be A, B, C or D with a list of at most "
                    f"{_MAX_EXAMPLES} texts",
                    file=source,
                )
        if missing := [category for category in "ABC" if not data.get(category)]:
            names = ", ".join(missing)
            raise TemplateError(f"there are no examples of category {names}", file=source)
        return cls({category: tuple(examples) for category, examples in data.items()})


def _are_texts(examples: Any) -> bool:
    return (
        isinstance(examples, list)
        and len(examples) <= _MAX_EXAMPLES
        and all(isinstance(one, str) and one.strip() for one in examples)
    )


class _Example(NamedTuple):
    category: str
    text: str  # what is compared
    shown: str  # what the thinking calls it


class _Match(NamedTuple):
    category: str
    similarity: float
    shown: str


class ExampleClassifier(Model):
    """Answers requests of the stage PRE_PROCESSING with a category, by the nearest example.

    The reply is what a language model would write, `<thinking>…</thinking><category>D</category>`,
    so parsers, traces and journals know no difference. It looks at `request.question` and at the
    conversation in `request.messages`, not at the prompt's text.

    - The nearest of all examples decides; the agent's functions are the examples of D. A long input
      is compared part by part, and a part that is near to A or B decides.
    - If the agent's last message was a question, and the input neither is one nor is near to an
      example, it is the reply: E.
    - In the course of a conversation, an input that is near to nothing is taken for D: "And the
      other one?" means something there. At its beginning it is C.
    - For an agent without functions nothing is out of scope.

    Attributes:
        model_id: `local:` and the embedder's id.
        embedder: Gives the vectors.
    """

    def __init__(
        self,
        descriptions: Sequence[Mapping[str, Any]],
        examples: CategoryExamples,
        embedder: Embedder,
    ) -> None:
        """Makes the model; nothing is embedded yet.

        Args:
            descriptions: What the agent can do: `{"name", "description"}` of each function,
                knowledge base and collaborator. They are the examples of category D.
            examples: Examples of the other categories.
            embedder: Gives the vectors.
        """
        self.model_id = f"local:{embedder.id}"
        self._examples = [
            _Example(category, text, f'"{text}"')
            for category, texts in examples.texts.items()
            for text in texts
        ]
        self._examples += [_of_function(one) for one in descriptions]
        self._scoped = bool(descriptions)
        self.embedder = embedder
        self._lock = Lock()
        self._vectors: Any = None

    def complete(self, request: ModelRequest) -> ModelReply:
        """Answers with a category and, as its thinking, the example that decided.

        Raises:
            DependencyFailed: The embedder failed; `ModelNotReady` says how to get its weights.
        """
        question, before = _conversation(request)
        near = self._nearest(question)
        category, why = self._decide(near, question, before)
        named = f"{near.shown} of category {near.category}"
        thought = f"Nearest in meaning is {named} (similarity {near.similarity:.2f}){why}."
        text = f"<thinking>{escape(thought, quote=False)}</thinking><category>{category}</category>"
        return ModelReply([{"text": text}])

    def _decide(self, near: _Match, question: str, before: Sequence[Message]) -> tuple[str, str]:
        why = ""
        asked = before and before[-1]["role"] == "assistant"
        is_asking = asked and _ASKS.search(text_of(before[-1]["content"]))
        if is_asking and near.similarity < _NEAR and not QUESTION_MARK.search(question):
            return "E", ", which is not near; the agent has just asked something"
        if near.similarity < _LEAST[near.category]:
            if before:
                return "D", ", which is not near; it continues the conversation"
            near = near._replace(category="C")
            why = ", which is not near"
        if near.category == "C" and not self._scoped:
            return "D", "; the agent has no functions that would bound its task"
        return near.category, why

    def _nearest(self, question: str) -> _Match:
        with self._lock:
            if self._vectors is None:
                self._vectors = self.embedder.embed([one.text for one in self._examples])
        table = self.embedder.embed(_parts(question)) @ self._vectors.T
        near = [self._of_row(row) for row in table]
        unwanted = [one for one in near if one.category in "AB" and one.similarity >= _NEAR]
        return max(unwanted or near, key=lambda one: one.similarity)

    def _of_row(self, similarities: Any) -> _Match:
        index = int(similarities.argmax())
        example = self._examples[index]
        return _Match(example.category, float(similarities[index]), example.shown)


def describe_function(description: Mapping[str, Any]) -> str:
    """A function as an example of what an agent is asked: the words of its name, and what it does.

    Args:
        description: Its `name` and `description`, as a prompt has them.
    """
    words = part_camel_case(re.split(r"__|::", str(description["name"]))[-1]).replace("_", " ")
    return f"{words}: {description.get('description') or ''}"


def _of_function(description: Mapping[str, Any]) -> _Example:
    return _Example("D", describe_function(description), f"the function {description['name']}")


def _parts(text: str) -> list[str]:
    # Of a very long text only the first and the last parts are compared, which bounds the work.
    parts = [text[start : start + _PART] for start in range(0, max(len(text) - 100, 1), _STEP)]
    half = _MAX_PARTS // 2
    return parts if len(parts) <= _MAX_PARTS else [*parts[:half], *parts[-half:]]


def _conversation(request: ModelRequest) -> tuple[str, Sequence[Message]]:
    messages = request.messages
    last = max((n for n, one in enumerate(messages) if one["role"] == "user"), default=-1)
    text = text_of(messages[last]["content"]) if last >= 0 else ""
    return request.question or text, messages[: max(last, 0)]
