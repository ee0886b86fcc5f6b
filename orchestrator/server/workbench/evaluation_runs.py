"""Evaluations that are held for a page: what it asks for, and a job that holds them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound, ValidationError
from orchestrator.server.workbench.chat import check_members, delete_session
from orchestrator.server.workbench.evaluation_files import (
    find_case_file,
    find_run,
    get_run_folder,
    key_of,
    make_run_file,
)
from orchestrator.server.workbench.jobs import Job, Key
from orchestrator.server.workbench.look import SESSION_PREFIX
from orchestrator.server.workbench.projects import Project, Projects
from orchestrator.support.private_files import open_private
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from orchestrator.agent.evaluation import CaseResult, Evaluation, Run, Variant
    from orchestrator.models.prices import Price

_LONGEST = 10_000  # characters of a field
_MOST_LAST = 40  # results that are shown while a run goes on
_MOST_REPEATS = 100


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a page asks for.

    Attributes:
        cases: The key of a file of cases.
        only: Ids and tags.
        models: Specs, beside or instead of the agent's own model (an empty text).
        prompts: Names of folders of templates in the agent's own; an empty text is its own.
        repeat: How often each case is held.
        concurrency: How many cases a model answers at the same time.
        judge: The spec of the model that judges; empty for none.
        prices: `MODEL=INPUT,OUTPUT` each.
    """

    cases: str
    only: Sequence[str] = ()
    models: Sequence[str] = ()
    prompts: Sequence[str] = ()
    repeat: int = 1
    concurrency: int = 4
    judge: str = ""
    prices: Sequence[str] = field(default=())

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> RunRequest:
        """What a request asks for.

        Raises:
            ValidationError: It is not understood.
        """
        known = cls.__dataclass_fields__
        check_members(body, known, "an evaluation")
        texts = {name: body.get(name, "") for name in ("cases", "judge")}
        for name, value in texts.items():
            if not isinstance(value, str) or len(value) > _LONGEST:
                raise ValidationError(f"{name!r} must be a text")
        return cls(
            **texts,
            only=_read_list(body, "only"),
            models=_read_list(body, "models"),
            prompts=_read_list(body, "prompts"),
            prices=_read_list(body, "prices"),
            repeat=_read_number(body, "repeat", 1, _MOST_REPEATS),
            concurrency=_read_number(body, "concurrency", 4, 64),
        )


def _read_list(body: Mapping[str, Any], name: str) -> list[str]:
    value = body.get(name, [])
    if not isinstance(value, list) or len(value) > 100:
        raise ValidationError(f"{name!r} must be a list of texts")
    if not all(isinstance(one, str) and len(one) <= _LONGEST for one in value):
        raise ValidationError(f"{name!r} must be a list of texts")
    return [one.strip() for one in value]


def _read_number(body: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValidationError(f"{name!r} must be a number from 1 to {most}")
    return value


def list_prompt_folders(folder: Path) -> list[str]:
    """The folders beside the agent's `templates/` that can stand for it: `templates-new`."""
    found = [it for it in folder.glob("templates?*") if it.is_dir() and not it.is_symlink()]
    return sorted(it.name for it in found)


def begin_run(projects: Projects, project: Project, asked: RunRequest) -> str:
    """Starts a run, and gives its key.

    Raises:
        OrchestratorError: Something of what is asked for is wrong, or an evaluation runs already.
    """
    # Runs are listed by their names, and two may begin in the same second.
    name = f"{datetime.now():%Y%m%d-%H%M%S-%f}-{secrets.token_hex(3)}"
    file = make_run_file(project.folder, name)
    _hold(projects, project, asked, file)
    with open_private(_request_file(file), encoding="utf-8") as stream:
        json.dump(asdict(asked), stream)
    return key_of(project.folder, file)


def resume_run(projects: Projects, project: Project, key: str) -> None:
    """Goes on with a run that did not come to its end.

    Raises:
        ResourceNotFound: There is no such run, or the workbench did not begin it.
        OrchestratorError: It is of something else by now, or an evaluation runs already.
    """
    entry = find_run(project.folder, key)
    _hold(projects, project, read_request(entry.path), entry.path)


def read_request(file: Path) -> RunRequest:
    """What a run was asked for with.

    Raises:
        ResourceNotFound: The workbench did not begin it.
        ValidationError: It is not understood.
    """
    try:
        text = _request_file(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ResourceNotFound("the workbench did not begin this run") from None
    data = json_or(text, None)
    if not isinstance(data, dict):
        raise ValidationError("what the run was asked for with cannot be read")
    return RunRequest.read(data)


def _request_file(file: Path) -> Path:
    return file.with_suffix(".json")


def job_key(project: Project) -> Key:
    """One evaluation of an agent runs at a time."""
    return ("evaluation", project.key)


def find_job(projects: Projects, project: Project, run: str) -> Job | None:
    """The job that holds a run now."""
    job = projects.jobs.find(job_key(project))
    if job is None or job.describe().get("run") != run:
        return None
    return job


def _hold(projects: Projects, project: Project, asked: RunRequest, file: Path) -> None:
    from orchestrator.agent.evaluation import Execution

    projects.jobs.check_free(job_key(project))  # before the run's file is opened
    _refuse_stand_ins(project)
    key = key_of(project.folder, file)
    evaluation = _build_evaluation(project, asked, projects.prices, key)
    is_new = not file.exists()
    execution = Execution(evaluation, file)

    def hold(job: Job) -> None:
        with execution, closing(execution.iterate()) as results:
            for _ in results:
                job.report(describe_progress(key, execution.run))
                if job.is_stopped:
                    return

    job = Job(hold, execution.stop)
    job.report(describe_progress(key, execution.run))
    try:
        projects.jobs.begin(job_key(project), job)
    except BaseException:
        with execution:
            if is_new:
                file.unlink(missing_ok=True)
        raise


def _refuse_stand_ins(project: Project) -> None:
    # An evaluation builds agents anew, without what a server puts in the place of others.
    if names := project.list_stand_ins():
        raise ValidationError(
            f"this server replaces parts of its agents ({', '.join(names)}), which an evaluation "
            "would not; evaluate the folder with `orchestrator web` or `orchestrator eval`"
        )


def _build_evaluation(
    project: Project, asked: RunRequest, known: Mapping[str, Price], key: str
) -> Evaluation:
    from orchestrator.agent.evaluation import Evaluation, read_cases
    from orchestrator.agent.evaluation.matrix import check_judge
    from orchestrator.agent.evaluation.options import (
        build_judge,
        choose_cases,
        combine_variants,
    )
    from orchestrator.models.prices import parse_prices

    file = find_case_file(project.folder, asked.cases)
    cases = choose_cases(read_cases(file.path), [one for one in asked.only if one])
    judge = build_judge(asked.judge, project.folder) if asked.judge else None
    check_judge(cases, judge)
    variants = combine_variants(
        [one or project.model for one in asked.models] or [project.model],
        [_find_prompts(project, one) for one in asked.prompts],
    )
    return Evaluation(
        project.folder,
        cases,
        tuple(_name_prompts(project, one) for one in variants),
        repeat=asked.repeat,
        concurrency=asked.concurrency,
        judge=judge,
        prices={**known, **parse_prices(filter(None, asked.prices), "the price")},
        sessions=project.sessions,
        session_prefix=_session_prefix(key),
    )


def _session_prefix(key: str) -> str:
    """What the ids of a run's sessions begin with, and no others."""
    return f"{SESSION_PREFIX}{key}:"


def _name_prompts(project: Project, variant: Variant) -> Variant:
    """A variant that is named by its folder in the agent's own, not by a path of this machine."""
    if variant.prompts is None:
        return variant
    return replace(variant, prompts_name=variant.prompts.relative_to(project.folder).as_posix())


def _find_prompts(project: Project, name: str) -> Path | None:
    if not name:
        return None
    if name not in list_prompt_folders(project.folder):
        raise ResourceNotFound(f"the agent has no folder of templates {name!r}")
    return project.folder / name


def describe_progress(key: str, run: Run) -> dict[str, Any]:
    """How far a run is."""
    of = run.result_count // len(run.variants)
    return {
        "run": key,
        "done": len(run.results),
        "of": run.result_count,
        "variants": [{"name": name, "of": of, **_count(run.of(name))} for name in run.variants],
        "last": [
            {
                "key": result_key(one),
                "case": one.case,
                "variant": one.variant if len(run.variants) > 1 else "",
                "repetition": one.repetition if run.head["repeat"] > 1 else 0,
                "status": one.status,
                "seconds": round(one.seconds, 1),
            }
            for one in run.results[: -_MOST_LAST - 1 : -1]
        ],
    }


def _count(results: Sequence[CaseResult]) -> dict[str, int]:
    statuses = [str(one.status) for one in results]
    return {
        "done": len(statuses),
        **{name: statuses.count(name) for name in ("passed", "failed", "error")},
    }


def result_key(result: CaseResult) -> str:
    """What names a result of a run in addresses."""
    import hashlib

    text = json.dumps(result.key)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def delete_run(projects: Projects, project: Project, key: str) -> None:
    """Deletes a run that the workbench made, and all of its sessions.

    Raises:
        ResourceNotFound: There is none.
        ValidationError: It is somebody else's, or goes on.
        SessionConflict: Another process runs a turn of one of its sessions.
    """
    entry = find_run(project.folder, key)
    job = find_job(projects, project, key)
    if entry.path.parent != get_run_folder(project.folder):
        raise ValidationError("the workbench deletes the runs alone that it made")
    if job is not None and not job.has_ended:
        raise ValidationError("the run goes on; stop it first")
    for info in [*project.sessions.store.list()]:
        if info.session_id.startswith(_session_prefix(key)):
            delete_session(project.sessions, info.label)
    entry.path.unlink(missing_ok=True)
    _request_file(entry.path).unlink(missing_ok=True)
