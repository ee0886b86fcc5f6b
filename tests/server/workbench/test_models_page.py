"""Models in the page: what is here, what agents use, and weights that are fetched after a click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from weights_publisher import CONTENT, publisher
from workbench_support import Workbench, answer, streaming, workbench, write_shop


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models"
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(folder))
    return folder


def follow(bench: Workbench) -> dict[str, Any]:
    return dict(bench.client.post("/models/tiny/watch", {}).lines[-1])


def test_weights_are_fetched_after_a_click_with_progress_and_removed(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with publisher(monkeypatch) as gate, workbench(tmp_path) as bench:
        (model,) = bench.client.get("/models").json["models"]
        assert (model["name"], model["path"], model["job"]) == ("tiny", None, None)
        assert gate.asked == []
        assert bench.client.post("/models/t/pull", {}).status == 200
        with streaming(bench, "/models/tiny/watch", {}) as states:
            state = next(it for it in states if it["done"])
            assert state["running"]
            assert state["of"] == len(CONTENT)
            assert "tiny" in state["text"]
            assert bench.client.post("/models/tiny/pull", {}).status == 409
            assert bench.client.post("/models/tiny/remove", {}).status == 400
            gate.let.set()
            *_, last = states
        assert (last["running"], last["error"]) == (False, "")
        assert (place / "tiny/tiny.gguf").read_bytes() == CONTENT
        assert bench.client.get("/models").json["models"][0]["path"] is not None
        assert bench.client.post("/models/tiny/remove", {}).status == 200
        assert not (place / "tiny").exists()


def test_a_download_is_stopped_and_goes_on_where_it_was(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with publisher(monkeypatch) as gate, workbench(tmp_path) as bench:
        bench.client.post("/models/tiny/pull", {})
        with streaming(bench, "/models/tiny/watch", {}) as states:
            next(it for it in states if it["done"])
            bench.client.post("/models/tiny/stop", {})
            gate.let.set()
            *_, last = states
        assert (last["running"], last["error"]) == (False, "")
        assert not (place / "tiny/tiny.gguf").exists()
        assert (place / "tiny/tiny.gguf.part").stat().st_size > 0
        bench.client.post("/models/tiny/pull", {})
        assert follow(bench)["error"] == ""
        assert gate.asked[0] == ""
        assert gate.asked[1].startswith("bytes=")
        assert (place / "tiny/tiny.gguf").read_bytes() == CONTENT


def test_what_cannot_be_fetched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with publisher(monkeypatch) as gate, workbench(tmp_path) as bench:
        monkeypatch.setattr(gate, "do_GET", lambda self: self.send_error(404))
        bench.client.post("/models/tiny/pull", {})
        assert "HTTP status 404" in follow(bench)["error"]
        page = bench.client.page("/models").text
        assert "HTTP status 404" in page
        assert "<img" not in page
        assert bench.client.post("/models/none/pull", {}).status == 404


def test_the_models_of_agents_are_listed_and_none_is_asked(tmp_path: Path) -> None:
    folder = write_shop(tmp_path)
    other = tmp_path / "own"
    other.mkdir()
    (other / "agent.yaml").write_text(
        "agentName: own\nfoundationModel: local:0.5b\n"
        "instruction: You answer whatever people ask you, in a few words.\n"
    )
    from orchestrator.server.settings import Settings
    from orchestrator.server.workbench.projects import Projects

    with workbench(folder, [answer("Hi")]) as bench:
        (shop,) = bench.client.get("/models").json["agents"]
        assert [(one["id"], one["state"]) for one in shop["models"]] == [
            ("anthropic.claude-3-5-sonnet-20240620-v1:0", "file")
        ]
    projects = Projects([other])
    try:
        from orchestrator.agent.model_use import list_model_uses

        assert Settings(port=0)
        (use, *_) = list_model_uses(projects.all()[0].agent().plan)
        assert (use.state, use.weights) == ("missing", "qwen2.5-coder-0.5b-instruct")
        assert "not on this machine" in use.reason
        assert "ORCHESTRATION" in use.used_for
    finally:
        projects.close()


def test_what_was_kept_of_prompts_is_deleted(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        assert bench.client.get("/models").json["prompts"]["count"] == 0
        assert bench.client.post("/models/cache/clear", {}).status == 200
