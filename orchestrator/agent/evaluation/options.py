"""From what a user asks for to an `Evaluation`: what the command line and the workbench share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.agent.evaluation.cases import Cases
from orchestrator.agent.evaluation.judge import JUDGE_PROMPT, ModelJudge
from orchestrator.agent.evaluation.variants import Variant
from orchestrator.errors import ResourceNotFound
from orchestrator.models import Model, resolve_model


def choose_cases(cases: Cases, words: Sequence[str]) -> Cases:
    """The cases with one of these ids, tags or agents; all without words.

    Raises:
        ResourceNotFound: There is none.
    """
    if not words:
        return cases
    chosen = [one for one in cases.cases if not {one.id, one.agent, *one.tags}.isdisjoint(words)]
    if not chosen:
        listed = ", ".join(map(repr, words))
        raise ResourceNotFound(f"no case of {str(cases.file)!r} has the id, tag or agent {listed}")
    ids = "\n".join([cases.digest, *(one.id for one in chosen)])
    digest = hashlib.sha256(ids.encode("utf-8", "replace")).hexdigest()
    return replace(cases, cases=tuple(chosen), digest=digest)


def combine_variants(
    models: Sequence[str | Model | None], prompts: Sequence[Path | None]
) -> tuple[Variant, ...]:
    """Each model with each folder of templates; `None` is the agent's own."""
    return tuple(
        Variant(model, folder)
        for model in dict.fromkeys(models or (None,))
        for folder in dict.fromkeys(prompts or (None,))
    )


def build_judge(spec: str, root: Path, prompt: Path | None = None) -> ModelJudge:
    """The model that judges, with its prompt: a file, else the agent's own, else the shipped one.

    Raises:
        OrchestratorError: There is no such model, or its prompt is wrong.
    """
    # A file of the agent wins over the shipped one of the same name, as for every template.
    own = root / "templates" / JUDGE_PROMPT
    return ModelJudge(resolve_model(spec), prompt or (own if own.is_file() else None))
