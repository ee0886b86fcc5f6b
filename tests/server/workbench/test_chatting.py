"""What changes something: turns, results, forks, and the end of sessions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from workbench_support import answer, call, made_calls, price, streaming, workbench

from orchestrator.engine.plan import Plan

AT = "/agents/shop/sessions/s-1"


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [it.get("kind") or it["type"] for it in lines]


def test_a_turn_comes_as_lines_and_without_its_prompts(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        told = bench.client.post(f"{AT}/ask", {"question": "How much is tea?"})
        assert told.headers["content-type"].startswith("application/x-ndjson")
        lines = told.lines
        assert kinds(lines)[:4] == [
            "modelInvocationInput",
            "modelInvocationOutput",
            "rationale",
            "invocationInput",
        ]
        assert "".join(it["text"] for it in lines if it["type"] == "text") == "Twelve."
        assert lines[-1]["type"] == "end"
        assert lines[-1]["text"] == "Twelve."
        assert "You answer questions about the prices" not in told.text
        assert made_calls(bench.folder) == ["tea"]


def test_control_is_returned_and_answered(tmp_path: Path) -> None:
    script = [
        call("orders__stock", item="tea"),
        call("orders__order", item="tea"),
        call("orders__order", item="tea"),
        answer("Done."),
    ]
    with workbench(tmp_path, script) as bench:
        waits = bench.client.post(f"{AT}/ask", {"question": "Order tea"}).lines
        (control,) = [it for it in waits if it["type"] == "waits"]
        assert control["inputs"][0]["functionInvocationInput"]["function"] == "stock"
        (told,) = bench.client.get(AT).json["turns"]
        assert (told["is_open"], told["waits"]) == (True, control["inputs"])
        bad = bench.client.post(f"{AT}/ask", {"results": []})
        assert (bad.status, bad.json["message"]) == (
            400,
            "1 calls wait: give a list of as many results",
        )
        asked = bench.client.post(f"{AT}/ask", {"results": ["7 left"]}).lines
        (control,) = [it for it in asked if it["type"] == "waits"]
        inputs = control["inputs"][0]["functionInvocationInput"]
        assert inputs["actionInvocationType"] == "USER_CONFIRMATION_AND_RESULT"
        # Several hand-overs in a row: denied, then done.
        denied = bench.client.post(f"{AT}/ask", {"results": [False]}).lines
        assert "waits" in kinds(denied)
        assert bench.client.post(f"{AT}/ask", {"results": ["ordered"]}).lines[-1]["text"] == "Done."
        assert "7 left" in str(bench.model.requests[1].messages)
        assert "ordered" in str(bench.model.requests[3].messages)
        (told,) = bench.client.get(AT).json["turns"]
        calls = [(it["name"], it["arguments"], it["outcome"]) for it in told["calls"]]
        assert calls == [
            ("orders::stock", {"item": "tea"}, "carried out by you"),
            ("orders::order", {"item": "tea"}, "denied"),
            ("orders::order", {"item": "tea"}, "confirmed"),
        ]
        assert '<span class="tag">denied</span>' in bench.client.page(AT).text
        none = bench.client.post(f"{AT}/ask", {"results": ["again"]})
        assert (none.status, none.json["message"]) == (400, "session 's-1' waits for no results")


def test_a_turn_is_forked_from_a_call_and_nothing_before_it_happens_again(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve."), answer("About twelve.")]) as bench:
        bench.client.post(f"{AT}/ask", {"question": "How much is tea?"})
        turn = bench.client.get(AT).json["turns"][0]["id"]
        forked = bench.client.post(f"{AT}/fork", {"turn": turn, "call": 2}).json["session"]
        assert forked == "s-1-fork-1"
        at = f"/agents/shop/sessions/{forked}"
        assert bench.client.post(f"{at}/ask", {}).lines[-1]["text"] == "About twelve."
        assert made_calls(bench.folder) == ["tea"]
        (told,) = bench.client.get(at).json["turns"]
        assert told["forked_from"] == {"session": "s-1", "turn": turn, "step": 2}
        assert "Forked from s-1" in bench.client.page(at).text
        refused = bench.client.post(f"{AT}/fork", {"turn": turn, "call": "2"})
        assert refused.status == 400


def test_sessions_end_and_are_deleted(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("One."), answer("Two.")]) as bench:
        bench.client.post(f"{AT}/ask", {"question": "One?"})
        assert bench.client.post(f"{AT}/end", {}).status == 200
        bench.client.post(f"{AT}/ask", {"question": "Two?"})
        assert [it["new"] for it in bench.client.get(AT).json["turns"]] == [False, True]
        assert len(bench.model.requests[1].messages) == 1
        assert bench.client.post(f"{AT}/delete", {}).status == 200
        assert bench.client.get("/agents/shop").json["sessions"] == []


def test_attributes_and_files_go_with_a_question(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        body = {
            "question": "So?",
            "attributes": {"who": "me"},
            "prompt_attributes": {"unit": "euros"},
            "files": [{"name": "a.txt", "type": "text/plain", "data": "aGVsbG8="}],
        }
        assert bench.client.post(f"{AT}/ask", body).lines[-1]["text"] == "Yes."
        assert bench.agent.turns("s-1")[0].records[0]["attributes"] == {"who": "me"}
        assert "euros" in bench.model.requests[0].system + str(bench.model.requests[0].messages)
        assert "aGVsbG8" in str(bench.agent.turns("s-1")[0].records[0])
        # What asks again is told what the question came with.
        turn = bench.agent.turns("s-1")[0].id
        assert bench.client.post(f"{AT}/fork", {"turn": turn}).json == {
            "session": "s-1-fork-1",
            "attributes": {"who": "me"},
            "prompt_attributes": {"unit": "euros"},
            "files": ["a.txt"],
        }
        bad = bench.client.post(f"{AT}/ask", {"question": "So?", "files": [{"name": "x"}]})
        assert bad.status == 400
        assert bench.client.post(f"{AT}/ask", {"quesion": "So?"}).status == 400


def test_a_failure_is_the_last_line(tmp_path: Path) -> None:
    with workbench(tmp_path, []) as bench:
        last = bench.client.post(f"{AT}/ask", {"question": "So?"}).lines[-1]
        assert (last["type"], last["error"]) == ("error", "ModelOutputError")
        assert bench.client.get(AT).json["turns"][0]["has_failed"]


def test_an_agent_stays_open_while_a_turn_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    closed = threading.Event()
    close = Plan.close

    def close_and_tell(self: Plan) -> None:
        told.append(self.instruction)
        close(self)
        closed.set()

    monkeypatch.setattr(Plan, "close", close_and_tell)
    script = [price(), answer("Twelve."), price("milk"), answer("Three."), answer("Last.")]
    with workbench(tmp_path, script) as bench:
        before = bench.agent
        assert bench.client.post(f"{AT}/ask", {"question": "Tea?"}).lines[-1]["text"] == "Twelve."
        (bench.folder / "notes.txt").write_text("What an action writes is no part of the agent.")
        assert bench.agent is before
        turn = bench.agent.turns("s-1")[0].id
        with streaming(bench, f"{AT}/turns/{turn}/steps/1/run", {}) as lines:
            asks = next(it for it in lines if it["type"] == "asks")
            file = bench.folder / "agent.yaml"
            file.write_text(file.read_text().replace("prices of a shop", "PRICES of a shop"))
            assert bench.client.page("/agents/shop").status == 200
            assert "PRICES" in bench.agent.plan.instruction
            assert told == []
            bench.client.post(f"{AT}-fork-1/decide", {"id": asks["id"], "run": True})
            assert list(lines)[-1]["text"] == "Three."
        assert closed.wait(60)
        assert told == [before.plan.instruction]
        assert made_calls(bench.folder) == ["tea", "milk"]
