"""A model that judges answers by a rubric; its prompt is a template like any other."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.agent.evaluation.checks import Outcome, Verdict
from orchestrator.agent.evaluation.checks.base import shorten
from orchestrator.agent.template import load_template
from orchestrator.errors import ModelOutputError
from orchestrator.models import Model
from orchestrator.support.content_root import content_root

# The place of the shipped prompt, and where users look for a file to begin with.
JUDGE_PROMPT = "evaluation/judge.prompty"
_VERDICT = re.compile(r"^\W*(PASS|FAIL)\W*$", re.IGNORECASE)
_MOST_CHARS = 20_000  # of the results


class ModelJudge:
    """Grades outcomes with a model.

    Its template has the inputs `rubric` and, each as one line of JSON, `said`, `calls`, `results`
    and `answer`: nothing in them can look like a part of the prompt. The last line of the model's
    reply is PASS or FAIL, and what stands before it is the reason.
    """

    def __init__(self, model: Model, prompt: Path | None = None) -> None:
        """Reads the prompt.

        Args:
            model: Who judges.
            prompt: A template in any language; the shipped one when `None`.

        Raises:
            OrchestratorError: The template cannot be read.
        """
        self.model = model
        self.template = load_template(prompt or content_root() / "templates" / JUDGE_PROMPT)

    def grade(self, rubric: str, outcome: Outcome) -> Verdict:
        """The verdict on an outcome.

        Raises:
            ModelOutputError: The model gave no verdict, or repeated the answer instead.
            OrchestratorError: The model failed.
        """
        inputs = {
            "rubric": rubric,
            "said": _encode(outcome.said),
            "calls": _encode(outcome.calls),
            "results": _encode(_cut(outcome.results)),
            "answer": _encode(outcome.answer),
        }
        reply = self.template.run(inputs, model=self.model).text
        lines = [line.strip() for line in reply.strip().splitlines() if line.strip()]
        found = _VERDICT.match(lines[-1]) if lines else None
        if found is None:
            raise ModelOutputError(
                f"the model that judges ({self.model.model_id!r}) gave no verdict: the last line "
                "of its reply must be PASS or FAIL",
                code="NO_VERDICT",
            )
        if _repeats(lines, outcome.answer):
            raise ModelOutputError(
                f"the model that judges ({self.model.model_id!r}) gave no verdict: its reply "
                "repeats the answer that it shall judge",
                code="NO_VERDICT",
            )
        reason = shorten(" ".join(lines[:-1])) or found[1].upper()
        return Verdict(found[1].upper() == "PASS", f"judged by {rubric!r}", reason)


def _encode(value: object) -> str:
    # JSON leaves U+2028 and its like as they are, and models take them for line ends.
    text = json.dumps(value, ensure_ascii=False, default=str)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda it: f"\\u{ord(it[0]):04x}", text)


def _cut(texts: Sequence[str]) -> list[str]:
    """The beginning of some texts, as much as a judge reads."""
    cut, left = [], _MOST_CHARS
    for text in texts:
        if left <= 0:
            break
        cut.append(text[:left])
        left -= len(text)
    return cut


def _repeats(lines: Sequence[str], answer: str) -> bool:
    """Whether the reason, or a verdict without one, may be copied from the answer."""
    *reason, _ = lines
    if reason:
        return _plain(" ".join(reason)) in _plain(answer)
    return any(_VERDICT.match(line) for line in answer.splitlines())


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
