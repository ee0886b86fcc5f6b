"""Questions made ready for a search by a model (Bedrock: `orchestrationConfiguration`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from orchestrator.models import Model
from orchestrator.server.runtime.single_prompt import ask_for_tag

if TYPE_CHECKING:
    from orchestrator.knowledge import KnowledgeBase

_STANDALONE = """\
Below are a conversation and the message that the user sends next. Write that message anew, so that
somebody who has not read the conversation understands it: put names in the place of words that
refer back. Do not answer it, and add nothing to it. If it stands alone already, repeat it.

<conversation>
$conversation_history$
</conversation>

<message>
$query$
</message>

$output_format_instructions$"""
_PARTS = """\
Somebody wants the following question answered from a collection of documents.

<message>
$query$
</message>

Which searches find what is needed? Write one short search a line, at most four of them. If one
search is enough, write only that one.

$output_format_instructions$"""
_FORMAT = "Write nothing else, inside <search_query> and </search_query>."
_VALUE = re.compile(r"\$(conversation_history|query|output_format_instructions|current_time)\$")
# Bedrock: RetrieveAndGenerateInput.
_LONGEST = 1000
_MOST_PARTS = 4


class Rewriter:
    """Has a model write questions as they are to be searched for."""

    def __init__(
        self,
        model: Model,
        template: str | None,
        inference: Mapping[str, Any],
        additional: Mapping[str, Any],
    ) -> None:
        self.has_prompt = template is not None  # whether the request brought its own
        self._model = model
        self._template = template or _STANDALONE
        self._inference = inference
        self._additional = additional

    def rewrite(self, text: str, earlier: Sequence[tuple[str, str]]) -> str:
        """A question that stands alone; the original one when the model writes none.

        Raises:
            DependencyFailed: The model failed.
        """
        history = "\n".join(f"User: {asked}\nAssistant: {answer}" for asked, answer in earlier)
        return self._ask(self._template, text, history)[:_LONGEST].strip() or text

    def decompose(self, text: str) -> list[str]:
        """The searches that find what a question asks for; at least one."""
        lines = [line.strip(" -*\t") for line in self._ask(_PARTS, text, "").splitlines()]
        parts = dict.fromkeys(line[:_LONGEST] for line in lines if line)
        return list(parts)[:_MOST_PARTS] or [text]

    def _ask(self, template: str, text: str, history: str) -> str:
        from orchestrator.prompts.partials import encode

        values = {
            "query": encode(text),
            "conversation_history": encode(history),
            "output_format_instructions": _FORMAT,
            "current_time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        }
        prompt = _VALUE.sub(lambda found: values[found[1]], template)
        return ask_for_tag(
            self._model,
            prompt,
            "search_query",
            question=text,
            inference=self._inference,
            additional=self._additional,
        )


class DecomposingKnowledgeBase:
    """A knowledge base that is searched for the parts of a question; a `KnowledgeBase`."""

    def __init__(self, base: KnowledgeBase, rewriter: Rewriter) -> None:
        self.id = base.id
        self.description = base.description
        self._base = base
        self._rewriter = rewriter

    def retrieve(
        self, query: str, configuration: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """What the searches for the parts have found, without repetitions, best first."""
        found: list[dict[str, Any]] = []
        for part in self._rewriter.decompose(query):
            found += [one for one in self._base.retrieve(part, configuration) if one not in found]
        found.sort(key=lambda one: -float(one.get("score") or 0))
        return found
