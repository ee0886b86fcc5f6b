"""What if: a call is changed, shown, run again, compared, and its template saved."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from workbench_support import Workbench, answer, made_calls, price, workbench

AT = "/agents/shop/sessions/s-1"
OTHER = '{"system": "OTHER $instruction$", "messages": [{"role": "user", "content": "$question$"}]}'


def asked(bench: Workbench, question: str = "How much is tea?") -> str:
    """The turn's address, after one call and an answer."""
    bench.agent.invoke(question, "s-1")
    return f"{AT}/turns/{bench.agent.turns('s-1')[-1].id}"


@contextmanager
def streaming(bench: Workbench, path: str, body: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The lines of an answer as they come."""
    client = bench.client
    headers = {**client.headers, "Content-Type": "application/json", "X-Workbench": "1"}
    with closing(HTTPConnection(client.host, client.port, timeout=60)) as connection:
        connection.request("POST", f"/workbench{path}", json.dumps(body), headers)
        reply = connection.getresponse()
        assert reply.status == 200
        yield (json.loads(line) for line in reply)
        reply.close()


def test_a_changed_template_is_shown_at_once_with_what_lint_says(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        step = f"{asked(bench)}/steps/3"
        same = bench.client.post(f"{step}/preview", {}).json
        sent = bench.client.get(step).json["prompt"]
        assert same["prompt"] == sent
        told = bench.client.post(f"{step}/preview", {"template": OTHER, "instruction": "Be brief."})
        assert told.json["prompt"]["system"] == "OTHER Be brief."
        assert 'data-o="instruction"' in told.json["html"]
        misspelt = OTHER.replace("$instruction$", "$instructoin$")
        (finding,) = [
            it
            for it in bench.client.post(f"{step}/preview", {"template": misspelt}).json["findings"]
            if "instructoin" in it["message"]
        ]
        assert finding["line"] == 1
        broken = bench.client.post(f"{step}/preview", {"template": '{"system": '}).json
        assert (broken["html"], broken["findings"][0]["severity"]) == ("", "error")
        other = bench.client.post(f"{step}/preview", {"results": {"1": "tea is free"}}).json
        assert "tea is free" in str(other["prompt"]["messages"])
        assert "12 euros" not in str(other["prompt"]["messages"])
        results: tuple[Any, ...] = ({"1": 2}, [], {"9": "x"}, {"x": "y"})
        for bad in ({"template": 1}, *({"results": it} for it in results)):
            assert bench.client.post(f"{step}/preview", bad).status == 400
        assert made_calls(bench.folder) == ["tea"]
        assert len(bench.client.get("/agents/shop").json["sessions"]) == 1


def test_a_run_takes_recorded_results_and_asks_for_others(tmp_path: Path) -> None:
    script = [
        price(),
        answer("Twelve."),
        price(),
        price("milk"),
        price("salt"),
        answer("All told."),
    ]
    with workbench(tmp_path, script) as bench:
        step = f"{asked(bench)}/steps/1"
        with streaming(bench, f"{step}/run", {"template": OTHER}) as lines:
            forked = next(lines)
            assert forked == {"type": "forked", "session": "s-1-fork-1"}
            at = f"/agents/shop/sessions/{forked['session']}"
            for wanted, decision in (("milk", {"text": "milk is 3"}), ("salt", {"run": True})):
                asks = next(it for it in lines if it["type"] == "asks")
                assert (asks["name"], asks["arguments"]) == ("prices::get_price", {"item": wanted})
                assert bench.client.post(f"{at}/decide", {"id": "no", **decision}).status == 404
                assert bench.client.post(f"{at}/decide", {"id": asks["id"]}).status == 400
                decided = bench.client.post(f"{at}/decide", {"id": asks["id"], **decision})
                assert decided.status == 200
            assert list(lines)[-1]["text"] == "All told."
        # Tea was recorded, and milk was typed: neither was called.
        assert made_calls(bench.folder) == ["tea", "salt"]
        assert bench.model.requests[2].system.startswith("OTHER You answer")
        assert "tea costs 12 euros" in str(bench.model.requests[3].messages)
        assert "milk is 3" in str(bench.model.requests[4].messages)
        both = bench.client.get("/agents/shop/compare?left=s-1&right=s-1-fork-1").json
        assert [side["turn"]["text"] for side in both["sides"]] == ["Twelve.", "All told."]
        assert ["+", "OTHER You answer questions about the prices of a shop."] in both["difference"]
        page = bench.client.page("/agents/shop/compare?left=s-1&right=s-1-fork-1")
        assert page.status == 200
        assert bench.agent.turns("s-1")[0].text == "Twelve."


def test_an_unchanged_run_from_each_step_sends_the_same_and_calls_nothing(tmp_path: Path) -> None:
    replies = [price(), price("milk"), answer("Fifteen.")]
    with workbench(tmp_path, [*replies, *replies, *replies[1:], *replies[2:]]) as bench:
        turn = asked(bench)
        sent = [(it.system, list(it.messages)) for it in bench.model.requests]
        for call, step in enumerate((1, 3, 5)):
            before = len(bench.model.requests)
            told = bench.client.post(f"{turn}/steps/{step}/run", {})
            assert told.lines[-1]["text"] == "Fifteen."
            again = [(it.system, list(it.messages)) for it in bench.model.requests[before:]]
            assert again == sent[call:]
        assert made_calls(bench.folder) == ["tea", "milk"]


def test_a_run_that_nobody_watches_calls_nothing(tmp_path: Path) -> None:
    script = [price(), answer("Twelve."), price("milk"), answer("Never.")]
    with workbench(tmp_path, script) as bench:
        step = f"{asked(bench)}/steps/1"
        with streaming(bench, f"{step}/run", {}) as lines:
            assert any(it["type"] == "asks" for it in lines)
        while threads := [it for it in threading.enumerate() if "action" in it.name]:
            for thread in threads:
                thread.join(10)
            break
        assert made_calls(bench.folder) == ["tea"]
        assert len(bench.model.requests) == 3


def test_a_template_is_saved_after_its_difference_was_shown(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Twelve."), answer("Again.")]) as bench:
        step = f"{asked(bench)}/steps/1"
        shown = bench.client.post(f"{step}/save", {"template": OTHER}).json
        file = bench.folder / "templates" / "tool-use" / "orchestration.json"
        assert (shown["file"], shown["digest"]) == ("templates/tool-use/orchestration.json", "")
        assert ["+", OTHER] in shown["difference"]
        assert not file.exists()
        saved = bench.client.post(f"{step}/save", {"template": OTHER, "digest": shown["digest"]})
        assert saved.json["saved"]
        assert file.read_text() == OTHER
        bench.agent.invoke("So?", "s-2")
        assert bench.model.requests[1].system.startswith("OTHER")
        # Somebody else's change is not lost.
        again = bench.client.post(f"{step}/save", {"template": OTHER + " ", "digest": ""})
        assert again.status == 409
        assert file.read_text() == OTHER
        for bad in ("", '{"system": '):
            assert bench.client.post(f"{step}/save", {"template": bad, "digest": ""}).status in (
                400,
                422,
            )


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_no_template_is_saved_through_a_link(kind: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "orchestration.json").write_text(OTHER)
    with workbench(tmp_path / "in", [answer("Yes.")]) as bench:
        step = f"{asked(bench)}/steps/1"
        own = bench.folder / "templates" / "tool-use"
        if kind == "file":
            own.mkdir(parents=True)
            (own / "orchestration.json").symlink_to(outside / "nothing.json")
        else:
            own.parent.mkdir()
            own.symlink_to(outside)
        told = bench.client.post(f"{step}/save", {"template": OTHER + " ", "digest": ""})
        assert told.status in (400, 422)
        assert (outside / "orchestration.json").read_text() == OTHER
        assert not (outside / "nothing.json").exists()


def test_only_a_model_call_of_the_agent_itself_can_be_changed(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        turn = asked(bench)
        for action in ("preview", "run", "save"):
            assert bench.client.post(f"{turn}/steps/2/{action}", {}).status == 400
        assert bench.client.get(f"{turn}/steps/2/what-if").status == 400
        assert bench.client.page(f"{turn}/steps/3/what-if").status == 200
