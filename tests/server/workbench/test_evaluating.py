"""Evaluations in the page: started, watched, stopped, compared, opened and deleted."""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from workbench_support import (
    MODEL,
    Workbench,
    answer,
    enter,
    price,
    streaming,
    workbench,
    write_shop,
)

from orchestrator.agent.evaluation import read_run
from orchestrator.cli import app
from orchestrator.models.base import ModelReply, ModelRequest
from orchestrator.server.settings import Settings
from orchestrator.server.workbench.projects import Projects
from orchestrator.server.workbench.run import run_in_thread
from orchestrator.sessions import Sessions
from orchestrator.testing import ScriptedModel

AT = "/agents/shop/evaluations"
CASES = [
    {
        "id": "tea",
        "question": "How much is tea?",
        "tags": ["price"],
        "expect": {"calls": ["get_price"], "contains": ["12"]},
    },
    {
        "id": "hello",
        "question": "Good morning!",
        "expect": {"no_calls": True, "contains": ["morning"]},
    },
]
SCRIPT = [price(), answer("It costs 12 euros."), answer("Hello.")]


def write_cases(folder: Path, cases: Sequence[Any] = CASES, name: str = "cases.jsonl") -> Path:
    own = folder if (folder / "agent.yaml").exists() else write_shop(folder)
    file = own / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(one)}\n" for one in cases))
    return own


def start(bench: Workbench, **more: Any) -> str:
    """Starts a run of the only file of cases, and waits for its end."""
    (cases,) = bench.client.get(AT).json["cases"]
    begun = bench.client.post(f"{AT}/start", {"cases": cases["key"], **more})
    assert begun.status == 200, begun.text
    key = str(begun.json["run"])
    watch(bench, key)
    return key


def watch(bench: Workbench, key: str) -> dict[str, Any]:
    states = bench.client.post(f"{AT}/{key}/watch", {}).lines
    assert not states[-1]["running"]
    return dict(states[-1])


def test_a_run_is_started_watched_and_its_figures_are_those_of_its_file(tmp_path: Path) -> None:
    folder = write_cases(tmp_path)
    with workbench(folder, SCRIPT) as bench:
        listed = bench.client.get(AT).json
        assert [(one["name"], one["count"]) for one in listed["cases"]] == [("cases.jsonl", 2)]
        key = start(bench)
        found = bench.client.get(f"{AT}/{key}").json
        assert [(one["case"], one["status"]) for one in found["results"]] == [
            ("tea", "passed"),
            ("hello", "failed"),
        ]
        run = read_run(folder / found["file"])
        assert found["variants"][0]["passed"] == 1
        assert found["run"] == json.loads(json.dumps(run.head))
        assert (folder / found["file"]).stat().st_mode & 0o077 == 0
        (entry,) = bench.client.get(AT).json["runs"]
        assert (entry["done"], entry["of"], entry["running"]) == (2, 2, False)
        page = bench.client.page(f"{AT}/{key}").text
        assert "50 %" in page
        assert "<svg" in page
        report = bench.client.page(f"{AT}/{key}/report")
        assert report.headers["content-disposition"].startswith("attachment;")
        assert "own model passed" not in report.text
        assert "Not good enough" in report.text


def test_a_run_that_may_not_go_on_keeps_its_file(tmp_path: Path) -> None:
    model = _GatedModel([answer("yes")])
    with workbench(write_cases(tmp_path, [{"id": "c", "question": "Hi"}]), model=model) as bench:
        (cases,) = bench.client.get(AT).json["cases"]
        key = bench.client.post(f"{AT}/start", {"cases": cases["key"]}).json["run"]
        assert model.asked.acquire(timeout=60)
        refused = bench.client.post(f"{AT}/{key}/resume", {})
        assert (refused.status, "runs already" in refused.text) == (409, True)
        model.let.release()
        assert watch(bench, key)["done"] == 1
        assert bench.client.get(f"{AT}/{key}").json["results"][0]["case"] == "c"


def test_files_of_blank_lines_are_passed_over(tmp_path: Path) -> None:
    folder = write_cases(tmp_path)
    (folder / "blank.yaml").write_text("\n" * 200_000 + " " * 200_000)  # quadratic would take hours
    (folder / "other.yaml").write_text("- question: Hi\n  id: a\n")
    with workbench(folder, []) as bench:
        names = [one["name"] for one in bench.client.get(AT).json["cases"]]
        assert names == ["cases.jsonl", "other.yaml"]


def test_a_failing_case_opens_in_the_inspector(tmp_path: Path) -> None:
    with workbench(write_cases(tmp_path), SCRIPT) as bench:
        key = start(bench)
        failed = bench.client.get(f"{AT}/{key}").json["results"][1]
        page = bench.client.page(f"{AT}/{key}").text
        shown = {one["case"]: one for one in _open_results(bench, page)}
        opened = shown["hello"]
        assert opened["result"]["turns"][0]["checks"][1]["check"] == "contains"
        (turn,) = opened["turns"]
        session = f"/agents/shop/sessions/{failed['session'].replace(':', '%3A')}"
        step = bench.client.get(f"{session}/turns/{turn['id']}/steps/{turn['last']}").json
        assert "Good morning!" in json.dumps(step["prompt"])
        # Sessions of evaluations are with their runs, and not among those of people.
        assert bench.client.get("/agents/shop").json["sessions"] == []


def _open_results(bench: Workbench, page: str) -> list[dict[str, Any]]:
    links = sorted({it for it in page.split('"') if "/results/" in it})
    found = []
    for link in links:
        one = bench.client.get(link.removeprefix(bench.client.root)).json
        found.append({"case": one["result"]["case"], **one})
    return found


def test_two_runs_are_compared_by_the_paired_test(tmp_path: Path) -> None:
    cases = [{"id": f"c{n}", "question": "Hi", "expect": {"contains": ["yes"]}} for n in range(8)]
    script = [answer("yes")] * 8 + [answer("no")] * 8
    with workbench(write_cases(tmp_path, cases), script) as bench:
        before, after = start(bench), start(bench)
        found = bench.client.get(f"{AT}/{after}?baseline={before}").json
        (comparison,) = found["comparisons"]
        assert comparison["outcome"] == "regression"
        assert "exact McNemar test on 8 common cases" in comparison["method"]
        assert len(comparison["lost"]) == 8
        page = bench.client.page(f"{AT}/{after}?baseline={before}").text
        assert "regression" in page
        assert page.count("▼ lost") >= 8


class _GatedModel(ScriptedModel):
    """Answers each request when it is let."""

    def __init__(self, script: Sequence[Any]) -> None:
        super().__init__(script, model_id=MODEL)
        self.asked, self.let = threading.Semaphore(0), threading.Semaphore(0)

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.release()
        assert self.let.acquire(timeout=60)
        return super().complete(request)


def test_a_run_is_stopped_and_goes_on(tmp_path: Path) -> None:
    cases = [{"id": f"c{n}", "question": "Hi", "expect": {"contains": ["yes"]}} for n in range(4)]
    model = _GatedModel([answer("yes")] * 4)
    with workbench(write_cases(tmp_path, cases), model=model) as bench:
        (file,) = bench.client.get(AT).json["cases"]
        key = bench.client.post(f"{AT}/start", {"cases": file["key"]}).json["run"]
        model.let.release()
        assert model.asked.acquire(timeout=60)
        assert model.asked.acquire(timeout=60)
        with streaming(bench, f"{AT}/{key}/watch", {}) as states:
            state = next(it for it in states if it["done"] == 1)
            assert state["running"]
            assert [one["case"] for one in state["last"]] == ["c0"]
            second = bench.client.post(f"{AT}/start", {"cases": file["key"]})
            assert (second.status, len(bench.client.get(AT).json["runs"])) == (409, 1)
            assert bench.client.post(f"{AT}/{key}/delete", {}).status == 400
            assert bench.client.post(f"{AT}/{key}/stop", {}).status == 200
            for _ in range(4):
                model.let.release()
            *_, last = states
        assert not last["running"]
        assert last["error"] == ""
        found = bench.client.get(f"{AT}/{key}").json
        assert len(found["results"]) < 4
        assert {one["status"] for one in found["results"]} == {"passed"}
        assert "Go on" in bench.client.page(f"{AT}/{key}").text
        assert bench.client.post(f"{AT}/{key}/resume", {}).status == 200
        watch(bench, key)
        assert len(bench.client.get(f"{AT}/{key}").json["results"]) == 4
        assert "Go on" not in bench.client.page(f"{AT}/{key}").text


def test_variants_are_models_and_folders_of_templates(tmp_path: Path) -> None:
    folder = write_cases(tmp_path, CASES[1:])
    (folder / "templates-new").mkdir()
    with workbench(folder, [answer("morning"), answer("Hello.")]) as bench:
        assert bench.client.get(AT).json["prompts"] == ["templates-new"]
        key = start(bench, prompts=["", "templates-new"], prices=["scripted=1,2"])
        names = [one["name"] for one in bench.client.get(f"{AT}/{key}").json["variants"]]
        assert len(names) == 2
        again = bench.client.page(f"{AT}?like={key}").text
        assert "scripted=1,2" in again


def test_a_run_and_its_sessions_are_deleted(tmp_path: Path) -> None:
    folder = write_cases(tmp_path)
    with workbench(folder, SCRIPT) as bench:
        bench.agent.invoke("How much is tea?", "s-1")
    with workbench(folder, SCRIPT) as bench:
        key = start(bench)
        sessions = bench.projects.all()[0].sessions.store
        assert len(list(sessions.list())) == 3
        assert bench.client.post(f"{AT}/{key}/delete", {}).status == 200
        assert [info.label.rpartition("/")[2] for info in sessions.list()] == ["s-1"]
        assert bench.client.get(AT).json["runs"] == []
        assert not list((folder / ".orchestrator/evaluations").iterdir())


def test_sessions_of_a_run_go_with_it_also_without_a_result(tmp_path: Path) -> None:
    folder = write_cases(tmp_path)
    with workbench(folder, SCRIPT * 2) as bench:
        key, other = start(bench), start(bench)
        file = next(it for it in bench.client.get(AT).json["runs"] if it["key"] == key)["name"]
        head, *_ = (folder / file).read_text().splitlines()
        (folder / file).write_text(f"{head}\n")  # as if it had ended before the first result
        # Its sessions are known without the agent, too.
        (folder / "agent.yaml").write_text("agentName: shop\nfoundationModel: [1]\n")
        store = bench.projects.all()[0].sessions.store
        assert len(list(store.list())) == 4
        assert bench.client.post(f"{AT}/{key}/delete", {}).status == 200
        ids = [info.label.rpartition("/")[2] for info in store.list()]
        assert len(ids) == 2
        assert all(id.startswith(f"eval:{other}:") for id in ids)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"cases": "../../etc/passwd"}, 404, "no such file of cases"),
        ({"file": "x"}, 400, "no member 'file'"),
        ({"repeat": 0}, 400, "'repeat' must be a number"),
        ({"models": "local"}, 400, "'models' must be a list"),
        ({"prompts": ["../x"]}, 404, "no folder of templates"),
        ({"only": ["nothing"]}, 404, "no case of"),
        ({"prices": ["x=1"]}, 400, "is not MODEL=INPUT,OUTPUT"),
    ],
)
def test_what_cannot_be_held_is_refused(
    body: dict[str, Any], status: int, text: str, tmp_path: Path
) -> None:
    with workbench(write_cases(tmp_path)) as bench:
        (file,) = bench.client.get(AT).json["cases"]
        refused = bench.client.post(f"{AT}/start", {"cases": file["key"], **body})
        assert refused.status == status, refused.text
        assert text in refused.json["message"]
        assert bench.client.get(AT).json["runs"] == []


def test_listing_runs_no_code_and_follows_no_link(tmp_path: Path) -> None:
    folder = write_shop(tmp_path)
    ran = tmp_path / "ran"
    (folder / "check.py").write_text(
        f"import pathlib; pathlib.Path({str(ran)!r}).touch()\ndef polite(outcome): pass\n"
    )
    case = {"id": "x", "question": "Hi", "expect": {"python": "check.py:polite"}}
    write_cases(folder, [case])
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(json.dumps(case))
    (folder / "link.jsonl").symlink_to(elsewhere)
    (folder / "broken.jsonl").write_text('{"id": "x", "question"\n')
    (folder / "cases.yaml").write_text("cases:\n  - id: y\n    question: Hi\n")
    (folder / "openapi.json").write_text('{"id": 1}')
    with workbench(folder, [answer("Hi")]) as bench:
        listed = bench.client.get(AT).json["cases"]
        assert [one["name"] for one in listed] == ["cases.jsonl", "cases.yaml"]
        assert not ran.exists()
        begun = bench.client.post(f"{AT}/start", {"cases": listed[0]["key"]})
        watch(bench, begun.json["run"])
        assert ran.exists()


HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def test_hostile_names_and_answers_are_text(tmp_path: Path) -> None:
    case = {
        "id": HOSTILE.replace("\u202e", ""),
        "question": HOSTILE,
        "tags": [HOSTILE],
        "expect": {"contains": [HOSTILE]},
    }
    folder = write_cases(tmp_path, [case], f"{HOSTILE.replace('/', '')}.jsonl")
    with workbench(folder, [answer(HOSTILE + "!")]) as bench:
        key = start(bench)
        pages = [bench.client.page(path).text for path in (AT, f"{AT}/{key}")]
        pages += [
            bench.client.page(it.removeprefix(bench.client.root)).text
            for it in pages[1].split('"')
            if "/results/" in it
        ]
        assert len(pages) == 3
        for page in pages:
            assert "<img" not in page
            assert "&lt;img src=x" in page


def test_a_damaged_run_and_one_of_others_are_shown(tmp_path: Path) -> None:
    folder = write_cases(tmp_path)
    (folder / "old.jsonl").write_text('{"kind": "run", "v": 99}\n')
    with workbench(folder) as bench:
        (entry,) = bench.client.get(AT).json["runs"]
        assert "format 99" in entry["error"]
        shown = bench.client.get(f"{AT}/{entry['key']}")
        assert shown.status == 400
        assert bench.client.post(f"{AT}/{entry['key']}/delete", {}).status == 400
        assert (folder / "old.jsonl").exists()


def test_the_command_that_makes_cases_of_a_session_can_be_typed(tmp_path: Path) -> None:
    with workbench(tmp_path / "own shops", [answer("Ten.")]) as bench:
        bench.agent.invoke("How much is tea?", "s-1")
        shown = bench.client.get("/agents/shop/evaluations").json["export"]
    words = shlex.split(shown.replace("SESSION", "s-1"))
    assert words[:2] == ["orchestrator", "sessions"]
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, done.output
    assert "How much is tea?" in done.stdout


def test_sessions_in_another_file_or_in_memory_have_another_command_or_none(
    tmp_path: Path,
) -> None:
    own, state = write_shop(tmp_path), tmp_path / "all.sqlite"
    for given, wanted in ((state, f"--state {state}"), (None, "")):
        projects = Projects([own], state=given)
        if given is None:
            projects.all()[0].sessions = Sessions()
        with closing(projects), run_in_thread(projects, Settings(port=0)) as url:
            known, _ = enter(url)
            shown = known.get("/agents/shop/evaluations").json["export"]
            assert shown.endswith(wanted)
            assert ("Sessions can become cases" in known.page("/agents/shop/evaluations").text) == (
                bool(wanted)
            )


def test_a_run_of_the_command_line_says_what_is_missing_and_how_to_keep_sessions(
    tmp_path: Path,
) -> None:
    with workbench(tmp_path) as bench:
        boom = {"id": "boom", "question": "Hi", "expect": {"python": "own.py:boom"}}
        own = write_cases(bench.folder, [boom, {"id": "hello", "question": "Hi"}])
        (own / "own.py").write_text("def boom(outcome):\n    return 1 / 0\n")
        words = ["eval", str(own), str(own / "cases.jsonl"), "--out", str(own / "run.jsonl")]
        script = tmp_path / "replies.jsonl"
        script.write_text(2 * f"{json.dumps(answer('Hello.'))}\n")
        words += ["--model", f"scripted:{script}@{MODEL}", "--concurrency", "1"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 1, done.output
        (entry,) = bench.client.get(AT).json["runs"]
        page = bench.client.page(f"{AT}/{entry['key']}").text
        said = "2 of 2 results are there, of which 1 ended in an error. The same command holds "
        assert f"{said}what is missing, and the errors again." in page
        (result, *_) = re.findall(rf"{AT}/{entry['key']}/results/\w+", page)
        shown = bench.client.page(result).text
        store = bench.folder / ".orchestrator" / "sessions.sqlite"
        assert f"<code>orchestrator eval --state {store}</code>" in shown
