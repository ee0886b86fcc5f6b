"""A model that judges answers by a rubric; its prompt is a template like any other."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.agent.evaluation.checks import Outcome, Verdict
from orchestrator.agent.evaluation.checks.base import shorten
from orchestrator.agent.evaluation.checks.calls import show_calls
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

    Its template has the inputs `rubric`, `said`, `calls`, `results` and `answer`; the last line of
    the model's reply is PASS or FAIL, and what stands before it is the reason.
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
            ModelOutputError: The model gave no verdict.
            OrchestratorError: The model failed.
        """
        inputs = {
            "rubric": rubric,
            "said": "\n".join(outcome.said),
            "calls": show_calls(outcome.calls),
            "results": "\n".join(outcome.results)[:_MOST_CHARS] or "none",
            "answer": outcome.answer or "(nothing)",
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
        reason = shorten(" ".join(lines[:-1])) or found[1].upper()
        return Verdict(found[1].upper() == "PASS", f"judged by {rubric!r}", reason)
